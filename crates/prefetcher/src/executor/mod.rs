//! Carries requests out, beside the programs: opens files, asks what is resident, loads, and keeps to the budget.
//!
//! One thread takes requests and begins the loading of windows, which does not wait for the device; another loads whole
//! files and mappings, chunk after chunk, which does.

mod bulk;
mod counts;
mod device;
mod files;
mod memory;
mod open;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prefetch::Range;
use rustix::thread::futex;

use crate::PrefetcherError;
use crate::residency::Residency;
use crate::settings::Settings;
use crate::shared::{FILES, Kind, Request, Table};
use crate::table::Shared;

pub use counts::{Counts, Report};
use files::{Files, Verdict};
use memory::Memory;

/// How often the budget is looked at, and the table's clock goes on.
const TICK: Duration = Duration::from_millis(100);

/// A lock held for so many looks at it is a dead program's.
const STUCK_TICKS: u32 = 10;

/// Whole files and mappings that may wait.
const BULK_QUEUE: usize = 256;

/// Most ranges of one plan of which it is asked whether they are resident: the policy makes plans of equal ranges.
const ASKED_RANGES: usize = 8;

/// The executor's threads.
pub struct Executor {
    table: &'static Table,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What both threads use.
struct Common {
    table: &'static Table,
    settings: Settings,
    counts: Arc<Counts>,
    memory: Memory,
    residency: Box<dyn Residency>,
    stop: Arc<AtomicBool>,
}

impl Executor {
    /// Starts its threads. The memory of `others`, folders of control groups, is looked after like that of the launcher's own.
    ///
    /// # Errors
    /// If there cannot be threads, a pattern of the settings is none, or what is to say what is in memory is not there.
    pub fn start(shared: &Shared, settings: &Settings, others: Vec<PathBuf>) -> Result<Self, PrefetcherError> {
        let table = shared.table();
        let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let memory = Memory::new(settings.budget.map(|budget| budget.0), others);
        memory.look(table);
        let residency = settings.residency.open(&settings.agent)?;
        let (settings_of_all, counts_of_all, stop_of_all) = (settings.clone(), counts.clone(), stop.clone());
        let common = Arc::new(Common {
            table,
            settings: settings_of_all,
            counts: counts_of_all,
            memory,
            residency,
            stop: stop_of_all,
        });
        let files = Files::new(settings)?;
        let (to_bulk, from_windows) = sync_channel(BULK_QUEUE);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).map_err(PrefetcherError::kernel("start a thread"))
        };
        let bulk = common.clone();
        let threads = vec![
            spawn("bulk", Box::new(move || bulk::run(&bulk, &from_windows)))?,
            spawn("windows", Box::new(move || Windows { common, files, to_bulk, stuck: Stuck::default() }.run()))?,
        ];
        Ok(Self { table, counts, stop, threads })
    }

    /// Ends its threads: what was done.
    pub fn finish(self) -> Report {
        self.stop.store(true, Ordering::SeqCst);
        let _ = futex::wake(&self.table.header.asleep, futex::Flags::empty(), 1);
        for thread in self.threads {
            // One that failed has said so.
            let _ = thread.join();
        }
        self.counts.report(self.table)
    }
}

/// The thread that takes requests.
struct Windows {
    common: Arc<Common>,
    files: Files,
    to_bulk: SyncSender<bulk::Job>,
    stuck: Stuck,
}

impl Windows {
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
    }

    fn tick(&mut self) {
        self.common.table.header.clock.fetch_add(1, Ordering::Relaxed);
        self.common.memory.look(self.common.table);
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

    fn carry_out(&mut self, index: usize, request: &Request) {
        let common = &self.common;
        let (dev, ino) = common.table.file(index).identity();
        let counts = &common.counts;
        let Some(opened) = open::open(request, dev, ino) else {
            counts.gone.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let verdict = self.files.look(dev, ino, &opened);
        if let Verdict::Refused = verdict {
            common.table.file(index).refused.store(1, Ordering::Relaxed);
            return;
        }
        let Verdict::Wanted { clamp_bytes } = verdict else { return };
        if request.kind != Kind::Stream as u32 {
            let job = bulk::Job { opened, request: *request, index, clamp_bytes };
            if self.to_bulk.try_send(job).is_err() {
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let plan = open::within(request.plan, opened.bytes);
        // Evenly over the plan: where it is resident at all of these, the program or the kernel is ahead.
        let step = (plan.count as usize).div_ceil(ASKED_RANGES).max(1);
        let is_there = |range| common.residency.is_resident(opened.file.as_fd(), range) == Some(true);
        if plan.count > 0 && plan.ranges().step_by(step).all(is_there) {
            counts.resident_plans.fetch_add(1, Ordering::Relaxed);
            counts.resident_bytes.fetch_add(plan.bytes(), Ordering::Relaxed);
            if let Some(mut guard) = common.table.file(index).try_lock() {
                guard.streams.resident(&request.plan);
                guard.in_vain(request.lane);
            }
            return;
        }
        let most_bytes = common.residency.most_bytes(clamp_bytes);
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
    }
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
    /// Takes locks back from programs that ended while they held them.
    fn look(&mut self, table: &Table) {
        for (file, (holder, ticks)) in table.files().iter().zip(&mut self.held) {
            match file.held() {
                Some(held) if held == *holder => {
                    *ticks += 1;
                    if *ticks >= STUCK_TICKS {
                        file.release_stuck(held);
                    }
                }
                now => (*holder, *ticks) = (now.unwrap_or(0), 0),
            }
        }
    }
}

/// The next job, or none when it is time to end.
fn next(jobs: &Receiver<bulk::Job>, stop: &AtomicBool) -> Option<bulk::Job> {
    loop {
        if stop.load(Ordering::SeqCst) {
            return None;
        }
        match jobs.recv_timeout(TICK) {
            Ok(job) => return Some(job),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
}
