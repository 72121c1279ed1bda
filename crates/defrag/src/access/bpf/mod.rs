//! Tracepoints counted in the kernel, in a BPF hash map: the least cost for what is traced.

mod programs;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use observe::bpf::{Attached, Map, MapKind, attach, maps_grow};
use observe::processes;
use observe::tracefs::{self, Format, TracefsError, device_of_kernel};
use programs::{ADDED, Counted, FOLLOWED, Key, LOST, Maps, RECORDED, WRITTEN};

use super::error::TraceError;
use super::events::TRACEPOINTS;
use super::filter::Selection;
use super::recorder::{RawFile, RawKind, Recorder, Seen};
use super::source::Source;
use crate::ByteRange;

/// Distinct accesses in the kernel between two drains: 64 MiB and their administration.
const MAX_ENTRIES: u32 = 1 << 20;
const MAX_PROCESSES: u32 = 1 << 16;
/// Threads that have begun a direct access and not gone on with it.
const MAX_THREADS: u32 = 1 << 14;
/// Entries are taken out when there are that many, and every so often.
const DRAIN_ENTRIES: u64 = (MAX_ENTRIES / 4) as u64;
const DRAIN_EVERY: Duration = Duration::from_secs(1);

/// Running programs. They end when this is dropped, or the process ends in whatever way.
pub struct Bpf {
    programs: Vec<Attached>,
    counts: Map<Key, Counted>,
    counters: Map<u32, u64>,
    // Held for the programs that use them.
    _processes: Map<u32, u32>,
    _begun: Map<u64, Key>,
    drained: Instant,
    added: u64,
    lost: u64,
}

fn unavailable(what: &str) -> impl FnOnce(std::io::Error) -> TraceError {
    let what = what.to_owned();
    move |error| TraceError::Unavailable {
        source_name: "bpf",
        why: format!("{what}: {error}"),
        remedy: "run it as root (CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH), or take `--source tracefs`",
    }
}

impl Bpf {
    /// Loads and attaches the programs.
    pub fn start(selection: &Selection) -> Result<Self, TraceError> {
        if !maps_grow() {
            let error = std::io::Error::other("maps of User-Mode Linux grow too late");
            return Err(unavailable("counting accesses")(error));
        }
        let root = tracefs::root().map_err(|error| unavailable("tracefs")(std::io::Error::other(error)))?;
        let by_process = selection.children || !selection.processes.is_empty();
        if by_process && !processes::are_numbered_as_in_the_kernel() {
            let error = std::io::Error::other("the numbers of processes are others in this PID namespace");
            return Err(unavailable("filtering by process")(error));
        }
        let counts: Map<Key, Counted> = Map::create(MapKind::Hash, MAX_ENTRIES).map_err(unavailable("making a map"))?;
        let counters: Map<u32, u64> = Map::create(MapKind::Array, 2).map_err(unavailable("making a map"))?;
        let followed: Map<u32, u32> = Map::create(MapKind::Hash, MAX_PROCESSES).map_err(unavailable("making a map"))?;
        let begun: Map<u64, Key> = Map::create(MapKind::LruHash, MAX_THREADS).map_err(unavailable("making a map"))?;
        let maps = Maps {
            counts: counts.as_fd(),
            counters: counters.as_fd(),
            processes: followed.as_fd(),
            begun: begun.as_fd(),
        };
        let mut attached = Vec::new();
        if by_process {
            let own = selection.children.then_some((std::process::id(), FOLLOWED));
            for (process, what) in selection.processes.iter().map(|&process| (process, RECORDED)).chain(own) {
                followed.set(&process, &what).map_err(unavailable("following processes"))?;
            }
            for (name, program) in [
                ("sched_process_fork", programs::fork as fn(&Format, Maps<'_>) -> Option<Vec<u64>>),
                ("sched_process_exit", programs::exit),
            ] {
                let format = Format::read(&root, "sched", name)?;
                let built = format.and_then(|format| Some((program(&format, maps)?, format)));
                let missing = || std::io::Error::other("this kernel has not the tracepoint that is needed");
                let (program, format) = built.ok_or_else(missing).map_err(unavailable(name))?;
                attached.push(attach(&program, &format).map_err(unavailable(name))?);
            }
        }
        let followers = attached.len();
        for (number, tracepoint) in TRACEPOINTS.iter().enumerate() {
            if !tracepoint
                .is_wanted(|group, name| Ok::<_, TracefsError>(Format::read(&root, group, name)?.is_some()))?
            {
                continue;
            }
            // Those of file systems that are not loaded have no formats.
            let Some(format) = Format::read(&root, tracepoint.group, tracepoint.name)? else { continue };
            let Some(program) = programs::access(number, tracepoint, &format, selection, maps) else { continue };
            attached.push(attach(&program, &format).map_err(unavailable(tracepoint.name))?);
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
            _processes: followed,
            _begun: begun,
            drained,
            added: 0,
            lost: 0,
        })
    }

    fn counter(&self, which: u32) -> Result<u64, TraceError> {
        self.counters.get(&which).map_err(reading)
    }

    fn drain(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        let taken = self.counts.take(&mut |key, counted| {
            if let Some((file, kind, range, seen)) = decode(key, counted) {
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

fn decode(key: &Key, counted: &Counted) -> Option<(RawFile, RawKind, ByteRange, Seen)> {
    let (number, is_written) = (key.tracepoint & (WRITTEN as u32 - 1), key.tracepoint & WRITTEN as u32 != 0);
    let tracepoint = TRACEPOINTS.get(number as usize)?;
    let file = RawFile { device: device_of_kernel(key.device), inode: key.inode };
    let (kind, range) = tracepoint.access(key.start, key.extent, is_written)?;
    Some((file, kind, range, Seen { count: counted.count, first: counted.first_ns }))
}
