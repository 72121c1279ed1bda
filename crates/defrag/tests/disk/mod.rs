//! A file system of its own for a test, in a file, on a loop device; and files in many pieces on it.
//!
//! Whatever happens, nothing stays: the file system is unmounted and the loop device goes with it.
#![allow(dead_code, unused_imports)] // each test file uses a part

pub mod crash;
pub mod guest;
pub mod layout;
pub mod logged;
pub mod loop_device;
pub mod move_extents;
pub mod mutant;
pub mod scene;
pub mod scheduler;
pub mod scratch;
mod seen;
mod system;
pub mod trial;
pub mod writers;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use defrag::ByteRange;
use defrag::extents::{ExtentMap, WriteBack, read_map};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
pub use seen::{Seen, seen};
pub use system::System;

/// A small generator (SplitMix64): what is written must be known again later.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.next_multiple_of(8)];
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Makes a file system. That of Btrfs asks about each loop device of the machine, and fails when another test's goes away
/// before it is answered; it has written nothing by then, and is run again.
#[track_caller]
pub fn made(command: &mut Command) {
    for _ in 0..20 {
        let output = output_of(command);
        if !String::from_utf8_lossy(&output.stderr).contains("cannot check mount status") {
            succeeded(command, &output);
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    ran(command);
}

/// Runs a command that has to succeed; what it printed.
#[track_caller]
pub fn ran(command: &mut Command) -> String {
    let output = output_of(command);
    succeeded(command, &output)
}

#[track_caller]
fn output_of(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Expects success; what was printed.
#[track_caller]
fn succeeded(command: &Command, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Unmounts. Programs that other tests of this process start meanwhile have copies of open files until they run: busy is
/// not the end.
#[track_caller]
pub fn unmount(place: &Path) {
    for attempt in 0.. {
        match rustix::mount::unmount(place, UnmountFlags::empty()) {
            Ok(()) => return,
            Err(errno) => assert!(attempt < 1000 && errno == Errno::BUSY, "{}: {errno}", place.display()),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Prints why a test does nothing, and says whether it does nothing.
pub fn skipped(system: System) -> bool {
    let obstacle = obstacle(&system.programs(), system.name());
    if let Some(why) = &obstacle {
        println!("skipped: {why}");
    }
    obstacle.is_some()
}

fn obstacle(programs: &[&str], system: &str) -> Option<String> {
    let control = "/dev/loop-control";
    if let Err(error) = OpenOptions::new().read(true).write(true).open(control) {
        return Some(format!("{control}: {error} (root and loop devices are needed)"));
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|word| word == system) {
        return Some(format!("this kernel has no {system}"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing = programs.iter().find(|name| !folders.iter().any(|folder| folder.join(name).exists()))?;
    Some(format!("{missing} is not installed"))
}

/// A file system in a file, mounted.
pub struct Disk {
    folder: tempfile::TempDir,
    pub system: System,
    device: Option<PathBuf>,
    scheduler: Option<scheduler::Scheduler>,
    mounted: bool,
}

impl Disk {
    /// Makes and mounts one of 512 MiB.
    pub fn new(system: System) -> Self {
        Self::with(system, 512 << 20, &[], "")
    }

    /// The same in memory, where there is room, for what takes a disk too long.
    pub fn in_memory(system: System) -> Self {
        Self::in_memory_with(system, "")
    }

    /// The same, mounted with options.
    pub fn in_memory_with(system: System, mount: &str) -> Self {
        Self::inside(scratch::in_memory(), system, 512 << 20, &[], mount)
    }

    /// Makes and mounts one.
    pub fn with(system: System, bytes: u64, make: &[&str], mount: &str) -> Self {
        Self::inside(tempfile::tempdir().unwrap(), system, bytes, make, mount)
    }

    /// The same, or why the kernel does not mount it.
    pub fn try_with(system: System, bytes: u64, make: &[&str], mount: &str) -> Result<Self, String> {
        let mut disk = Self::made(tempfile::tempdir().unwrap(), system, bytes, make);
        disk.try_mount(mount)?;
        Ok(disk)
    }

    fn inside(folder: tempfile::TempDir, system: System, bytes: u64, make: &[&str], mount: &str) -> Self {
        let mut disk = Self::made(folder, system, bytes, make);
        disk.mount(mount);
        disk
    }

    /// The file system, not mounted yet.
    fn made(folder: tempfile::TempDir, system: System, bytes: u64, make: &[&str]) -> Self {
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        system.make(&image, make);
        Self { folder, system, device: None, scheduler: None, mounted: false }
    }

    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place().join(name)
    }

    /// `/dev/loopN`.
    pub fn device(&self) -> &Path {
        self.device.as_deref().unwrap()
    }

    #[track_caller]
    pub fn mount(&mut self, options: &str) {
        self.try_mount(options).unwrap();
    }

    /// Mounts it, or says why the kernel does not.
    fn try_mount(&mut self, options: &str) -> Result<(), String> {
        fs::create_dir_all(self.place()).unwrap();
        let shown = ran(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(self.image()));
        let device = PathBuf::from(shown.trim());
        self.scheduler = Some(scheduler::Scheduler::none(&device));
        self.device = Some(device);
        let mut command = Command::new("mount");
        command.args(["-t", self.system.name()]);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        let output = output_of(command.arg(self.device.as_ref().unwrap()).arg(self.place()));
        self.mounted = output.status.success();
        let said = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        if self.mounted { Ok(()) } else { Err(said()) }
    }

    /// Unmounts it and lets go of the device.
    #[track_caller]
    pub fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            unmount(&self.place());
        }
        self.scheduler = None;
        if let Some(device) = self.device.take() {
            ran(Command::new("losetup").arg("--detach").arg(device));
        }
    }

    /// Unmounts and lets the file system's own checker look.
    #[track_caller]
    pub fn check(&mut self) {
        self.unmount();
        self.system.check(&self.image()).unwrap();
    }

    /// Bytes that the device has been given to write so far, of everything that was written.
    pub fn written_bytes(&self) -> u64 {
        rustix::fs::syncfs(File::open(self.place()).unwrap()).unwrap();
        self.bytes_given()
    }

    /// Bytes that the device has been given to write so far.
    pub fn bytes_given(&self) -> u64 {
        let name = self.device().file_name().unwrap();
        let line = fs::read_to_string(Path::new("/sys/block").join(name).join("stat")).unwrap();
        line.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        rustix::fs::syncfs(File::open(self.place()).unwrap()).unwrap();
        let space = rustix::fs::statvfs(self.place()).unwrap();
        (space.f_blocks - space.f_bfree) * space.f_frsize
    }

    /// A file in pieces of `piece` bytes: `length` bytes from `seed`, of which each piece lies for itself.
    pub fn fragmented(&self, name: &str, seed: u64, length: u64, piece: u64) -> PathBuf {
        let path = self.path(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        scatter(&file, self.system, seed, ByteRange { start: 0, end: length }, piece);
        path
    }

    /// Leaves free space in stretches of `hole` bytes only: fills it with files of that size and removes every
    /// other one.
    pub fn fragment_free_space(&self, hole: u64) {
        let folder = self.path("filling");
        fs::create_dir(&folder).unwrap();
        let content = vec![0x5a_u8; hole as usize];
        let mut made = Vec::new();
        for number in 0_u64.. {
            let path = folder.join(number.to_string());
            let full = File::create(&path).and_then(|mut file| file.write_all(&content));
            if full.is_err() {
                let _ = fs::remove_file(&path);
                break;
            }
            made.push(path);
        }
        rustix::fs::syncfs(File::open(self.place()).unwrap()).unwrap();
        for path in made.iter().step_by(2) {
            fs::remove_file(path).unwrap();
        }
        rustix::fs::syncfs(File::open(self.place()).unwrap()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.place()).stderr(Stdio::null()).status();
        }
        self.scheduler = None;
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).stderr(Stdio::null()).status();
        }
    }
}

/// Writes `range` of a file such that pieces of `piece` bytes lie apart.
///
/// ext4 puts appended data together again, so every other piece is given another place, with gaps in between; the others
/// put data where it fits when it comes, so a second file is written in turns.
pub fn scatter(file: &File, system: System, seed: u64, range: ByteRange, piece: u64) {
    scatter_bytes(file, system, &Dice(seed).bytes(range.len() as usize), range.start, piece);
}

/// XFS gives two files that are written in turns places of their own where others write at the same time.
static XFS_ALONE: Mutex<()> = Mutex::new(());

/// The same, with `content` from `start` on.
pub fn scatter_bytes(file: &File, system: System, content: &[u8], start: u64, piece: u64) {
    let range = ByteRange { start, end: start + content.len() as u64 };
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    let name = fs::read_link(&own).unwrap();
    if system == System::Ext4 {
        file.write_all_at(content, range.start).unwrap();
        let every_other = (range.start + piece..range.end).step_by(2 * piece as usize);
        let places: Vec<(ByteRange, u64)> = every_other
            .map(|start| (ByteRange { start, end: (start + piece).min(range.end) }, start - piece - range.start))
            .collect();
        if !places.is_empty() {
            layout::arrange(file, name.parent().unwrap(), &places);
        }
        return;
    }
    let is_xfs = matches!(system, System::Xfs | System::XfsExchange);
    let _alone = is_xfs.then(|| XFS_ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    let open = |path: &Path| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(path).unwrap()
    };
    let target = open(own.as_ref());
    let other = open(&beside(&name, range.start));
    let mut buffer = vec![0; piece as usize + 4096];
    let skew = buffer.as_ptr().align_offset(4096);
    for (number, part) in (0..).zip(content.chunks(piece as usize)) {
        let whole = part.len() / 4096 * 4096;
        let at = range.start + number * piece;
        if whole > 0 {
            buffer[skew..skew + whole].copy_from_slice(&part[..whole]);
            target.write_all_at(&buffer[skew..skew + whole], at).unwrap();
            other.write_all_at(&buffer[skew..skew + whole], number * piece).unwrap();
        }
        if whole < part.len() {
            file.write_all_at(&part[whole..], at + whole as u64).unwrap();
        }
    }
    file.sync_all().unwrap();
}

/// The file that a file was written in turns with, from `start` on.
pub fn beside(path: &Path, start: u64) -> PathBuf {
    path.with_extension(format!("other-{start}"))
}

/// Where a file lies.
pub fn map_of(path: &Path) -> ExtentMap {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    read_map(&file, size, WriteBack::First).unwrap()
}

/// Pieces as filefrag counts them.
pub fn filefrag(path: &Path) -> u64 {
    let said = ran(Command::new("filefrag").arg(path));
    let count = said.trim().rsplit(": ").next().and_then(|rest| rest.split(' ').next());
    count.unwrap().parse().unwrap()
}

/// Has the page cache forget everything.
pub fn drop_caches() {
    rustix::fs::sync();
    let _ = fs::write("/proc/sys/vm/drop_caches", "1");
}
