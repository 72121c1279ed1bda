//! Carries requests out, beside the programs: opens files, asks what is resident, loads, and keeps to the budget.
//!
//! One thread takes requests and begins the loading of windows, which does not wait for the device; another loads whole
//! files and mappings, chunk after chunk, which does.

mod bulk;
mod counts;
mod device;
mod files;
mod folios;
mod loaded;
mod memory;
mod open;
mod recording;
mod standing;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prefetch::{Range, Whole};
use rustix::thread::futex;

use crate::PrefetcherError;
use crate::policies::{PAGE_BYTES, Plan};
use crate::residency::Residency;
use crate::settings::Settings;
use crate::shared::{FILES, File, Kind, Request, Table};
use crate::table::Shared;

pub use counts::Report;
use files::{Files, Verdict};
use loaded::Loaded;
use memory::Memory;
use open::Opened;
pub(crate) use recording::now_ns;
pub use recording::{Accessed, Asked, Change, Recording, Seen};
use recording::{Loads, Recorder};
use standing::Ahead;
#[cfg(test)]
pub(crate) use {open::tests as open_tests, recording::tests as recording_tests, standing::tests as standing_tests};

/// How often the budget is looked at, and the table's clock goes on.
const TICK: Duration = Duration::from_millis(100);

/// A lock held for so many looks at it is a dead program's, or one's that was stopped.
const STUCK_TICKS: u32 = 10;

/// After so many looks without a request, a file's size counts no more: half a minute.
const FORGOTTEN_TICKS: u32 = 300;

/// Whole files, regions and mappings that may wait.
const BULK_QUEUE: usize = 256;

/// The executor's threads.
pub struct Executor {
    table: &'static Table,
    stop: Arc<AtomicBool>,
    windows: JoinHandle<()>,
    recorder: Option<JoinHandle<Recording>>,
}

/// What both threads use.
struct Common {
    table: &'static Table,
    settings: Settings,
    memory: Memory,
    residency: Box<dyn Residency>,
    loaded: Mutex<Loaded>,
    /// Files that are loaded whole or region by region, by their places in the table.
    whole: Mutex<Whole>,
    stop: Arc<AtomicBool>,
    /// What was loaded, where it is recorded.
    loads: Option<Loads>,
}

impl Executor {
    /// Starts its threads. The memory of `others`, folders of control groups, is looked after like that of the launcher's own.
    ///
    /// # Errors
    /// If there cannot be a thread, a pattern of the settings is none, or what is to say what is in memory is not there.
    pub fn start(shared: &Shared, settings: &Settings, others: Vec<PathBuf>) -> Result<Self, PrefetcherError> {
        let table = shared.table();
        let stop = Arc::new(AtomicBool::new(false));
        let memory = Memory::new(settings.budget.map(|budget| budget.0), others);
        memory.look(table);
        table.header.free_bytes.store(memory.free_bytes(), Ordering::Relaxed);
        let residency = settings.residency.open(&settings.agent)?;
        let is_recorded = table.header.records.load(Ordering::Relaxed) != 0;
        let common = Arc::new(Common {
            table,
            settings: settings.clone(),
            memory,
            residency,
            loaded: Mutex::default(),
            whole: Mutex::default(),
            stop: stop.clone(),
            loads: is_recorded.then(Loads::default),
        });
        let files = Files::new(settings)?;
        let recorded = common.clone();
        let windows = thread("windows", move || Windows::new(common, files).run())?;
        let recorder = is_recorded.then(|| thread("recorder", move || Recorder::new().run(&recorded)));
        Ok(Self { table, stop, windows, recorder: recorder.transpose()? })
    }

    /// Ends its threads: what was done, and all that was recorded, if anything was.
    pub fn finish(self) -> (Report, Option<Recording>) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = futex::wake(&self.table.header.asleep, futex::Flags::empty(), 1);
        // One that failed has said so.
        let _ = self.windows.join();
        note_device_bytes(self.table);
        (Report::of(self.table, true), self.recorder.and_then(|recorder| recorder.join().ok()))
    }
}

