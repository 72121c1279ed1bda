//! An agent that runs in this process, for its tests. Needs root.
// Each test uses some of it.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use prefetch::PAGE_BYTES;
use prefetcher::agent::client::Agent as Client;
use prefetcher::agent::{Agent, Counts};

/// A user that owns nothing here.
pub const OTHER: u32 = 12_345;
/// Of a file.
pub const PAGES: u64 = 64;

/// A running agent, and a folder on a disk.
pub struct Rig {
    pub folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counts>>,
}

impl Rig {
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let mut agent = match Agent::start(&folder.path().join("socket")) {
            Ok(agent) => agent,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = Some(std::thread::spawn(move || agent.serve(&stopped, None).unwrap()));
        let rig = Self { folder, stop, thread };
        let probe = rig.file("probe");
        match rig.client().ask(probe.as_fd()) {
            Ok(_) => Some(rig),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// A file of this user's, in memory.
    pub fn file(&self, name: &str) -> File {
        let mut file =
            File::options().read(true).write(true).create_new(true).open(self.folder.path().join(name)).unwrap();
        file.write_all(&[1; (PAGES * PAGE_BYTES) as usize]).unwrap();
        file.sync_all().unwrap();
        file
    }

    pub fn read_only(&self, name: &str) -> File {
        File::open(self.folder.path().join(name)).unwrap()
    }

    /// The agent's counts at its end.
    pub fn finish(mut self) -> Counts {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Does something as somebody else: the credentials of this thread alone change.
pub fn as_other<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = move || {
        // SAFETY: numbers alone; made as a system call it is for this thread.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, OTHER, OTHER, OTHER) }, 0);
        work()
    };
    std::thread::spawn(work).join().unwrap()
}
