//! Secrets in the form that `nvme gen-dhchap-key` prints (Base 8.13.5.8):
//! `DHHC-1:HH:BASE64:`, where HH is the hash that transforms the key (00: none) and
//! the base64 is the key with its CRC-32 behind it.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nvme::authentication::AuthenticationHash;

use super::hash::keyed;

/// Sizes that a key can have.
const KEY_BYTES: [usize; 3] = [32, 48, 64];

/// A secret that cannot be used. The secret itself is not in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not `DHHC-1:HH:BASE64:`.
    #[error("a secret has the form DHHC-1:HH:BASE64: with HH of 00 to 03; `nvme gen-dhchap-key` makes one")]
    Form,
    /// The base64 is none.
    #[error("the secret's base64 part cannot be decoded; copy it whole, with the `=` and `:` at its end")]
    Base64,
    /// The key has a length that no key has.
    #[error("the secret's key has {bytes} bytes; give one of 32, 48 or 64 (`nvme gen-dhchap-key --key-length`)")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The hash of the secret wants a key of its own length.
    #[error("the secret's hash makes keys of {hash_bytes} bytes, but its key has {bytes}")]
    HashLength {
        /// The hash's length.
        hash_bytes: usize,
        /// The key's.
        bytes: usize,
    },
    /// The CRC is not that of the key.
    #[error("the secret's check value does not match its key: a character was changed on the way; copy it again")]
    Crc,
    /// The setting is not `NQN=SECRET`.
    #[error("`{text}` is not NQN=DHHC-1:...[,DHHC-1:...]; the second secret is the controller's own")]
    Setting {
        /// What stands before the first `=`.
        text: String,
    },
    /// The host has two secrets.
    #[error("host {host} has two secrets; give each host one")]
    Twice {
        /// The host.
        host: String,
    },
}

/// A key, and the hash that transforms it for its owner.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: Vec<u8>,
    transform: Option<AuthenticationHash>,
}

/// Without the key, so that no log has it.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("transform", &self.transform).finish_non_exhaustive()
    }
}

