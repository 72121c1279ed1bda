//! Writes the super block of zonefs, whose `mkzonefs` distributions do not package.
//!
//! The layout is `struct zonefs_super` of the kernel's `fs/zonefs/zonefs.h`: 4 KiB at the start of the first
//! zone, with a CRC-32 over itself.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::error::{GuestError, attempt};

const SUPER_BYTES: usize = 4096;
/// "ZOFS".
const MAGIC: u32 = 0x5a4f_4653;
/// Offset of the checksum, which counts as zero in itself.
const CHECKSUM_AT: usize = 4;
const LABEL_AT: usize = 8;
const UUID_AT: usize = 72;
/// Permissions of the files, behind features, user and group.
const PERMISSIONS_AT: usize = 104;
/// `ZONEFS_F_PERM` is not set: the default, 0640, holds.
const DEFAULT_PERMISSIONS: u32 = 0o640;

/// Memory that direct I/O takes.
#[repr(C, align(4096))]
struct Page([u8; SUPER_BYTES]);

/// Writes the super block to an empty zoned device.
pub(super) fn make(node: &Path) -> Result<(), GuestError> {
    let failed = || format!("cannot write the super block of zonefs to {}", node.display());
    let device: File = attempt(OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(node), failed)?;
    let mut page = Page([0; SUPER_BYTES]);
    page.0.copy_from_slice(&super_block());
    attempt(device.write_all_at(&page.0, 0), failed)?;
    attempt(device.sync_all(), failed)
}

fn super_block() -> [u8; SUPER_BYTES] {
    let mut block = [0; SUPER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = block.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(0, &MAGIC.to_le_bytes());
    put(LABEL_AT, b"plumb");
    put(UUID_AT, b"plumb linux zone");
    put(PERMISSIONS_AT, &DEFAULT_PERMISSIONS.to_le_bytes());
    let checksum = crc32(&block);
    if let Some(place) = block.get_mut(CHECKSUM_AT..CHECKSUM_AT + 4) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
    block
}

/// The kernel's `crc32_le` from all ones, without the final inversion.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32() {
        // The check value of CRC-32/ISO-HDLC is cbf43926, after inversion.
        assert_eq!(!crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn fields_lie_where_the_kernel_looks() {
        let block = super_block();
        assert_eq!(&block[..4], b"SFOZ");
        assert_eq!(&block[8..13], b"plumb");
        let mut without = block;
        without[4..8].fill(0);
        assert_eq!(block[4..8], crc32(&without).to_le_bytes());
    }
}
