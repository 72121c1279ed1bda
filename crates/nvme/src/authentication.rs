//! Messages of DH-HMAC-CHAP (Base 8.13.5): what Authentication Send and
//! Authentication Receive carry. No cryptography is here.

/// AUTH_TYPE of messages common to all protocols.
const COMMON: u8 = 0x00;
/// AUTH_TYPE of DH-HMAC-CHAP's own messages.
const DH_HMAC_CHAP: u8 = 0x01;

const NEGOTIATE: u8 = 0x00;
const CHALLENGE: u8 = 0x01;
const REPLY: u8 = 0x02;
const SUCCESS1: u8 = 0x03;
const SUCCESS2: u8 = 0x04;
const FAILURE2: u8 = 0xf0;
const FAILURE1: u8 = 0xf1;

/// AuthID of DH-HMAC-CHAP in a protocol descriptor.
const PROTOCOL_DH_HMAC_CHAP: u8 = 0x01;
/// Size of an authentication protocol descriptor.
const DESCRIPTOR_BYTES: usize = 64;
/// Where the Diffie-Hellman groups begin in a descriptor's list of identifiers.
const GROUPS_AT: usize = 30;

/// Hash functions (HashID; Base figure 447).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum AuthenticationHash {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-384.
    Sha384 = 2,
    /// SHA-512.
    Sha512 = 3,
}

impl AuthenticationHash {
    /// The hash function with this identifier.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Sha256,
            2 => Self::Sha384,
            3 => Self::Sha512,
            _ => return None,
        })
    }

    /// Size of its values in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// Diffie-Hellman groups (DHgID; Base figure 448): none, and those of RFC 7919.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DhGroup {
    /// NULL: no exchange.
    Null = 0,
    /// ffdhe2048.
    Ffdhe2048 = 1,
    /// ffdhe3072.
    Ffdhe3072 = 2,
    /// ffdhe4096.
    Ffdhe4096 = 3,
    /// ffdhe6144.
    Ffdhe6144 = 4,
    /// ffdhe8192.
    Ffdhe8192 = 5,
}

impl DhGroup {
    /// The group with this identifier.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Null,
            1 => Self::Ffdhe2048,
            2 => Self::Ffdhe3072,
            3 => Self::Ffdhe4096,
            4 => Self::Ffdhe6144,
            5 => Self::Ffdhe8192,
            _ => return None,
        })
    }

    /// Size of its values in bytes; 0 for NULL.
    pub fn bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 256,
            Self::Ffdhe3072 => 384,
            Self::Ffdhe4096 => 512,
            Self::Ffdhe6144 => 768,
            Self::Ffdhe8192 => 1024,
        }
    }
}

/// Why authentication failed (Reason Code Explanation; Base figure 442), with
/// Reason Code 01h, the only one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum AuthenticationFailure {
    /// Authentication failed.
    Failed = 0x01,
    /// No authentication protocol is usable.
    ProtocolNotUsable = 0x02,
    /// Secure channel concatenation does not match.
    SecureChannelMismatch = 0x03,
    /// No hash function is usable.
    HashNotUsable = 0x04,
    /// No Diffie-Hellman group is usable.
    GroupNotUsable = 0x05,
    /// A message's content is wrong.
    IncorrectPayload = 0x06,
    /// A message came that was not expected.
    IncorrectMessage = 0x07,
}

/// What a host offers in AUTH_Negotiate (Base 8.13.5.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiation {
    /// Transaction Identifier (T_ID).
    pub transaction: u16,
    /// Secure Channel Concatenation (SC_C): not 0 where the host wants TLS keys.
    pub secure_channel: u8,
    /// Hash functions, preferred ones first; identifiers not known are left out.
    pub hashes: Vec<AuthenticationHash>,
    /// Diffie-Hellman groups, likewise.
    pub groups: Vec<DhGroup>,
}

/// A message of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostMessage {
    /// AUTH_Negotiate: begins a transaction.
    Negotiate(Negotiation),
    /// DH-HMAC-CHAP_Reply (Base 8.13.5.4).
    Reply(AuthenticationReply),
    /// DH-HMAC-CHAP_Success2: the host has accepted the controller's response.
    Success2 {
        /// Transaction Identifier.
        transaction: u16,
    },
    /// AUTH_Failure2: the host gives up.
    Failure2 {
        /// Transaction Identifier.
        transaction: u16,
        /// Reason Code Explanation.
        explanation: u8,
    },
}

/// DH-HMAC-CHAP_Reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthenticationReply {
    /// Transaction Identifier.
    pub transaction: u16,
    /// R1: the answer to the controller's challenge.
    pub response: Vec<u8>,
    /// S2 and C2: the host's challenge, where it wants the controller to
    /// authenticate itself (CVALID).
    pub challenge: Option<Vec<u8>>,
    /// Sequence Number S2.
    pub sequence: u32,
    /// The host's Diffie-Hellman value; empty for NULL.
    pub exponential: Vec<u8>,
}

