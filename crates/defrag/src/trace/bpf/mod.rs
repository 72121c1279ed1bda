//! Tracepoints counted in the kernel, in a BPF hash map: the least cost for what is traced.

mod assembler;
mod programs;
mod sys;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use programs::{ADDED, FOLLOWED, KEY_BYTES, LOST, Maps, RECORDED, VALUE_BYTES, WRITTEN};
use sys::{Attached, Map, MapKind};

use super::error::TraceError;
use super::events::{self, TRACEPOINTS};
use super::filter::Selection;
use super::format::Format;
use super::recorder::{RawFile, RawKind, Recorder, Seen};
use super::source::Source;
use super::tracefs;
use crate::ByteRange;

/// Distinct accesses in the kernel between two drains: 64 MiB and their administration.
const MAX_ENTRIES: u32 = 1 << 20;
const MAX_PROCESSES: u32 = 1 << 16;
/// Threads that have begun a direct access and not gone on with it.
const MAX_THREADS: u32 = 1 << 14;
/// Entries are taken out when there are that many, and every so often.
const DRAIN_ENTRIES: u64 = (MAX_ENTRIES / 4) as u64;
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// Inode number of the first PID namespace (`PROC_PID_INIT_INO` of `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Running programs. They end when this is dropped, or the process ends in whatever way.
pub struct Bpf {
    programs: Vec<Attached>,
    counts: Map<KEY_BYTES, VALUE_BYTES>,
    counters: Map<4, 8>,
    // Held for the programs that use them.
    _processes: Map<4, 4>,
    _begun: Map<8, KEY_BYTES>,
    drained: Instant,
    added: u64,
    lost: u64,
}

fn unavailable(what: &str) -> impl FnOnce(std::io::Error) -> TraceError {
    let what = what.to_owned();
    move |error| TraceError::Unavailable {
        source_name: "bpf",
        why: format!("{what}: {error}"),
        mend: "run it as root (CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH), or take `--source tracefs`",
    }
}

/// Whether the kernel is User-Mode Linux. There a map that grows as it is used gets no more room until the next interrupt (the
/// work of `kernel/bpf/memalloc.c` waits for one), and nearly every access would be lost.
fn is_user_mode_linux() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}

impl Bpf {
    /// Loads and attaches the programs.
    pub fn start(selection: &Selection) -> Result<Self, TraceError> {
        if is_user_mode_linux() {
            let error = std::io::Error::other("maps of User-Mode Linux grow too late");
            return Err(unavailable("counting accesses")(error));
        }
        let root = tracefs::root().map_err(|error| unavailable("tracefs")(std::io::Error::other(error.to_string())))?;
        if selection.children || !selection.processes.is_empty() {
            let namespace = std::fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino());
            if namespace.is_ok_and(|inode| inode != INITIAL_PID_NAMESPACE) {
                let error = std::io::Error::other("the numbers of processes are others in this PID namespace");
                return Err(unavailable("filtering by process")(error));
            }
        }
        let counts = Map::create(MapKind::Hash, MAX_ENTRIES).map_err(unavailable("making a map"))?;
        let counters: Map<4, 8> = Map::create(MapKind::Array, 2).map_err(unavailable("making a map"))?;
        let processes: Map<4, 4> = Map::create(MapKind::Hash, MAX_PROCESSES).map_err(unavailable("making a map"))?;
        let begun: Map<8, KEY_BYTES> =
            Map::create(MapKind::LruHash, MAX_THREADS).map_err(unavailable("making a map"))?;
        let maps = Maps {
            counts: counts.descriptor(),
            counters: counters.descriptor(),
            processes: processes.descriptor(),
            begun: begun.descriptor(),
        };
        let mut attached = Vec::new();
        if selection.children || !selection.processes.is_empty() {
            let own = selection.children.then_some((std::process::id(), FOLLOWED));
            for (process, what) in selection.processes.iter().map(|&process| (process, RECORDED)).chain(own) {
                let set = processes.set(&process.to_ne_bytes(), &what.to_ne_bytes());
                set.map_err(unavailable("following processes"))?;
            }
            for (name, program) in [
                ("sched_process_fork", programs::fork as fn(&Format, Maps) -> Option<Vec<u64>>),
                ("sched_process_exit", programs::exit),
            ] {
                let format = Format::read(&root, "sched", name)?;
                let built = format.and_then(|format| Some((program(&format, maps)?, format.id)));
                let missing = || std::io::Error::other("this kernel has not the tracepoint that is needed");
                let (program, id) = built.ok_or_else(missing).map_err(unavailable(name))?;
                attached.push(sys::attach(&program, id).map_err(unavailable(name))?);
            }
        }
        let followers = attached.len();
        for (number, tracepoint) in TRACEPOINTS.iter().enumerate() {
            if !tracepoint.is_wanted(|group, name| Ok::<_, TraceError>(Format::read(&root, group, name)?.is_some()))? {
                continue;
            }
            // Those of file systems that are not loaded have no formats.
            let Some(format) = Format::read(&root, tracepoint.group, tracepoint.name)? else { continue };
            let Some(program) = programs::access(number, tracepoint, &format, selection, maps) else { continue };
            attached.push(sys::attach(&program, format.id).map_err(unavailable(tracepoint.name))?);
        }
        if attached.len() == followers {
            let error = std::io::Error::other("this kernel has none of those of page cache and direct I/O");
            return Err(unavailable("tracepoints")(error));
        }
        let drained = Instant::now();
        Ok(Self {
            programs: attached,
            counts,
            counters,
            _processes: processes,
            _begun: begun,
            drained,
            added: 0,
            lost: 0,
        })
    }

    fn counter(&self, which: u32) -> Result<u64, TraceError> {
        let value = self.counters.get(&which.to_ne_bytes()).map_err(reading)?;
        Ok(u64::from_ne_bytes(value))
    }

    fn drain(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        let taken = self.counts.take(&mut |key, value| {
            if let Some((file, kind, range, seen)) = decode(key, value) {
                into.add(file, kind, range, seen);
            }
        });
        taken.map_err(reading)?;
        let lost = self.counter(LOST)?;
        into.lost = into.lost.saturating_add(lost.saturating_sub(self.lost));
        self.lost = lost;
        self.drained = Instant::now();
        Ok(())
    }
}

fn reading(error: std::io::Error) -> TraceError {
    TraceError::file(Path::new("the kernel's map of accesses"), "reading it")(error)
}

impl Source for Bpf {
    fn collect(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        let added = self.counter(ADDED)?;
        if added.saturating_sub(self.added) >= DRAIN_ENTRIES || self.drained.elapsed() >= DRAIN_EVERY {
            self.added = added;
            self.drain(into)?;
        }
        Ok(())
    }

    fn stop(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        self.programs.clear();
        self.drain(into)
    }
}

fn decode(key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) -> Option<(RawFile, RawKind, ByteRange, Seen)> {
    let half = |at: usize| Some(u32::from_ne_bytes(key.get(at..at + 4)?.try_into().ok()?));
    let whole = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (number, is_written) = (half(0)? & (WRITTEN as u32 - 1), half(0)? & WRITTEN as u32 != 0);
    let tracepoint = TRACEPOINTS.get(number as usize)?;
    let file = RawFile { device: events::device_of_kernel(half(4)?), inode: whole(key, 8)? };
    let (kind, range) = tracepoint.access(whole(key, 16)?, whole(key, 24)?, is_written)?;
    Some((file, kind, range, Seen { count: whole(value, 0)?, first: whole(value, 8)? }))
}
