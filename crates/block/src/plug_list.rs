//! What a plug holds.

use crate::request::RequestList;

/// The requests held back.
#[derive(Default)]
pub(crate) struct PlugList {
    pub(crate) requests: RequestList,
    /// The queue's power cuts when the plug was made.
    pub(crate) generation: u32,
}

impl PlugList {
    /// A power cut has failed the requests that were held back before it.
    pub(crate) fn forget_older_than(&mut self, generation: u32) {
        if self.generation != generation {
            *self = Self { requests: RequestList::default(), generation };
        }
    }
}
