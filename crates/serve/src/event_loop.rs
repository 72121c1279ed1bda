//! The event loop: descriptors on one side, the device on the other, one thread.

use nvme::Status;
use units::Nanos;

use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::FrontEnd;
use crate::poller::{Interest, Poller, Ready, use_exact_timers};
use crate::stop::Stop;

const STOP: u64 = 0;

/// How long clients get to take their last replies on shutdown.
const DRAIN_TIME: Nanos = Nanos::from_secs(2);

/// A device shown by a front-end.
pub(crate) struct EventLoop<F: FrontEnd> {
    pub(crate) front_end: F,
    pub(crate) engine: Engine<F::Context>,
    poller: Poller,
    /// How long before an answer is due the loop stops sleeping.
    spin: Nanos,
}

impl<F: FrontEnd> EventLoop<F> {
    pub(crate) fn new(front_end: F, engine: Engine<F::Context>, spin: Nanos) -> Result<Self, ServeError> {
        let poller = Poller::new().map_err(|source| ServeError::Loop { action: "creating epoll", source })?;
        Ok(Self { front_end, engine, poller, spin })
    }

    /// Serves until asked to stop.
    pub(crate) fn run(&mut self, stop: &Stop) -> Result<(), ServeError> {
        let fail = |action| move |source| ServeError::Loop { action, source };
        use_exact_timers();
        self.poller.add(stop, STOP, Interest::READABLE).map_err(fail("watching for the end"))?;
        self.front_end.attach(&self.poller).map_err(fail("watching for clients"))?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut busy = false;
        loop {
            let timeout = if busy { Some(Nanos::ZERO) } else { self.timeout() };
            ready.clear();
            self.poller.wait(timeout, &mut ready).map_err(fail("waiting"))?;
            let now = self.engine.now();
            for event in &ready {
                match event.token {
                    STOP if stop.take() => return Ok(()),
                    STOP => {}
                    _ => self.front_end.ready(event, &self.poller, now)?,
                }
            }
            busy = self.front_end.take(&mut self.engine)?;
            busy |= self.engine.advance();
            let front_end = &mut self.front_end;
            self.engine.answers(|context, outcome, now| front_end.answer(context, outcome, now));
            self.front_end.send(&self.poller)?;
            if self.front_end.deadline().is_some_and(|deadline| deadline <= now) {
                self.front_end.expire(now, &self.poller);
            }
        }
    }

    /// How long nothing can happen unless a descriptor says so.
    fn timeout(&self) -> Option<Nanos> {
        let next = self.engine.next_event(self.spin).into_iter().chain(self.front_end.deadline()).min()?;
        Some(next.since(self.engine.now()))
    }

    /// Finishes what is outstanding, lets clients take their replies, and commits
    /// the device's cache.
    pub(crate) fn shut_down(&mut self) -> Result<(), ServeError> {
        let status = self.engine.shut_down();
        let front_end = &mut self.front_end;
        self.engine.answers(|context, outcome, now| front_end.answer(context, outcome, now));
        let deadline = self.engine.now() + DRAIN_TIME;
        let mut ready = Vec::new();
        while !self.front_end.drain(&self.poller) {
            let now = self.engine.now();
            if now >= deadline {
                break;
            }
            ready.clear();
            let wait = self.poller.wait(Some(deadline.since(now)), &mut ready);
            wait.map_err(|source| ServeError::Loop { action: "sending the last replies", source })?;
        }
        if status == Status::SUCCESS { Ok(()) } else { Err(ServeError::LastFlush { status }) }
    }
}
