//! Pinned epochs, as published: the writes of an epoch go through one hardware queue, and its barrier leaves last, so that the
//! device, which takes each queue in order, has the others when it comes.
//!
//! A write of two streams follows the pin of the first. Writes of the second stream's epoch that come through other queues may
//! arrive after its barrier: the device calls them late, and nothing waits for them (`docs/ordering.md`).

use nvme::Closing;

use super::epochs::{Ending, Epochs};

pub(super) struct Pinned;

impl Epochs for Pinned {
    /// A barrier without counts closes the epochs of both streams.
    fn end(&self, closes: [bool; 2], _blocks: [u32; 2]) -> Ending {
        let any = closes.contains(&true);
        Ending { closing: if any { Closing::ByArrival } else { Closing::None }, closes: [any, any], leaves_last: any }
    }

    fn pins(&self) -> bool {
        #[cfg(test)]
        if crate::mutant::is(crate::mutant::Mutant::NoPinning) {
            return false;
        }
        true
    }
}
