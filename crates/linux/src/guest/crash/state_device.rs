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
            put(&self.durable, &piece, [&self.written])?;
            if piece.bytes.is_some() {
                self.written.extend(grains(&piece));
            }
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
            put(&device, piece, [&self.written, &written_here])?;
            if piece.bytes.is_some() {
                written_here.extend(grains(piece));
            }
        }
        attempt(device.sync_data(), || "cannot write a state".to_owned())?;
        Ok(StateDevice { mapped })
    }

    pub(super) fn remove(&self, state: StateDevice) -> Result<(), GuestError> {
        self.mapper.remove(state.mapped)
    }
}

fn grains(piece: &Piece<'_>) -> Range<u64> {
    piece.offset_bytes / GRAIN_BYTES..(piece.offset_bytes + piece.len_bytes).div_ceil(GRAIN_BYTES)
}

/// Writes a piece; zeroes only where something is.
fn put<const N: usize>(device: &File, piece: &Piece<'_>, written: [&BTreeSet<u64>; N]) -> Result<(), GuestError> {
    const ZEROES: [u8; GRAIN_BYTES as usize] = [0; GRAIN_BYTES as usize];
    let failed = || "cannot write a state".to_owned();
    if let Some(bytes) = piece.bytes {
        return attempt(device.write_all_at(bytes, piece.offset_bytes), failed);
    }
    let end = piece.offset_bytes + piece.len_bytes;
    for grain in written.iter().flat_map(|grain| grain.range(grains(piece))) {
        let from = (grain * GRAIN_BYTES).max(piece.offset_bytes);
        let to = ((grain + 1) * GRAIN_BYTES).min(end);
        attempt(device.write_all_at(&ZEROES[..(to - from) as usize], from), failed)?;
    }
    Ok(())
}
