//! What the system has refused a store so far.

use super::media::MediaError;

/// What the system has refused a [`Store`](super::Store): an image on a full or broken disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFailures {
    /// Reads of an image.
    pub reads: FailureCount,
    /// Writes to an image, each try of one counted.
    pub writes: FailureCount,
    /// Of those, the ones whose data is not kept for another try: whoever wrote got an error.
    pub lost: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureCount {
    /// How many.
    pub count: u64,
    /// The first one in words, with file and offset.
    pub first: Option<String>,
}

impl StoreFailures {
    pub(super) fn note(&mut self, error: &MediaError) {
        let kind = match error {
            MediaError::Read { .. } => &mut self.reads,
            _ => &mut self.writes,
        };
        kind.count += 1;
        if kind.first.is_none() {
            kind.first = Some(error.to_string());
        }
    }
}
