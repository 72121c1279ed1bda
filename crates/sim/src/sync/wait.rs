//! A queue of waiting futures.

use std::task::{Context, Poll, Waker};

/// A waiting future's place. Held by that future alone, from [`WaitQueue::push`]
/// until [`WaitQueue::leave`].
#[derive(Debug)]
pub(super) struct Ticket(u32);

/// Futures that wait, first come first served, each with a request of type `T`.
///
/// A doubly linked list inside a slab: joining, leaving from the middle and
/// serving the first cost the same whatever the length, and allocate only when
/// more wait than ever before.
pub(super) struct WaitQueue<T> {
    places: Vec<Waiter<T>>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
}

struct Waiter<T> {
    request: T,
    served: bool,
    waker: Option<Waker>,
    previous: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), head: NONE, tail: NONE }
    }
}

impl<T: Copy> WaitQueue<T> {
    /// Joins the end of the queue.
    pub(super) fn push(&mut self, request: T) -> Ticket {
        let place = Waiter { request, served: false, waker: None, previous: self.tail, next: NONE };
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = place;
                index
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        match self.tail {
            NONE => self.head = index,
            tail => self.places[tail as usize].next = index,
        }
        self.tail = index;
        Ticket(index)
    }

    /// The request of the first in the queue.
    pub(super) fn first(&self) -> Option<T> {
        self.places.get(self.head as usize).map(|place| place.request)
    }

    /// Serves the first in the queue; whether there was one. The waker, if any,
    /// is handed back to be woken outside the borrow.
    pub(super) fn serve_first(&mut self) -> Option<Option<Waker>> {
        let index = self.head;
        if index == NONE {
            return None;
        }
        self.unlink(index);
        let place = &mut self.places[index as usize];
        place.served = true;
        Some(place.waker.take())
    }

    /// Whether a future has been served; if not, it is woken when it is.
    pub(super) fn poll(&mut self, ticket: &Ticket, cx: &mut Context<'_>) -> Poll<()> {
        let place = &mut self.places[ticket.0 as usize];
        if place.served {
            return Poll::Ready(());
        }
        if !place.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            place.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Gives a place up; whether it had been served.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let served = self.places[ticket.0 as usize].served;
        if !served {
            self.unlink(ticket.0);
        }
        self.places[ticket.0 as usize].waker = None;
        self.free.push(ticket.0);
        served
    }

    fn unlink(&mut self, index: u32) {
        let Waiter { previous, next, .. } = self.places[index as usize];
        match previous {
            NONE => self.head = next,
            previous => self.places[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.places[next as usize].previous = previous,
        }
    }
}
