//! Where on the modelled device a traced I/O goes.

use std::num::NonZeroU64;

use block::{Limits, Sector};

use super::{Record, TraceOp};

/// How traced offsets become the device's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Offsets are divided by this and rounded down to a logical block; lengths
    /// stay (fio's `replay_scale`). 1 leaves them as they are.
    pub scale: NonZeroU64,
    /// What is done with offsets and lengths that are not whole logical blocks.
    pub align: Align,
    /// What is done with I/O past the device's end.
    pub fit: Fit,
}

/// What is done with I/O that is not whole logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// An error, naming the line.
    Exact,
    /// Reads and writes take the whole of every block they touch; a trim leaves
    /// the blocks that it covers in part, as a file system must.
    Round,
}

/// What is done with I/O past the device's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// An error, naming the line.
    Error,
    /// Offsets count modulo the device's size; an I/O that would cross the end
    /// is moved back to end there.
    Wrap,
}

impl Default for Placement {
    /// Offsets as traced; anything that does not fit is an error.
    fn default() -> Self {
        Self { scale: NonZeroU64::MIN, align: Align::Exact, fit: Fit::Error }
    }
}

/// Why an I/O has no place on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not whole blocks.
    #[error(
        "{bytes} bytes at offset {offset} are not whole logical blocks of the device ({block_bytes} bytes); \
         round them, or replay on a device with smaller blocks"
    )]
    Misaligned {
        /// First byte, scaled.
        offset: u64,
        /// Length.
        bytes: u64,
        /// The device's logical block.
        block_bytes: u64,
    },
    /// Past the end.
    #[error(
        "{bytes} bytes at offset {offset} end past the device, which has {capacity_bytes}; \
         replay on a larger device, or wrap or scale the offsets"
    )]
    OutOfRange {
        /// First byte, scaled and rounded.
        offset: u64,
        /// Length, rounded.
        bytes: u64,
        /// The device's size.
        capacity_bytes: u64,
    },
    /// Larger than the whole device, which not even wrapping helps.
    #[error("an I/O of {bytes} bytes is larger than the device, which has {capacity_bytes}; replay on a larger one")]
    TooLong {
        /// Length, rounded.
        bytes: u64,
        /// The device's size.
        capacity_bytes: u64,
    },
}

/// A range on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    pub(super) sector: Sector,
    pub(super) bytes: u64,
    /// Whether rounding or wrapping made it another range than the (scaled) trace's.
    pub(super) adjusted: bool,
}

