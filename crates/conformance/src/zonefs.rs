//! The superblock of zonefs, which `mkzonefs` writes and Debian does not package.
//!
//! Source: `fs/zonefs/zonefs.h` (`struct zonefs_super`: 4096 bytes, little-endian) and `zonefs_read_super` in
//! `fs/zonefs/super.c` of Linux: the checksum is the kernel's `crc32(~0, …)` over the block with the field zero.

/// Bytes of the superblock; it is the first block of the first zone.
pub const SUPERBLOCK_BYTES: usize = 4096;

const MAGIC: u32 = 0x5a4f_4653; // "ZOFS"
const CHECKSUM_AT: std::ops::Range<usize> = 4..8;
const LABEL_AT: usize = 8;
const UUID_AT: std::ops::Range<usize> = 72..88;

/// A superblock without optional features: files belong to root and have mode 0640.
pub fn superblock(label: &str, uuid: [u8; 16]) -> [u8; SUPERBLOCK_BYTES] {
    let mut block = [0; SUPERBLOCK_BYTES];
    block[..4].copy_from_slice(&MAGIC.to_le_bytes());
    for (to, from) in block[LABEL_AT..LABEL_AT + 63].iter_mut().zip(label.bytes()) {
        *to = from;
    }
    block[UUID_AT].copy_from_slice(&uuid);
    let checksum = crc32(&block);
    block[CHECKSUM_AT].copy_from_slice(&checksum.to_le_bytes());
    block
}

/// The kernel's `crc32(~0, bytes)`: CRC-32 (IEEE 802.3), reflected, without the final inversion.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one_before_its_inversion() {
        // The check value of CRC-32/ISO-HDLC for "123456789" is 0xCBF43926.
        assert_eq!(!crc32(b"123456789"), 0xcbf4_3926);
    }
}
