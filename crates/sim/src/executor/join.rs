//! A spawned task's result.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use super::Core;
use super::tasks::{Current, Step, TaskId};

/// Why a task has no result: it was aborted, or its executor is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the task ended without a result: it was aborted or its executor was dropped")]
pub struct Aborted;

/// Waits for a spawned task's result. Dropping it lets the task run on.
///
/// As a future it panics when the task was aborted; [`JoinHandle::join`] gives
/// an error instead.
pub struct JoinHandle<T> {
    result: Rc<RefCell<Slot<T>>>,
    task: Option<(Weak<Core>, TaskId)>,
}

struct Slot<T> {
    state: State<T>,
    waker: Option<Waker>,
}

enum State<T> {
    Running,
    Done(T),
    /// Aborted, or the result has been taken.
    Gone,
}

impl<T> JoinHandle<T> {
    pub(super) fn set_task(&mut self, core: Weak<Core>, id: TaskId) {
        self.task = Some((core, id));
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        !matches!(self.result.borrow().state, State::Running)
    }

    /// Ends the task where it stands: its future is dropped now (after the
    /// present poll, if it aborts itself). Does nothing if it has ended.
    pub fn abort(&self) {
        if let Some((core, id)) = &self.task
            && let Some(core) = core.upgrade()
        {
            let body = core.tasks.borrow_mut().abort(*id);
            drop(body);
        }
    }

    /// Waits for the result, or for the task to be aborted.
    pub async fn join(mut self) -> Result<T, Aborted> {
        std::future::poll_fn(|cx| self.poll_result(cx)).await
    }

    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Aborted>> {
        let mut slot = self.result.borrow_mut();
        match std::mem::replace(&mut slot.state, State::Gone) {
            State::Done(value) => Poll::Ready(Ok(value)),
            State::Gone => Poll::Ready(Err(Aborted)),
            State::Running => {
                slot.state = State::Running;
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.poll_result(cx).map(|result| result.unwrap_or_else(|e| panic!("awaited a task in vain: {e}")))
    }
}

pin_project! {
    /// A task: its future, which leaves its result in the join handle's slot,
    /// and its waker.
    pub(super) struct Spawned<F: Future> {
        #[pin]
        future: F,
        completion: Completion<F::Output>,
        waker: Waker,
    }
}

/// The task's end of the slot; dropped without a result it marks the task gone.
pub(super) struct Completion<T>(Rc<RefCell<Slot<T>>>);

impl<F: Future> Spawned<F> {
    pub(super) fn new(future: F, completion: Completion<F::Output>, waker: Waker) -> Self {
        Self { future, completion, waker }
    }
}

impl<F: Future> Step for Spawned<F> {
    fn step(self: Pin<&mut Self>, current: &Current, id: TaskId) -> bool {
        let this = self.project();
        current.set(Some((this.waker.data(), id)));
        match this.future.poll(&mut Context::from_waker(this.waker)) {
            Poll::Pending => false,
            Poll::Ready(value) => {
                this.completion.end(State::Done(value));
                true
            }
        }
    }
}

impl<T> Completion<T> {
    pub(super) fn new() -> (Self, JoinHandle<T>) {
        let result = Rc::new(RefCell::new(Slot { state: State::Running, waker: None }));
        (Self(result.clone()), JoinHandle { result, task: None })
    }

    fn end(&self, state: State<T>) {
        let mut slot = self.0.borrow_mut();
        if matches!(slot.state, State::Running) {
            slot.state = state;
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        self.end(State::Gone);
    }
}
