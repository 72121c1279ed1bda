//! The event loop: descriptors on one side, the device on the other, one thread.

use ssd::faults::FaultPlan;
use units::Nanos;

use crate::control::{ControlServer, execute};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{FIRST_TOKEN, FrontEnd};
use crate::memory;
use crate::poller::{Interest, Poller, Ready, use_exact_timers};
use crate::run::ServeReport;
use crate::stop::Stop;
use crate::troubles::Troubles;

const STOP: u64 = 0;
/// The control socket's first token.
pub(crate) const CONTROL: u64 = 1;

/// How long clients get to take their last replies on shutdown.
const DRAIN_TIME: Nanos = Nanos::from_secs(2);

/// Memory is given back to the system when contents have shrunk by so much, and by a sixteenth.
const GIVE_BACK_BYTES: u64 = 8 << 20;

/// Until when the loop sleeps, unless a descriptor becomes ready.
#[derive(Clone, Copy)]
enum Wake {
    AtOnce,
    /// On the engine's clock.
    At(Nanos),
    OnDescriptor,
}

/// A device shown by a front-end.
pub(crate) struct EventLoop<'a, F: FrontEnd> {
    pub(crate) front_end: F,
    pub(crate) engine: Engine<F::Context>,
    poller: Poller,
    /// How long before an answer is due the loop stops sleeping.
    spin: Nanos,
    control: Option<Control>,
    troubles: Option<Troubles<'a>>,
    /// What the troubles were when they were last looked at.
    trouble_count: (u64, bool),
    /// The most memory that contents have taken since some was given back.
    memory_peak_bytes: u64,
}

/// What is needed to do as the control socket's clients ask.
struct Control {
    server: ControlServer,
    faults: FaultPlan,
}

impl<'a, F: FrontEnd> EventLoop<'a, F> {
    pub(crate) fn new(front_end: F, engine: Engine<F::Context>, spin: Nanos) -> Result<Self, ServeError> {
        let poller = Poller::new().map_err(|source| ServeError::Loop { action: "creating epoll", source })?;
        Ok(Self {
            front_end,
            engine,
            poller,
            spin,
            control: None,
            troubles: None,
            trouble_count: (0, true),
            memory_peak_bytes: 0,
        })
    }

    /// Answers on a control socket as well; `faults` is the plan that the device's
    /// commands pass.
    pub(crate) fn control(&mut self, server: ControlServer, faults: FaultPlan) {
        self.control = Some(Control { server, faults });
    }

    /// Says what goes wrong beneath the device.
    pub(crate) fn tell(&mut self, log: &'a dyn Fn(&str)) {
        self.troubles = Some(Troubles::new(log));
    }

    /// Serves until asked to stop.
    pub(crate) fn run(&mut self, stop: &Stop) -> Result<(), ServeError> {
        let fail = |action| move |source| ServeError::Loop { action, source };
        use_exact_timers();
        self.poller.add(stop, STOP, Interest::READABLE).map_err(fail("watching for the end"))?;
        self.front_end.attach(&self.poller).map_err(fail("watching for clients"))?;
        if let Some(control) = &self.control {
            control.server.attach(&self.poller).map_err(fail("watching the control socket"))?;
        }
        let mut ready: Vec<Ready> = Vec::new();
        let (mut wake, mut asked) = (Wake::AtOnce, 0);
        loop {
            ready.clear();
            let waited = match wake {
                Wake::AtOnce => self.poller.wait(Some(Nanos::ZERO), &mut ready),
                Wake::At(event) => self.poller.wait_until(Some(self.engine.started_at() + event), &mut ready),
                Wake::OnDescriptor => self.poller.wait_until(None, &mut ready),
            };
            waited.map_err(fail("waiting"))?;
            let now = self.engine.wake_up();
            for event in &ready {
                match event.token {
                    STOP if stop.take() => asked += 1,
                    STOP => {}
                    token if token < FIRST_TOKEN => {
                        if let Some(control) = &mut self.control {
                            control.server.ready(event, &self.poller, now);
                        }
                    }
                    _ => self.front_end.ready(event, &self.poller, now)?,
                }
                if event.token == STOP && asked == 1 {
                    self.front_end.stop(&self.poller)?;
                }
            }
            if self.is_over(asked) {
                return Ok(());
            }
            let mut busy = self.front_end.take(&mut self.engine)?;
            busy |= self.engine.advance();
            let front_end = &mut self.front_end;
            self.engine.answers(|context, outcome, now| front_end.answer(context, outcome, now));
            self.front_end.send(&self.poller)?;
            busy |= self.front_end.has_more();
            if self.control_turn(&mut busy) {
                asked += 1;
                self.front_end.stop(&self.poller)?;
            }
            if self.front_end.deadline().is_some_and(|deadline| deadline <= now) {
                self.front_end.expire(now, &self.poller);
            }
            self.look_beneath(now);
            if self.is_over(asked) {
                return Ok(());
            }
            let now = self.engine.left();
            wake = match self.next_event() {
                _ if busy => Wake::AtOnce,
                // Within the time that is not slept through.
                Some(event) if event <= now => Wake::AtOnce,
                Some(event) => Wake::At(event),
                None => Wake::OnDescriptor,
            };
        }
    }

