//! Order without help from the device: a write waits until everything of earlier epochs has ended, and a flush goes before it.
//!
//! This is what a device without order gets, and a stream in which a write has failed.

use super::epochs::{Ending, Epochs};
use super::stream::Stream;
use crate::bio::BioFlags;
use crate::order::Ordered;
use crate::pool::BioSlot;

pub(super) struct Waiting;

impl Epochs for Waiting {
    fn end(&self, closes: [bool; 2], _blocks: [u32; 2]) -> Ending {
        Ending { closing: nvme::Closing::None, closes, leaves_last: false }
    }

    fn pins(&self) -> bool {
        false
    }
}

/// Whether a write may go: everything of earlier epochs has ended.
pub(super) fn may_pass(streams: &[Stream], order: &Ordered) -> bool {
    order.places.iter().flatten().all(|place| streams[place.stream as usize].have_ended_before(place.epoch))
}

/// What has ended before a write may still be in the device's cache: it takes a flush along, unless another write of its epoch did.
pub(super) fn flush_before(streams: &[Stream], bio: &mut BioSlot) {
    #[cfg(test)]
    if crate::mutant::is(crate::mutant::Mutant::NoFlushWithoutOrder) {
        return;
    }
    let Some(order) = &bio.order else { return };
    let is_needed = |stream: &Stream, epoch| epoch > stream.flushed;
    if order.places.iter().flatten().any(|place| is_needed(&streams[place.stream as usize], place.epoch)) {
        bio.flags |= BioFlags::PREFLUSH;
    }
}

/// A write that took a flush along has ended well.
pub(super) fn flushed(stream: &mut Stream, epoch: u64) {
    stream.flushed = stream.flushed.max(epoch);
}
