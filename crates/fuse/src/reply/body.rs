//! Short bodies of replies.

use zerocopy::{Immutable, IntoBytes};

use crate::abi::output::{EntryOut, SizeOut};

/// The body of a reply that is no data: at most the longest of them.
pub struct Body {
    bytes: [u8; size_of::<EntryOut>()],
    length: usize,
}

impl Body {
    /// Of replies that only say that it was done.
    pub const EMPTY: Self = Self { bytes: [0; size_of::<EntryOut>()], length: 0 };

    /// Of the reply to a write of so many bytes.
    pub fn written(size_bytes: u32) -> Self {
        Self::of(&SizeOut { size: size_bytes, padding: 0 })
    }

    pub(crate) fn of(value: &(impl IntoBytes + Immutable)) -> Self {
        let source = value.as_bytes();
        let mut body = Self { length: source.len(), ..Self::EMPTY };
        // Holds for every reply here; `bodies_fit` tries them.
        if let Some(room) = body.bytes.get_mut(..source.len()) {
            room.copy_from_slice(source);
        }
        body
    }

    /// What is sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
