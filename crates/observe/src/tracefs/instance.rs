//! A private tracefs instance: its own buffers, events and filters, which disturbs no
//! other tracer and is gone with it (Documentation/trace/ftrace.rst, "Instances").

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use units::Printable;

use super::{Record, TracefsError};
use crate::FileError;

/// Buffers of all processors together.
const BUFFER_BYTES: usize = 64 << 20;
/// Of one processor at least.
const MIN_BUFFER_KIB: usize = 1024;
/// Taken in one call of `read`, so that it comes back.
const MAX_READ_BYTES: usize = 64 << 20;
const CHUNK_BYTES: usize = 256 << 10;
/// Instances that this program left when it was killed have this in their names.
const PREFIX: &str = "plumb-";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An instance. Dropping it removes it.
pub struct Instance {
    folder: PathBuf,
    pipe: Option<File>,
    rest: Vec<u8>,
}

impl Instance {
    /// Makes one that is switched off and has no events.
    ///
    /// # Errors
    /// [`TracefsError::Unavailable`] if it may not be made, or the kernel does not print fields.
    pub fn create() -> Result<Self, TracefsError> {
        let instances = super::root()?.join("instances");
        remove_stale(&instances);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|error| TracefsError::Unavailable(format!("{}: {error}", Printable::path(&folder))))?;
        let mut made = Self { folder, pipe: None, rest: Vec::new() };
        made.switch(false)?;
        if !made.folder.join("options/fields").exists() {
            return Err(TracefsError::Unavailable("this kernel cannot print the fields of events".into()));
        }
        made.put("options/fields", "1")?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let kib = (BUFFER_BYTES / processors / 1024).max(MIN_BUFFER_KIB);
        made.put("buffer_size_kb", &kib.to_string())?;
        let pipe = made.folder.join("trace_pipe");
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe);
        made.pipe = Some(opened.map_err(FileError::of(&pipe, "opening the events"))?);
        Ok(made)
    }

    /// Whether this kernel has a tracepoint.
    pub fn has(&self, group: &str, name: &str) -> bool {
        self.folder.join("events").join(group).join(name).exists()
    }

    /// Switches a tracepoint on, for records that pass `filter` (all, if it is empty).
    /// Says whether this kernel has it.
    pub fn enable(&self, group: &str, name: &str, filter: &str) -> Result<bool, TracefsError> {
        if !self.has(group, name) {
            return Ok(false);
        }
        let event = Path::new("events").join(group).join(name);
        if !filter.is_empty() {
            self.put(event.join("filter"), filter)?;
        }
        self.put(event.join("enable"), "1")?;
        Ok(true)
    }

    /// Only events of these threads, and of what they start from now on.
    pub fn follow(&self, threads: &BTreeSet<u32>) -> Result<(), TracefsError> {
        self.put("options/event-fork", "1")?;
        let list = threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        // An empty list would mean everybody: a number that no thread has means nobody.
        self.put("set_event_pid", if list.is_empty() { "2147483647" } else { &list })
    }

    /// Switches recording on or off.
    pub fn switch(&self, on: bool) -> Result<(), TracefsError> {
        self.put("tracing_on", if on { "1" } else { "0" })
    }

    /// Hands over the events that are there, without waiting for more, up to a bound: says whether
    /// there may be more already.
    pub fn read(&mut self, each: &mut dyn FnMut(&Record<'_>)) -> Result<bool, TracefsError> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut taken = 0;
        while taken < MAX_READ_BYTES {
            let length = match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FileError::of(&self.folder, "reading the events")(error).into()),
            };
            taken += length;
            self.rest.extend_from_slice(chunk.get(..length).unwrap_or_default());
            let complete = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            for line in self.rest.get(..complete).unwrap_or_default().split(|&byte| byte == b'\n') {
                if let Some(record) = Record::parse(line) {
                    each(&record);
                }
            }
            self.rest.drain(..complete);
            // No line of the kernel's is that long.
            if self.rest.len() > CHUNK_BYTES {
                self.rest.clear();
            }
        }
        Ok(taken >= MAX_READ_BYTES)
    }

    /// Events that were lost since the beginning because the buffers were full.
    pub fn lost(&self) -> Result<u64, TracefsError> {
        let folder = self.folder.join("per_cpu");
        let processors = fs::read_dir(&folder).map_err(FileError::of(&folder, "listing the buffers"))?;
        let mut lost = 0_u64;
        for processor in processors.flatten() {
            let path = processor.path().join("stats");
            let text = fs::read_to_string(&path).map_err(FileError::of(&path, "reading the counters"))?;
            let counters = text.lines().filter_map(|line| line.split_once(": "));
            let counted = counters.filter(|(name, _)| matches!(*name, "overrun" | "commit overrun" | "dropped events"));
            lost = counted.filter_map(|(_, value)| value.parse::<u64>().ok()).fold(lost, u64::saturating_add);
        }
        Ok(lost)
    }

    fn put(&self, name: impl AsRef<Path>, text: &str) -> Result<(), TracefsError> {
        let path = self.folder.join(name);
        let written = OpenOptions::new().write(true).truncate(true).open(&path).and_then(|mut file| {
            // One write: tracefs takes each for a whole command.
            file.write_all(text.as_bytes())
        });
        Ok(written.map_err(FileError::of(path, "setting up the tracing"))?)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The folder cannot go while its pipe is open. If it does not go now, the next
        // instance removes it.
        self.pipe = None;
        let _ = self.switch(false);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes instances of processes of this program that are no more.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
