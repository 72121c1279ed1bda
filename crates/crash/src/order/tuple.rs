//! What a write says of order, as it was on the wire (`docs/nvme-ordering-fields.md`).

/// An epoch of a stream by their identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WirePlace {
    /// The stream; 0: none.
    pub stream: u16,
    /// The epoch; 0 follows 65535.
    pub epoch: u16,
}

/// Whether a write closes its epochs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Closing {
    /// It closes none.
    #[default]
    None,
    /// They hold what the device fetched before it.
    ByArrival,
    /// They hold so many logical blocks; 0: the epoch stays open.
    Counted {
        /// In the first stream.
        first_blocks: u32,
        /// In the second.
        second_blocks: u32,
    },
}

/// How one epoch is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Close {
    ByArrival,
    Counted(u64),
}

/// What a write says of order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OrderTuple {
    /// The submission queue. The device fetches those of one queue in their order.
    pub queue: u16,
    /// The stream that it belongs to.
    pub first: WirePlace,
    /// Another that it belongs to besides.
    pub second: WirePlace,
    /// Whether it closes them.
    pub closing: Closing,
}

impl OrderTuple {
    /// That of a write that belongs to no stream.
    pub const NONE: Self = Self {
        queue: 0,
        first: WirePlace { stream: 0, epoch: 0 },
        second: WirePlace { stream: 0, epoch: 0 },
        closing: Closing::None,
    };

    /// Bytes of its form in a file.
    pub(crate) const BYTES: usize = 24;

    /// Whether the write belongs to a stream.
    pub fn is_ordered(&self) -> bool {
        self.first.stream != 0 || self.second.stream != 0
    }

    /// The epochs that the write belongs to, and how it closes each, if it does.
    pub(crate) fn places(&self) -> impl Iterator<Item = (WirePlace, Option<Close>)> + use<> {
        let counted = |blocks: u32| (blocks > 0).then_some(Close::Counted(blocks.into()));
        let closes = match self.closing {
            Closing::None => [None, None],
            Closing::ByArrival => [Some(Close::ByArrival); 2],
            Closing::Counted { first_blocks, second_blocks } => [counted(first_blocks), counted(second_blocks)],
        };
        [self.first, self.second].into_iter().zip(closes).filter(|(place, _)| place.stream != 0)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, first_blocks, second_blocks) = match self.closing {
            Closing::None => (0, 0, 0),
            Closing::ByArrival => (1, 0, 0),
            Closing::Counted { first_blocks, second_blocks } => (2, first_blocks, second_blocks),
        };
        let words = [self.queue, kind, self.first.stream, self.first.epoch, self.second.stream, self.second.epoch];
        let mut bytes = [0; Self::BYTES];
        for (to, word) in bytes.chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, blocks) in bytes.chunks_exact_mut(4).skip(4).zip([first_blocks, second_blocks]) {
            to.copy_from_slice(&blocks.to_le_bytes());
        }
        bytes
    }

    /// What a file says; `None` where that is no tuple of an ordered write.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let [q0, q1, k0, k1, a0, a1, b0, b1, c0, c1, d0, d1, z0, z1, z2, z3, f0, f1, f2, f3, s0, s1, s2, s3] = *bytes;
        let word = |low, high| u16::from_le_bytes([low, high]);
        let counts = (u32::from_le_bytes([f0, f1, f2, f3]), u32::from_le_bytes([s0, s1, s2, s3]));
        let closing = match (word(k0, k1), counts) {
            (0, (0, 0)) => Closing::None,
            (1, (0, 0)) => Closing::ByArrival,
            (2, (first_blocks, second_blocks)) => Closing::Counted { first_blocks, second_blocks },
            _ => return None,
        };
        let first = WirePlace { stream: word(a0, a1), epoch: word(b0, b1) };
        let second = WirePlace { stream: word(c0, c1), epoch: word(d0, d1) };
        let tuple = Self { queue: word(q0, q1), first, second, closing };
        ([z0, z1, z2, z3] == [0; 4]).then_some(tuple)
    }
}
