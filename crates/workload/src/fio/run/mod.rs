//! A job file, run on the modelled stack.
//!
//! [`start`] spawns one task for each thread; once the executor has run, or while
//! it runs, [`Run`] tells how far they are and, at the end, what they measured.

mod account;
mod contents;
mod flights;
mod fragments;
mod ledger;
mod measure;
mod namespaces;
mod pace;
mod plan;
mod start_error;
mod thread;
mod transport;
mod wakers;
mod zones;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sim::Handle;
use sim::sync::Notify;
use units::Nanos;

pub use measure::State;
pub use start_error::StartError;

use crate::Host;
use crate::fio::report::{JobReport, Setup, Shortfall, ShortfallReason};
use crate::fio::{Job, JobFile, PerDirection};
use measure::Measured;
use namespaces::Namespaces;
use plan::{Machine, ThreadPlan};
use thread::Thread;

/// A job file on its way.
pub struct Run {
    sim: Handle,
    global: Vec<(String, String)>,
    threads: Vec<Started>,
    notes: Vec<String>,
}

struct Started {
    job: Rc<Job>,
    group: u32,
    plan: ThreadPlan,
    measured: Rc<RefCell<Measured>>,
}

/// How far one thread is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Its job's name.
    pub name: String,
    /// Whether it waits, runs or is done.
    pub state: State,
    /// Bytes moved so far.
    pub bytes: u64,
    /// The part of the work done, by bytes or by time, from 0 to 1.
    pub fraction: f64,
}

/// Starts every job of a file on `host`; the executor then runs them.
///
/// # Errors
/// When a job asks for what the host does not have. Nothing was started then.
pub fn start(host: &Host, file: &JobFile) -> Result<Run, StartError> {
    let keeps_contents = host.disk.with_device(|device| device.identity().keeps_contents);
    let mut namespaces = Namespaces::new(host);
    let mut threads = Vec::new();
    let mut notes = file.notes.clone();
    // Where each thread's stonewall stands: it waits for all before that one.
    let mut walls = Vec::new();
    let (mut group, mut wall) = (0, 0);
    for job in &file.jobs {
        let options = &job.options;
        if (options.stonewall || options.new_group) && !threads.is_empty() {
            group += 1;
        }
        if options.stonewall {
            wall = threads.len();
        }
        let at = |fault| StartError { file: job.file.clone(), line: job.line, fault };
        let (nsid, limits, zones) = namespaces.of(job).map_err(at)?;
        let machine =
            Machine { nsid, limits, zones: zones.as_ref(), keeps_contents, cores: host.cpus.cores(), seed: host.seed };
        let shared = Rc::new(job.clone());
        for number in 0..options.numjobs {
            let plan = ThreadPlan::new(job, number, &machine).map_err(at)?;
            if let Some(asked) = plan.rounded_from.filter(|_| number == 0) {
                let region = plan.region;
                notes.push(format!(
                    "{}: bytes {} to {} are rounded to whole zones, {} to {}",
                    job.name,
                    asked.start,
                    asked.start + asked.bytes,
                    region.start,
                    region.start + region.bytes
                ));
            }
            namespaces.admit(job, &plan, threads.len() as u32, wall).map_err(at)?;
            let measured = Rc::new(RefCell::new(Measured::new(options.log_interval)));
            threads.push(Started { job: shared.clone(), group, plan, measured });
            walls.push(wall);
        }
    }
    let gate = Rc::new(Gate::new(threads.len()));
    let began_at = host.sim.now();
    for (index, (started, wall)) in threads.iter().zip(walls).enumerate() {
        let thread = Thread::new(
            host,
            &started.job,
            started.plan.clone(),
            index as u32,
            keeps_contents,
            started.measured.clone(),
        );
        let (low, high) = started.job.options.start_delay;
        let mut rng = sim::rng::stream(started.plan.seed, &format!("fio/{}/delay", started.plan.stream));
        let delay = low + Nanos(super::generate::below(&mut rng, high.since(low).0.saturating_add(1)));
        let (gate, sim) = (gate.clone(), host.sim.clone());
        let name = format!("fio job {}", started.plan.stream);
        // fio counts start delays from its own start, also behind a stonewall.
        let task = async move {
            gate.wait_for(wall).await;
            sim.sleep_until(began_at + delay).await;
            thread.run().await;
            gate.finish(index);
        };
        drop(host.sim.spawn_named(name, task));
    }
    Ok(Run { sim: host.sim.clone(), global: file.global.clone(), threads, notes })
}

/// Lets jobs behind a stonewall through once every thread before it is done.
struct Gate {
    finished: RefCell<Finished>,
    /// Who waits at each wall.
    walls: RefCell<BTreeMap<usize, Notify>>,
}

struct Finished {
    each: Vec<bool>,
    /// All before this one are.
    before: usize,
}