/// Starts one of the executor's.
fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, PrefetcherError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(PrefetcherError::kernel("start a thread"))
}

impl Common {
    /// Whether a file may be loaded whole, beside all others that are.
    fn admits(&self, index: usize) -> bool {
        let file_bytes = self.table.file(index).file_bytes.load(Ordering::Relaxed);
        self.with_whole(|whole, budget_bytes| whole.admits(index as u64, file_bytes, budget_bytes))
    }

    /// Something is loaded for a file.
    fn note_load(&self, identity: (u64, u64), plan: &Plan) {
        if let Some(loads) = &self.loads {
            loads.note(identity, plan);
        }
    }

    /// Counts files that are read at random, before any of them is worth loading, and forgets those that are not read any more.
    fn look_at_whole(&self) {
        let now = self.table.header.clock.load(Ordering::Relaxed);
        let age = |file: &File| now.wrapping_sub(file.used_at.load(Ordering::Relaxed));
        self.with_whole(|whole, budget_bytes| {
            whole.retain(|index| age(self.table.file(index as usize)) < FORGOTTEN_TICKS);
            for (index, file) in self.table.files().filter(|(_, file)| !file.is_free() && age(file) <= 1) {
                if file.try_lock().is_some_and(|guard| guard.bulk.is_random()) {
                    whole.admits(index as u64, file.file_bytes.load(Ordering::Relaxed), budget_bytes);
                }
            }
        });
    }

    /// Does something with what was loaded, within the budget.
    fn with_loaded(&self, act: impl FnOnce(&mut Loaded, u64)) {
        act(&mut self.loaded.lock().unwrap_or_else(PoisonError::into_inner), self.memory.free_bytes());
    }

    /// Does something with the files that are loaded whole, and tells programs what is free for them then.
    fn with_whole<T>(&self, act: impl FnOnce(&mut Whole, u64) -> T) -> T {
        let budget_bytes = self.memory.free_bytes();
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act(&mut whole, budget_bytes);
        self.table.header.free_bytes.store(whole.free_bytes(budget_bytes), Ordering::Relaxed);
        done
    }
}

/// The thread that takes requests.
struct Windows {
    common: Arc<Common>,
    files: Files,
    /// The other thread, from its first job on: most commands have none.
    bulk: Option<(SyncSender<bulk::Job>, JoinHandle<()>)>,
    stuck: Stuck,
    /// By place in the table and stream, the window that was loaded last.
    last: HashMap<(usize, u32), (u64, u64, Plan)>,
}

impl Windows {
    fn new(common: Arc<Common>, files: Files) -> Self {
        Self { common, files, bulk: None, stuck: Stuck::default(), last: HashMap::new() }
    }

    fn run(mut self) {
        let table = self.common.table;
        let mut ticked = Instant::now();
        while !self.common.stop.load(Ordering::SeqCst) {
            for index in table.asked() {
                self.serve(index);
            }
            let waited = ticked.elapsed();
            if waited >= TICK {
                ticked = Instant::now();
                self.tick();
            }
            table.header.asleep.store(1, Ordering::SeqCst);
            if !table.is_asked() && !self.common.stop.load(Ordering::SeqCst) {
                let left = TICK.saturating_sub(waited.min(TICK)).max(Duration::from_millis(1));
                let timeout = futex::Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
                // However it ends, the loop looks.
                let _ = futex::wait(&table.header.asleep, futex::Flags::empty(), 1, Some(&timeout));
            }
            table.header.asleep.store(0, Ordering::SeqCst);
        }
        if let Some((to_bulk, started)) = self.bulk.take() {
            drop(to_bulk);
            // As above: one that failed has said so.
            let _ = started.join();
        }
    }

