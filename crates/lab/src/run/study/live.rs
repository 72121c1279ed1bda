//! A cell on a loop device of this machine, on the wall clock.
//!
//! Whatever happens, nothing stays: the file system is unmounted, and the loop device and the file behind it go with it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use defrag::study::Cell;
use linux::FileSystem;

use super::super::PlannedRun;
use super::{CELL, MEASURED, StudyHostError};
use crate::results::RunResult;
use crate::spec::{LiveHost, Stack};

/// Between two looks whether the cell's process has ended.
const POLL: Duration = Duration::from_millis(50);
/// How often a busy mount is tried again, and after how long.
const UNMOUNTS: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(50);

/// Two cells at once would share the disk under both, and each other's times.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    run: &PlannedRun,
    cell: &Cell,
    release: &str,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, StudyHostError> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if halted() {
        return Ok(None);
    }
    let scratch = super::scratch(cell)?;
    let disk = LoopDisk::new(&run.point.spec.stack)?;
    let study = disk.mount.join("study");
    fs::create_dir(&study).map_err(StudyHostError::file("make a folder on the loop device"))?;
    let program = std::env::current_exe().map_err(StudyHostError::file("find the plumb program"))?;
    let mut command = Command::new(program);
    command.args(["defrag-study", "cell"]).arg(scratch.path().join(CELL)).arg(&study).arg(scratch.path());
    command.arg(run.seed.to_string()).arg(scratch.path().join(MEASURED));
    let began = Instant::now();
    let Some(said) = finished(&mut command, scratch.path(), halted)? else { return Ok(None) };
    if let Err(said) = said {
        return Err(StudyHostError::Failed { said });
    }
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let measured = super::measured(scratch.path())?;
    let mut result = super::result(run, measured, format!("loop device, Linux {release}"), elapsed_ns);
    result.notes.push(format!(
        "host = \"live\": Linux {release} of this machine on a loop device. Requests and bytes are of the loop device; \
         times are of whatever lies under it, and of what else the machine did"
    ));
    disk.end()?;
    Ok(Some(result))
}

/// Waits for a process; its words if it failed, nothing when it was halted.
fn finished(
    command: &mut Command,
    scratch: &Path,
    halted: &dyn Fn() -> bool,
) -> Result<Option<Result<(), String>>, StudyHostError> {
    let words = scratch.join("stderr");
    let stderr = File::create(&words).map_err(StudyHostError::file("make a file for the cell's words"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let mut child = command.spawn().map_err(StudyHostError::file("start the cell's process"))?;
    loop {
        let ended = child.try_wait().map_err(StudyHostError::file("wait for the cell's process"))?;
        if let Some(status) = ended {
            let said = fs::read_to_string(&words).unwrap_or_default();
            return Ok(Some(if status.success() { Ok(()) } else { Err(format!("{}; {status}", said.trim())) }));
        }
        if halted() {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// A file system in a sparse file, on a loop device, mounted.
struct LoopDisk {
    _folder: tempfile::TempDir,
    device: Option<PathBuf>,
    mount: PathBuf,
    mounted: bool,
}

impl LoopDisk {
    fn new(stack: &Stack) -> Result<Self, StudyHostError> {
        let LiveHost { size, folder, mkfs_options, mount_options } = &stack.live;
        let Some(system) = stack.filesystem.mount_type() else {
            return Err(StudyHostError::Unfit { message: "host = \"live\" needs stack.filesystem".to_owned() });
        };
        available(system)?;
        let mut builder = tempfile::Builder::new();
        let folder = match folder.as_os_str().is_empty() {
            true => builder.prefix("plumb-live").tempdir(),
            false => builder.prefix("plumb-live").tempdir_in(folder),
        };
        let folder = folder.map_err(StudyHostError::file("make a folder for the loop device's file"))?;
        let image = folder.path().join("image");
        File::create(&image)
            .and_then(|file| file.set_len(size.0))
            .map_err(StudyHostError::file("make the loop device's file"))?;
        made(maker(stack.filesystem).args(mkfs_options.split_whitespace()).arg(&image))?;
        let shown = ran(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image))?;
        let mount = folder.path().join("mnt");
        let device = PathBuf::from(shown.trim());
        let mut disk = Self { _folder: folder, device: Some(device.clone()), mount, mounted: false };
        fs::create_dir(&disk.mount).map_err(StudyHostError::file("make a folder to mount on"))?;
        let mut command = Command::new("mount");
        command.args(["-t", system]);
        if !mount_options.is_empty() {
            command.args(["-o", mount_options]);
        }
        ran(command.arg(device).arg(&disk.mount))?;
        disk.mounted = true;
        Ok(disk)
    }

    /// Unmounts; what cannot be undone is an error and not only left behind.
    fn end(mut self) -> Result<(), StudyHostError> {
        for attempt in 0..=UNMOUNTS {
            // Another thread's new process may hold a copy of an open file until it runs its program.
            match ran(Command::new("umount").arg(&self.mount)) {
                Ok(_) => break,
                Err(error) if attempt == UNMOUNTS => return Err(error),
                Err(_) => thread::sleep(UNMOUNT_PAUSE),
            }
        }
        self.mounted = false;
        if let Some(device) = self.device.take() {
            ran(Command::new("losetup").arg("--detach").arg(device))?;
        }
        Ok(())
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("--lazy").arg(&self.mount).stderr(Stdio::null()).status();
        }
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).stderr(Stdio::null()).status();
        }
    }
}

/// Whether a loop device with this file system can be here at all.
fn available(system: &str) -> Result<(), StudyHostError> {
    let control = "/dev/loop-control";
    OpenOptions::new().read(true).write(true).open(control).map_err(|error| StudyHostError::Unavailable {
        why: format!("{control}: {error} (root and loop devices are needed)"),
    })?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.split_whitespace().any(|word| word == system) {
        return Ok(());
    }
    Err(StudyHostError::Unavailable { why: format!("the kernel of this machine has no {system}") })
}

/// Makes everything now, so that no background task writes later.
fn maker(system: FileSystem) -> Command {
    let (program, arguments): (_, &[&str]) = match system {
        FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        FileSystem::F2fs => ("mkfs.f2fs", &["-q", "-f"]),
        _ => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Makes a file system. That of Btrfs asks about each loop device of the machine, and fails, having written nothing, when
/// another program's goes away before it is answered.
fn made(command: &mut Command) -> Result<(), StudyHostError> {
    for _ in 0..20 {
        match ran(command) {
            Err(StudyHostError::Program { said, .. }) if said.contains("cannot check mount status") => {
                thread::sleep(Duration::from_millis(50));
            }
            other => return other.map(drop),
        }
    }
    ran(command).map(drop)
}

fn ran(command: &mut Command) -> Result<String, StudyHostError> {
    let program = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output();
    let failed = |said: String| StudyHostError::Program { program: program.clone(), said };
    let output = output.map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(failed(text(&output.stderr))) }
}
