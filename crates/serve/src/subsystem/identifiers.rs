//! Serial number, EUI-64, NGUID and UUID, derived from the names of the device and of
//! its subsystem: whoever serves the same device again shows hosts the same one, and
//! two subsystems are two devices, though their profile be the same. A host ignores a
//! namespace with an identifier that it knows from another subsystem.

use sha2::{Digest, Sha256};

/// The identifiers of a device. Each namespace has its own EUI-64, NGUID and UUID,
/// made of the device's by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifiers {
    /// Serial number: at most 20 printable ASCII characters.
    pub serial: String,
    seed: [u8; 32],
}

/// IEEE identifiers begin with an organisation's number; this bit of its first
/// byte says that it is nobody's (locally administered).
const LOCALLY_ADMINISTERED: u8 = 0x02;

impl Identifiers {
    /// The identifiers of the device called `device` in the subsystem `nqn`.
    pub fn of(device: &str, nqn: &str) -> Self {
        let named =
            Sha256::new().chain_update(b"plumb device ").chain_update(device).chain_update([0]).chain_update(nqn);
        let seed: [u8; 32] = named.finalize().into();
        let serial = seed[..8].iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        Self { serial: format!("PLMB{serial}"), seed }
    }

    /// Bytes for one purpose and namespace; 0 is the device itself.
    fn derive(&self, purpose: &str, nsid: u32) -> [u8; 32] {
        Sha256::new().chain_update(self.seed).chain_update(purpose).chain_update(nsid.to_le_bytes()).finalize().into()
    }

    /// A namespace's EUI-64, big-endian.
    pub fn eui64(&self, nsid: u32) -> [u8; 8] {
        let mut eui64 = [0; 8];
        eui64.copy_from_slice(&self.derive("eui64", nsid)[..8]);
        eui64[0] = eui64[0] & !0b11 | LOCALLY_ADMINISTERED;
        eui64
    }

    /// A namespace's NGUID, big-endian: the organisation's number is in bytes 10:8.
    pub fn nguid(&self, nsid: u32) -> [u8; 16] {
        let mut nguid = first_half(self.derive("nguid", nsid));
        nguid[8] = nguid[8] & !0b11 | LOCALLY_ADMINISTERED;
        nguid
    }

    /// A namespace's UUID, of version 8 (RFC 9562): made of whatever its maker likes.
    pub fn uuid(&self, nsid: u32) -> [u8; 16] {
        let mut uuid = first_half(self.derive("uuid", nsid));
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    /// The device's own UUID, as text.
    pub fn uuid_text(&self) -> String {
        let hex = self.uuid(0).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_distinct() {
        let device = Identifiers::of("samsung-980pro-1tb", "nqn.a");
        assert_eq!(device, Identifiers::of("samsung-980pro-1tb", "nqn.a"));
        let other = Identifiers::of("samsung-980pro-1tb", "nqn.b");
        assert_ne!(device.serial, other.serial);
        assert_eq!(device.serial.len(), 20);
        assert_ne!(device.nguid(1), other.nguid(1));
        assert_ne!(device.nguid(1), device.nguid(2));
        assert_ne!(device.eui64(1), device.eui64(2));
        let uuid = device.uuid_text();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "8"));
        // Locally administered, of one station.
        assert_eq!((device.eui64(1)[0] & 3, device.nguid(1)[8] & 3), (2, 2));
    }
}