    fn tick(&mut self) {
        self.common.table.header.clock.fetch_add(1, Ordering::Relaxed);
        self.common.memory.look(self.common.table);
        self.common.look_at_whole();
        note_device_bytes(self.common.table);
        self.stuck.look(self.common.table);
    }

    /// Takes what is asked for a file of the table.
    fn serve(&mut self, index: usize) {
        let file = self.common.table.file(index);
        let taken: Vec<Request> = match file.try_lock() {
            Some(mut guard) => guard.take().collect(),
            None => {
                // Held for an access, which is over soon.
                self.common.table.ask(index);
                std::thread::yield_now();
                return;
            }
        };
        for request in taken {
            self.carry_out(index, &request);
        }
    }

    /// Hands a job to the thread that loads whole files. False if that has too many, or cannot be started.
    fn hand_over(&mut self, job: bulk::Job) -> bool {
        if self.bulk.is_none() {
            let (to_bulk, from_windows) = sync_channel(BULK_QUEUE);
            let common = self.common.clone();
            self.bulk =
                thread("bulk", move || bulk::run(&common, &from_windows)).ok().map(|started| (to_bulk, started));
        }
        self.bulk.as_ref().is_some_and(|(to_bulk, _)| to_bulk.try_send(job).is_ok())
    }

    fn carry_out(&mut self, index: usize, request: &Request) {
        let common = &self.common;
        let (dev, ino) = common.table.file(index).identity();
        let counts = &common.table.header.done;
        let Some(opened) = open::open(request, dev, ino) else {
            counts.gone.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let verdict = self.files.look(dev, ino, &opened);
        if let Verdict::Refused = verdict {
            common.table.file(index).refused.store(1, Ordering::Relaxed);
            return;
        }
        let Verdict::Wanted { windows } = verdict else { return };
        let clamp_bytes = windows.clamp_bytes;
        common.table.file(index).at_once.store(windows.at_once.into(), Ordering::Relaxed);
        let was_known = common.table.file(index).kernel_bytes.swap(windows.kernel_bytes.max(1), Ordering::Relaxed) != 0;
        if request.kind != Kind::Stream as u32 {
            let large_folios = windows.large_folios;
            let job = bulk::Job { opened, request: *request, index, clamp_bytes, large_folios };
            if !self.hand_over(job) {
                bulk::refuse(&self.common, request, index);
            }
            return;
        }
        self.entered(index, request, (dev, ino), &opened);
        let common = &self.common;
        let plan = open::within(request.plan, opened.bytes);
        // Whether the kernel follows this reader by itself, the reader knows now, and asks again if not.
        let forward = plan.is_forward();
        if !was_known && forward && windows.kernel_bytes >= common.table.header.window_bytes.load(Ordering::Relaxed) {
            if let Some(mut guard) = common.table.file(index).try_lock() {
                guard.streams.dropped(&request.plan);
            }
            return;
        }
        let is_resident = |range| common.residency.is_resident(opened.file.as_fd(), range);
        let kernel_bytes = if common.settings.mode.lifts_limits() { windows.kernel_bytes } else { 0 };
        let ahead = standing::ahead(&plan, kernel_bytes, is_resident);
        if ahead != Ahead::Nobody {
            counts.resident_plans.fetch_add(1, Ordering::Relaxed);
            counts.resident_bytes.fetch_add(plan.bytes(), Ordering::Relaxed);
            if let Some(mut guard) = common.table.file(index).try_lock() {
                if ahead == Ahead::Kernel {
                    guard.streams.reached(&request.plan);
                } else {
                    guard.streams.resident(&request.plan);
                    guard.in_vain(request.lane);
                }
            }
            return;
        }
        let most_bytes = common.residency.most_bytes(clamp_bytes);
        common.with_loaded(|loaded, budget_bytes| {
            loaded.make_room(plan.bytes(), budget_bytes, counts);
            loaded.load(request, dev, ino, &plan);
        });
        common.note_load((dev, ino), &plan);
        let mut bytes = 0;
        let mut load =
            |range: Range| common.residency.load(opened.file.as_fd(), range).map(|asked| bytes += asked).is_ok();
        if !common.settings.mode.lifts_limits() {
            let one_call = |range: Range| range.end_bytes.min(range.start_bytes.saturating_add(clamp_bytes));
            plan.ranges().all(|range| load(Range { end_bytes: one_call(range), ..range }));
        } else if plan.is_backward() {
            // Its end is wanted first.
            plan.chunks(clamp_bytes).all(load);
        } else {
            plan.chunks(most_bytes).all(load);
        }
        if let Some(mut guard) = common.table.file(index).try_lock() {
            guard.useful(request.lane);
        }
        counts.plans.fetch_add(1, Ordering::Relaxed);
        counts.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.last.insert((index, request.plan.stream >> 8), (dev, ino, Plan { stream: request.plan.stream, ..plan }));
    }

    /// A reader that asks for a window has come to the one before: was that there, and to its end?
    fn entered(&mut self, index: usize, request: &Request, identity: (u64, u64), opened: &Opened) {
        let Some((dev, ino, before)) = self.last.remove(&(index, request.plan.stream >> 8)) else { return };
        if (dev, ino) != identity || before.stream != request.plan.stream {
            return;
        }
        let done = &self.common.table.header.done;
        self.common.with_loaded(|loaded, _| loaded.read(dev, ino, &before));
        done.entered.fetch_add(1, Ordering::Relaxed);
        if before.ranges().last().is_some_and(|last| open::is_readable(&opened.file, last)) {
            done.in_time.fetch_add(1, Ordering::Relaxed);
        }
        // Of as many ranges as are asked about before loading.
        let step = standing::step(&before);
        let gone = |range: Range| {
            let pages = range.bytes().div_ceil(PAGE_BYTES);
            pages.saturating_sub(self.common.residency.resident_pages(opened.file.as_fd(), range).unwrap_or(pages))
        };
        let gone_pages: u64 = before.ranges().step_by(step).map(gone).sum();
        done.evicted_bytes.fetch_add(gone_pages * PAGE_BYTES * step as u64, Ordering::Relaxed);
    }
}

/// What storage has read for this process (`ru_inblock` of getrusage(2), in blocks of 512 bytes).
fn note_device_bytes(table: &Table) {
    // SAFETY: all zero is a `rusage`, and the kernel writes one.
    let blocks = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_inblock
    };
    table.header.done.device_bytes.store(u64::try_from(blocks).unwrap_or(0) * 512, Ordering::Relaxed);
}

