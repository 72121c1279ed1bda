//! Plugging: a task's requests held back to be sent together (block/blk-core.c,
//! block/blk-mq.c).

use units::Nanos;

use crate::bio::{Bio, BioFlags};
use crate::config::NoMerges;
use crate::device::{BioFuture, BlockDevice};
use crate::plug_list::PlugList;
use crate::queue::Queue;
use crate::request::{RequestList, Rq};
use crate::scheduler::{Position, SchedulerKind};

/// Requests a plug holds before it is flushed (`BLK_MAX_REQUEST_COUNT`).
const MAX_REQUESTS: u32 = 32;
/// A request this large is not held back for more (`BLK_PLUG_FLUSH_SIZE`).
const FLUSH_BYTES: u64 = 128 << 10;

/// Holds a CPU's bios back so that neighbours merge and commands go out as one
/// batch (`struct blk_plug`).
///
/// The batch goes out on [`Plug::finish`] or drop, when the plug holds 32
/// requests, when its newest request has reached 128 KiB, and when a bio finds
/// no tag. In Linux a task that sleeps also unplugs; here the task must finish
/// the plug *before* it awaits a bio that it submitted through it, or both wait
/// for ever.
#[must_use = "a plug that is dropped at once holds nothing back"]
pub struct Plug {
    device: BlockDevice,
    cpu: u16,
    list: PlugList,
}

impl BlockDevice {
    /// Starts to hold back a CPU's bios.
    pub fn plug(&self, cpu: u16) -> Plug {
        let generation = self.queue.borrow().generation;
        Plug { device: self.clone(), cpu, list: PlugList { requests: RequestList::default(), generation } }
    }
}

impl Plug {
    /// Queues a bio behind the plug.
    pub fn submit(&mut self, bio: Bio) -> BioFuture {
        let now = self.device.handle.now();
        let slot = {
            let mut queue = self.device.queue.borrow_mut();
            queue.catch_up(now);
            self.list.forget_older_than(queue.generation);
            queue.submit(now, self.cpu, bio, Some(&mut self.list))
        };
        BioFuture::new(&self.device, slot)
    }

    /// Sends what is held back (blk_finish_plug).
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        let now = self.device.handle.now();
        let mut queue = self.device.queue.borrow_mut();
        queue.catch_up(now);
        self.list.forget_older_than(queue.generation);
        queue.flush_plug(now, &mut self.list);
        queue.open_gates(now);
    }
}

impl Queue {
    /// Holds a request back, after sending the others if they are enough
    /// (blk_add_rq_to_plug).
    pub(crate) fn add_to_plug(&mut self, now: Nanos, plug: &mut PlugList, rq: Rq) {
        let full = plug.requests.len() >= MAX_REQUESTS;
        let large = self.pool.nomerges != NoMerges::Never
            && plug.requests.last().is_some_and(|last| self.pool.requests[last].bytes >= FLUSH_BYTES);
        if full || large {
            self.flush_plug(now, plug);
        }
        plug.requests.push_back(&mut self.pool.requests, rq);
    }

    /// Sends a plug's requests in the order in which they came
    /// (blk_mq_flush_plug_list). Without a scheduler they go straight to the
    /// driver until it is busy; the rest waits in the software queue.
    pub(crate) fn flush_plug(&mut self, now: Nanos, plug: &mut PlugList) {
        let Some(first) = plug.requests.first() else { return };
        let hctx = self.pool.requests[first].hctx;
        let mut direct = self.scheduler_kind == SchedulerKind::None;
        while let Some(rq) = plug.requests.pop_front(&mut self.pool.requests) {
            if direct {
                direct = self.issue_directly(now, rq);
            } else if self.pool.requests[rq].flags.contains(BioFlags::PASSTHROUGH) {
                let hctx = usize::from(self.pool.requests[rq].hctx);
                self.hctxs[hctx].dispatch.push_back(&mut self.pool.requests, rq);
            } else {
                self.insert(now, rq, Position::Tail);
            }
        }
        if !direct {
            self.run(now, hctx);
        }
    }
}
