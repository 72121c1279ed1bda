//! Tracepoints as text of a private tracefs instance: needs no BPF.
//!
//! Processes are followed by thread (`set_event_pid` with `event-fork`,
//! Documentation/trace/events.rst): work that the kernel does in another thread for a
//! process, such as io_uring's, is seen only if processes are not filtered. Control
//! groups are taken for the processes in them at the start.

use std::collections::{BTreeSet, HashMap};

use observe::processes;
use observe::tracefs::{Instance, Record, TracefsError, device_of_kernel, device_to_kernel};

use super::error::TraceError;
use super::events::{DIRECT_WRITE, Extent, Says, TRACEPOINTS, Tracepoint};
use super::filter::Selection;
use super::recorder::{RawFile, RawKind, Recorder, Seen};
use super::source::Source;
use crate::ByteRange;

/// The kernel refuses longer filters (a page).
const MAX_FILTER_BYTES: usize = 4000;
/// Threads of which a direct access is remembered.
const MAX_THREADS: usize = 1 << 16;

/// A running instance.
pub struct Tracefs {
    instance: Instance,
    lost: u64,
    begun: Begun,
}

/// By thread, the direct access that it began last.
#[derive(Default)]
struct Begun(HashMap<u32, (RawFile, ByteRange)>);

impl Begun {
    fn begin(&mut self, thread: u32, file: RawFile, range: ByteRange) {
        // Threads come and go, and few are just about to go on.
        if self.0.len() >= MAX_THREADS {
            self.0.clear();
        }
        self.0.insert(thread, (file, range));
    }

    /// Its range, if it began there.
    fn take(&mut self, thread: u32, file: RawFile, start: u64) -> Option<ByteRange> {
        let (_, range) = self.0.get(&thread).filter(|(of, range)| *of == file && range.start == start).copied()?;
        self.0.remove(&thread);
        Some(range)
    }
}

impl Tracefs {
    /// Makes the instance and switches its tracepoints on.
    pub fn start(selection: &Selection) -> Result<Self, TraceError> {
        let instance = Instance::create()?;
        if selection.has_processes() {
            let mut threads: BTreeSet<u32> = BTreeSet::new();
            for process in selection.processes_now()? {
                threads.extend(processes::threads(process));
            }
            if selection.children {
                // What this thread forks is followed; its own events are left out in `collect`.
                threads.insert(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            }
            instance.follow(&threads)?;
        }
        let mut enabled = 0;
        for tracepoint in &TRACEPOINTS {
            if !tracepoint.is_wanted(|group, name| Ok::<_, TraceError>(instance.has(group, name)))? {
                continue;
            }
            enabled += u32::from(instance.enable(tracepoint.group, tracepoint.name, &filter(tracepoint, selection))?);
        }
        if enabled == 0 {
            let why = "this kernel has none of the tracepoints of page cache and direct I/O";
            return Err(TracefsError::Unavailable(why.into()).into());
        }
        instance.switch(true)?;
        Ok(Self { instance, lost: 0, begun: Begun::default() })
    }

    /// Says whether there may be more already.
    fn drain(&mut self, into: &mut Recorder) -> Result<bool, TraceError> {
        let own: BTreeSet<u32> = processes::threads(std::process::id()).into_iter().collect();
        let begun = &mut self.begun;
        let is_more = self.instance.read(&mut |record| {
            if own.contains(&record.thread) {
                return;
            }
            let Some(tracepoint) = TRACEPOINTS.iter().find(|tracepoint| tracepoint.name == record.name) else { return };
            if let Some((file, kind, range)) = access(tracepoint, record, begun) {
                into.add(file, kind, range, Seen { first: record.time_ns, count: 1 });
            }
        })?;
        let lost = self.instance.lost()?;
        into.lost = into.lost.saturating_add(lost.saturating_sub(self.lost));
        self.lost = lost;
        Ok(is_more)
    }
}

impl Source for Tracefs {
    fn collect(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        self.drain(into).map(drop)
    }

    fn stop(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        self.instance.switch(false)?;
        // Switched off, the buffers hold no more than they do.
        while self.drain(into)? {}
        Ok(())
    }
}

/// The places as the kernel's filter expression; empty for everything. A filter that would
/// be too long asks for the file systems only: what is too much is left out later.
fn filter(tracepoint: &Tracepoint, selection: &Selection) -> String {
    let device = |device: u64| format!("{}=={}", tracepoint.device, device_to_kernel(device));
    let exact: BTreeSet<String> = selection
        .places
        .iter()
        .map(|place| match place.inode {
            Some(inode) => format!("({}&&{}=={inode})", device(place.kernel_device), tracepoint.inode),
            None => device(place.kernel_device),
        })
        .collect();
    let join = |parts: BTreeSet<String>| parts.into_iter().collect::<Vec<_>>().join("||");
    let mut places = join(exact);
    if places.len() > MAX_FILTER_BYTES {
        places = join(selection.places.iter().map(|place| device(place.kernel_device)).collect());
    }
    if places.len() > MAX_FILTER_BYTES {
        places.clear();
    }
    // The kernel's `&` is true if any of the bits is set: one comparison for each bit.
    let bits = tracepoint.required.map_or_else(Vec::new, |(name, bits)| {
        let set = (0..u32::BITS).map(|bit| 1_u32 << bit).filter(|bit| bits & bit != 0);
        set.map(|bit| format!("{name}&{bit}")).collect()
    });
    let parts = bits.into_iter().chain((!places.is_empty()).then(|| format!("({places})")));
    parts.collect::<Vec<_>>().join("&&")
}

fn access(tracepoint: &Tracepoint, record: &Record<'_>, begun: &mut Begun) -> Option<(RawFile, RawKind, ByteRange)> {
    let device = u32::try_from(record.field(tracepoint.device)?).ok()?;
    let file = RawFile { device: device_of_kernel(device), inode: record.field(tracepoint.inode)? };
    if let Some((name, bits)) = tracepoint.required
        && record.field(name)? & u64::from(bits) != u64::from(bits)
    {
        return None;
    }
    let start = record.field(tracepoint.start)?;
    let extent = match tracepoint.extent {
        Extent::One => 1,
        Extent::Last(name) | Extent::Count(name) => record.field(name)?,
        Extent::Order(name) => record.field(name).unwrap_or(0),
    };
    match tracepoint.says {
        Says::DirectBegins => {
            begun.begin(record.thread, file, tracepoint.range(start, extent)?);
            None
        }
        Says::DirectGoesOn(flags) => {
            let is_written = record.field(flags)? & u64::from(DIRECT_WRITE) != 0;
            let (kind, range) = tracepoint.access(start, begun.take(record.thread, file, start)?.len(), is_written)?;
            Some((file, kind, range))
        }
        Says::Access(_) => {
            let (kind, range) = tracepoint.access(start, extent, false)?;
            Some((file, kind, range))
        }
    }
}
