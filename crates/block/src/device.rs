//! The block device as its users hold it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use nvme::NamespaceId;
use sim::EventSource;
use ssd::{Device, PowerCut};
use trace::Recorder;
use units::Nanos;

use crate::bio::{Bio, BioResult, Owner};
use crate::config::QueueConfig;
use crate::limits::Limits;
use crate::ordering::{OrderStatistics, OrderingInForce};
use crate::pool::place;
use crate::queue::Queue;
use crate::statistics::Statistics;

/// A block device: a request queue over a modelled storage device, on the
/// executor's clock. Clones are one device.
#[derive(Clone)]
pub struct BlockDevice {
    pub(crate) handle: sim::Handle,
    pub(crate) queue: Rc<RefCell<Queue>>,
}

impl BlockDevice {
    /// Puts a queue before `device`, and both on the clock of `handle`. The
    /// queue's own spans go to `recorder`; the device has its own.
    pub fn new(handle: &sim::Handle, device: Box<dyn Device>, config: QueueConfig, recorder: Recorder) -> Self {
        let queue = Rc::new(RefCell::new(Queue::new(device, &config, recorder)));
        handle.add_source(queue.clone());
        Self { handle: handle.clone(), queue }
    }

    /// Queues a bio from a CPU, at this call; the future resolves with its
    /// result. CPU numbers count modulo the configured CPUs.
    ///
    /// A bio that the device could never take (misaligned, past the end, data
    /// of another length) resolves with a status that says so.
    pub fn submit(&self, cpu: u16, bio: Bio) -> BioFuture {
        let now = self.handle.now();
        let slot = {
            let mut queue = self.queue.borrow_mut();
            queue.catch_up(now);
            queue.submit(now, cpu, bio, None)
        };
        BioFuture::new(self, slot)
    }

    /// What one request may hold, the size and the zones of the first namespace.
    pub fn limits(&self) -> Limits {
        self.queue.borrow().pool.limits[0].clone()
    }

    /// The same of any namespace, or `None` where the device has no such.
    pub fn limits_of(&self, nsid: NamespaceId) -> Option<Limits> {
        self.queue.borrow().pool.limits.get(place(nsid)).cloned()
    }

    /// Number of namespaces; their identifiers start at 1.
    pub fn namespaces(&self) -> u32 {
        self.queue.borrow().pool.limits.len() as u32
    }

    /// Number of hardware queues.
    pub fn hardware_queues(&self) -> u16 {
        self.queue.borrow().hctxs.len() as u16
    }

    /// The queue's counters so far.
    pub fn statistics(&self) -> Statistics {
        self.queue.borrow().statistics(self.handle.now())
    }

    /// How the queue keeps the order of writes.
    pub fn ordering(&self) -> OrderingInForce {
        self.queue.borrow().gates.in_force()
    }

    /// What was done for the order of writes so far.
    pub fn order_statistics(&self) -> OrderStatistics {
        self.queue.borrow().gates.order_statistics()
    }

    /// Opens the streams again in which writes have failed: until then their order is kept by waiting and flushing. What is
    /// submitted afterwards waits for that.
    pub fn restore_order(&self) {
        let now = self.handle.now();
        let mut queue = self.queue.borrow_mut();
        queue.catch_up(now);
        queue.restore_order(now);
    }

    /// An owner of streams submits no more: its stream can be another's, once its writes have ended.
    pub fn end_owner(&self, owner: Owner) {
        let now = self.handle.now();
        let mut queue = self.queue.borrow_mut();
        queue.catch_up(now);
        queue.end_owner(now, owner);
    }

    /// The device's own counters: (name, value), in a fixed order.
    pub fn device_counters(&self) -> Vec<(String, u64)> {
        self.queue.borrow().device.counters()
    }

    /// Looks at the device itself. Commands must not be submitted to it here:
    /// their identifiers would collide with the queue's.
    pub fn with_device<R>(&self, look: impl FnOnce(&mut dyn Device) -> R) -> R {
        look(self.queue.borrow_mut().device.as_mut())
    }

    /// Cuts the device's power now. Everything queued or in flight fails with
    /// [`nvme::Status::ABORTED_POWER_LOSS`], and so does every bio submitted
    /// before [`BlockDevice::power_on`]. Which of the undecided writes survived
    /// is for the caller to say, through [`BlockDevice::with_device`].
    pub fn power_cut(&self) -> PowerCut {
        let now = self.handle.now();
        let mut queue = self.queue.borrow_mut();
        queue.catch_up(now);
        queue.power_cut(now)
    }

    /// Takes bios again after a power cut.
    pub fn power_on(&self) {
        self.queue.borrow_mut().dead = false;
    }
}

impl EventSource for Queue {
    fn next_event(&self) -> Option<Nanos> {
        Queue::next_event(self)
    }

    fn advance(&mut self, now: Nanos) {
        Queue::advance(self, now);
    }

    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        Queue::advance_unseen(self, limit)
    }
}

/// Waits for a bio. Dropping it abandons the result, not the I/O.
#[must_use = "the bio is on its way; await its result"]
pub struct BioFuture {
    queue: Rc<RefCell<Queue>>,
    /// The bio's slot; `None` once the result was handed out.
    slot: Option<u32>,
}

impl BioFuture {
    pub(crate) fn new(device: &BlockDevice, slot: u32) -> Self {
        Self { queue: device.queue.clone(), slot: Some(slot) }
    }

    /// Waits until an ordered bio has gone to the device, whole, and not until it is done: whatever its owner submits in later
    /// epochs comes after it (fbarrier, fdatabarrier). A bio without order is waited for to its end.
    pub async fn dispatched(&mut self) {
        poll_fn(|cx| {
            let Some(slot) = self.slot else { return Poll::Ready(()) };
            if self.queue.borrow_mut().poll_sent(slot, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Future for BioFuture {
    type Output = BioResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BioResult> {
        let Some(slot) = self.slot else { panic!("a BioFuture was polled after it resolved") };
        let Some(result) = self.queue.borrow_mut().poll(slot, cx.waker()) else { return Poll::Pending };
        self.slot = None;
        Poll::Ready(result)
    }
}

impl Drop for BioFuture {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.queue.borrow_mut().detach(slot);
        }
    }
}
