//! The caller's scripts on the files of a state, on this machine and without a kernel of their own.
//!
//! Each state is laid out in memory. The scripts see it where the kernel would have mounted it, in namespaces of their own: what they
//! write elsewhere is private (`/tmp`) or refused (the rest of the root), their network is their own, and what they leave running
//! ends with them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::Disk;
use crate::error::{OfflineError, Unreadable, system};
use crate::fsck::{in_memory, program};
use crate::laid_out::{Ground, NotLaidOut};
use crate::look::Fault;
use crate::parts::Judged;
use crate::view::Tree;

/// Most of what a script says that is kept.
const SAID_BYTES_MAX: u64 = 16 << 10;
/// Statuses by which a shell says that a program cannot be run, or is not there.
const NOT_RUN: [i32; 2] = [126, 127];
/// The status of the first shell where it cannot make its surroundings; no script that was not asked for it has it.
const NOT_PREPARED: i32 = 199;

/// Makes what a script sees, and becomes it. Its words: the state, a folder for what is private, what was acknowledged, the user
/// and the group to become, and the script.
const PREPARE: &str = r#"over() {
    mkdir "$2" "$2/upper" "$2/work" && chmod --reference="$1" "$2/upper" &&
    mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$1"
}
mount -o remount,bind,ro / && mount -t tmpfs -o mode=755 tmpfs "$2" && over /tmp "$2/tmp" && over /mnt "$2/mnt" &&
    mkdir -p /mnt/plumb && mount --bind "$1" /mnt/plumb && cp "$3" /tmp/plumb-acknowledged && cd /mnt/plumb || exit 199
ip link set lo up 2> /dev/null || :
export PLUMB_MOUNT=/mnt/plumb PLUMB_ACKNOWLEDGED=/tmp/plumb-acknowledged
[ "$4" = 0 ] || exec unshare --user --map-user="$4" --map-group="$5" sh -ec "$6"
exec sh -ec "$6""#;

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
        fs::create_dir(folder.path().join("private")).map_err(system(failed))?;
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
                Ok(Some((Judged::Unread, Unreadable(why).to_string().into())))
            }
            Err(NotLaidOut::System(path, error)) => Err(system(format!("cannot make {}", path.display()))(error)),
        }
    }

    fn asked(&self, state: &Path, told: usize) -> Result<Fault, OfflineError> {
        let lines = self.scripts.acknowledged.get(..told).unwrap_or_default();
        let lines: String = lines.iter().flat_map(|(_, line)| [line, "\n"]).collect();
        let acknowledged = self.folder.path().join("acknowledged");
        fs::write(&acknowledged, lines).map_err(system("cannot write what was acknowledged"))?;
        for (judged, name, text) in &self.scripts.texts {
            if let Some(why) = self.ask(name, text, state, &acknowledged)? {
                return Ok(Some((*judged, why.into())));
            }
        }
        Ok(None)
    }

    /// Why a script fails, if it does.
    fn ask(&self, name: &str, text: &str, state: &Path, acknowledged: &Path) -> Result<Option<String>, OfflineError> {
        let begun = Instant::now();
        let (status, said) =
            self.run(text, state, acknowledged).map_err(system("cannot run `timeout` and `unshare`"))?;
        // `timeout` kills its group, itself too.
        let is_late = !status.success() && begun.elapsed() >= self.scripts.time_limit;
        match status.code() {
            Some(0) => Ok(None),
            _ if is_late => Err(OfflineError::Late(format!(
                "{name} was not over after {} s: one that hangs, or that needs more (--time-limit)",
                self.scripts.time_limit.as_secs()
            ))),
            Some(code) if code == NOT_PREPARED || said.starts_with("unshare: ") => Err(OfflineError::Scripts(format!(
                "namespaces cannot be made here, in which scripts would look at states without a kernel: {said}"
            ))),
            Some(code) if NOT_RUN.contains(&code) => Err(OfflineError::Scripts(format!(
                "{name} ended with status {code}: something that it runs is not found or cannot be run: {said}"
            ))),
            _ if said.is_empty() => Ok(Some(format!("it ended with {status} and said nothing"))),
            _ => Ok(Some(said)),
        }
    }

    fn run(&self, text: &str, state: &Path, acknowledged: &Path) -> io::Result<(ExitStatus, String)> {
        let path = self.folder.path().join("said");
        let said = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let limit = format!("{}", self.scripts.time_limit.as_secs().max(1));
        let mut command = Command::new(&self.timeout);
        command.args(["--signal=KILL", &limit, "unshare"]);
        if self.user != 0 {
            command.args(["--user", "--map-root-user"]);
        }
        command.args([
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            PREPARE,
            "sh",
        ]);
        command.args([state, &self.folder.path().join("private"), acknowledged]);
        command.args([self.user.to_string(), self.group.to_string(), text.to_owned()]);
        command.env_clear().envs(self.scripts.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
        let status = command.status()?;
        let length = said.metadata()?.len();
        let mut bytes = vec![0; length.min(SAID_BYTES_MAX) as usize];
        let read = said.read_at(&mut bytes, length.saturating_sub(SAID_BYTES_MAX))?;
        bytes.truncate(read);
        Ok((status, String::from_utf8_lossy(&bytes).trim().to_owned()))
    }
}
