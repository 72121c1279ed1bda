//! A file system of `plumb fs`, mounted.
#![allow(dead_code)] // each test file uses a part

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Says so where no FUSE file system can be mounted, or one of these programs is missing.
pub fn skipped(programs: &[&str]) -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0);
    if !root {
        println!("skipped: mounting needs root");
        return true;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse");
        return true;
    }
    for program in programs {
        if Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            println!("skipped: {program} is not installed");
            return true;
        }
    }
    false
}

/// Whether only a long run is to do this; says so if this is none.
pub fn only_long() -> bool {
    let short = std::env::var_os("PLUMB_LONG").is_none();
    if short {
        println!("skipped: takes minutes (PLUMB_LONG=1, or ./test --long)");
    }
    short
}

/// A file system in a scratch folder, and the server that has it mounted.
pub struct Rig {
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Rig {
    /// Makes one of so many MiB, and mounts it.
    pub fn new(size_mib: u64) -> Self {
        let mut rig = Self { folder: tempfile::tempdir().unwrap(), server: None };
        fs::create_dir(rig.place()).unwrap();
        rig.plumb(&["mkfs", &rig.image(), "--size", &format!("{size_mib}MiB"), "--log", "16MiB"]);
        rig.mount(&[]);
        rig
    }

    /// The file that it lies on.
    pub fn image(&self) -> String {
        self.folder.path().join("disk.plumb").to_str().unwrap().to_owned()
    }

    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        self.folder.path().join("place")
    }

    /// A path of the scratch folder, outside of it.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `plumb fs` with these arguments, as it ends.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.arg("fs").args(arguments).env("NO_COLOR", "1").output().unwrap()
    }

    /// The same, which must succeed; what it prints.
    #[track_caller]
    pub fn plumb(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "plumb fs {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn mount(&mut self, options: &[&str]) {
        let mut server = Command::new(env!("CARGO_BIN_EXE_plumb"))
            .args(["fs", "mount", &self.image()])
            .arg(self.place())
            .args(options)
            .env("NO_COLOR", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" is mounted at "), "{line:?}, {:?}", server.try_wait());
        self.server = Some(server);
    }

    /// The server's process.
    pub fn server(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// Waits for the server's end; its status.
    #[track_caller]
    pub fn ended(&mut self) -> Option<i32> {
        let mut server = self.server.take().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = server.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Unmounts, and checks that the server ends well and the file system is sound.
    #[track_caller]
    pub fn unmount(&mut self) {
        self.leave();
        self.check();
    }

    /// Unmounts it, and does not look at it.
    pub fn leave(&mut self) {
        done(Command::new("umount").arg(self.place()));
        assert_eq!(self.ended(), Some(0));
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        done(Command::new("umount").arg("-l").arg(self.place()));
    }

    /// Checks that it is sound.
    #[track_caller]
    pub fn check(&self) {
        self.plumb(&["fsck", &self.image()]);
    }

    /// A shell script in it, which must succeed; what it prints.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        let mut shell = Command::new("bash");
        done(
            shell.args(["-euo", "pipefail", "-c", script]).current_dir(self.place()).env("OUTSIDE", self.folder.path()),
        )
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = Command::new("umount").arg("-l").arg(self.place()).status();
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Runs a command, which must succeed; what it prints.
#[track_caller]
pub fn done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complained}", output.status);
    said.into_owned()
}