/// Locks that were held at the last look.
struct Stuck {
    /// The holder, and for how many looks.
    held: Vec<(u32, u32)>,
}

impl Default for Stuck {
    fn default() -> Self {
        Self { held: vec![(0, 0); FILES] }
    }
}

impl Stuck {
    /// Gives files other places whose locks are held by programs that ended meanwhile, or were stopped.
    fn look(&mut self, table: &Table) {
        for (index, file) in table.files() {
            let (holder, ticks) = &mut self.held[index];
            match file.held() {
                Some(held) if held == *holder => {
                    *ticks += 1;
                    if *ticks >= STUCK_TICKS {
                        file.abandon(held);
                    }
                }
                now => (*holder, *ticks) = (now.unwrap_or(0), 0),
            }
        }
    }
}

/// What comes next for the thread that loads whole files.
enum Next {
    Job(bulk::Job),
    /// Nothing for now.
    None,
    /// Its end.
    End,
}

/// Waits for the next job, but not for long.
fn next(jobs: &Receiver<bulk::Job>, stop: &AtomicBool) -> Next {
    if stop.load(Ordering::SeqCst) {
        return Next::End;
    }
    match jobs.recv_timeout(TICK) {
        Ok(job) => Next::Job(job),
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Next::None,
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Next::End,
    }
}