impl Secret {
    /// Reads a secret.
    ///
    /// # Errors
    ///
    /// When it has not the form, or its check value does not match.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let rest = text.trim().strip_prefix("DHHC-1:").ok_or(SecretError::Form)?;
        let (hash, rest) = rest.split_once(':').ok_or(SecretError::Form)?;
        let base64 = rest.strip_suffix(':').ok_or(SecretError::Form)?;
        let transform = match hash {
            "00" => None,
            "01" => Some(AuthenticationHash::Sha256),
            "02" => Some(AuthenticationHash::Sha384),
            "03" => Some(AuthenticationHash::Sha512),
            _ => return Err(SecretError::Form),
        };
        let mut key = BASE64_STANDARD.decode(base64).map_err(|_| SecretError::Base64)?;
        let bytes = key.len().saturating_sub(4);
        if !KEY_BYTES.contains(&bytes) {
            return Err(SecretError::Length { bytes });
        }
        let crc = key.split_off(bytes);
        if crc != crc32fast::hash(&key).to_le_bytes() {
            return Err(SecretError::Crc);
        }
        match transform.map(AuthenticationHash::bytes) {
            Some(hash_bytes) if hash_bytes != bytes => Err(SecretError::HashLength { hash_bytes, bytes }),
            _ => Ok(Self { key, transform }),
        }
    }

    /// The key as its owner, who is called `nqn`, uses it.
    pub(super) fn key_of(&self, nqn: &str) -> Vec<u8> {
        match self.transform {
            None => self.key.clone(),
            Some(hash) => keyed(hash, &self.key, &[nqn.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

/// A host and what it authenticates with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCredentials {
    host: String,
    pub(super) secret: Secret,
    /// What the controller authenticates itself with, if the host asks.
    pub(super) controller: Option<Secret>,
}

impl HostCredentials {
    /// The credentials of the host called `host`.
    pub fn new(host: impl Into<String>, secret: Secret, controller: Option<Secret>) -> Self {
        Self { host: host.into(), secret, controller }
    }

    /// Reads `NQN=SECRET` or `NQN=SECRET,CONTROLLER-SECRET`.
    ///
    /// # Errors
    ///
    /// When it has not the form, or a secret cannot be used.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        // NQNs may hold `=`, secrets only at the end of their base64.
        let (host, secrets) = text
            .split_once("=DHHC-1:")
            .map(|(host, rest)| (host, format!("DHHC-1:{rest}")))
            .ok_or_else(|| SecretError::Setting { text: text.split('=').next().unwrap_or_default().to_owned() })?;
        let (secret, controller) = match secrets.split_once(',') {
            None => (Secret::parse(&secrets)?, None),
            Some((secret, controller)) => (Secret::parse(secret)?, Some(Secret::parse(controller)?)),
        };
        Ok(Self::new(host, secret, controller))
    }

    /// The host's NQN.
    pub fn host(&self) -> &str {
        &self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nvme gen-dhchap-key --secret 00112233...ff00112233...ff --hmac 0`.
    fn text(hash: &str, key: &[u8]) -> String {
        let mut bytes = key.to_vec();
        bytes.extend(crc32fast::hash(key).to_le_bytes());
        format!("DHHC-1:{hash}:{}:", BASE64_STANDARD.encode(bytes))
    }

    #[test]
    fn forms_that_are_refused() {
        let good = text("01", &[7; 32]);
        assert!(Secret::parse(&good).is_ok());
        assert_eq!(Secret::parse("hunter2"), Err(SecretError::Form));
        assert_eq!(Secret::parse(good.trim_end_matches(':')), Err(SecretError::Form));
        assert_eq!(Secret::parse(&text("04", &[7; 32])), Err(SecretError::Form));
        assert_eq!(Secret::parse(&text("01", &[7; 31])), Err(SecretError::Length { bytes: 31 }));
        assert_eq!(Secret::parse(&text("03", &[7; 32])), Err(SecretError::HashLength { hash_bytes: 64, bytes: 32 }));
        assert_eq!(Secret::parse("DHHC-1:00:AAA!:"), Err(SecretError::Base64));
        // One character changed.
        let changed = good.replacen("Bwc", "Bwd", 1);
        assert_ne!(changed, good);
        assert_eq!(Secret::parse(&changed), Err(SecretError::Crc));
    }

    #[test]
    fn settings() {
        let (one, other) = (text("00", &[1; 32]), text("02", &[2; 48]));
        let both = HostCredentials::parse(&format!("nqn.2014-08.org.example:a=b={one},{other}")).unwrap();
        assert_eq!((both.host(), both.controller.is_some()), ("nqn.2014-08.org.example:a=b", true));
        assert!(HostCredentials::parse(&format!("nqn.x={one}")).unwrap().controller.is_none());
        let error = HostCredentials::parse("nqn.x=secret").unwrap_err();
        assert_eq!(error, SecretError::Setting { text: "nqn.x".to_owned() });
        // Neither an error nor a debug print shows a secret.
        assert!(!format!("{both:?}").contains(&one[10..20]));
    }

    /// Keys of another program, where it is installed.
    #[test]
    fn secrets_of_nvme_cli() {
        for (hmac, length) in [("0", "32"), ("1", "32"), ("2", "48"), ("3", "64"), ("0", "64")] {
            let arguments =
                ["gen-dhchap-key", "--hmac", hmac, "--key-length", length, "--nqn", "nqn.2014-08.org.example:h"];
            let output = match std::process::Command::new("nvme").args(arguments).output() {
                Ok(output) if output.status.success() => output,
                _ => {
                    println!("skipped: nvme-cli is not installed");
                    return;
                }
            };
            let text = String::from_utf8(output.stdout).unwrap();
            let secret = Secret::parse(text.trim()).unwrap();
            assert_eq!(secret.key.len().to_string(), length);
        }
    }
}
