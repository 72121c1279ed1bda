//! Vendor specific fields for ordered writes: which streams and epochs a write belongs to, which epochs it closes, and how a
//! controller says that it keeps order. `docs/nvme-ordering-fields.md` has the layout, `docs/ordering.md` what it promises.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Status, SubmissionEntry};

/// A stream of ordered writes; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stream(pub u16);

impl Stream {
    /// No stream.
    pub const NONE: Self = Self(0);
}

/// An epoch of a stream. Epochs follow each other, and 0 follows 65535.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Epoch(pub u16);

impl Epoch {
    /// The one after it.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many epochs it is later than `other`, negative where it is earlier; `None` where they are half of all epochs apart, so
    /// that neither is later (serial number arithmetic, RFC 1982).
    pub const fn since(self, other: Self) -> Option<i16> {
        match self.0.wrapping_sub(other.0) as i16 {
            i16::MIN => None,
            distance => Some(distance),
        }
    }
}

/// An epoch of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StreamEpoch {
    /// The stream.
    pub stream: Stream,
    /// The epoch.
    pub epoch: Epoch,
}

/// Whether a write closes its epochs, so that what comes later in their streams is of later epochs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Closing {
    /// It closes none.
    #[default]
    None,
    /// It closes all its epochs, which hold what the controller fetched before it.
    ByArrival,
    /// It closes the epochs whose number of logical blocks it gives; where that is 0, the epoch stays open. An epoch is complete
    /// when so many blocks of it have come.
    Counted {
        /// Blocks of the epoch in the first stream.
        first_blocks: u32,
        /// Blocks of the epoch in the second stream.
        second_blocks: u32,
    },
}

/// How one epoch is closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Close {
    /// It holds what was fetched before.
    ByArrival,
    /// It holds so many logical blocks.
    Counted(u32),
}

/// What a write says of order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WriteOrder {
    /// The stream that it belongs to, with the epoch there.
    pub first: StreamEpoch,
    /// Another that it belongs to besides.
    pub second: StreamEpoch,
    /// Whether it closes its epochs.
    pub closing: Closing,
}

/// CDW12 of Write: barrier, the last write of its epochs.
const BARRIER: u32 = 1 << 25;

impl WriteOrder {
    /// That of a write which belongs to no stream.
    pub const NONE: Self = Self {
        first: StreamEpoch { stream: Stream::NONE, epoch: Epoch(0) },
        second: StreamEpoch { stream: Stream::NONE, epoch: Epoch(0) },
        closing: Closing::None,
    };

    /// Whether the write belongs to a stream.
    pub fn is_ordered(&self) -> bool {
        self.first.stream != Stream::NONE
    }

    /// Whether it has the barrier bit.
    pub fn is_barrier(&self) -> bool {
        self.closing != Closing::None
    }

    /// The fields of a command.
    pub fn of(entry: &SubmissionEntry) -> Self {
        let (streams, epochs) = (entry.cdw2.get(), entry.cdw3.get());
        let place = |shift: u32| StreamEpoch {
            stream: Stream((streams >> shift) as u16),
            epoch: Epoch((epochs >> shift) as u16),
        };
        let closing = match (entry.cdw12.get() & BARRIER != 0, entry.cdw14.get(), entry.cdw15.get()) {
            (false, _, _) => Closing::None,
            (true, 0, 0) => Closing::ByArrival,
            (true, first_blocks, second_blocks) => Closing::Counted { first_blocks, second_blocks },
        };
        Self { first: place(0), second: place(16), closing }
    }

    /// Writes the fields into a command.
    pub fn set(self, entry: &mut SubmissionEntry) {
        let pair = |first: u16, second: u16| u32::from(first) | u32::from(second) << 16;
        entry.cdw2 = pair(self.first.stream.0, self.second.stream.0).into();
        entry.cdw3 = pair(self.first.epoch.0, self.second.epoch.0).into();
        let others = entry.cdw12.get() & !BARRIER;
        entry.cdw12 = (others | if self.is_barrier() { BARRIER } else { 0 }).into();
        if let Closing::Counted { first_blocks, second_blocks } = self.closing {
            entry.cdw14 = first_blocks.into();
            entry.cdw15 = second_blocks.into();
        }
    }

