//! The caller's scripts on the files of a state, on this machine and without a kernel of their own.
//!
//! Each state is laid out in memory, where the scripts run, with a folder for what they write besides (`$TMPDIR`), a network of their
//! own, and processes that end with them. They share the mounts of this machine: a mount namespace would keep what others unmount
//! meanwhile, and a file system that somebody thinks unmounted would not be clean yet.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::Disk;
use crate::error::{OfflineError, system};
use crate::fsck::{in_memory, program};
use crate::laid_out::{Ground, NotLaidOut, remove};
use crate::look::Fault;
use crate::parts::Judged;
use crate::view::Tree;

/// Most of what a script says that is kept.
const SAID_BYTES_MAX: u64 = 16 << 10;
/// Statuses by which a shell says that a program cannot be run, or is not there.
const NOT_RUN: [i32; 2] = [126, 127];
/// What is done before a script: its own network has an address. The words are the script, and for who is not root the user and the
/// group to be.
const PREPARE: &str = r#"ip link set lo up 2> /dev/null || :
[ -z "$2" ] || exec unshare --user --map-user="$2" --map-group="$3" sh -ec "$1"
exec sh -ec "$1""#;

/// What is asked of each state.
pub struct Scripts<'a> {
    /// For `sh -e`, one after the other; who finds the fault where one fails, and what it is called.
    pub texts: Vec<(Judged, &'static str, String)>,
    /// All of it.
    pub environment: &'a [(OsString, OsString)],
    /// Lines that the command acknowledged, and how long the log was in bytes.
    pub acknowledged: &'a [(u64, String)],
    /// For a look at one state.
    pub time_limit: Duration,
}

/// Where scripts of one thread look.
pub(crate) struct Bench<'a> {
    scripts: &'a Scripts<'a>,
    folder: TempDir,
    ground: Ground,
    timeout: PathBuf,
    /// Who runs them; root is 0.
    user: u32,
    group: u32,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(scripts: &'a Scripts<'a>) -> Result<Self, OfflineError> {
        let failed = "cannot make a folder for files of states";
        let folder = in_memory().map_err(system(failed))?;
        let about = fs::metadata(folder.path()).map_err(system(failed))?;
        // Scripts may become the owner of what they look at, and go through it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).map_err(system(failed))?;
        let ground = Ground::new(folder.path().join("state"), about.uid() == 0);
        Ok(Self { scripts, folder, ground, timeout: program("timeout"), user: about.uid(), group: about.gid() })
    }

    /// How many lines scripts are told at a cut at this position.
    pub(crate) fn told(&self, position_bytes: u64) -> usize {
        self.scripts.acknowledged.partition_point(|(position, _)| *position <= position_bytes)
    }

    /// What they say of the files that are on `disk`, with so many lines acknowledged.
    pub(crate) fn look(&mut self, tree: &Tree, disk: &Disk, told: usize) -> Result<Fault, OfflineError> {
        match self.ground.lay_out(tree, disk) {
            Ok(()) => self.asked(self.ground.folder(), told),
            Err(NotLaidOut::Special(path)) => {
                let why = format!("{path:?} is a device, a FIFO or a socket, which no script is shown here");
                Ok(Some((Judged::Unread, why.into())))
            }
            Err(NotLaidOut::System(path, error)) => Err(system(format!("cannot make {}", path.display()))(error)),
        }
    }

    fn asked(&self, state: &Path, told: usize) -> Result<Fault, OfflineError> {
        let lines = self.scripts.acknowledged.get(..told).unwrap_or_default();
        let lines: String = lines.iter().flat_map(|(_, line)| [line, "\n"]).collect();
        let acknowledged = self.folder.path().join("acknowledged");
        fs::write(&acknowledged, lines).map_err(system("cannot write what was acknowledged"))?;
        let own = self.folder.path().join("tmp");
        let failed = || format!("cannot make {}", own.display());
        for (judged, name, text) in &self.scripts.texts {
            fs::create_dir(&own).map_err(system(failed()))?;
            fs::set_permissions(&own, Permissions::from_mode(0o1777)).map_err(system(failed()))?;
            let why = self.ask(name, text, state, &acknowledged, &own);
            remove(&own).map_err(system(format!("cannot remove {}", own.display())))?;
            if let Some(why) = why? {
                return Ok(Some((*judged, why.into())));
            }
        }
        Ok(None)
    }

    /// Why a script fails, if it does.
    fn ask(
        &self,
        name: &str,
        text: &str,
        state: &Path,
        acknowledged: &Path,
        own: &Path,
    ) -> Result<Option<String>, OfflineError> {
        let begun = Instant::now();
        let (status, said) =
            self.run(text, state, acknowledged, own).map_err(system("cannot run `timeout` and `unshare`"))?;
        // `timeout` kills its group, itself too.
        let is_late = !status.success() && begun.elapsed() >= self.scripts.time_limit;
        match status.code() {
            Some(0) => Ok(None),
            _ if is_late => Err(OfflineError::Late(format!(
                "{name} was not over after {} s: one that hangs, or that needs more (--time-limit)",
                self.scripts.time_limit.as_secs()
            ))),
            _ if said.starts_with("unshare: ") => Err(OfflineError::Scripts(format!(
                "namespaces cannot be made here, in which scripts would look at states without a kernel: {said}"
            ))),
            Some(code) if NOT_RUN.contains(&code) => Err(OfflineError::Scripts(format!(
                "{name} ended with status {code}: something that it runs is not found or cannot be run: {said}"
            ))),
            _ if said.is_empty() => Ok(Some(format!("it ended with {status} and said nothing"))),
            _ => Ok(Some(said)),
        }
    }

    fn run(&self, text: &str, state: &Path, acknowledged: &Path, own: &Path) -> io::Result<(ExitStatus, String)> {
        let path = self.folder.path().join("said");
        let said = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let limit = format!("{}", self.scripts.time_limit.as_secs().max(1));
        let mut command = Command::new(&self.timeout);
        command.args(["--signal=KILL", &limit, "unshare"]);
        let is_root = self.user == 0;
        if !is_root {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--pid", "--fork", "--kill-child"]).arg(option("--wd=", state));
        command.args(["sh", "-c", PREPARE, "sh", text]);
        if !is_root {
            command.args([self.user.to_string(), self.group.to_string()]);
        }
        command.env_clear().envs(self.scripts.environment.iter().map(|(name, value)| (name, value)));
        command.env("PLUMB_MOUNT", state).env("PLUMB_ACKNOWLEDGED", acknowledged).env("TMPDIR", own);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
        let status = command.status()?;
        let length = said.metadata()?.len();
        let mut bytes = vec![0; length.min(SAID_BYTES_MAX) as usize];
        let read = said.read_at(&mut bytes, length.saturating_sub(SAID_BYTES_MAX))?;
        bytes.truncate(read);
        Ok((status, String::from_utf8_lossy(&bytes).trim().to_owned()))
    }
}

/// A word of an option with a path behind it.
fn option(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push(path);
    word
}
