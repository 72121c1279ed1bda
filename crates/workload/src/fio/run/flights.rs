//! A job's I/Os in flight.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use block::{BioFuture, BioResult};
use trace::RequestId;
use units::Nanos;

use super::fragments::Parts;
use super::ledger::Stamp;
use super::transport::Handed;
use super::wakers::Wakers;
use crate::fio::generate::Io;

/// What an I/O in flight is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A read, write or trim; a write's number in the ledger, where one is kept.
    Io(Io, Option<u64>),
    /// A read that verifies a block whose header must say this.
    Verify(Io, Stamp),
    /// An asynchronous fsync.
    Sync,
}

/// An I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub kind: Kind,
    pub request: RequestId,
    /// When the job decided to issue it.
    pub decided_at: Nanos,
    /// When the kernel had it.
    pub issued_at: Nanos,
    /// The zone locked for it.
    pub zone: Option<u32>,
}

/// Where the completion comes from.
pub(super) enum OnItsWay {
    /// The block layer has it.
    Submitted(BioFuture),
    /// The block layer has each piece of it.
    InParts(Parts),
    /// The submission thread was given it.
    Handed(Rc<Handed>),
}

impl Future for OnItsWay {
    type Output = BioResult;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BioResult> {
        match &mut *self {
            Self::Submitted(future) => Pin::new(future).poll(cx),
            Self::InParts(parts) => Pin::new(parts).poll(cx),
            Self::Handed(handed) => Pin::new(&mut &**handed).poll(cx),
        }
    }
}

/// Up to `depth` I/Os whose completions wake one task. Each place has its own
/// waker, made once, so an I/O allocates nothing and a wake-up looks only at
/// what completed.
pub(super) struct Flights {
    places: Vec<Slot>,
    free: Vec<u32>,
    done: VecDeque<(Flight, BioResult)>,
    wakers: Wakers,
    in_flight: u32,
}

struct Slot {
    waker: Waker,
    flight: Option<(Flight, OnItsWay)>,
}

impl Flights {
    pub fn new(depth: u32) -> Self {
        let wakers = Wakers::default();
        let place = |place| Slot { waker: wakers.of(place), flight: None };
        Self {
            places: (0..depth).map(place).collect(),
            free: (0..depth).rev().collect(),
            done: VecDeque::with_capacity(depth as usize),
            wakers,
            in_flight: 0,
        }
    }

    /// I/Os not yet reaped.
    pub fn len(&self) -> u32 {
        self.in_flight
    }

    /// Takes an I/O in; there must be room.
    pub fn add(&mut self, flight: Flight, future: OnItsWay) {
        let Some(index) = self.free.pop() else { unreachable!("more I/Os in flight than the depth") };
        self.in_flight += 1;
        self.places[index as usize].flight = Some((flight, future));
        self.poll_place(index);
    }

    /// Moves what completed to `done`.
    fn collect(&mut self) {
        let woken = self.wakers.woken();
        for index in &woken {
            self.poll_place(*index);
        }
        self.wakers.reuse(woken);
    }

    fn poll_place(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        let Some((flight, future)) = &mut place.flight else { return };
        if let Poll::Ready(result) = Pin::new(future).poll(&mut Context::from_waker(&place.waker)) {
            self.done.push_back((*flight, result));
            place.flight = None;
            self.free.push(index);
        }
    }

    /// Completed I/Os not yet reaped, looked for only while `enough` are not known.
    pub fn completed(&mut self, enough: u32) -> u32 {
        if (self.done.len() as u32) < enough {
            self.collect();
        }
        self.done.len() as u32
    }

    /// Waits until `count` I/Os (at most those in flight) have completed.
    pub fn wait_for(&mut self, count: u32) -> impl Future<Output = ()> {
        std::future::poll_fn(move |context| {
            let wanted = count.min(self.in_flight);
            if self.completed(wanted) >= wanted {
                return Poll::Ready(());
            }
            // Nothing completes between the look and this: there is one thread.
            self.wakers.wake(context.waker());
            Poll::Pending
        })
    }

    /// Reaps one completed I/O.
    pub fn reap(&mut self) -> Option<(Flight, BioResult)> {
        let reaped = self.done.pop_front();
        self.in_flight -= u32::from(reaped.is_some());
        reaped
    }
}
