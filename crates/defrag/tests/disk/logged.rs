//! A block device that remembers every write and flush in the order it got them: a loop device over a FUSE file that
//! this process serves.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuse::{Body, Incoming, Mount, Operation, SingleFile, Transport};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FallocateFlags;

use super::loop_device::{Direct, LoopDevice, mount_loop};
use super::scratch::copy_image;

/// What the device was asked to do.
#[derive(Clone, Debug)]
pub enum Entry {
    Write { at: u64, data: Vec<u8> },
    Flush,
}

/// What a read or a write takes by default. In virtual time nobody else would do anything meanwhile, took it none.
const LATENCY: Duration = Duration::from_micros(100);

/// The device over `image`. Writes go to the image, and to the log from when it is asked for.
pub struct LoggedDevice {
    pub device: PathBuf,
    log: Arc<Log>,
    speed: Arc<Speed>,
    /// While there is a connection.
    connected: Option<(LoopDevice, Mount)>,
    server: Option<JoinHandle<()>>,
}

/// What was logged, from when it is asked for.
type Log = Mutex<Option<Vec<Entry>>>;

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
        let size_bytes = backing.metadata().unwrap().len();
        let served = SingleFile { name: "disk".to_owned(), size_bytes, block_bytes: 4096, read_only: false };
        let transport = Transport::open(false).unwrap();
        let mount = Mount::new(transport.device()).unwrap();
        let log = Arc::new(Log::default());
        let latency_us = AtomicU64::new(LATENCY.as_micros() as u64);
        let speed = Arc::new(Speed { latency_us, requests: AtomicU64::new(0) });
        let of_server = (Arc::clone(&log), Arc::clone(&speed));
        let files = [transport.device().as_raw_fd(), backing.as_raw_fd()];
        let (name, (has_own, wait_for_own)) = (served.name.clone(), mpsc::channel());
        let server = thread::spawn(move || {
            own_files(files);
            has_own.send(()).unwrap();
            serve(transport, &served, &backing, &of_server.0, &of_server.1);
        });
        wait_for_own.recv().unwrap();
        for file in files {
            // SAFETY: this thread's, which nothing else refers to: the server has a copy of its own.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
        }
        let file = mount.open(&name, false).unwrap();
        // Loop devices of older kernels take the size that the kernel has, and it has none until somebody asks.
        assert_eq!(file.metadata().unwrap().len(), size_bytes);
        let device = LoopDevice::over(&file, Direct::Yes).unwrap();
        Self { device: device.path().to_owned(), log, speed, connected: Some((device, mount)), server: Some(server) }
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
fn own_files(files: [RawFd; 2]) {
    let (low, high) = (files[0].min(files[1]), files[0].max(files[1]));
    // SAFETY: the calls take numbers. The table is this thread's alone from the first on, and nothing in it uses what is closed.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_FILES), 0, "{}", std::io::Error::last_os_error());
        for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
    }
}

impl Drop for LoggedDevice {
    fn drop(&mut self) {
        // A loop device lets go of its file when nobody uses it any more, and the connection ends with that and the mount.
        drop(self.connected.take());
        if let Some(server) = self.server.take().filter(|_| !thread::panicking()) {
            let _ = server.join();
        }
    }
}

/// Serves until the connection ends.
fn serve(mut transport: Transport, served: &SingleFile, backing: &File, log: &Log, speed: &Speed) {
    while transport.is_connected() {
        let device = transport.device();
        if poll(&mut [PollFd::new(&device, PollFlags::IN)], None).is_err() {
            continue;
        }
        transport.device_is_readable();
        while let Some(Incoming { node, operation, reply_to }) = transport.receive().unwrap() {
            if !operation.is_answered() {
                continue;
            }
            let answer = match served.answer(node, &operation) {
                Some(answer) => answer.map(|body| body.as_bytes().to_vec()),
                None => contents(&operation, served.size_bytes, backing, log, speed),
            };
            transport.reply(reply_to, answer.as_deref().map_err(|number| *number));
        }
        transport.send().unwrap();
    }
}

/// What is about the contents: the body of the answer, or an error number.
fn contents(
    operation: &Operation<'_>,
    size_bytes: u64,
    backing: &File,
    log: &Log,
    speed: &Speed,
) -> Result<Vec<u8>, i32> {
    let note = |entry: Entry| {
        if let Some(log) = &mut *log.lock().unwrap() {
            log.push(entry);
        }
    };
    match *operation {
        Operation::Read { offset, length, .. } => {
            speed.serve_one();
            let mut data = vec![0; u64::from(length).min(size_bytes.saturating_sub(offset)) as usize];
            backing.read_exact_at(&mut data, offset).map(|()| data).map_err(|_| libc::EIO)
        }
        Operation::Write { offset, data, .. } => {
            speed.serve_one();
            note(Entry::Write { at: offset, data: data.to_vec() });
            let written = backing.write_all_at(data, offset).map_err(|_| libc::EIO);
            written.map(|()| Body::written(data.len() as u32).as_bytes().to_vec())
        }
        Operation::Fsync { .. } => {
            note(Entry::Flush);
            Ok(Vec::new())
        }
        // A discard, or zeros: the range reads as zeros afterwards.
        Operation::Fallocate { offset, length, .. } => {
            let zeros = vec![0; length.min(size_bytes.saturating_sub(offset)) as usize];
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let punched = rustix::fs::fallocate(backing, hole, offset, length);
            note(Entry::Write { at: offset, data: zeros });
            punched.map(|()| Vec::new()).map_err(|_| libc::EOPNOTSUPP)
        }
        _ => Err(libc::ENOSYS),
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
