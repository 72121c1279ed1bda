//! The command, while its writes are logged and its calls are followed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use observe::calls::{FollowError, Followed, Options};

use super::shell;
use crate::crash::{Acknowledgement, Record, Recorded, argument};
use crate::guest::command::pay;
use crate::guest::error::{GuestError, attempt};
use crate::outcome::Ended;

/// Where the command acknowledges.
const ACKNOWLEDGE: &str = "/tmp/plumb-acknowledge";
/// Most bytes of written data, but for zeroes, that are held against what is found. Who judges has some 200 bytes for each sector.
const DATA_BYTES_MAX: u64 = 320 << 20;
/// Most of them that are kept as they are. A process inside has a mapping on the host for each page of its memory.
pub(super) const WHOLE_BYTES_MAX: u64 = 32 << 20;

/// `FUSE_SUPER_MAGIC` of statfs(2).
const FUSE: i64 = 0x6573_5546;

/// Sets up, makes everything so far durable, and runs the command; its exit status.
pub(super) fn record(task: &Record) -> Result<u8, GuestError> {
    let mount = std::env::var_os("PLUMB_MOUNT").map(PathBuf::from);
    let folder = mount.clone().unwrap_or_else(|| PathBuf::from("/"));
    if let Some(setup) = &task.setup {
        shell::script("--setup", setup, &folder, &[])?
            .map_err(|why| GuestError::of_the_caller(format!("--setup failed: {why}")))?;
    }
    settle(mount.as_deref())?;
    let began_bytes = position_bytes(&task.log)?;
    let device = attempt(folder.metadata(), || format!("cannot see {}", folder.display()))?.dev();
    let followed = follow(task, &folder, mount.as_deref())?;
    let calls = attempt(File::create(&task.calls), || format!("cannot write {}", task.calls.display()))?;
    let mut calls = BufWriter::new(calls);
    let written = followed.write(&mut calls).and_then(|()| calls.flush());
    attempt(written, || format!("cannot write {}", task.calls.display()))?;
    let ended = ended(followed.status);
    let acknowledgements = followed
        .acknowledgements
        .into_iter()
        .map(|made| Acknowledgement { position_bytes: made.at.position, line: made.line })
        .collect();
    let recorded = Recorded { began_bytes, device, ended, acknowledgements, unfollowed: followed.unfollowed };
    let text = serde_json::to_vec(&recorded).map_err(|error| GuestError::new(error.to_string()))?;
    attempt(fs::write(&task.recorded, text), || format!("cannot write {}", task.recorded.display()))?;
    Ok(ended.shell_status())
}

/// Runs the command to its end. At each end of a call the log is as long as what the device had by then: all stand still.
fn follow(task: &Record, folder: &Path, mount: Option<&Path>) -> Result<Followed, GuestError> {
    let path = acknowledge_pipe()?;
    let words: Vec<OsString> = task.command.iter().map(OsString::from).collect();
    let (program, arguments) = words.split_first().ok_or_else(|| GuestError::new("there is no command"))?;
    let mut command = Command::new(program);
    let callers = PathBuf::from(&task.callers_folder);
    command.args(arguments.iter().map(|word| argument(&callers, folder, word))).current_dir(folder);
    // The command alone: following it is not its work.
    pay(&mut command)?;
    let options = Options {
        // Without a file system there are no files to follow but the device itself.
        folder: mount.map_or_else(|| PathBuf::from("/dev/shm"), Path::to_owned),
        acknowledge: Some(path),
        data_bytes_max: DATA_BYTES_MAX,
        whole_bytes_max: WHOLE_BYTES_MAX,
        wait_for_all: false,
    };
    let log = task.log.clone();
    let position = move || fs::metadata(&log).map_or(0, |about| about.len());
    observe::calls::follow(command, &options, position).map_err(|error| match error {
        FollowError::Start { .. } => GuestError::of_the_caller(format!("the command does not run: {error}")),
        other => GuestError::new(other.to_string()),
    })
}

/// Makes the pipe for acknowledgements and has it emptied: the lines are seen when they are written. No plain file, into which
/// programs such as cat copy by other calls than write.
fn acknowledge_pipe() -> Result<PathBuf, GuestError> {
    let failed = || format!("cannot make the pipe {ACKNOWLEDGE}");
    let path = PathBuf::from(ACKNOWLEDGE);
    attempt(rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o622)), failed)?;
    // Open at both ends, so that it stays as the command's programs come and go; the reader ends with this process.
    let mut pipe = attempt(OpenOptions::new().read(true).write(true).open(&path), failed)?;
    std::thread::spawn(move || std::io::copy(&mut pipe, &mut std::io::sink()));
    Ok(path)
}

/// How long the log is: how far the device has come.
fn position_bytes(log: &Path) -> Result<u64, GuestError> {
    attempt(fs::metadata(log), || format!("cannot see {}", log.display())).map(|about| about.len())
}

fn ended(status: ExitStatus) -> Ended {
    match status.code() {
        Some(code) => Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Ended::Signaled(status.signal().unwrap_or_default()),
    }
}

/// What was done so far is on the device, and the device has flushed it: no cut takes it.
fn settle(mount: Option<&Path>) -> Result<(), GuestError> {
    let failed = || "cannot flush what was set up".to_owned();
    if let Some(folder) = mount {
        let opened = attempt(File::open(folder), failed)?;
        attempt(rustix::fs::syncfs(&opened), failed)?;
        // FUSE does not pass that on; who serves a file system of Plumb makes everything durable for one fsync.
        if attempt(rustix::fs::fstatfs(&opened), failed)?.f_type == FUSE {
            attempt(opened.sync_all(), failed)?;
        }
    }
    let device = std::env::var_os("PLUMB_DEVICE").unwrap_or_default();
    // A device that is mounted cannot be opened for writing, and need not be for a flush.
    attempt(File::open(device).and_then(|device| device.sync_all()), failed)
}
