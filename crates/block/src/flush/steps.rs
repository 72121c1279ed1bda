//! The steps of a flush sequence.

use crate::bio::BioFlags;
use crate::limits::Limits;

bitflags::bitflags! {
    /// Steps of a flush sequence (REQ_FSEQ_*).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Steps: u8 {
        const PREFLUSH = 1 << 0;
        const DATA = 1 << 1;
        const POSTFLUSH = 1 << 2;
    }
}

impl Steps {
    /// The steps a write needs on a device (blk_flush_policy).
    pub(crate) fn needed(limits: &Limits, flags: BioFlags, bytes: u64) -> Self {
        let mut steps = Self::empty();
        steps.set(Self::DATA, bytes > 0);
        if limits.write_cache {
            steps.set(Self::PREFLUSH, flags.contains(BioFlags::PREFLUSH));
            steps.set(Self::POSTFLUSH, flags.contains(BioFlags::FUA) && !limits.fua);
        }
        steps
    }

    /// The first step that is not done.
    pub(super) fn next(self) -> Option<Self> {
        [Self::PREFLUSH, Self::DATA, Self::POSTFLUSH].into_iter().find(|step| !self.contains(*step))
    }
}