impl HostMessage {
    /// Takes the message of an Authentication Send apart.
    ///
    /// # Errors
    ///
    /// What AUTH_Failure1 is to say about it.
    pub fn parse(data: &[u8]) -> Result<Self, AuthenticationFailure> {
        use AuthenticationFailure::{IncorrectMessage, IncorrectPayload, ProtocolNotUsable};
        let mut bytes = Reader(data);
        let [kind, message] = bytes.array().ok_or(IncorrectPayload)?;
        let [_, _] = bytes.array().ok_or(IncorrectPayload)?;
        let transaction = u16::from_le_bytes(bytes.array().ok_or(IncorrectPayload)?);
        match (kind, message) {
            (COMMON, NEGOTIATE) => {
                let [secure_channel, protocols] = bytes.array().ok_or(IncorrectPayload)?;
                let mut offer = None;
                for _ in 0..protocols {
                    let descriptor: [u8; DESCRIPTOR_BYTES] = bytes.array().ok_or(IncorrectPayload)?;
                    if descriptor[0] == PROTOCOL_DH_HMAC_CHAP && offer.is_none() {
                        offer = Some(descriptor);
                    }
                }
                let [_, _, hashes, groups, lists @ ..] = offer.ok_or(ProtocolNotUsable)?;
                let (hash_list, group_list) = lists.split_at(GROUPS_AT);
                let hashes = hash_list.get(..usize::from(hashes)).ok_or(IncorrectPayload)?;
                let groups = group_list.get(..usize::from(groups)).ok_or(IncorrectPayload)?;
                Ok(Self::Negotiate(Negotiation {
                    transaction,
                    secure_channel,
                    hashes: hashes.iter().filter_map(|code| AuthenticationHash::from_code(*code)).collect(),
                    groups: groups.iter().filter_map(|code| DhGroup::from_code(*code)).collect(),
                }))
            }
            (DH_HMAC_CHAP, REPLY) => {
                let [hash_bytes, _, challenge_valid, _] = bytes.array().ok_or(IncorrectPayload)?;
                let exponential_bytes = u16::from_le_bytes(bytes.array().ok_or(IncorrectPayload)?);
                let sequence = u32::from_le_bytes(bytes.array().ok_or(IncorrectPayload)?);
                let response = bytes.take(hash_bytes.into()).ok_or(IncorrectPayload)?.to_vec();
                let challenge = bytes.take(hash_bytes.into()).ok_or(IncorrectPayload)?.to_vec();
                let exponential = bytes.take(exponential_bytes.into()).ok_or(IncorrectPayload)?.to_vec();
                let challenge = (challenge_valid & 1 != 0).then_some(challenge);
                Ok(Self::Reply(AuthenticationReply { transaction, response, challenge, sequence, exponential }))
            }
            (DH_HMAC_CHAP, SUCCESS2) => Ok(Self::Success2 { transaction }),
            (COMMON, FAILURE2) => {
                let [_, explanation] = bytes.array().ok_or(IncorrectPayload)?;
                Ok(Self::Failure2 { transaction, explanation })
            }
            _ => Err(IncorrectMessage),
        }
    }

    /// The message's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = |kind, message, transaction: u16| {
            let [low, high] = transaction.to_le_bytes();
            vec![kind, message, 0, 0, low, high]
        };
        match self {
            Self::Negotiate(offer) => {
                let mut bytes = head(COMMON, NEGOTIATE, offer.transaction);
                bytes.extend([offer.secure_channel, 1]);
                let mut descriptor = [0; DESCRIPTOR_BYTES];
                let (hashes, groups) = (offer.hashes.len().min(GROUPS_AT), offer.groups.len().min(GROUPS_AT));
                descriptor[..4].copy_from_slice(&[PROTOCOL_DH_HMAC_CHAP, 0, hashes as u8, groups as u8]);
                for (code, hash) in descriptor[4..4 + hashes].iter_mut().zip(&offer.hashes) {
                    *code = *hash as u8;
                }
                for (code, group) in descriptor[4 + GROUPS_AT..][..groups].iter_mut().zip(&offer.groups) {
                    *code = *group as u8;
                }
                bytes.extend(descriptor);
                bytes
            }
            Self::Reply(reply) => {
                let mut bytes = head(DH_HMAC_CHAP, REPLY, reply.transaction);
                bytes.extend([reply.response.len() as u8, 0, u8::from(reply.challenge.is_some()), 0]);
                bytes.extend((reply.exponential.len() as u16).to_le_bytes());
                bytes.extend(reply.sequence.to_le_bytes());
                bytes.extend(&reply.response);
                match &reply.challenge {
                    Some(challenge) => bytes.extend(challenge),
                    None => bytes.extend(std::iter::repeat_n(0, reply.response.len())),
                }
                bytes.extend(&reply.exponential);
                bytes
            }
            Self::Success2 { transaction } => {
                let mut bytes = head(DH_HMAC_CHAP, SUCCESS2, *transaction);
                bytes.extend([0; 10]);
                bytes
            }
            Self::Failure2 { transaction, explanation } => {
                let mut bytes = head(COMMON, FAILURE2, *transaction);
                bytes.extend([1, *explanation]);
                bytes
            }
        }
    }
}

