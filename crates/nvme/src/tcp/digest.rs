//! Header and data digests: CRC32C (TCP 3.3.1.1).

/// Size of a digest.
pub const DIGEST_BYTES: usize = 4;

bitflags::bitflags! {
    /// Digests that a connection uses; the DGST field of the PDUs that begin it
    /// (TCP figures 17 and 18).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Digests: u8 {
        /// HDGST_ENABLE.
        const HEADER = 1 << 0;
        /// DDGST_ENABLE.
        const DATA = 1 << 1;
    }
}

/// The digest of a header or of a PDU's data.
pub fn digest(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720 B.4, which write the CRC's bytes in the order in
    /// which they travel.
    #[test]
    fn published_examples() {
        assert_eq!(digest(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&ascending).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
    }
}
