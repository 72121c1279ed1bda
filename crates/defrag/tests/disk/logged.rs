//! A block device that remembers every write and flush in the order it got them: a loop device over a FUSE file that
//! this process serves.
//!
//! Protocol: `include/uapi/linux/fuse.h`, version 7.31. The mount's root is the file itself.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::loop_device::{LoopDevice, mount_loop};
use super::ran;
use super::scratch::copy_image;

/// What the device was asked to do.
#[derive(Clone, Debug)]
pub enum Entry {
    Write { at: u64, data: Vec<u8> },
    Flush,
}

const GETATTR: u32 = 3;
const FORGET: u32 = 2;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;

const MAX_WRITE: usize = 1 << 20;
/// What a read or a write takes by default. In virtual time nobody else would do anything meanwhile, took it none.
const LATENCY: Duration = Duration::from_micros(100);
const FOPEN_DIRECT_IO: u32 = 1;
const FUSE_BIG_WRITES: u32 = 1 << 5;
const FUSE_MAX_PAGES: u32 = 1 << 22;

/// The device over `image`. Writes go to the image, and to the log from when it is asked for.
pub struct LoggedDevice {
    file: PathBuf,
    pub device: PathBuf,
    log: Arc<Mutex<Option<Vec<Entry>>>>,
    speed: Arc<Speed>,
    server: Option<JoinHandle<()>>,
}

/// How slow the device is, and what it was asked for.
struct Speed {
    latency_us: AtomicU64,
    requests: AtomicU64,
}

impl Speed {
    fn serve_one(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(self.latency_us.load(Ordering::Relaxed)));
    }
}

impl LoggedDevice {
    pub fn new(image: &Path) -> Self {
        // To dump core, the kernel would have the server wait for all others, which wait for the device.
        // SAFETY: the call takes numbers only.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0, "{}", std::io::Error::last_os_error());
        let backing = OpenOptions::new().read(true).write(true).open(image).unwrap();
        let size = backing.metadata().unwrap().len();
        let file = image.with_extension("served");
        File::create(&file).unwrap();
        let channel = OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=100600,user_id=0,group_id=0", channel.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("plumb-log", &file, "fuse", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        let log = Arc::new(Mutex::new(None));
        let latency_us = AtomicU64::new(LATENCY.as_micros() as u64);
        let speed = Arc::new(Speed { latency_us, requests: AtomicU64::new(0) });
        let of_server = (Arc::clone(&log), Arc::clone(&speed));
        let (channel, backing) = (channel.into_raw_fd(), backing.into_raw_fd());
        let (has_own, wait_for_own) = mpsc::channel();
        let server = thread::spawn(move || {
            let [channel, backing] = own_files([channel, backing]);
            has_own.send(()).unwrap();
            serve(channel, &backing, size, &of_server.0, &of_server.1);
        });
        wait_for_own.recv().unwrap();
        for file in [channel, backing] {
            // SAFETY: this thread's, which nothing else refers to: the server has a copy of its own.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
        }
        // Loop devices of older kernels take the size that the kernel has, and it has none until somebody asks.
        assert_eq!(fs::metadata(&file).unwrap().len(), size);
        let shown = ran(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&file));
        Self { file, device: PathBuf::from(shown.trim()), log, speed, server: Some(server) }
    }

    /// What each read or write takes from now on; one is served after the other.
    pub fn set_latency(&self, latency: Duration) {
        self.speed.latency_us.store(latency.as_micros() as u64, Ordering::Relaxed);
    }

    /// Reads and writes so far.
    pub fn requests(&self) -> u64 {
        self.speed.requests.load(Ordering::Relaxed)
    }

    /// Begins the log.
    pub fn begin(&self) {
        *self.log.lock().unwrap() = Some(Vec::new());
    }

    /// Entries of the log so far.
    pub fn entries(&self) -> usize {
        self.log.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Ends the log; what it has.
    pub fn end(&self) -> Vec<Entry> {
        self.log.lock().unwrap().take().unwrap_or_default()
    }
}

/// Gives this thread a table of open files of its own with nothing but these and the standard ones.
///
/// When the process is killed in the middle of a call that waits for the device, all of its files stay open until that call ends, which
/// it does only once the server's is closed: nobody on the machine could `sync`.
fn own_files(files: [RawFd; 2]) -> [File; 2] {
    let (low, high) = (files[0].min(files[1]), files[0].max(files[1]));
    // SAFETY: the calls take numbers. The table is this thread's alone from the first on, and nothing in it uses what is closed.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_FILES), 0, "{}", std::io::Error::last_os_error());
        for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
        files.map(|file| File::from_raw_fd(file))
    }
}