/// A message of the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControllerMessage {
    /// DH-HMAC-CHAP_Challenge (Base 8.13.5.3).
    Challenge {
        /// Transaction Identifier.
        transaction: u16,
        /// The hash function chosen.
        hash: AuthenticationHash,
        /// The group chosen.
        group: DhGroup,
        /// Sequence Number S1.
        sequence: u32,
        /// C1.
        challenge: Vec<u8>,
        /// The controller's Diffie-Hellman value; empty for NULL.
        exponential: Vec<u8>,
    },
    /// DH-HMAC-CHAP_Success1 (Base 8.13.5.5).
    Success1 {
        /// Transaction Identifier.
        transaction: u16,
        /// The hash function in use.
        hash: AuthenticationHash,
        /// R2: the answer to the host's challenge, where it gave one.
        response: Option<Vec<u8>>,
    },
    /// AUTH_Failure1.
    Failure1 {
        /// Transaction Identifier.
        transaction: u16,
        /// Why.
        failure: AuthenticationFailure,
    },
}

impl ControllerMessage {
    /// The message's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = |kind, message, transaction: u16| {
            let [low, high] = transaction.to_le_bytes();
            vec![kind, message, 0, 0, low, high]
        };
        match self {
            Self::Challenge { transaction, hash, group, sequence, challenge, exponential } => {
                let mut bytes = head(DH_HMAC_CHAP, CHALLENGE, *transaction);
                bytes.extend([hash.bytes() as u8, 0, *hash as u8, *group as u8]);
                bytes.extend((exponential.len() as u16).to_le_bytes());
                bytes.extend(sequence.to_le_bytes());
                bytes.extend(challenge);
                bytes.extend(exponential);
                bytes
            }
            Self::Success1 { transaction, hash, response } => {
                let mut bytes = head(DH_HMAC_CHAP, SUCCESS1, *transaction);
                bytes.extend([hash.bytes() as u8, 0, u8::from(response.is_some())]);
                bytes.extend([0; 7]);
                bytes.extend(response.iter().flatten());
                bytes
            }
            Self::Failure1 { transaction, failure } => {
                let mut bytes = head(COMMON, FAILURE1, *transaction);
                bytes.extend([1, *failure as u8]);
                bytes
            }
        }
    }

    /// Takes the message of an Authentication Receive apart; `None` where it is none.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let mut bytes = Reader(data);
        let [kind, message, _, _] = bytes.array()?;
        let transaction = u16::from_le_bytes(bytes.array()?);
        Some(match (kind, message) {
            (DH_HMAC_CHAP, CHALLENGE) => {
                let [hash_bytes, _, hash, group] = bytes.array()?;
                let (hash, group) = (AuthenticationHash::from_code(hash)?, DhGroup::from_code(group)?);
                let exponential_bytes = u16::from_le_bytes(bytes.array()?);
                let sequence = u32::from_le_bytes(bytes.array()?);
                let challenge = bytes.take(hash_bytes.into())?.to_vec();
                let exponential = bytes.take(exponential_bytes.into())?.to_vec();
                Self::Challenge { transaction, hash, group, sequence, challenge, exponential }
            }
            (DH_HMAC_CHAP, SUCCESS1) => {
                let [hash_bytes, _, valid] = bytes.array()?;
                let [_, _, _, _, _, _, _] = bytes.array()?;
                let hash = [AuthenticationHash::Sha256, AuthenticationHash::Sha384, AuthenticationHash::Sha512]
                    .into_iter()
                    .find(|hash| hash.bytes() == usize::from(hash_bytes))?;
                let response = match valid & 1 {
                    0 => None,
                    _ => Some(bytes.take(hash_bytes.into())?.to_vec()),
                };
                Self::Success1 { transaction, hash, response }
            }
            (COMMON, FAILURE1) => {
                use AuthenticationFailure as Failure;
                let [_, explanation] = bytes.array()?;
                let failure = match explanation {
                    0x01 => Failure::Failed,
                    0x02 => Failure::ProtocolNotUsable,
                    0x03 => Failure::SecureChannelMismatch,
                    0x04 => Failure::HashNotUsable,
                    0x05 => Failure::GroupNotUsable,
                    0x06 => Failure::IncorrectPayload,
                    0x07 => Failure::IncorrectMessage,
                    _ => return None,
                };
                Self::Failure1 { transaction, failure }
            }
            _ => return None,
        })
    }
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}
