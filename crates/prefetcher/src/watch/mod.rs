//! Programs that cannot be preloaded: static ones, Go, io_uring. What they read is seen in the kernel (tracepoint
//! `mm_filemap_get_pages`, Linux 6.12 and newer), and comes to the same table as what hooks see.
//!
//! The kernel tells pages, and not bytes; a file is known by device and inode, and found among the process's descriptors. Whatever a
//! process reads is told, in memory or not, so that the policies stand down as they do for hooks.

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use observe::bpf::{Attached, Map, MapKind, Ring, attach};
use observe::tracefs::{self, Format, device_of_kernel};
use rustix::thread::futex;

use crate::executor::now_ns;
use crate::policies::{Access, PAGE_BYTES};
use crate::shared::{Counts, Deed, Kind, Record, Request, Table};
pub use program::Watched;
use program::{Maps, WORDS};

/// Records that wait: 26,000 reads.
const RING_BYTES: u32 = 1 << 20;

/// Processes that are watched.
const PROCESSES: u32 = 1 << 16;

/// Records that are taken at once, and how long is waited where there are none: what a reader goes on in between is read before it can be
/// loaded.
const MOST_RECORDS: usize = 4096;
const PAUSE: Duration = Duration::from_micros(500);

/// Descriptors that are remembered; all are forgotten when there are more.
const REMEMBERED: usize = 4096;

/// A process's file by what the kernel calls it.
type Name = (i32, u64, u64);

/// The watch, until it is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    seen: Arc<AtomicU64>,
    // Detached when the thread has ended.
    _programs: Vec<Attached>,
}

impl Watch {
    /// Begins to watch them, and puts what they read into the table.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON; where the kernel has not the tracepoints.
    pub fn begin(table: &'static Table, watched: &Watched) -> io::Result<Self> {
        let root = tracefs::root().map_err(io::Error::other)?;
        // All its memory at once: that of one which grows is not there in time on every kernel.
        let processes: Map<u32, u32> = Map::create(MapKind::LruHash, PROCESSES)?;
        let mut ring = Ring::create(RING_BYTES)?;
        let maps = Maps { processes: processes.as_fd(), ring: ring.as_fd() };
        let wanted = [
            ("sched", "sched_process_fork", program::fork as fn(&Format, &Watched, Maps<'_>) -> Option<Vec<u64>>),
            ("filemap", "mm_filemap_get_pages", program::read),
        ];
        let mut programs = Vec::new();
        for (group, name, build) in wanted {
            let format = Format::read(&root, group, name).map_err(io::Error::other)?;
            let found = format.and_then(|format| Some((build(&format, watched, maps)?, format)));
            let missing = || io::Error::other(format!("this kernel has no tracepoint {name} as is needed"));
            let (instructions, format) = found.ok_or_else(missing)?;
            programs.push(attach(&instructions, &format)?);
        }
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), seen.clone());
        let mut readers = Readers { table, found: BTreeMap::new(), own: std::process::id() as i32 };
        let work = move || {
            while !stopped.load(Ordering::SeqCst) {
                let taken = ring.take(MOST_RECORDS, &mut |record| readers.hear(record));
                counted.fetch_add(taken as u64, Ordering::Relaxed);
                if taken == 0 {
                    std::thread::sleep(PAUSE);
                }
            }
            let left = ring.take(RING_BYTES as usize, &mut |record| readers.hear(record));
            counted.fetch_add(left as u64, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(work)?;
        processes.set(&std::process::id(), &1)?;
        Ok(Self { stop, thread: Some(thread), seen, _programs: programs })
    }

    /// Reads that were seen so far.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // One that failed has said so.
            let _ = thread.join();
        }
    }
}

/// What is known of who reads.
struct Readers {
    table: &'static Table,
    /// Descriptors; none where there is none that is to be followed.
    found: BTreeMap<Name, Option<(i32, u64)>>,
    own: i32,
}

impl Readers {
    fn hear(&mut self, record: &[u64]) {
        let Ok([who, device, inode, first, last]) = <[u64; WORDS]>::try_from(record) else { return };
        let (process, lane) = ((who >> 32) as i32, who as u32);
        if process == self.own || last < first {
            return;
        }
        if self.found.len() >= REMEMBERED {
            self.found.clear();
        }
        let device = device_of_kernel(device as u32);
        let name = (process, device, inode);
        let table = self.table;
        let found = *self.found.entry(name).or_insert_with(|| find(table, name));
        let Some((fd, file_bytes)) = found else { return };
        let Some((index, generation)) = table.place(device, inode, file_bytes) else { return };
        let file = table.file(index);
        let access = Access {
            offset_bytes: first.saturating_mul(PAGE_BYTES),
            length_bytes: (last - first).saturating_add(1).saturating_mul(PAGE_BYTES),
            lane,
        };
        if table.header.records.load(Ordering::Relaxed) != 0 {
            note(table, index, generation, (process, fd), &access);
        }
        let Some(mut guard) = file.try_lock() else { return };
        Counts::bump(&file.counts.accesses, 1);
        Counts::bump(&file.counts.accessed_bytes, access.length_bytes);
        let header = &table.header;
        // What is read at random is not counted here.
        let limits = file.limits(header, file_bytes, false);
        let Some(plan) = guard.streams.observe(access, &limits) else { return };
        file.used_at.store(header.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        if header.follow.load(Ordering::Relaxed) == 0 || file.refused.load(Ordering::Relaxed) != 0 {
            guard.streams.resident(&plan);
            return;
        }
        if !guard.push(Request { plan, process, fd, kind: Kind::Stream as u32, lane }) {
            guard.streams.dropped(&plan);
            Counts::bump(&file.counts.dropped, 1);
            return;
        }
        Counts::bump(&file.counts.requests, 1);
        if table.ask(index) {
            // Nobody waits where this fails.
            let _ = futex::wake(&header.asleep, futex::Flags::empty(), 1);
        }
    }
}

/// Records a read of pages. How long it took the kernel does not tell.
fn note(table: &Table, index: usize, generation: u32, (process, fd): (i32, i32), access: &Access) {
    if let Some(name) = table.names.get(index).filter(|name| name.get(generation).is_none()) {
        let path = fs::read_link(format!("/proc/{process}/fd/{fd}")).unwrap_or_default();
        name.set(generation, path.as_os_str().as_encoded_bytes());
    }
    let now_ns = now_ns();
    table.ring.push(&Record {
        index: index as u32,
        generation,
        deed: Deed::Read,
        thread: access.lane,
        offset_bytes: access.offset_bytes,
        length_bytes: access.length_bytes,
        began_ns: now_ns,
        ended_ns: now_ns,
    });
}

/// The descriptor by which a process has a file open, and the file's size: one that is large enough.
fn find(table: &Table, (process, device, inode): Name) -> Option<(i32, u64)> {
    let folder = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    folder.flatten().find_map(|entry| {
        let about = fs::metadata(entry.path()).ok()?;
        let is_it = (about.dev(), about.ino()) == (device, inode) && about.is_file();
        let is_large = about.len() >= table.header.min_file_bytes.load(Ordering::Relaxed);
        let fd = entry.file_name().to_str()?.parse().ok()?;
        (is_it && is_large).then_some((fd, about.len()))
    })
}