impl Gate {
    fn new(threads: usize) -> Self {
        Self { finished: RefCell::new(Finished { each: vec![false; threads], before: 0 }), walls: RefCell::default() }
    }

    async fn wait_for(&self, wall: usize) {
        if self.finished.borrow().before >= wall {
            return;
        }
        let opened = self.walls.borrow_mut().entry(wall).or_default().notified();
        opened.await;
    }

    fn finish(&self, index: usize) {
        let before = {
            let finished = &mut *self.finished.borrow_mut();
            finished.each[index] = true;
            finished.before += finished.each[finished.before..].iter().take_while(|done| **done).count();
            finished.before
        };
        let closed = self.walls.borrow_mut().split_off(&(before + 1));
        let opened = self.walls.replace(closed);
        opened.values().for_each(|wall| wall.notify_all());
    }
}

impl Run {
    /// How far every thread is, in file order. May be asked while the executor
    /// runs, from another task or between two of its steps.
    pub fn progress(&self) -> Vec<Progress> {
        let now = self.sim.now();
        self.threads.iter().map(|started| started.progress(now)).collect()
    }

    /// The part of all work done, from 0 to 1, every thread counting alike.
    pub fn fraction(&self) -> f64 {
        let now = self.sim.now();
        let done = |started: &Started| started.fraction(now, &started.measured.borrow());
        self.threads.iter().map(done).sum::<f64>() / self.threads.len().max(1) as f64
    }

    /// What a reader should know about how the jobs were understood on this host:
    /// the file's notes and more.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What every thread did, in file order. Call when the executor has run; a
    /// thread that has not finished then reports a shortfall.
    pub fn finish(self) -> Vec<JobReport> {
        (0..).zip(&self.threads).map(|(index, started)| started.report(index, &self.global)).collect()
    }
}

impl Started {
    fn progress(&self, now: Nanos) -> Progress {
        let measured = self.measured.borrow();
        Progress {
            name: self.job.name.clone(),
            state: measured.state,
            bytes: measured.moved_bytes,
            fraction: self.fraction(now, &measured),
        }
    }

    fn fraction(&self, now: Nanos, measured: &Measured) -> f64 {
        let by_bytes = self.plan.target_bytes.map_or(0.0, |target| measured.moved_bytes as f64 / target as f64);
        let by_ios = self.plan.target_ios.map_or(0.0, |target| measured.moved_ios as f64 / target as f64);
        let by_time = self.plan.runtime.map_or(0.0, |runtime| {
            let whole = self.job.options.ramp_time + runtime;
            now.since(measured.started_at).0 as f64 / whole.0.max(1) as f64
        });
        match measured.state {
            State::Waiting => 0.0,
            State::Running => by_bytes.max(by_ios).max(by_time).min(1.0),
            State::Finished => 1.0,
        }
    }

    fn report(&self, index: u32, global: &[(String, String)]) -> JobReport {
        let mut measured = self.measured.borrow_mut();
        let now_empty = Measured::new(self.job.options.log_interval);
        let measured = std::mem::replace(&mut *measured, now_empty);
        let reason = match measured.state {
            State::Waiting => Some(ShortfallReason::NeverStarted),
            State::Running => Some(ShortfallReason::Stalled { in_flight: u64::from(measured.in_flight) }),
            State::Finished => measured.failure,
        };
        let shortfall = reason.map(|reason| Shortfall {
            asked_bytes: self.plan.target_bytes,
            served_bytes: measured.moved_bytes,
            reason,
        });
        JobReport {
            name: self.job.name.clone(),
            index,
            group: self.group,
            threads: 1,
            setup: setup(&self.job, &self.plan, global),
            started_at: measured.started_at,
            measured_from: measured.measured_from,
            finished_at: measured.finished_at,
            directions: measured.directions,
            finish: measured.finish,
            reset: measured.reset,
            reset_by_trim: measured.reset_by_trim,
            sync: measured.sync,
            depths: measured.depths,
            cpu: measured.cpu,
            verify: measured.verify,
            errors: measured.errors,
            error_count: measured.error_count,
            shortfall,
        }
    }
}

fn setup(job: &Job, plan: &ThreadPlan, global: &[(String, String)]) -> Setup {
    let options = &job.options;
    Setup {
        global: global.to_vec(),
        options: job.given.clone(),
        pattern: options.pattern.name.to_owned(),
        block_bytes: PerDirection::from_fn(|direction| {
            let sizes = &options.blocks[direction];
            (sizes.min(), sizes.max())
        }),
        engine: options.engine.name.to_owned(),
        synchronous: options.engine.kind == crate::fio::parse::EngineKind::Synchronous,
        depth: plan.depth,
        description: options.description.clone(),
        group_reporting: options.group_reporting,
        percentiles_of: [options.slat_percentiles, options.clat_percentiles, options.lat_percentiles],
        percentiles: options.percentiles.clone(),
        unified: options.unified,
    }
}
