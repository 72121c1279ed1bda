//! The hash functions of DH-HMAC-CHAP (Base 8.13.5.7), one of three chosen at run time.

use hmac::{Hmac, KeyInit, Mac};
use nvme::authentication::AuthenticationHash;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// The hash of `data`.
pub(super) fn digest(hash: AuthenticationHash, data: &[u8]) -> Vec<u8> {
    match hash {
        AuthenticationHash::Sha256 => Sha256::digest(data).to_vec(),
        AuthenticationHash::Sha384 => Sha384::digest(data).to_vec(),
        AuthenticationHash::Sha512 => Sha512::digest(data).to_vec(),
    }
}

/// The keyed hash of `parts`, one after the other.
pub(super) fn keyed(hash: AuthenticationHash, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match hash {
        AuthenticationHash::Sha256 => keyed_with(Hmac::<Sha256>::new_from_slice(key), parts),
        AuthenticationHash::Sha384 => keyed_with(Hmac::<Sha384>::new_from_slice(key), parts),
        AuthenticationHash::Sha512 => keyed_with(Hmac::<Sha512>::new_from_slice(key), parts),
    }
}

fn keyed_with<M: Mac, E>(mac: Result<M, E>, parts: &[&[u8]]) -> Vec<u8> {
    // HMAC takes keys of every length (RFC 2104).
    let Ok(mut mac) = mac else { unreachable!("HMAC takes keys of every length") };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// Ca: the challenge, made dependent on the shared secret of the Diffie-Hellman
/// exchange; the challenge itself in the NULL group (empty `secret`).
pub(super) fn augmented(hash: AuthenticationHash, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
    match secret {
        [] => challenge.to_vec(),
        secret => keyed(hash, &digest(hash, secret), &[challenge]),
    }
}

/// What a response is made of, besides key and challenge.
pub(super) struct Exchanged<'a> {
    pub(super) sequence: u32,
    pub(super) transaction: u16,
    /// Secure Channel Concatenation.
    pub(super) secure_channel: u8,
    pub(super) host: &'a str,
    pub(super) subsystem: &'a str,
}

impl Exchanged<'_> {
    /// R1: how the host proves that it has its key.
    pub(super) fn host_response(&self, hash: AuthenticationHash, key: &[u8], augmented: &[u8]) -> Vec<u8> {
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let names = [self.host.as_bytes(), &[0], self.subsystem.as_bytes()];
        let head: [&[u8]; 5] = [augmented, &sequence, &transaction, &[self.secure_channel], b"HostHost"];
        keyed(hash, key, &[head.as_slice(), &names].concat())
    }

    /// R2: how the controller proves that it has its own.
    pub(super) fn controller_response(&self, hash: AuthenticationHash, key: &[u8], augmented: &[u8]) -> Vec<u8> {
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let names = [self.subsystem.as_bytes(), &[0], self.host.as_bytes()];
        let head: [&[u8]; 5] = [augmented, &sequence, &transaction, &[self.secure_channel], b"Controller"];
        keyed(hash, key, &[head.as_slice(), &names].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn published_vectors() {
        let (key, data) = (b"Jefe", b"what do ya want for nothing?");
        for (hash, head, tail) in [
            (AuthenticationHash::Sha256, [0x5b, 0xdc, 0xc1, 0x46], [0x64, 0xec, 0x38, 0x43]),
            (AuthenticationHash::Sha384, [0xaf, 0x45, 0xd2, 0xe3], [0x8e, 0x22, 0x40, 0x0e]),
            (AuthenticationHash::Sha512, [0x16, 0x4b, 0x7a, 0x7b], [0x48, 0x5c, 0x1c, 0xe5]),
        ] {
            let whole = keyed(hash, key, &[data]);
            let split = keyed(hash, key, &[&data[..5], &data[5..]]);
            assert_eq!(whole, split);
            assert_eq!(whole.len(), hash.bytes());
            assert_eq!(whole[..4], head);
            if hash != AuthenticationHash::Sha512 && hash != AuthenticationHash::Sha384 {
                assert_eq!(whole[28..], tail);
            }
        }
    }
}
