//! Barriers in one queue: one sequence of epochs for all (Y. Won et al., "Barrier-Enabled IO Stack for Flash Storage", FAST 2018).
//!
//! Ordered writes of an epoch may leave in any order. When the one comes that ends it, it is let through without its mark, and
//! newer ordered writes are held until all of the epoch have left; whichever leaves last is the barrier. With one hardware queue,
//! which the device takes in order, everything of the epoch is then before it.

use std::collections::VecDeque;

use nvme::{Closing, Epoch, Stream, StreamAction, StreamEpoch, WriteOrder};

use super::interface::{End, Gate, Pass, Plan};
use crate::bio::BioFlags;
use crate::order::{Asks, InStream, Ordered};
use crate::ordering::OrderStatistics;
use crate::pool::BioSlot;
use crate::slab::Slab;

/// The device's stream of all ordered writes.
const ALL: Stream = Stream(1);

/// How the sequence stands with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    Unopened,
    Changing,
    Open,
    /// A write has failed: order is kept by waiting until somebody opens the sequence again.
    Broken,
}

/// The epoch scheduler.
pub(super) struct BarrierSingleQueue {
    link: Link,
    has_cache: bool,
    epoch: u64,
    /// Commands of the epoch that have passed and not left, and that have passed and not ended, of whichever epoch.
    inside: u32,
    under_way: u32,
    /// The write that ends the epoch has passed.
    is_ending: bool,
    /// Where order is kept by waiting: writes take a flush along until one has ended.
    flush_is_due: bool,
    restores: bool,
    held: VecDeque<u32>,
    commands: Vec<u32>,
    statistics: OrderStatistics,
}

impl BarrierSingleQueue {
    pub(super) fn new(has_cache: bool) -> Self {
        Self {
            link: Link::Unopened,
            has_cache,
            epoch: 0,
            inside: 0,
            under_way: 0,
            is_ending: false,
            flush_is_due: false,
            restores: false,
            held: VecDeque::new(),
            commands: Vec::new(),
            statistics: OrderStatistics::default(),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.link, Link::Open | Link::Broken) && !self.is_ending
    }

    /// A write joins the present epoch.
    fn pass(&mut self, slot: &mut BioSlot) -> Plan {
        let Some(order) = &mut slot.order else { return Plan::Pass };
        order.waits = self.link == Link::Broken;
        order.places = [Some(InStream { stream: 0, epoch: self.epoch }), None];
        if order.waits {
            self.statistics.by_waiting += 1;
            if self.flush_is_due && self.has_cache {
                slot.flags |= BioFlags::PREFLUSH;
            }
        } else {
            let first = StreamEpoch { stream: ALL, epoch: Epoch(self.epoch as u16) };
            order.wire = WriteOrder { first, ..WriteOrder::NONE };
        }
        self.inside += 1;
        self.under_way += 1;
        self.is_ending = matches!(order.asks, Asks::Write(request) if !request.closes.is_empty());
        Plan::PassFrom(order.cpu)
    }

    fn next_epoch(&mut self) {
        self.is_ending = false;
        self.epoch += 1;
        self.statistics.epochs += 1;
    }

    fn command(&mut self, bios: &mut Slab<BioSlot>, asks: Asks) {
        let flags = if matches!(asks, Asks::Flush { .. }) { BioFlags::PREFLUSH } else { BioFlags::PASSTHROUGH };
        self.statistics.stream_commands += u64::from(matches!(asks, Asks::Manage { .. }));
        self.commands.push(super::interface::own_command(bios, asks, flags));
    }

    fn open(&mut self, bios: &mut Slab<BioSlot>) {
        self.link = Link::Changing;
        let action = StreamAction::Open { first: Epoch(self.epoch as u16) };
        self.command(bios, Asks::Manage { stream: ALL, action });
    }

    fn break_order(&mut self) {
        if matches!(self.link, Link::Open | Link::Changing) {
            self.statistics.broken += 1;
            self.link = Link::Broken;
            // What was accepted so far is in the cache.
            self.flush_is_due = true;
        }
    }

    fn command_ended(&mut self, bios: &mut Slab<BioSlot>, asks: Asks, is_good: bool) {
        match asks {
            Asks::Write(_) => {}
            Asks::Flush { .. } if is_good => {
                self.command(bios, Asks::Manage { stream: ALL, action: StreamAction::Close });
            }
            Asks::Manage { action: StreamAction::Open { .. }, .. } if is_good => self.link = Link::Open,
            Asks::Manage { action: StreamAction::Close, .. } => self.open(bios),
            _ => self.break_order(),
        }
    }

    fn release(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        passing.extend(self.commands.drain(..).map(|bio| Pass { bio, cpu: 0 }));
        while self.is_open()
            && let Some(bio) = self.held.pop_front()
        {
            if let Plan::PassFrom(cpu) = self.pass(&mut bios[bio]) {
                passing.push(Pass { bio, cpu });
            }
        }
    }

    /// Opens the sequence again, once nothing of it is on its way.
    fn settle(&mut self, bios: &mut Slab<BioSlot>) {
        if self.restores && self.under_way == 0 {
            self.restores = false;
            self.flush_is_due = false;
            self.command(bios, Asks::Flush { stream: 0 });
        }
    }
}

impl Gate for BarrierSingleQueue {
    fn governs(&self, bio: &BioSlot) -> bool {
        bio.order.is_some()
    }

    fn arrive(&mut self, bio: &mut BioSlot, cpu: u16) {
        if let Some(order) = &mut bio.order {
            order.cpu = cpu;
            self.statistics.bios += 1;
        }
    }

    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan {
        if self.link == Link::Unopened {
            self.open(bios);
        }
        if self.held.is_empty() && self.is_open() {
            return self.pass(&mut bios[bio]);
        }
        self.statistics.holds += 1;
        self.held.push_back(bio);
        Plan::Hold
    }

    /// Whoever leaves last is the barrier.
    fn leaves(&mut self, order: &mut Ordered, bios: u32) {
        if order.places[0].is_none() {
            return;
        }
        self.inside -= bios;
        if self.is_ending && self.inside == 0 && !order.waits {
            order.wire.closing = Closing::ByArrival;
            self.next_epoch();
        }
    }

    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>) {
        if let Some(asks) = end.asks {
            self.command_ended(bios, asks, end.status.is_success());
        }
        if let Some(place) = end.places[0] {
            if end.took_flush && end.status.is_success() && place.epoch == self.epoch {
                self.flush_is_due = false;
            }
            self.inside -= end.never_left;
            self.under_way -= end.bios;
            if !end.status.is_success() {
                self.break_order();
            }
            // By waiting, or because the last of the epoch never left.
            if self.is_ending && self.inside == 0 && self.under_way == 0 {
                self.flush_is_due = true;
                self.next_epoch();
            }
        }
        self.settle(bios);
        self.release(bios, passing);
    }

    fn pass_more(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        self.release(bios, passing);
    }

    fn restore(&mut self, bios: &mut Slab<BioSlot>) {
        if self.link == Link::Broken {
            (self.link, self.restores) = (Link::Changing, true);
            self.settle(bios);
        }
    }

    fn statistics(&self) -> OrderStatistics {
        self.statistics
    }

    fn clear(&mut self, _bios: &mut Slab<BioSlot>, void: &mut Vec<u32>) {
        void.extend(self.held.drain(..));
        void.append(&mut self.commands);
        *self = Self { statistics: self.statistics, ..Self::new(self.has_cache) };
    }
}
