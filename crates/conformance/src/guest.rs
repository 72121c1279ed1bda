//! A virtual machine that runs one script under one kernel and leaves a transcript.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Ending;
use crate::kernel::Kernel;
use crate::report::Report;
use crate::{Error, host, image, zonefs};

/// The functions that every script has.
const LIBRARY: &str =
    concat!(include_str!("../guest/library"), include_str!("../guest/nvme"), include_str!("../guest/filesystems"));

/// How often the host looks whether the machine has ended. The guest runs on its own clock: this delays only the host's answer.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A machine to be booted: two processors (four for a kernel that was [built](Kernel::built)), 2 GiB of memory if not told otherwise,
/// no network but loopback, emulated (QEMU's TCG), nothing of it as root.
#[derive(Debug)]
pub struct Guest {
    kernel: Kernel,
    programs: Vec<PathBuf>,
    files: Vec<(String, PathBuf)>,
    arguments: Vec<String>,
    time_limit: Duration,
    memory_mib: u32,
}

impl Guest {
    /// A machine with this kernel.
    pub fn new(kernel: &Kernel) -> Guest {
        Guest {
            kernel: kernel.clone(),
            programs: Vec::new(),
            files: Vec::new(),
            arguments: Vec::new(),
            time_limit: Duration::from_secs(600),
            memory_mib: 2048,
        }
    }

    /// Puts one more program of the host into `/bin`, with its libraries.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Guest {
        self.programs.push(path.into());
        self
    }

    /// Puts a file or a folder of the host at `/share/NAME`.
    pub fn file(mut self, name: &str, path: impl Into<PathBuf>) -> Guest {
        self.files.push((name.to_owned(), path.into()));
        self
    }

    /// Adds arguments of QEMU: a device, a drive.
    pub fn qemu(mut self, arguments: &[&str]) -> Guest {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Ends the machine after this time [default: 600 s: a busy host emulates slowly].
    pub fn time_limit(mut self, limit: Duration) -> Guest {
        self.time_limit = limit;
        self
    }

    /// Memory, of which the served devices' contents take their part.
    pub fn memory_mib(mut self, memory_mib: u32) -> Guest {
        self.memory_mib = memory_mib;
        self
    }

    /// Boots, runs `script` (bash, with the functions of `guest/library`), and reads what it found.
    ///
    /// The transcript (console, kernel log, outputs of checks) is written to `folder`, which is emptied first.
    pub fn run(&self, script: &str, folder: &Path) -> Result<Report, Error> {
        let qemu = host::require("qemu-system-x86_64", "qemu-system-x86")?;
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::file(folder)(error)),
            _ => fs::create_dir_all(folder).map_err(Error::file(folder))?,
        }
        let folder = fs::canonicalize(folder).map_err(Error::file(folder))?;
        let archive = folder.join("initramfs");
        image::write(&self.kernel, &self.programs, &archive)?;
        for (name, path) in &self.files {
            copy(path, &folder.join(name))?;
        }
        let write =
            |name: &str, text: &str| fs::write(folder.join(name), text).map_err(Error::file(&folder.join(name)));
        write("library", LIBRARY)?;
        let zonefs = folder.join("zonefs.superblock");
        fs::write(&zonefs, zonefs::superblock("plumb", *b"plumb-conformanc")).map_err(Error::file(&zonefs))?;
        write("run", &format!(". /share/library\n{script}\nresult end\n"))?;
        let mut child = self.boot(&qemu, &archive, &folder)?;
        let ended = wait(&mut child, self.time_limit);
        fs::remove_file(&archive).map_err(Error::file(&archive))?;
        let ended = ended?;
        let report = Report::read(&folder)?;
        match ended {
            Some(()) if report.finished() => Ok(report),
            ended => {
                let ending = ended.map_or(Ending::TimedOut(self.time_limit), |()| Ending::Died);
                Err(Error::Guest { ending, tail: last_words(&folder, &report), transcript: folder })
            }
        }
    }

    fn boot(&self, qemu: &Path, archive: &Path, folder: &Path) -> Result<Child, Error> {
        let display = folder.display();
        let log = folder.join("qemu.log");
        let log = fs::File::create(&log).map_err(Error::file(&log))?;
        let mut command = Command::new(qemu);
        // One thread for both processors of a stock kernel: with two, one may run an instruction that the other is patching, and the
        // kernel dies of it ("Oops: int3").
        // QEMU 7.2 ends by an assertion of its own where a kernel that was built so sets up MSI-X.
        let (threads, processors, interrupts) = match self.kernel.modules() {
            Some(_) => ("single", "2", ""),
            None => ("multi", "4", " pci=nomsi"),
        };
        command.args(["-accel", &format!("tcg,thread={threads}"), "-M", "q35", "-cpu", "max", "-smp", processors]);
        command.arg("-m").arg(format!("{}M", self.memory_mib));
        command.args(["-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"]);
        command.args(["-device", "virtio-rng-pci"]);
        command.arg("-serial").arg(format!("file:{display}/console.log"));
        command.arg("-virtfs").arg(format!("local,path={display},mount_tag=share,security_model=none"));
        command.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(archive);
        // A hung task panics, a panic ends the machine: the host learns of both at once.
        command.arg("-append").arg(format!("console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr no_timer_check nosoftlockup cryptomgr.notests=1 sysctl.kernel.hung_task_timeout_secs=100 sysctl.kernel.hung_task_panic=1{interrupts}"));
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().map_err(Error::file(qemu))
    }
}

/// Waits for the end of the machine, or ends it at the limit (then nothing is returned).
fn wait(child: &mut Child, limit: Duration) -> Result<Option<()>, Error> {
    let begun = Instant::now();
    let error = |error| Error::file(Path::new("qemu"))(error);
    loop {
        if child.try_wait().map_err(error)?.is_some() {
            return Ok(Some(()));
        }
        if begun.elapsed() > limit {
            child.kill().map_err(error)?;
            child.wait().map_err(error)?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What a reader of the failure wants first.
fn last_words(folder: &Path, report: &Report) -> String {
    let mut text = String::new();
    for name in ["qemu.log", "console.log", "kernel.log", "script.log"] {
        let log = fs::read(folder.join(name)).unwrap_or_default();
        let end = host::tail(&String::from_utf8_lossy(&log), 12);
        text.push_str(&format!("-- {name}\n{end}\n"));
    }
    for complaint in report.complaints() {
        text.push_str(&format!("kernel: {complaint}\n"));
    }
    text
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if from.is_dir() {
        fs::create_dir_all(to).map_err(Error::file(to))?;
        for entry in fs::read_dir(from).map_err(Error::file(from))? {
            let entry = entry.map_err(Error::file(from))?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(Error::file(from))
}
