//! Threads at work, from one moment on, until each has ended.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::AppError;
use super::fileset::{FileSet, contents};
use super::plan::{ProgramPlan, Work};
use super::prepare::sets;
use super::report::Report;
use super::semaphore::Semaphore;
use super::statistics::Statistics;
use super::worker::{Halt, Worker};

/// What ends a run before its threads have nothing more to do.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Operations of the leading threads together, spread evenly over them.
    pub operations: Option<u64>,
    /// Time.
    pub duration: Option<Duration>,
}

/// Where threads wait until all of them are there.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
enum GateState {
    #[default]
    Shut,
    /// Since when.
    Open(Instant),
    /// A thread could not be started: nobody works.
    Cancelled,
}

impl Gate {
    fn turn(&self, to: GateState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.changed.notify_all();
    }

    /// When it was opened; `None` where it never will be.
    fn pass(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *state {
                GateState::Shut => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                GateState::Open(since) => return Some(since),
                GateState::Cancelled => return None,
            }
        }
    }
}

/// What all threads see.
struct Shared<'a> {
    semaphores: &'a [Arc<Semaphore>],
    read_bytes: usize,
    limits: Limits,
    sets: Vec<FileSet>,
    contents: Vec<u8>,
    gate: Gate,
    stop: AtomicBool,
    leading: AtomicUsize,
    seed: u64,
}

/// One thread's place.
#[derive(Clone, Copy)]
struct ThreadPosition {
    role: &'static str,
    number: usize,
    threads: usize,
    leads: bool,
    operations: u64,
}

/// Runs the threads of `plan` on what was prepared in `folder`.
///
/// # Errors
/// The first one of any thread; the others have ended by then.
pub fn run(program: &str, plan: &ProgramPlan, seed: u64, folder: &Path, limits: Limits) -> Result<Report, AppError> {
    let leading = plan.roles.iter().filter(|role| role.leads).map(|role| role.threads).sum();
    let of: usize = plan.roles.iter().map(|role| role.threads).sum();
    let mut random = sim::rng::stream(seed, "what is written");
    let shared = Shared {
        semaphores: &plan.semaphores,
        read_bytes: plan.read_bytes as usize,
        limits,
        sets: sets(program, plan, seed, folder)?,
        contents: contents(plan.write_bytes.max(1) as usize, 0, &mut random),
        gate: Gate::default(),
        stop: AtomicBool::new(false),
        leading: AtomicUsize::new(leading),
        seed,
    };
    let mut total = Statistics::default();
    let mut end = None;
    let mut start = None;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut led = 0;
        for role in &plan.roles {
            for number in 0..role.threads {
                let operations = match limits.operations {
                    Some(operations) if role.leads => share_of(operations, led, leading),
                    _ => u64::MAX,
                };
                led += usize::from(role.leads);
                let place =
                    ThreadPosition { role: role.name, number, threads: role.threads, leads: role.leads, operations };
                let (work, shared) = ((role.work)(number), &shared);
                match thread::Builder::new().spawn_scoped(scope, move || work_at(place, work, shared)) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        shared.gate.turn(GateState::Cancelled);
                        return Err(AppError::Thread { number: threads.len() + 1, of, error });
                    }
                }
            }
        }
        let now = Instant::now();
        start = Some(now);
        shared.gate.turn(GateState::Open(now));
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok((statistics, ended))) => {
                    total.merge(&statistics);
                    end = end.max(Some(ended));
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = failure.or(Some(AppError::Died)),
            }
        }
        failure.map_or(Ok(()), Err)
    })?;
    let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end.saturating_duration_since(start));
    Ok(Report::new(program, of, elapsed, total))
}

/// How many of `operations` thread `number` of `threads` does.
fn share_of(operations: u64, number: usize, threads: usize) -> u64 {
    let threads = threads.max(1) as u64;
    operations / threads + u64::from((number as u64) < operations % threads)
}

/// A thread has ended, however it did: those that serve are let go after the last that leads, and nobody waits for one that served.
struct Leaving<'a, 'b> {
    shared: &'a Shared<'b>,
    leads: bool,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        let last = self.leads && self.shared.leading.fetch_sub(1, Ordering::AcqRel) == 1;
        if last || !self.leads || thread::panicking() || self.shared.stop.load(Ordering::Relaxed) {
            self.shared.semaphores.iter().for_each(|semaphore| semaphore.close());
        }
    }
}

fn work_at(
    place: ThreadPosition,
    mut work: Box<dyn Work>,
    shared: &Shared<'_>,
) -> Result<(Statistics, Instant), AppError> {
    let Some(start) = shared.gate.pass() else { return Ok((Statistics::default(), Instant::now())) };
    let _leaving = Leaving { shared, leads: place.leads };
    let mut worker = Worker {
        number: place.number,
        threads: place.threads,
        sets: &shared.sets,
        random: sim::rng::stream(shared.seed, &format!("{} {}", place.role, place.number)),
        buffer: vec![0; shared.read_bytes],
        contents: &shared.contents,
        statistics: Statistics::default(),
        operations_left: place.operations,
        deadline: shared.limits.duration.and_then(|duration| start.checked_add(duration)),
        stop: &shared.stop,
    };
    while worker.goes_on() {
        match work.turn(&mut worker) {
            Ok(()) => {}
            Err(Halt::Done) => break,
            Err(Halt::Failed(error)) => {
                shared.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
    Ok((worker.statistics, Instant::now()))
}
