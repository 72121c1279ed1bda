//! DH-HMAC-CHAP (Base 8.13.5): hosts prove on each queue that they have their
//! secret, and controllers, where a host asks, that they have theirs.
//!
//! The host begins a transaction with AUTH_Negotiate and may do so again at any
//! time (reauthentication): the queue stays usable while the new transaction goes
//! well, and is closed when it fails.

mod dh;
mod ffdhe_primes;
mod hash;
mod secret;

use nvme::authentication::{
    AuthenticationFailure, AuthenticationHash, AuthenticationReply, ControllerMessage, DhGroup, HostMessage,
    Negotiation,
};
use subtle::ConstantTimeEq;

use self::dh::Exchange;
use self::hash::{Exchanged, augmented};
pub use self::secret::{HostCredentials, Secret, SecretError};
use super::config::Entropy;

/// What is chosen of what a host offers, best first.
const HASHES: [AuthenticationHash; 3] =
    [AuthenticationHash::Sha256, AuthenticationHash::Sha384, AuthenticationHash::Sha512];
/// The smallest group first, since its strength is beyond every attack known and
/// the largest take a hundred times as long; NULL last, which lets an eavesdropper
/// try passwords off line.
const GROUPS: [DhGroup; 6] =
    [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe6144, DhGroup::Ffdhe8192, DhGroup::Null];

/// Largest message that a host sends: a reply in the largest group, and some.
pub(super) const MESSAGE_BYTES_MAX: u32 = 4096;

/// Where a transaction stands.
enum Step {
    /// Nothing yet, or the last one is complete.
    Idle,
    /// The host is to fetch the challenge.
    Challenge(Box<Challenge>),
    /// The host is to answer it.
    Reply(Box<Challenge>),
    /// The host is to fetch the success message.
    Success1 { transaction: u16, hash: AuthenticationHash, response: Option<Vec<u8>> },
    /// The host is to say that it accepts the controller's response.
    Success2 { transaction: u16 },
    /// The host is to fetch the failure message.
    Failure1 { transaction: u16, failure: AuthenticationFailure },
    /// The host has given up.
    Over,
}

/// What the controller asked.
struct Challenge {
    transaction: u16,
    hash: AuthenticationHash,
    group: DhGroup,
    exchange: Option<Exchange>,
    challenge: Vec<u8>,
    sequence: u32,
}

/// What an Authentication Send leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// The transaction goes on.
    Accepted,
    /// The host has given up: the connection is to be closed.
    Over,
}

/// What an Authentication Receive gives.
pub(super) struct Received {
    /// The message.
    pub(super) message: Vec<u8>,
    /// It is a failure: the connection is to be closed after it.
    pub(super) failed: bool,
}

/// Authentication on one queue.
pub(super) struct Session {
    credentials: HostCredentials,
    subsystem: String,
    step: Step,
    authenticated: bool,
    /// S1 of the last challenge; each has another.
    sequence: u32,
}

impl Session {
    pub(super) fn new(credentials: HostCredentials, subsystem: String) -> Self {
        Self { credentials, subsystem, step: Step::Idle, authenticated: false, sequence: 0 }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// The host that is to prove who it is.
    pub(super) fn host(&self) -> &str {
        self.credentials.host()
    }

    /// Whether the last message ended the transaction in a failure.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.step, Step::Failure1 { .. } | Step::Over)
    }

    /// Takes the message of an Authentication Send.
    pub(super) fn send(&mut self, data: &[u8], entropy: &mut dyn Entropy) -> Sent {
        match HostMessage::parse(data) {
            Ok(HostMessage::Negotiate(offer)) => {
                let transaction = offer.transaction;
                self.step = match self.negotiate(offer, entropy) {
                    Ok(challenge) => Step::Challenge(Box::new(challenge)),
                    Err(failure) => Step::Failure1 { transaction, failure },
                };
            }
            Ok(HostMessage::Failure2 { .. }) => {
                self.authenticated = false;
                self.step = Step::Over;
                return Sent::Over;
            }
            Ok(HostMessage::Reply(reply)) => match std::mem::replace(&mut self.step, Step::Idle) {
                Step::Reply(challenge) if challenge.transaction == reply.transaction => {
                    let transaction = reply.transaction;
                    self.step = match self.verify(&challenge, &reply) {
                        Ok(response) => Step::Success1 { transaction, hash: challenge.hash, response },
                        Err(failure) => Step::Failure1 { transaction, failure },
                    };
                }
                step => self.unexpected(step),
            },
            Ok(HostMessage::Success2 { transaction }) => match std::mem::replace(&mut self.step, Step::Idle) {
                Step::Success2 { transaction: mine } if mine == transaction => {}
                step => self.unexpected(step),
            },
            Err(failure) => {
                let transaction = self.step.transaction();
                self.step = Step::Failure1 { transaction, failure };
            }
        }
        if matches!(self.step, Step::Failure1 { .. }) {
            self.authenticated = false;
        }
        Sent::Accepted
    }

