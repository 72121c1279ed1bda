//! The command: its environment, folder and streams.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::error::{GuestError, attempt};
use super::processes;
use crate::charge::OWN_SWITCH;
use crate::outcome::Ended;
use crate::plan::{Channel, GuestPlan};

/// The console of a command that has a terminal.
const TERMINAL: &str = "/dev/tty1";

/// Folders of programs that make file systems and the like.
const SYSTEM_FOLDERS: [&str; 5] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Runs the plan's command to its end on the devices at `nodes`; `servers` must outlive it.
pub(super) fn run(
    plan: &GuestPlan,
    nodes: &[String],
    mount: Option<&Path>,
    servers: &[Pid],
) -> Result<Ended, GuestError> {
    let words: Vec<OsString> = plan.command.iter().map(OsString::from).collect();
    let (program, arguments) = words.split_first().ok_or_else(|| GuestError::new("the plan has no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for (name, value) in &plan.environment {
        command.env(OsString::from(name), OsString::from(value));
    }
    let path = plan.environment.iter().find(|(name, _)| OsString::from(name) == "PATH");
    command.env("PATH", search_path(path.map(|(_, value)| OsString::from(value))));
    command.env("PLUMB_DEVICE", nodes.first().map_or("", String::as_str));
    command.env("PLUMB_DEVICES", nodes.join(" "));
    let caller_folder = PathBuf::from(&plan.folder);
    let folder = mount.unwrap_or(&caller_folder);
    if mount.is_some() {
        command.env("PLUMB_MOUNT", folder);
    }
    command.env("PWD", folder).current_dir(folder);

    if plan.charge {
        pay(&mut command)?;
    }

    if plan.terminal {
        let open = || {
            let opened = OpenOptions::new().read(true).write(true).open(TERMINAL);
            attempt(opened, || format!("cannot open the terminal {TERMINAL}"))
        };
        command.stdin(open()?).stdout(open()?).stderr(open()?);
        // SAFETY: between fork and exec the closure makes two system calls, which neither allocate nor lock.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
    } else {
        let input = attempt(std::fs::File::open(Channel::Input.node()), || "cannot open standard input".to_owned())?;
        command.stdin(Stdio::from(input));
        command.stdout(super::channel(Channel::Output)?).stderr(super::channel(Channel::Errors)?);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        // What a shell says of a command that is not there, or is none.
        Err(error) => {
            let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            let line = format!("plumb: cannot run {} inside: {error}\n", program.display());
            attempt(std::io::Write::write_all(&mut super::channel(Channel::Errors)?, line.as_bytes()), || {
                "cannot write to standard error".to_owned()
            })?;
            return Ok(Ended::Exited(status));
        }
    };
    processes::wait_for(Pid::from_child(&child), servers)
}

/// Has a command, and all that it starts, pay for its processor time.
pub(super) fn pay(command: &mut Command) -> Result<(), GuestError> {
    // Opened here, where an error has words; the switch is of who writes to it.
    let switch = OpenOptions::new().write(true).open(OWN_SWITCH);
    let switch = attempt(switch, || "this kernel cannot charge processor time".to_owned())?;
    // SAFETY: between fork and exec the closure makes one system call, which neither allocates nor locks.
    unsafe {
        command.pre_exec(move || Ok(rustix::io::write(&switch, b"1").map(drop)?));
    }
    Ok(())
}

/// The caller's search path, and behind it the folders that only root has in it.
pub fn search_path(path: Option<OsString>) -> OsString {
    let mut folders: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
    for folder in SYSTEM_FOLDERS {
        if !folders.iter().any(|known| known == Path::new(folder)) {
            folders.push(folder.into());
        }
    }
    // Only a folder with a colon in its name cannot be joined, and none came from outside a path.
    std::env::join_paths(folders).unwrap_or_else(|_| "/usr/sbin:/usr/bin".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_path_comes_first() {
        assert_eq!(search_path(Some("/opt/x:/usr/bin".into())), "/opt/x:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin:/bin");
        assert_eq!(search_path(None), "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
    }
}
