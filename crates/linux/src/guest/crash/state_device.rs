//! A block device that holds a state.
//!
//! What is durable is written to one memory device and only ever added to, while the walk through the log goes on. A state is a
//! snapshot of it: what survived, and all that recovery and checks write, go to a second memory device that the next state takes
//! over. A state costs what differs, not what is there.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crash::{LoggedWrite, Piece};

use crate::guest::device_mapper::{DeviceMapper, Mapped};
use crate::guest::error::{GuestError, attempt};
use crate::guest::null_blk::MemoryDevice;

/// The grain in which is remembered what was written.
const GRAIN_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// Room for what one state's recovery and checks write.
const CHANGES_MIB: u64 = 64 << 10;

/// Makes states.
pub(super) struct StateDevices {
    mapper: DeviceMapper,
    durable: File,
    durable_node: PathBuf,
    changes_node: String,
    sectors: u64,
    /// Grains that are not zero.
    written: BTreeSet<u64>,
}

/// A state, until it is removed.
pub(super) struct StateDevice {
    mapped: Mapped,
}

impl StateDevice {
    pub(super) fn node(&self) -> &Path {
        &self.mapped.node
    }
}

impl StateDevices {
    /// For a log of a device of this size and atomic unit.
    pub(super) fn new(capacity_bytes: u64, unit_bytes: u32) -> Result<Self, GuestError> {
        let block_bytes = unit_bytes.clamp(512, 4096);
        let device = |name, size_mib| MemoryDevice { name, size_mib, block_bytes, latency_ns: 0 };
        let durable_node = PathBuf::from(device("plumb-durable", capacity_bytes.div_ceil(1 << 20)).make()?);
        let changes_node = device("plumb-changes", CHANGES_MIB).make()?;
        let opened = File::options().read(true).write(true).open(&durable_node);
        let durable = attempt(opened, || format!("cannot open {}", durable_node.display()))?;
        let (mapper, sectors) = (DeviceMapper::open()?, capacity_bytes / SECTOR_BYTES);
        Ok(Self { mapper, durable, durable_node, changes_node, sectors, written: BTreeSet::new() })
    }

    /// More has become durable. There is no state while this is called.
    pub(super) fn settle(&mut self, writes: &[LoggedWrite]) -> Result<(), GuestError> {
        for piece in writes.iter().flat_map(LoggedWrite::whole) {
            let new = put(&self.durable, &piece, [&self.written])?;
            self.written.extend(new.into_iter().flatten());
        }
        Ok(())
    }

    /// The state with these pieces over what is durable.
    pub(super) fn make(&self, pieces: &[Piece<'_>]) -> Result<StateDevice, GuestError> {
        attempt(self.durable.sync_data(), || "cannot write a state".to_owned())?;
        // Chunks of 4 KiB; what changes is not kept beyond its removal (N).
        let words = format!("{} {} N {}", self.durable_node.display(), self.changes_node, GRAIN_BYTES / SECTOR_BYTES);
        let mapped = self.mapper.make("plumb-state", self.sectors, "snapshot", &words)?;
        let opened = File::options().read(true).write(true).open(&mapped.node);
        let device = attempt(opened, || format!("cannot open {}", mapped.node.display()))?;
        let mut written_here = BTreeSet::new();
        for piece in pieces {
            let new = put(&device, piece, [&self.written, &written_here])?;
            written_here.extend(new.into_iter().flatten());
        }
        attempt(device.sync_data(), || "cannot write a state".to_owned())?;
        Ok(StateDevice { mapped })
    }

    pub(super) fn remove(&self, state: StateDevice) -> Result<(), GuestError> {
        self.mapper.remove(state.mapped)
    }
}

/// The grains of a range of the device.
fn grains(from_bytes: u64, len_bytes: u64) -> Range<u64> {
    from_bytes / GRAIN_BYTES..(from_bytes + len_bytes).div_ceil(GRAIN_BYTES)
}

/// Writes a piece; zeroes only where something is. The grains that may have something else now.
fn put<const N: usize>(
    device: &File,
    piece: &Piece<'_>,
    written: [&BTreeSet<u64>; N],
) -> Result<Vec<Range<u64>>, GuestError> {
    let mut new: Vec<Range<u64>> = Vec::new();
    let mut wrote = Ok(());
    let read = piece.visit(|at_bytes, len_bytes, bytes| {
        if wrote.is_err() {
            return;
        }
        wrote = match bytes {
            Some(bytes) => {
                new.push(grains(at_bytes, len_bytes));
                device.write_all_at(bytes, at_bytes)
            }
            // A piece may have bytes and zeroes in one grain, so what it wrote itself counts, too.
            None => zero(device, at_bytes, len_bytes, written, &new),
        };
    });
    attempt(wrote, || "cannot write a state".to_owned())?;
    read.map_err(|error| GuestError::new(format!("the log of writes: {error}")))?;
    Ok(new)
}

/// Writes zeroes where something is.
fn zero<const N: usize>(
    device: &File,
    from_bytes: u64,
    len_bytes: u64,
    written: [&BTreeSet<u64>; N],
    new: &[Range<u64>],
) -> std::io::Result<()> {
    const ZEROES: [u8; GRAIN_BYTES as usize] = [0; GRAIN_BYTES as usize];
    let end = from_bytes + len_bytes;
    let range = grains(from_bytes, len_bytes);
    let edges = [range.start, range.end.saturating_sub(1)];
    let own = edges.into_iter().filter(|edge| new.iter().any(|new| new.contains(edge)));
    let there: BTreeSet<u64> =
        written.iter().flat_map(|grain| grain.range(range.clone())).copied().chain(own).collect();
    for grain in there {
        let from = (grain * GRAIN_BYTES).max(from_bytes);
        let to = ((grain + 1) * GRAIN_BYTES).min(end);
        device.write_all_at(&ZEROES[..(to - from) as usize], from)?;
    }
    Ok(())
}
