//! Bytes that have come and are not understood yet.

/// Bytes read from a socket at once. Longer data is read straight to where it
/// belongs.
const INPUT_BYTES: usize = 64 << 10;

/// A buffer that bytes enter at one end and leave at the other.
pub(super) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; INPUT_BYTES].into(), start: 0, end: 0 }
    }

    /// What is there.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Drops the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start = (self.start + count).min(self.end);
    }

    /// Room for more; empty when the buffer is full.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// `count` bytes have been put into [`Input::space`].
    pub(super) fn grew(&mut self, count: usize) {
        debug_assert!(count <= self.bytes.len() - self.end);
        self.end = (self.end + count).min(self.bytes.len());
    }
}
