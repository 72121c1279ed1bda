//! Waiting for a thread's turn and its end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use trace::RequestId;
use units::Nanos;

use super::Thread;

/// A thread's computation. Dropped before its end, it gives the core up.
pub struct Compute<'a> {
    thread: &'a Thread,
    request: RequestId,
    span: Nanos,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    New,
    Started,
    Done,
}

impl<'a> Compute<'a> {
    pub(super) fn new(thread: &'a Thread, request: RequestId, span: Nanos) -> Self {
        Self { thread, request, span, state: State::New }
    }
}

impl Future for Compute<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.state == State::Done || self.span == Nanos::ZERO {
            return Poll::Ready(());
        }
        let Thread { cpus, id, .. } = self.thread;
        let mut scheduler = cpus.scheduler.borrow_mut();
        if self.state == State::New {
            scheduler.start(*id, cpus.handle.now(), self.span, self.request);
        }
        let done = scheduler.poll(*id, cx.waker());
        drop(scheduler);
        self.state = if done { State::Done } else { State::Started };
        if done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Compute<'_> {
    fn drop(&mut self) {
        if self.state == State::Started {
            let Thread { cpus, id, .. } = self.thread;
            cpus.scheduler.borrow_mut().cancel(*id, cpus.handle.now());
        }
    }
}