impl Drop for LoggedDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).stderr(Stdio::null()).status();
        // A loop device lets go of its file when nobody uses it any more, and the connection ends with the mount.
        let _ = unmount(&self.file, UnmountFlags::DETACH);
        if let Some(server) = self.server.take().filter(|_| !thread::panicking()) {
            let _ = server.join();
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Numbers of 32 bits after each other.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn attributes(size: u64) -> Vec<u8> {
    // Valid for an hour; then ino, size, blocks, three times, their parts, mode, nlink, uid, gid, rdev, blksize, flags.
    let mut out = words(&[3600, 0, 0, 0]);
    for long in [1, size, size / 512, 0, 0, 0] {
        out.extend_from_slice(&u64::to_le_bytes(long));
    }
    out.extend(words(&[0, 0, 0, 0o100_600, 1, 0, 0, 0, 4096, 0]));
    out
}

fn serve(mut channel: File, backing: &File, size: u64, log: &Mutex<Option<Vec<Entry>>>, speed: &Speed) {
    let mut buffer = vec![0; MAX_WRITE + 4096];
    // Ends when the mount does.
    while let Ok(length) = channel.read(&mut buffer) {
        let request = &buffer[..length];
        let (code, unique, body) = (u32_at(request, 4), u64_at(request, 8), &request[40..]);
        let note = |entry: Entry| {
            if let Some(log) = &mut *log.lock().unwrap() {
                log.push(entry);
            }
        };
        let answer: Result<Vec<u8>, i32> = match code {
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            INIT => {
                let mut out = words(&[7, 31, u32_at(body, 8), FUSE_BIG_WRITES | FUSE_MAX_PAGES]);
                // max_background and congestion_threshold, max_write, time_gran, max_pages and map_alignment.
                out.extend(words(&[64 | 48 << 16, MAX_WRITE as u32, 1, 256]));
                out.resize(64, 0);
                Ok(out)
            }
            GETATTR => Ok(attributes(size)),
            OPEN => Ok(words(&[1, 0, FOPEN_DIRECT_IO, 0])),
            READ => {
                speed.serve_one();
                let (at, wanted) = (u64_at(body, 8), u32_at(body, 16) as usize);
                let mut data = vec![0; wanted.min(size.saturating_sub(at) as usize)];
                backing.read_exact_at(&mut data, at).map(|()| data).map_err(|_| 5)
            }
            WRITE => {
                speed.serve_one();
                let (at, length) = (u64_at(body, 8), u32_at(body, 16) as usize);
                let data = &body[40..40 + length];
                note(Entry::Write { at, data: data.to_vec() });
                backing.write_all_at(data, at).map(|()| words(&[length as u32, 0])).map_err(|_| 5)
            }
            FSYNC => {
                note(Entry::Flush);
                Ok(Vec::new())
            }
            // A discard, or zeros: the range reads as zeros afterwards.
            FALLOCATE => {
                let (at, length) = (u64_at(body, 8), u64_at(body, 16));
                let zeros = vec![0; length.min(size.saturating_sub(at)) as usize];
                let punched = rustix::fs::fallocate(
                    backing,
                    rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
                    at,
                    length,
                );
                note(Entry::Write { at, data: zeros });
                punched.map(|()| Vec::new()).map_err(|_| 95)
            }
            STATFS => Ok(vec![0; 80]),
            RELEASE | FLUSH => Ok(Vec::new()),
            // Not implemented.
            _ => Err(38),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(number) => (-number, Vec::new()),
        };
        let mut reply = words(&[16 + body.len() as u32, error as u32]);
        reply.extend_from_slice(&unique.to_le_bytes());
        reply.extend_from_slice(&body);
        // A request that was interrupted is no longer waited for.
        let _ = channel.write(&reply);
    }
}

/// Why there can be none here.
pub fn obstacle() -> Option<String> {
    let open = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    open.err().map(|error| format!("/dev/fuse: {error} (root and FUSE are needed)"))
}

/// A state that a crash may leave, made from the image before the log and the log.
pub struct States<'a> {
    log: &'a [Entry],
    /// The image as of all entries before `at`.
    image: File,
    at: usize,
    /// The last flush before `at`, and what was written since: places and bytes.
    since_flush: Vec<usize>,
    base: PathBuf,
}

impl<'a> States<'a> {
    /// `base` is the image when the log began; it is changed.
    pub fn new(base: &Path, log: &'a [Entry]) -> Self {
        let image = OpenOptions::new().read(true).write(true).open(base).unwrap();
        Self { log, image, at: 0, since_flush: Vec::new(), base: base.to_owned() }
    }

    /// Everything up to the last flush before the `to`th entry is on the disk.
    fn advance(&mut self, to: usize) {
        while self.at < to {
            match &self.log[self.at] {
                Entry::Write { .. } => self.since_flush.push(self.at),
                Entry::Flush => {
                    for index in std::mem::take(&mut self.since_flush) {
                        apply(&self.image, &self.log[index]);
                    }
                }
            }
            self.at += 1;
        }
    }

    /// Writes the state after `to` entries to `path`; later calls have a later `to`. Of what was written after the
    /// last flush, `survives` chooses by the place.
    pub fn write(&mut self, to: usize, path: &Path, survives: &mut dyn FnMut(u64) -> bool) {
        self.advance(to);
        copy_image(&self.base, path);
        let state = OpenOptions::new().write(true).open(path).unwrap();
        for &index in &self.since_flush {
            if let Entry::Write { at, .. } = &self.log[index]
                && survives(*at)
            {
                apply(&state, &self.log[index]);
            }
        }
    }
}

fn apply(image: &File, entry: &Entry) {
    if let Entry::Write { at, data } = entry {
        image.write_all_at(data, *at).unwrap();
    }
}

/// A mount of a state, with recovery.
pub struct Recovered {
    place: PathBuf,
    /// Goes when nothing is mounted from it any more.
    _device: LoopDevice,
}

impl Recovered {
    /// Mounts it, or says why that fails.
    pub fn mount(image: &Path, place: &Path, system: &str) -> Result<Self, String> {
        fs::create_dir_all(place).unwrap();
        let device = LoopDevice::new(image).unwrap();
        mount_loop(device.path(), place, system, "").map_err(|errno| format!("it cannot be mounted: {errno}"))?;
        Ok(Self { place: place.to_owned(), _device: device })
    }
}

impl Drop for Recovered {
    fn drop(&mut self) {
        super::unmount(&self.place);
    }
}