impl Placement {
    /// The I/O's range; `None` for a trim that rounding leaves nothing of.
    pub(super) fn place(&self, record: &Record, limits: &Limits) -> Result<Option<Placed>, PlacementError> {
        if !record.op.has_range() {
            return Ok(Some(Placed { sector: Sector(0), bytes: 0, adjusted: false }));
        }
        let block = u64::from(limits.logical_block_bytes);
        let capacity_bytes = limits.capacity_sectors * Sector::BYTES;
        let mut start = record.offset / self.scale;
        if self.scale != NonZeroU64::MIN {
            start -= start % block;
        }
        // No overflow: the reader has checked that offset + bytes is below 2^64.
        let (head, end) = (start % block, start + record.bytes);
        let (mut from, bytes) = match self.align {
            Align::Exact if head == 0 && end.is_multiple_of(block) => (start, record.bytes),
            Align::Exact => {
                return Err(PlacementError::Misaligned { offset: start, bytes: record.bytes, block_bytes: block });
            }
            Align::Round if record.op == TraceOp::Trim => {
                let from = start.div_ceil(block).saturating_mul(block);
                (from, (end - end % block).saturating_sub(from))
            }
            // A length that saturates is larger than any device.
            Align::Round => {
                let blocks = head.saturating_add(record.bytes).div_ceil(block);
                (start - head, blocks.saturating_mul(block))
            }
        };
        if bytes == 0 {
            return Ok(None);
        }
        if bytes > capacity_bytes {
            return Err(PlacementError::TooLong { bytes, capacity_bytes });
        }
        if from > capacity_bytes - bytes {
            match self.fit {
                Fit::Error => return Err(PlacementError::OutOfRange { offset: from, bytes, capacity_bytes }),
                Fit::Wrap => from = (from % capacity_bytes).min(capacity_bytes - bytes),
            }
        }
        debug_assert!(from.is_multiple_of(block) && bytes.is_multiple_of(block));
        let adjusted = (from, bytes) != (start, record.bytes);
        Ok(Some(Placed { sector: Sector(from / Sector::BYTES), bytes, adjusted }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::BioFlags;
    use units::Nanos;

    const MIB: u64 = 1 << 20;

    fn limits(logical_block_bytes: u32, capacity_bytes: u64) -> Limits {
        Limits {
            logical_block_bytes,
            capacity_sectors: capacity_bytes / Sector::BYTES,
            max_sectors: 2560,
            max_hw_sectors: 2560,
            max_segments: 128,
            segment_bytes: 4096,
            max_discard_sectors: 1 << 20,
            max_discard_segments: 256,
            max_write_zeroes_sectors: 1 << 20,
            rotational: false,
            write_cache: true,
            fua: true,
            zoned: None,
        }
    }

    fn io(op: TraceOp, offset: u64, bytes: u64) -> Record {
        Record { at: Nanos::ZERO, op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: 1 }
    }

    fn range(placement: Placement, record: Record) -> Result<Option<(u64, u64, bool)>, PlacementError> {
        let placed = placement.place(&record, &limits(4096, MIB))?;
        Ok(placed.map(|placed| (placed.sector.0 * Sector::BYTES, placed.bytes, placed.adjusted)))
    }

    #[test]
    fn exact_refuses_what_does_not_fit() {
        let exact = Placement::default();
        assert_eq!(range(exact, io(TraceOp::Read, 8192, 4096)), Ok(Some((8192, 4096, false))));
        assert_eq!(range(exact, io(TraceOp::Write, MIB - 4096, 4096)), Ok(Some((MIB - 4096, 4096, false))));
        assert_eq!(range(exact, io(TraceOp::Sync, 0, 0)), Ok(Some((0, 0, false))));
        let misaligned = PlacementError::Misaligned { offset: 512, bytes: 4096, block_bytes: 4096 };
        assert_eq!(range(exact, io(TraceOp::Read, 512, 4096)), Err(misaligned));
        let outside = PlacementError::OutOfRange { offset: MIB - 4096, bytes: 8192, capacity_bytes: MIB };
        assert_eq!(range(exact, io(TraceOp::Write, MIB - 4096, 8192)), Err(outside));
    }

    #[test]
    fn rounding_widens_io_and_narrows_trims() {
        let round = Placement { align: Align::Round, ..Placement::default() };
        assert_eq!(range(round, io(TraceOp::Read, 512, 4096)), Ok(Some((0, 8192, true))));
        assert_eq!(range(round, io(TraceOp::Write, 4096, 1)), Ok(Some((4096, 4096, true))));
        assert_eq!(range(round, io(TraceOp::Trim, 512, 12288)), Ok(Some((4096, 8192, true))));
        assert_eq!(range(round, io(TraceOp::Trim, 512, 4096)), Ok(None));
        assert_eq!(range(round, io(TraceOp::Read, 4096, 4096)), Ok(Some((4096, 4096, false))));
    }

    #[test]
    fn wrapping_keeps_count_and_length() {
        let wrap = Placement { fit: Fit::Wrap, ..Placement::default() };
        assert_eq!(range(wrap, io(TraceOp::Read, 3 * MIB + 8192, 4096)), Ok(Some((8192, 4096, true))));
        assert_eq!(range(wrap, io(TraceOp::Read, MIB - 4096, 8192)), Ok(Some((MIB - 8192, 8192, true))));
        let long = PlacementError::TooLong { bytes: MIB + 4096, capacity_bytes: MIB };
        assert_eq!(range(wrap, io(TraceOp::Read, 0, MIB + 4096)), Err(long));
        let far = Placement { align: Align::Round, ..wrap };
        assert_eq!(range(far, io(TraceOp::Read, u64::MAX - 512, 512)), Ok(Some((MIB - 4096, 4096, true))));
        assert_eq!(range(far, io(TraceOp::Trim, u64::MAX - 512, 512)), Ok(None));
        assert!(range(far, io(TraceOp::Write, 1, u64::MAX - 1)).is_err());
    }

    #[test]
    fn scaling_divides_offsets_only() {
        let scale = Placement { scale: NonZeroU64::new(3).unwrap(), ..Placement::default() };
        assert_eq!(range(scale, io(TraceOp::Read, 24576, 8192)), Ok(Some((8192, 8192, false))));
        assert_eq!(range(scale, io(TraceOp::Read, 28672, 8192)), Ok(Some((8192, 8192, false))));
    }

    proptest::proptest! {
        #[test]
        fn what_is_placed_is_on_the_device(
            offset in proptest::prelude::any::<u64>(),
            far in proptest::prelude::any::<bool>(),
            bytes in 1_u64..3 * MIB,
            scale in 1_u64..9,
            trim in proptest::prelude::any::<bool>(),
        ) {
            let offset = if far { offset } else { offset % (4 * MIB) };
            let op = if trim { TraceOp::Trim } else { TraceOp::Write };
            let record = io(op, offset, bytes.min(u64::MAX - offset).max(1));
            proptest::prop_assume!(record.offset.checked_add(record.bytes).is_some());
            for (align, fit) in [(Align::Exact, Fit::Error), (Align::Round, Fit::Error), (Align::Round, Fit::Wrap)] {
                let placement = Placement { scale: NonZeroU64::new(scale).unwrap(), align, fit };
                if let Ok(Some((from, bytes, _))) = range(placement, record) {
                    proptest::prop_assert!(from % 4096 == 0 && bytes % 4096 == 0 && bytes > 0);
                    proptest::prop_assert!(from + bytes <= MIB);
                    proptest::prop_assert!(!trim || bytes <= record.bytes);
                    proptest::prop_assert!(trim || bytes >= record.bytes);
                }
            }
        }
    }
}
