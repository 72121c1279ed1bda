//! One stream as the host sees it.

use std::collections::BTreeMap;

use nvme::Epoch;

/// Epochs that a host is ahead of the device at most: identifiers of 16 bits are compared as serial numbers.
const AHEAD_MAX: u64 = 1 << 14;

/// How a stream stands with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// It was never opened, or the power went.
    Unopened,
    /// It is being opened, flushed or closed; its writes wait.
    Changing,
    /// It is open.
    Open,
    /// It is not to be used until somebody opens it again: its order is kept by waiting.
    Broken,
    /// The device keeps no order: there is nothing to open.
    Absent,
}

/// A stream.
pub(super) struct Stream {
    pub link: Link,
    /// It is to be opened again with this epoch, once everything before it has ended.
    pub restarts_at: Option<u64>,
    /// It ends, once nothing of it is on its way.
    pub ends: bool,
    /// The epoch of the next write.
    pub epoch: u64,
    /// Blocks of the present epoch that were submitted.
    pub blocks: u32,
    /// The CPU from which the present epoch goes, once it has a write.
    pub pin: Option<u16>,
    /// Everything of epochs before this one was flushed, where order is kept by waiting.
    pub flushed: u64,
    /// Of each epoch, the commands that have not left for the device.
    inside: BTreeMap<u64, u32>,
    /// Of each epoch, the commands that have not ended.
    under_way: BTreeMap<u64, u32>,
}

impl Stream {
    pub fn new(link: Link) -> Self {
        Self {
            link,
            restarts_at: None,
            ends: false,
            epoch: 0,
            blocks: 0,
            pin: None,
            flushed: 0,
            inside: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// An epoch's identifier at the device.
    pub fn id(epoch: u64) -> Epoch {
        Epoch(epoch as u16)
    }

    /// The present epoch is closed.
    pub fn close_epoch(&mut self) {
        self.epoch += 1;
        self.blocks = 0;
        self.pin = None;
    }

    /// What is submitted from now on waits until the stream is opened again.
    pub fn restart(&mut self) {
        self.close_epoch();
        self.link = Link::Changing;
        self.restarts_at = Some(self.epoch);
    }

    /// The oldest epoch that has writes, or will.
    pub fn first_epoch(&self) -> u64 {
        self.under_way.first_key_value().map_or(self.epoch, |(first, _)| *first)
    }

    pub fn enter(&mut self, epoch: u64) {
        *self.inside.entry(epoch).or_default() += 1;
        *self.under_way.entry(epoch).or_default() += 1;
    }

    /// Commands of an epoch have left for the device; whether they were its last ones inside.
    pub fn leave(&mut self, epoch: u64, commands: u32) -> bool {
        take(&mut self.inside, epoch, commands)
    }

    /// Commands of an epoch have ended; whether they were its last ones under way.
    pub fn end(&mut self, epoch: u64, commands: u32) -> bool {
        take(&mut self.under_way, epoch, commands)
    }

    /// Whether nothing of it is on its way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether all earlier epochs have left for the device. What waits there for an earlier epoch then never has the tag or the
    /// place in the queue that the earlier one needs.
    pub fn have_left_before(&self, epoch: u64) -> bool {
        self.inside.first_key_value().is_none_or(|(first, _)| *first >= epoch)
    }

    /// Whether one command alone of an epoch has not left.
    pub fn is_last_inside(&self, epoch: u64) -> bool {
        self.inside.get(&epoch) == Some(&1)
    }

    /// Whether all earlier epochs have ended.
    pub fn have_ended_before(&self, epoch: u64) -> bool {
        self.under_way.first_key_value().is_none_or(|(first, _)| *first >= epoch)
    }

    /// Whether the identifiers of an epoch and of the oldest one under way can be compared.
    pub fn is_in_reach(&self, epoch: u64) -> bool {
        self.under_way.first_key_value().is_none_or(|(first, _)| epoch.saturating_sub(*first) < AHEAD_MAX)
    }
}

/// Takes commands from an epoch's count; whether none is left.
fn take(counts: &mut BTreeMap<u64, u32>, epoch: u64, commands: u32) -> bool {
    let Some(count) = counts.get_mut(&epoch) else { return false };
    *count = count.saturating_sub(commands);
    let none = *count == 0;
    if none {
        counts.remove(&epoch);
    }
    none
}
