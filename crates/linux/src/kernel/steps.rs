//! The programs of a build, run in one source tree, with one log.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::target::Target;
use crate::error::LinuxError;

/// Lines of a failed step that its error shows.
const TAIL_LINES: usize = 15;

/// Where steps run and what they say is kept.
pub(super) struct Steps<'a> {
    pub(super) tree: &'a Path,
    pub(super) target: Target,
    pub(super) log: PathBuf,
}

impl Steps<'_> {
    /// `make` for the target; what it would write of place and time is fixed.
    pub(super) fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.arg(format!("ARCH={}", self.target.architecture()))
            .env("KBUILD_BUILD_TIMESTAMP", "2030-01-01")
            .env("KBUILD_BUILD_USER", "plumb")
            .env("KBUILD_BUILD_HOST", "plumb")
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .env_remove("MFLAGS");
        make
    }

    /// Runs a step; its output goes to the log, and line by line to `hear`.
    pub(super) fn run(
        &self,
        step: &str,
        command: &mut Command,
        input: Option<&[u8]>,
        hear: &mut dyn FnMut(&str),
    ) -> Result<(), LinuxError> {
        let cannot_log = || LinuxError::system(format!("cannot write {}", self.log.display()));
        let mut log = File::options().create(true).append(true).open(&self.log).map_err(cannot_log())?;
        let (reader, writer) = std::io::pipe().map_err(LinuxError::system("cannot make a pipe"))?;
        let errors = writer.try_clone().map_err(LinuxError::system("cannot make a pipe"))?;
        command.current_dir(self.tree).env("LC_ALL", "C").stdout(writer).stderr(errors);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(LinuxError::system(format!("cannot run {step}")))?;
        // The pipe ends when the child's ends are the last.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            // A child that ends early says why in its output.
            let _ = stdin.write_all(text);
        }
        let mut tail: Vec<String> = Vec::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(LinuxError::system(format!("cannot read the output of {step}")))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(log, "{line}").map_err(cannot_log())?;
            hear(&line);
            if tail.len() == TAIL_LINES {
                tail.remove(0);
            }
            tail.push(line);
        }
        let status = child.wait().map_err(LinuxError::system(format!("cannot wait for {step}")))?;
        if status.success() {
            return Ok(());
        }
        Err(LinuxError::Build { step: step.to_owned(), log: self.log.clone(), tail: tail.join("\n") })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_failed_step_shows_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let steps = Steps { tree: folder.path(), target: Target::default(), log: folder.path().join("log") };
        let mut command = Command::new("sh");
        command.args(["-c", "cat; seq 1 40; echo bad >&2; exit 3"]);
        let mut lines = 0;
        let error = steps.run("test", &mut command, Some(b"first\n"), &mut |_| lines += 1).unwrap_err();
        let LinuxError::Build { step, log, tail } = error else { panic!("{error}") };
        assert_eq!((step.as_str(), lines), ("test", 42));
        assert!(tail.starts_with("27\n") && tail.ends_with("\nbad"), "{tail}");
        assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 42);
    }
}
