//! Pre-content events of fanotify(7): needs neither tracepoints nor BPF, but Linux 6.14.
//!
//! Every access waits until it is allowed, so that tracing costs a switch of tasks and back.
//! The events do not tell reads from writes, nor direct from buffered ones: all are recorded
//! as buffered reads. A mapping is one event for all of it. The files of events are open, so
//! that they are known for certain, on Btrfs too.

mod sys;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use observe::processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::{Event, Mark};
use units::Printable;

use super::error::TraceError;
use super::filter::Selection;
use super::recorder::{RawFile, RawKind, Recorder, Seen};
use super::source::Source;
use crate::{ByteRange, IoKind};

/// How long the thread that answers waits before it looks whether it is to end.
const WAIT: Duration = Duration::from_millis(50);
const BUFFER_BYTES: usize = 64 << 10;
/// Processes of which it is known whether they are traced; then they are looked up again.
const MAX_KNOWN: usize = 1 << 16;
/// Ancestors looked at, from a process to one that is traced.
const MAX_DEPTH: usize = 256;

/// A running group, and the thread that answers its events.
pub struct Fanotify {
    recorder: Arc<Mutex<Recorder>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn unavailable(why: String) -> TraceError {
    TraceError::Unavailable {
        source_name: "fanotify",
        why,
        remedy: "run it as root on Linux 6.14 or later, on ext4, XFS or Btrfs, or take `--source tracefs`",
    }
}

impl Fanotify {
    /// Marks the places and starts to answer.
    pub fn start(selection: &Selection) -> Result<Self, TraceError> {
        let group = sys::init().map_err(|error| unavailable(format!("fanotify_init: {error}")))?;
        let mut marks = Vec::new();
        for place in &selection.places {
            match (&place.path, place.inode) {
                (Some(path), Some(_)) => marks.push((path.clone(), Mark::Inode)),
                _ => marks.push((place.mount.clone(), Mark::Mount)),
            }
        }
        if marks.is_empty() {
            let mounts = selection.mounts.iter().filter(|mount| mount.is_on_disk());
            marks.extend(mounts.map(|mount| (mount.point.clone(), Mark::Mount)));
        }
        let mut refusal = None;
        let mut marked = 0;
        for (path, mark) in marks {
            match sys::mark(&group, &path, mark) {
                Ok(()) => marked += 1,
                // Of all mounts some may not have such events; a place that was named must.
                Err(error) => refusal = Some(format!("marking {}: {error}", Printable::path(&path))),
            }
        }
        match refusal {
            Some(why) if marked == 0 || !selection.places.is_empty() => return Err(unavailable(why)),
            _ => {}
        }
        let mut roots = selection.processes_now()?;
        if selection.children {
            roots.insert(std::process::id());
        }
        let recorder = Arc::new(Mutex::new(Recorder::default()));
        let ends = Arc::new(AtomicBool::new(false));
        let mut answers = Answers {
            group,
            recorder: Arc::clone(&recorder),
            ends: Arc::clone(&ends),
            roots: selection.has_processes().then_some(roots),
            known: HashMap::new(),
            number: 0,
        };
        let thread = std::thread::Builder::new().name("fanotify".into()).spawn(move || answers.run());
        let thread = thread.map_err(|error| unavailable(format!("starting a thread: {error}")))?;
        Ok(Self { recorder, ends, thread: Some(thread) })
    }

    fn take(&self, into: &mut Recorder) {
        let taken = std::mem::take(&mut *lock(&self.recorder));
        into.absorb(taken);
    }
}

fn lock(recorder: &Mutex<Recorder>) -> MutexGuard<'_, Recorder> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Fanotify {
    fn collect(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        self.take(into);
        match &self.thread {
            Some(thread) if thread.is_finished() => Err(unavailable("its events cannot be read any more".into())),
            _ => Ok(()),
        }
    }

    fn stop(&mut self, into: &mut Recorder) -> Result<(), TraceError> {
        self.end();
        self.take(into);
        Ok(())
    }
}

impl Fanotify {
    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it has panicked its group is closed, and the kernel allows what waits.
            let _ = thread.join();
        }
    }
}

impl Drop for Fanotify {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's part. It must not touch any file that may be marked: nobody would answer.
struct Answers {
    group: File,
    recorder: Arc<Mutex<Recorder>>,
    ends: Arc<AtomicBool>,
    /// If processes are filtered, those that are traced with all their descendants.
    roots: Option<BTreeSet<u32>>,
    known: HashMap<u32, bool>,
    number: u64,
}

impl Answers {
    fn run(&mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let wait = Timespec { tv_sec: 0, tv_nsec: WAIT.subsec_nanos().into() };
        while !self.ends.load(Ordering::Relaxed) {
            let mut wanted = [PollFd::new(&self.group, PollFlags::IN)];
            if !matches!(poll(&mut wanted, Some(&wait)), Ok(1..)) {
                continue;
            }
            let length = match self.group.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let (events, without) = sys::events(buffer.get(..length).unwrap_or_default());
            let mut wanted: Vec<&Event> = Vec::new();
            for event in &events {
                // Looked at while it waits, so that it is there still; recorded when it runs again.
                if self.is_wanted(event.process) {
                    wanted.push(event);
                }
                if self.group.write_all(&event.allowed()).is_err() {
                    return;
                }
            }
            let mut recorder = lock(&self.recorder);
            recorder.lost = recorder.lost.saturating_add(without);
            for event in wanted {
                self.number += 1;
                record(&mut recorder, event, self.number);
            }
        }
    }

    fn is_wanted(&mut self, process: u32) -> bool {
        let own = std::process::id();
        let Some(roots) = &self.roots else { return process != own };
        if process == own {
            return false;
        }
        if let Some(&known) = self.known.get(&process) {
            return known;
        }
        let ancestors = std::iter::successors(Some(process), |&process| processes::parent(process));
        let is_wanted = ancestors.take(MAX_DEPTH).any(|process| roots.contains(&process));
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(process, is_wanted);
        is_wanted
    }
}

fn record(recorder: &mut Recorder, event: &Event, number: u64) {
    let Some(range) = event.range.and_then(|(start, length)| ByteRange::new(start, length)) else { return };
    let Ok(metadata) = event.file.metadata() else { return };
    if !metadata.is_file() {
        return;
    }
    let file = RawFile { device: metadata.dev(), inode: metadata.ino() };
    if !recorder.is_named(file)
        && let Ok(path) = fs::read_link(format!("/proc/self/fd/{}", event.file.as_raw_fd()))
    {
        recorder.name(file, path);
    }
    recorder.add(file, RawKind::Io(IoKind::BufferedRead), range, Seen { first: number, count: 1 });
}