    /// Whether the fields agree with each other.
    ///
    /// # Errors
    ///
    /// Invalid Field in Command for a second stream without a first, the same stream twice, and a barrier or a count where there
    /// is no stream.
    pub fn check(&self) -> Result<(), Status> {
        let (first, second) = (self.first.stream, self.second.stream);
        let uncounted = match self.closing {
            Closing::None => true,
            Closing::ByArrival => first != Stream::NONE,
            Closing::Counted { first_blocks, second_blocks } => {
                let named = second_blocks == 0 || second != Stream::NONE;
                first != Stream::NONE && named && first_blocks.max(second_blocks) > 0
            }
        };
        let distinct = second == Stream::NONE || (first != Stream::NONE && first != second);
        if uncounted && distinct { Ok(()) } else { Err(Status::INVALID_FIELD) }
    }

    /// The epochs that the write belongs to, and how it closes each, if it does.
    pub fn places(&self) -> impl Iterator<Item = (StreamEpoch, Option<Close>)> + use<> {
        let counted = |blocks: u32| (blocks > 0).then_some(Close::Counted(blocks));
        let closes = match self.closing {
            Closing::None => [None, None],
            Closing::ByArrival => [Some(Close::ByArrival), Some(Close::ByArrival)],
            Closing::Counted { first_blocks, second_blocks } => [counted(first_blocks), counted(second_blocks)],
        };
        let places = [self.first, self.second].into_iter().zip(closes);
        places.filter(|(place, _)| place.stream != Stream::NONE)
    }
}

/// What Stream Management does with a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamAction {
    /// Opens it.
    Open {
        /// The epoch of its first writes.
        first: Epoch,
    },
    /// Closes it: what it has accepted keeps its order, what waits for earlier epochs is aborted.
    Close,
}

/// CDW12 bits 7:0 of Stream Management.
const OPEN: u8 = 1;
const CLOSE: u8 = 2;

impl StreamAction {
    /// The fields of a Stream Management command: CDW10 bits 15:0 the stream, CDW11 bits 15:0 the first epoch, CDW12 bits 7:0
    /// the action.
    ///
    /// # Errors
    ///
    /// Invalid Field in Command for a reserved action.
    pub fn of(entry: &SubmissionEntry) -> Result<(Stream, Self), Status> {
        let action = match entry.cdw12.get() as u8 {
            OPEN => Self::Open { first: Epoch(entry.cdw11.get() as u16) },
            CLOSE => Self::Close,
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok((Stream(entry.cdw10.get() as u16), action))
    }

    /// Writes the fields into a command.
    pub fn set(self, stream: Stream, entry: &mut SubmissionEntry) {
        let (code, first) = match self {
            Self::Open { first } => (OPEN, first),
            Self::Close => (CLOSE, Epoch(0)),
        };
        entry.cdw10 = u32::from(stream.0).into();
        entry.cdw11 = u32::from(first.0).into();
        entry.cdw12 = u32::from(code).into();
    }
}

/// The ordering capability descriptor: bytes 31:0 of the vendor specific area of
/// Identify Controller (bytes 3103:3072).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct OrderingCapability {
    /// [`Self::SIGNATURE`], so that nobody takes another vendor's bytes for it.
    pub signature: [u8; 8],
    /// Version of the fields that the controller keeps; 0: none.
    pub version: U16,
    /// Streams that one write can belong to.
    pub streams_per_write: U16,
    /// Streams that can be open at once.
    pub streams: U32,
    /// Epochs of a stream that can be under way at once.
    pub epochs: U32,
    /// Logical blocks that can be accepted and still wait for their turn.
    pub delayed_blocks: U32,
    /// How epochs can be closed: [`Self::BY_ARRIVAL`], [`Self::COUNTED`].
    pub closings: U16,
    /// Reserved.
    pub rsvd26: [u8; 6],
}

const _: () = assert!(size_of::<OrderingCapability>() == 32);

impl OrderingCapability {
    /// What the descriptor begins with.
    pub const SIGNATURE: [u8; 8] = *b"ordering";
    /// Bit of `closings`: a barrier without counts.
    pub const BY_ARRIVAL: u16 = 1;
    /// Bit of `closings`: a barrier with the number of blocks in the epoch.
    pub const COUNTED: u16 = 2;

    /// The descriptor of a controller that keeps no order.
    pub fn none() -> Self {
        Self { signature: Self::SIGNATURE, ..Self::new_zeroed() }
    }

