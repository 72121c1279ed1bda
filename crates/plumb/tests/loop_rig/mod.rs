//! A `plumb serve --loop` of its own for a test, and what is run on its device.
//!
//! Whatever happens, nothing stays: file systems are unmounted, the server is
//! ended (killed if it must be, which fails everything that still waits), and the
//! loop device goes with it.
#![allow(dead_code)] // each test file uses a part

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use file_systems::Tools;
use serve::control::{Client, Request, Status};

pub use file_systems::FileSystem;

/// Long enough for a loaded machine, short enough for a hang to be found.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A small drive with a volatile cache: the 980 PRO's times, 2 GiB of it.
pub const SMALL_DRIVE: &[&str] = &[
    "--device",
    "samsung-980pro-1tb",
    "--set",
    "namespaces=[\"2GiB\"]",
    "--set",
    "slc_cache.size=\"2GB\"",
    "--set",
    "geometry.pages_per_block=96",
    "--set",
    "over_provisioning=0.5",
    "--set",
    "initial.fill=0.0",
    "--no-calibration",
];

/// Why loop devices cannot be tested here, if so.
pub fn obstacle(programs: &[&str]) -> Option<String> {
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = fs::OpenOptions::new().read(true).write(true).open(device) {
            return Some(format!("{device}: {error} (root and Linux's fuse and loop are needed)"));
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), "/sbin".into()]).collect();
    let missing = programs.iter().find(|name| !folders.iter().any(|folder| folder.join(name).exists()))?;
    Some(format!("{missing} is not installed"))
}

/// Prints why a test does nothing, and says whether it does nothing.
pub fn skipped(programs: &[&str]) -> bool {
    match obstacle(programs) {
        Some(why) => {
            println!("skipped: {why}");
            true
        }
        None => false,
    }
}

/// Lines that the server has said.
type Lines = Arc<(Mutex<Vec<String>>, Condvar)>;

/// A server, its device, and what is mounted from it.
pub struct Rig {
    folder: tempfile::TempDir,
    server: Option<Child>,
    lines: Lines,
    /// `/dev/loopN`.
    pub device: PathBuf,
    /// What the kernel counts each attachment of a disk by.
    sequence: Option<String>,
    mounts: Vec<PathBuf>,
}

