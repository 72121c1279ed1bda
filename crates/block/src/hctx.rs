//! Hardware queues: driver tags, the dispatch list, and the lines for tags.

use std::collections::VecDeque;

use crate::flush::FlushQueue;
use crate::request::{NO_TAG, RequestList, Rq};
use crate::slab::NIL;

/// A hardware queue (`struct blk_mq_hw_ctx`), one to one with an NVMe
/// submission queue.
pub(crate) struct HardwareQueue {
    pub(crate) tags: Tags,
    /// Requests that left the scheduler, or never enter one, and wait for the
    /// driver; they go before everything else (`hctx->dispatch`).
    pub(crate) dispatch: RequestList,
    /// Decaying measure of how often the driver was busy (`dispatch_busy`).
    pub(crate) dispatch_busy: u32,
    /// The flush machine of each namespace.
    pub(crate) flush: Vec<FlushQueue>,
    /// Scheduler tags in use and in all; both 0 without a scheduler.
    pub(crate) scheduler_tags_used: u32,
    pub(crate) scheduler_tags: u32,
    pub(crate) waiters: TagWaiters,
    /// Commands at the device.
    pub(crate) outstanding: u32,
    pub(crate) dispatched: u64,
    pub(crate) requeues: u64,
    pub(crate) tag_waits: u64,
}

impl HardwareQueue {
    /// Folds one dispatch round into `dispatch_busy`: an average over about
    /// eight rounds, in sixteenths (block/blk-mq.c, blk_mq_update_dispatch_busy).
    pub(crate) fn note_round(&mut self, busy: bool) {
        if self.dispatch_busy == 0 && !busy {
            return;
        }
        self.dispatch_busy = (self.dispatch_busy * 7 + if busy { 16 } else { 0 }) / 8;
    }
}

/// Driver tags of a hardware queue; a tag is the command identifier.
pub(crate) struct Tags {
    free: Vec<u16>,
    /// The request at the device under each tag, or NIL.
    owners: Vec<Rq>,
}

impl Tags {
    pub(crate) fn new(depth: u16) -> Self {
        debug_assert!(depth > 0 && depth < NO_TAG);
        // The lowest tag is handed out first.
        Self { free: (0..depth).rev().collect(), owners: vec![NIL; depth.into()] }
    }

    pub(crate) fn get(&mut self) -> Option<u16> {
        self.free.pop()
    }

    pub(crate) fn put(&mut self, tag: u16) {
        debug_assert!(tag != NO_TAG && self.owners[usize::from(tag)] == NIL);
        debug_assert!(self.free.len() < self.owners.len());
        self.free.push(tag);
    }

    pub(crate) fn any_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Notes which request a tag stands for at the device.
    pub(crate) fn set_owner(&mut self, tag: u16, rq: Rq) {
        debug_assert!(self.owners[usize::from(tag)] == NIL);
        self.owners[usize::from(tag)] = rq;
    }

    /// The request that a completed command stood for, if any.
    pub(crate) fn take_owner(&mut self, tag: u16) -> Option<Rq> {
        let owner = std::mem::replace(self.owners.get_mut(usize::from(tag))?, NIL);
        (owner != NIL).then_some(owner)
    }

    /// The requests at the device.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Rq> + '_ {
        self.owners.iter().copied().filter(|owner| *owner != NIL)
    }

    /// Takes every tag back.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.owners.len() as u16);
    }
}

/// Bios whose submitters wait for a tag (block/blk-mq-tag.c). Each CPU has its
/// own line, first come first served; lines take turns, so that a CPU with many
/// waiting bios cannot keep another from the device.
pub(crate) struct TagWaiters {
    /// One line for each CPU of this hardware queue: (CPU, waiting bios).
    lines: Vec<(u16, VecDeque<u32>)>,
    /// The line whose turn it is.
    turn: usize,
    waiting: u32,
}

impl TagWaiters {
    pub(crate) fn new(cpus: impl Iterator<Item = u16>) -> Self {
        Self { lines: cpus.map(|cpu| (cpu, VecDeque::new())).collect(), turn: 0, waiting: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(crate) fn push(&mut self, cpu: u16, bio: u32) {
        let line = self.lines.iter_mut().find(|line| line.0 == cpu);
        debug_assert!(line.is_some(), "CPU {cpu} does not feed this hardware queue");
        if let Some(line) = line {
            line.1.push_back(bio);
            self.waiting += 1;
        }
    }

    /// The next bio and its CPU, and the turn to the next line.
    pub(crate) fn pop(&mut self) -> Option<(u16, u32)> {
        let lines = self.lines.len();
        for index in (self.turn..lines).chain(0..self.turn) {
            let (cpu, line) = &mut self.lines[index];
            if let Some(bio) = line.pop_front() {
                self.turn = (index + 1) % lines;
                self.waiting -= 1;
                return Some((*cpu, bio));
            }
        }
        None
    }
}

/// The hardware queue of each CPU: neighbouring CPUs share one, in groups as
/// even as can be, larger groups first (lib/group_cpus.c on one NUMA node).
pub(crate) fn map_queues(cpus: u16, queues: u16) -> Vec<u16> {
    debug_assert!(queues > 0 && queues <= cpus);
    let (each, extra) = (cpus / queues, cpus % queues);
    let mut map = Vec::with_capacity(cpus.into());
    for queue in 0..queues {
        let group = each + u16::from(queue < extra);
        map.extend(std::iter::repeat_n(queue, group.into()));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_spread_evenly() {
        assert_eq!(map_queues(4, 4), [0, 1, 2, 3]);
        assert_eq!(map_queues(4, 2), [0, 0, 1, 1]);
        assert_eq!(map_queues(5, 2), [0, 0, 0, 1, 1]);
        assert_eq!(map_queues(3, 1), [0, 0, 0]);
    }

    #[test]
    fn waiting_cpus_take_turns() {
        let mut waiters = TagWaiters::new(0..3);
        for (cpu, bio) in [(0, 1), (0, 2), (0, 3), (1, 10), (2, 20), (1, 11)] {
            waiters.push(cpu, bio);
        }
        let order: Vec<_> = std::iter::from_fn(|| waiters.pop()).map(|(_, bio)| bio).collect();
        assert_eq!(order, [1, 10, 20, 2, 11, 3]);
        assert!(waiters.is_empty());
    }

    #[test]
    fn dispatch_busy_decays() {
        let mut queue = HardwareQueue {
            tags: Tags::new(1),
            dispatch: RequestList::default(),
            dispatch_busy: 0,
            flush: Vec::new(),
            scheduler_tags_used: 0,
            scheduler_tags: 0,
            waiters: TagWaiters::new(0..1),
            outstanding: 0,
            dispatched: 0,
            requeues: 0,
            tag_waits: 0,
        };
        queue.note_round(true);
        assert_eq!(queue.dispatch_busy, 2);
        queue.note_round(false);
        queue.note_round(false);
        assert_eq!(queue.dispatch_busy, 0);
    }
}