    /// The descriptor of a controller that keeps the order of version 1, both ways to close an epoch included.
    pub fn version_1(streams: u32, epochs: u32, delayed_blocks: u32) -> Self {
        Self {
            version: 1.into(),
            streams_per_write: 2.into(),
            streams: streams.into(),
            epochs: epochs.into(),
            delayed_blocks: delayed_blocks.into(),
            closings: (Self::BY_ARRIVAL | Self::COUNTED).into(),
            ..Self::none()
        }
    }

    /// The descriptor at the start of a vendor specific area, where one is there.
    pub fn of(vendor_specific: &[u8]) -> Option<Self> {
        let (descriptor, _) = Self::read_from_prefix(vendor_specific).ok()?;
        (descriptor.signature == Self::SIGNATURE).then_some(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(stream: u16, epoch: u16) -> StreamEpoch {
        StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) }
    }

    #[test]
    fn fields_where_they_are_documented() {
        let mut entry = SubmissionEntry { cdw12: (1 << 30 | 7).into(), ..SubmissionEntry::default() };
        let closing = Closing::Counted { first_blocks: 9, second_blocks: 0x0a0b_0c0d };
        let order = WriteOrder { first: at(0x0102, 0x0304), second: at(0x0506, 0x0708), closing };
        order.set(&mut entry);
        assert_eq!(entry.as_bytes()[8..16], [2, 1, 6, 5, 4, 3, 8, 7]);
        assert_eq!(entry.cdw12.get(), 1 << 30 | 1 << 25 | 7);
        assert_eq!(entry.as_bytes()[56..64], [9, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a]);
        assert_eq!(WriteOrder::of(&entry), order);
        // Counts mean nothing without the barrier, and no counts mean that arrival decides.
        WriteOrder::default().set(&mut entry);
        assert_eq!(entry.cdw12.get(), 1 << 30 | 7);
        assert_eq!(WriteOrder::of(&entry), WriteOrder::NONE);
        let barrier = SubmissionEntry { cdw12: (1 << 25).into(), cdw2: 1.into(), ..SubmissionEntry::default() };
        assert_eq!(WriteOrder::of(&barrier).closing, Closing::ByArrival);
    }

    #[test]
    fn fields_that_disagree_are_refused() {
        let counted = |first_blocks, second_blocks| Closing::Counted { first_blocks, second_blocks };
        for (first, second, closing, agrees) in [
            (at(0, 0), at(0, 0), Closing::None, true),
            (at(1, 5), at(0, 0), Closing::ByArrival, true),
            (at(1, 5), at(2, 5), counted(0, 3), true),
            (at(0, 0), at(2, 0), Closing::None, false),
            (at(3, 0), at(3, 1), Closing::None, false),
            (at(0, 0), at(0, 0), Closing::ByArrival, false),
            (at(1, 0), at(0, 0), counted(1, 1), false),
            (at(1, 0), at(2, 0), counted(0, 0), false),
        ] {
            let order = WriteOrder { first, second, closing };
            assert_eq!(order.check().is_ok(), agrees, "{order:?}");
        }
        let order = WriteOrder { first: at(1, 5), second: at(2, 6), closing: counted(0, 3) };
        let places: Vec<_> = order.places().collect();
        assert_eq!(places, [(at(1, 5), None), (at(2, 6), Some(Close::Counted(3)))]);
        assert_eq!(WriteOrder::NONE.places().count(), 0);
    }

    #[test]
    fn a_descriptor_is_known_by_its_signature() {
        let mut area = [0; 1024];
        assert_eq!(OrderingCapability::of(&area), None);
        area[..32].copy_from_slice(OrderingCapability::none().as_bytes());
        assert_eq!(OrderingCapability::of(&area).map(|descriptor| descriptor.version.get()), Some(0));
        assert_eq!(OrderingCapability::of(&area[..31]), None);
        let one = OrderingCapability::version_1(0x80, 0x100, 0x4000);
        assert_eq!(one.as_bytes()[8..26], [1, 0, 2, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0x40, 0, 0, 3, 0]);
    }

    proptest! {
        /// Later by less than half of all epochs, whatever lies between.
        #[test]
        fn epochs_are_compared_as_serial_numbers(first: u16, steps in 0..32_768_u32) {
            let (first, mut later) = (Epoch(first), Epoch(first));
            for _ in 0..steps {
                later = later.next();
            }
            prop_assert_eq!(later.since(first), Some(steps as i16));
            prop_assert_eq!(first.since(later), Some(-(steps as i16)));
            prop_assert_eq!(Epoch(first.0.wrapping_add(1 << 15)).since(first), None);
        }
    }
}
