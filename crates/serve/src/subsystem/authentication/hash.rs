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

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, test case 2.
    #[test]
    fn published_vector() {
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        let mac = keyed(AuthenticationHash::Sha256, b"Jefe", &parts);
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    /// Responses of the three hash functions with a transformed key and a shared
    /// secret, computed with Python's hmac and hashlib.
    #[test]
    fn responses_of_another_implementation() {
        let (host, subsystem) = ("nqn.2014-08.org.example:host", "nqn.2014-08.org.example:subsystem");
        let exchanged = Exchanged { sequence: 0x0102_0304, transaction: 0x0506, secure_channel: 0, host, subsystem };
        let secret = (0..256_u32).map(|index| (index * 7) as u8).collect::<Vec<_>>();
        for (hash, r1, r2) in [
            (
                AuthenticationHash::Sha256,
                "b01fcba5ccee7c43326ecb84bb0586540b677f6d9c5da7d5ab9f701d56bef38e",
                "ed37aa807f44d7e5d5119702567062a1de716d9dce1abab2dca660c2ea359238",
            ),
            (
                AuthenticationHash::Sha384,
                "22c1b18e48dd4a0d6ba44c5e457ff7339127b3f787ef653d47b870c3ef36ad7fee54f067833a5397541f2db613d679f3",
                "e30b628ee234798145e61f61f347673a48ce4909f22d5fbcd44ccd0052b604f2affefae82855a54ca59bc4e7f6c7db29",
            ),
            (
                AuthenticationHash::Sha512,
                "01088dd345c3a01b0c60c0fdcfc6f4ccd0656503cb5b3fc3c8f91ea656f7b6798e6715fab9856ef5496d1b689126c517aa42c3dba1e2039461f50b7eeb03dbb9",
                "09da992e82e9b5ea17e8ae353795a3a9c0161cae9079f0a1be6740d4614cb4d8aa20d10a8aff75368424db3ead213b316898334f92fcdf81d44c3655573dd800",
            ),
        ] {
            let key = (0..hash.bytes() as u8).collect::<Vec<_>>();
            let challenge = key.iter().map(|byte| 255 - byte).collect::<Vec<_>>();
            let key_of = |nqn: &str| keyed(hash, &key, &[nqn.as_bytes(), b"NVMe-over-Fabrics"]);
            let augmented = augmented(hash, &secret, &challenge);
            assert_eq!(hex(&exchanged.host_response(hash, &key_of(host), &augmented)), r1);
            assert_eq!(hex(&exchanged.controller_response(hash, &key_of(subsystem), &augmented)), r2);
        }
    }
}