    /// Says what has gone wrong beneath the device, and gives memory back that contents no longer take.
    fn look_beneath(&mut self, now: Nanos) {
        let memory_bytes = self.engine.backend().memory_bytes();
        let trouble_count = self.engine.backend().trouble_count();
        let grown = memory_bytes > self.memory_peak_bytes;
        if let Some(troubles) = &mut self.troubles
            && (trouble_count != self.trouble_count || (grown && self.engine.backend().memory_limit_bytes().is_some()))
        {
            self.trouble_count = trouble_count;
            troubles.look(now, &self.engine.backend().beneath(), false);
        }
        if grown {
            self.memory_peak_bytes = memory_bytes;
        } else if memory_bytes + self.memory_peak_bytes / 16 + GIVE_BACK_BYTES <= self.memory_peak_bytes {
            self.memory_peak_bytes = memory_bytes;
            if !self.front_end.keeps_memory() {
                memory::give_back();
            }
        }
    }

    /// Does what clients of the control socket ask; whether they ask for the end.
    fn control_turn(&mut self, busy: &mut bool) -> bool {
        let now = self.engine.now();
        let Some(control) = &mut self.control else { return false };
        let (front_end, engine, faults) = (&mut self.front_end, &mut self.engine, &control.faults);
        let (mut stop, mut executed) = (false, false);
        control.server.turn(|request| {
            executed = true;
            execute(request, front_end, engine, faults, &mut stop)
        });
        control.server.send(&self.poller, now);
        // What was done may have left answers to send.
        *busy |= executed || control.server.has_more();
        stop
    }

    /// Whether serving ends, when somebody has `asked` so many times.
    fn is_over(&self, asked: u32) -> bool {
        asked > 1 || (asked == 1 && self.front_end.stopped()) || self.front_end.ended()
    }

    /// Until when nothing can happen unless a descriptor says so.
    fn next_event(&self) -> Option<Nanos> {
        let control = self.control.as_ref().and_then(|control| control.server.deadline());
        self.engine.next_event(self.spin).into_iter().chain(self.front_end.deadline()).chain(control).min()
    }

    /// Finishes what is outstanding, lets clients take their replies, and commits
    /// the device's cache.
    pub(crate) fn shut_down(&mut self) -> Result<(), ServeError> {
        // Commands that a fault keeps from completing would never.
        if let Some(control) = &self.control {
            control.faults.clear(None);
        }
        let ended = self.engine.shut_down();
        let front_end = &mut self.front_end;
        self.engine.answers(|context, outcome, now| front_end.answer(context, outcome, now));
        let deadline = self.engine.left() + DRAIN_TIME;
        let mut ready = Vec::new();
        while !(self.front_end.drain(&self.poller) && self.drain_control()) {
            let now = self.engine.wake_up();
            if now >= deadline {
                break;
            }
            ready.clear();
            let wait = self.poller.wait(Some(deadline.since(now)), &mut ready);
            wait.map_err(|source| ServeError::Loop { action: "sending the last replies", source })?;
        }
        let beneath = self.engine.backend().beneath();
        if let Some(troubles) = &mut self.troubles {
            troubles.look(self.engine.now(), &beneath, true);
        }
        ended.map_err(|reason| ServeError::LastFlush { reason })?;
        match beneath.failures.lost {
            0 => Ok(()),
            count => Err(ServeError::Image { count, first: beneath.failures.writes.first.unwrap_or_default() }),
        }
    }

    /// Sends the control socket's clients their last replies; whether they have them.
    fn drain_control(&mut self) -> bool {
        self.control.as_mut().is_none_or(|control| control.server.send(&self.poller, self.engine.now()))
    }

    /// What has been served.
    pub(crate) fn report(&self) -> ServeReport {
        let counts = self.engine.counts();
        ServeReport {
            clients: self.front_end.clients(),
            requests: counts.requests,
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            errors: counts.errors,
            started_at: self.engine.started_at(),
            latency: self.engine.latencies().summary(),
            calibration: self.engine.calibration(),
            counters: self.engine.backend().counters(),
        }
    }
}