    fn unexpected(&mut self, step: Step) {
        let transaction = step.transaction();
        self.step = Step::Failure1 { transaction, failure: AuthenticationFailure::IncorrectMessage };
    }

    /// The message of an Authentication Receive.
    pub(super) fn receive(&mut self) -> Received {
        let ended = |message: ControllerMessage, failed| Received { message: message.to_bytes(), failed };
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Challenge(challenge) => {
                let message = challenge.message();
                self.step = Step::Reply(challenge);
                ended(message, false)
            }
            Step::Success1 { transaction, hash, response } => {
                // A host that asked for the controller's response has still to
                // accept it; the controller knows the host in either case.
                self.step = match &response {
                    Some(_) => Step::Success2 { transaction },
                    None => Step::Idle,
                };
                self.authenticated = true;
                ended(ControllerMessage::Success1 { transaction, hash, response }, false)
            }
            Step::Failure1 { transaction, failure } => {
                self.authenticated = false;
                ended(ControllerMessage::Failure1 { transaction, failure }, true)
            }
            // Nothing is to be fetched now.
            step => {
                let (transaction, failure) = (step.transaction(), AuthenticationFailure::IncorrectMessage);
                self.authenticated = false;
                ended(ControllerMessage::Failure1 { transaction, failure }, true)
            }
        }
    }

    fn negotiate(&mut self, offer: Negotiation, entropy: &mut dyn Entropy) -> Result<Challenge, AuthenticationFailure> {
        // TLS with the session's key is not offered.
        if offer.secure_channel != 0 {
            return Err(AuthenticationFailure::SecureChannelMismatch);
        }
        let hash = HASHES.into_iter().find(|hash| offer.hashes.contains(hash));
        let hash = hash.ok_or(AuthenticationFailure::HashNotUsable)?;
        let group = GROUPS.into_iter().find(|group| offer.groups.contains(group));
        let group = group.ok_or(AuthenticationFailure::GroupNotUsable)?;
        let mut challenge = vec![0; hash.bytes()];
        entropy.fill(&mut challenge);
        if self.sequence == 0 {
            let mut bytes = [0; 4];
            entropy.fill(&mut bytes);
            self.sequence = u32::from_le_bytes(bytes);
        }
        // 0 would say that there is no challenge.
        self.sequence = self.sequence.wrapping_add(1).max(1);
        Ok(Challenge {
            transaction: offer.transaction,
            hash,
            group,
            exchange: Exchange::new(group, entropy),
            challenge,
            sequence: self.sequence,
        })
    }

    /// Checks a host's reply; the controller's response, where the host asks for one.
    fn verify(
        &self,
        challenge: &Challenge,
        reply: &AuthenticationReply,
    ) -> Result<Option<Vec<u8>>, AuthenticationFailure> {
        let hash = challenge.hash;
        if reply.response.len() != hash.bytes() {
            return Err(AuthenticationFailure::IncorrectPayload);
        }
        let secret = match &challenge.exchange {
            None if reply.exponential.is_empty() => Vec::new(),
            None => return Err(AuthenticationFailure::IncorrectPayload),
            Some(exchange) => exchange.shared(&reply.exponential).ok_or(AuthenticationFailure::IncorrectPayload)?,
        };
        let (host, subsystem) = (self.credentials.host(), &*self.subsystem);
        let (transaction, secure_channel) = (challenge.transaction, 0);
        let exchanged = Exchanged { sequence: challenge.sequence, transaction, secure_channel, host, subsystem };
        let key = self.credentials.secret.key_of(host);
        let expected = exchanged.host_response(hash, &key, &augmented(hash, &secret, &challenge.challenge));
        if !bool::from(expected.ct_eq(&reply.response)) {
            return Err(AuthenticationFailure::Failed);
        }
        let Some(asked) = &reply.challenge else { return Ok(None) };
        // Its own challenge sent back would make the controller answer for the
        // host, were both secrets the same.
        if *asked == challenge.challenge {
            return Err(AuthenticationFailure::Failed);
        }
        let controller = self.credentials.controller.as_ref().ok_or(AuthenticationFailure::Failed)?;
        let exchanged = Exchanged { sequence: reply.sequence, ..exchanged };
        let key = controller.key_of(subsystem);
        Ok(Some(exchanged.controller_response(hash, &key, &augmented(hash, &secret, asked))))
    }
}

impl Step {
    fn transaction(&self) -> u16 {
        match self {
            Self::Idle | Self::Over => 0,
            Self::Challenge(challenge) | Self::Reply(challenge) => challenge.transaction,
            Self::Success1 { transaction, .. }
            | Self::Success2 { transaction }
            | Self::Failure1 { transaction, .. } => *transaction,
        }
    }
}

impl Challenge {
    fn message(&self) -> ControllerMessage {
        ControllerMessage::Challenge {
            transaction: self.transaction,
            hash: self.hash,
            group: self.group,
            sequence: self.sequence,
            challenge: self.challenge.clone(),
            exponential: self.exchange.as_ref().map(Exchange::public).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