impl Rig {
    /// Starts a server and waits for its device.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_plumb")), arguments)
    }

    /// As [`Rig::start`], by a command that starts `plumb` with the arguments that follow.
    pub fn start_as(mut command: Command, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let control = format!("unix:{}", folder.path().join("control").display());
        let mut server = command
            .args(["serve", "--loop", "--control", &control])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::default();
        collect(server.stderr.take().unwrap(), &lines);
        collect(server.stdout.take().unwrap(), &lines);
        let (device, mounts) = (PathBuf::new(), Vec::new());
        let mut rig = Self { folder, server: Some(server), lines, device, sequence: None, mounts };
        rig.wait_ready(0);
        rig
    }

    /// Waits until the server says where its device is, from its `from`th line on.
    #[track_caller]
    pub fn wait_ready(&mut self, from: usize) {
        self.device = device_of(&self.wait_line(from, "ready at "));
        self.sequence = self.attribute("diskseq");
    }

    /// Waits for a line that begins so, from the `from`th line on.
    #[track_caller]
    pub fn wait_line(&self, from: usize, beginning: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let (lines, changed) = &*self.lines;
        let mut said = lines.lock().unwrap();
        loop {
            if let Some(line) = said.iter().skip(from).find(|line| line.starts_with(beginning)) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(said);
                panic!("no line `{beginning}…` came");
            }
            said = changed.wait_timeout(said, left.min(Duration::from_secs(1))).unwrap().0;
        }
    }

    /// How many lines there are so far.
    pub fn lines(&self) -> usize {
        self.lines.0.lock().unwrap().len()
    }

    /// Everything that the server has said.
    pub fn said(&self) -> String {
        self.lines.0.lock().unwrap().join("\n")
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// A connection to the control socket.
    pub fn control(&self) -> Client {
        Client::connect(&self.folder.path().join("control")).unwrap()
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        self.control().ask(&Request::Status).unwrap()
    }

    /// A counter of the device.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.status().counters;
        *counters.get(name).unwrap_or_else(|| panic!("no counter {name} in {counters:?}"))
    }

    /// A scratch path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a file system on the device.
    pub fn mkfs(&self, system: FileSystem) {
        let mut command = Tools::of(system).unwrap().maker(Path::new(env!("CARGO_BIN_EXE_plumb")));
        command.arg(&self.device);
        // That of Btrfs asks about each loop device of the machine, and fails when another test's goes away meanwhile.
        for _ in 0..20 {
            let ran = finish(&mut command, PATIENCE);
            if !ran.stderr.contains("cannot check mount status") {
                ran.ok();
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        finish(&mut command, PATIENCE).ok();
    }

    /// Mounts the device.
    pub fn mount(&mut self, system: FileSystem) -> PathBuf {
        self.try_mount(system).ok();
        self.place()
    }

    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        self.path("mnt")
    }

    /// Mounts the device; the mount's outcome.
    pub fn try_mount(&mut self, system: FileSystem) -> Ran {
        let place = self.place();
        fs::create_dir_all(&place).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", system.name()]).arg(&self.device).arg(&place);
        let ran = finish(&mut command, PATIENCE);
        if ran.status.success() {
            // A mount that failed would have tests write to the scratch folder's disk.
            let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
            assert!(own.contains(place.to_str().unwrap()), "{} is not mounted", place.display());
            self.mounts.push(place);
        }
        ran
    }

    /// Unmounts it. Other tests of this process start programs meanwhile, which have
    /// copies of its open files until they run: busy is not the end.
    #[track_caller]
    pub fn unmount(&mut self) {
        let place = self.mounts.pop().expect("mounted");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ran = finish(Command::new("umount").arg(&place), PATIENCE);
            if ran.status.success() {
                return;
            }
            if !ran.stderr.contains("busy") || Instant::now() > deadline {
                self.mounts.push(place);
                panic!("{}{}", ran.stderr, ran.stdout);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends the server a signal.
    pub fn signal(&self, name: &str) {
        finish(Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]), PATIENCE).ok();
    }

    /// Waits for the server's end.
    #[track_caller]
    pub fn wait_end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        let server = self.server.as_mut().unwrap();
        while Instant::now() < deadline {
            if let Some(status) = server.try_wait().unwrap() {
                self.server = None;
                return status;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not end:\n{}", self.said());
    }

    /// Asks the server to stop and waits until it has; its report is in [`Rig::said`].
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal("TERM");
        let status = self.wait_end();
        assert!(status.success(), "{status}:\n{}", self.said());
    }

    /// Whether the device is still attached to something.
    pub fn is_attached(&self) -> bool {
        // The number alone does not tell: another test's server takes it as soon as it is free.
        self.attribute("loop/backing_file").is_some() && self.attribute("diskseq") == self.sequence
    }

    /// What the kernel tells of the loop device, if it has one of this number.
    fn attribute(&self, name: &str) -> Option<String> {
        let device = self.device.file_name()?;
        fs::read_to_string(Path::new("/sys/block").join(device).join(name)).ok()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Killed first: an unmount of a device that nobody serves fails at once,
        // and one that hangs would never come to an end.
        if let Some(mut server) = self.server.take() {
            for place in &self.mounts {
                let _ = Command::new("umount").args(["-l"]).arg(place).stderr(Stdio::null()).status();
            }
            let _ = server.kill();
            let _ = server.wait();
            let deadline = Instant::now() + Duration::from_secs(10);
            while self.is_attached() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
        }
        for place in &self.mounts {
            let _ = Command::new("umount").args(["-l"]).arg(place).stderr(Stdio::null()).status();
        }
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
    }
}

fn collect(stream: impl std::io::Read + Send + 'static, lines: &Lines) {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.0.lock().unwrap().push(line);
            lines.1.notify_all();
        }
    });
}

/// The device in a line `ready at /dev/loopN; …`.
fn device_of(ready: &str) -> PathBuf {
    ready.trim_start_matches("ready at ").split(';').next().unwrap().into()
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }
}

/// Runs a command, for `patience` at most.
#[track_caller]
pub fn finish(command: &mut Command, patience: Duration) -> Ran {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let id = child.id();
    let (done, over) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(child.wait_with_output()));
    match over.recv_timeout(patience) {
        Ok(output) => {
            let Output { status, stdout, stderr } = output.unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            Ran { status, stdout: text(stdout), stderr: text(stderr) }
        }
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
            panic!("{command:?} did not end within {patience:?}");
        }
    }
}

/// What the rig asks of a file system.
pub trait Tried {
    /// Programs that it needs.
    fn programs(self) -> [&'static str; 4];

    /// Looks for faults and repairs none; what was found, if anything.
    fn check(self, device: &Path) -> Result<(), String>;
}

impl Tried for FileSystem {
    fn programs(self) -> [&'static str; 4] {
        let tools = Tools::of(self).unwrap();
        [tools.make.program, tools.check.program, "mount", "fstrim"]
    }

    fn check(self, device: &Path) -> Result<(), String> {
        let tools = Tools::of(self).unwrap();
        let mut command = tools.checker(Path::new(env!("CARGO_BIN_EXE_plumb")));
        let ran = finish(command.arg(device), PATIENCE);
        if tools.is_fault(ran.status.success(), &ran.stdout) {
            Err(format!("{command:?}: {}\n{}{}", ran.status, ran.stdout, ran.stderr))
        } else {
            Ok(())
        }
    }
}
