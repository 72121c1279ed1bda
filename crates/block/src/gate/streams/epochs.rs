//! How epochs are kept apart: each way is a file beside this one.

use nvme::Closing;

/// How the epochs of a write end with it.
pub(super) struct Ending {
    /// What the command says.
    pub(super) closing: Closing,
    /// Which of its epochs it closes.
    pub(super) closes: [bool; 2],
    /// It leaves after all others of its epochs.
    pub(super) leaves_last: bool,
}

/// How epochs are kept apart.
pub(super) trait Epochs {
    /// How the epochs of a write end that is to close these, of which so many blocks were submitted.
    fn end(&self, closes: [bool; 2], blocks: [u32; 2]) -> Ending;

    /// Whether the writes of an epoch go through one hardware queue.
    fn pins(&self) -> bool;
}
