//! The handshake phase: option haggling (doc/proto.md, "Fixed newstyle
//! negotiation"). Sans-IO: bytes in, bytes out.

use units::Printable;
use zerocopy::{FromBytes, IntoBytes};

use super::export::{Export, Exports};
use super::proto::{
    HandshakeFlags, IHAVEOPT, NBD_MAX_STRING, NBD_OPTION_REPLY_MAGIC, NBDMAGIC, OptionHeader, OptionReplyHeader,
    TransmissionFlags, info, opt, rep,
};

/// Longest option data that is looked at. The largest honest one is NBD_OPT_GO:
/// a string and a few numbers.
pub(crate) const MAX_OPTION_BYTES: u32 = NBD_MAX_STRING + 1024;

/// Options a client may send before it is taken for a hostile one.
const MAX_OPTIONS: u32 = 256;

/// A client broke the protocol beyond repair and is to be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("client flags {0:#x} are not known")]
    ClientFlags(u32),
    #[error("option magic {0:#018x} instead of IHAVEOPT")]
    OptionMagic(u64),
    #[error("option {option} with {length} bytes of data")]
    OptionLength { option: u32, length: u32 },
    #[error("more than {MAX_OPTIONS} options")]
    TooManyOptions,
    #[error("NBD_OPT_EXPORT_NAME asks for `{0}`, which is not exported")]
    UnknownExport(String),
    #[error("request magic {0:#010x}")]
    RequestMagic(u32),
}

/// What the client settled on.
#[derive(Debug, Clone)]
pub(crate) struct Negotiated {
    pub(crate) export: Export,
    pub(crate) structured_replies: bool,
}

/// How the handshake stands.
#[derive(Debug)]
pub(crate) enum Progress {
    /// More input is needed.
    Continue,
    /// The transmission phase begins.
    Transmission(Box<Negotiated>),
    /// The client said good-bye.
    Abort,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    Option,
}

/// One client's handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    no_zeroes: bool,
    structured_replies: bool,
    options: u32,
}

impl Handshake {
    /// Starts with the server's greeting.
    pub(crate) fn start(output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&NBDMAGIC.to_be_bytes());
        output.extend_from_slice(&IHAVEOPT.to_be_bytes());
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        output.extend_from_slice(&(flags.bits() as u16).to_be_bytes());
        Self { state: State::ClientFlags, no_zeroes: false, structured_replies: false, options: 0 }
    }

    /// Takes one message from the front of `input`, if it is whole; returns the
    /// bytes used (0 when it is not) and appends the answer to `output`.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        exports: &Exports,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), ProtocolError> {
        if self.state == State::ClientFlags {
            let Some(bytes) = input.first_chunk::<4>() else { return Ok((0, Progress::Continue)) };
            let bits = u32::from_be_bytes(*bytes);
            let flags = HandshakeFlags::from_bits(bits).ok_or(ProtocolError::ClientFlags(bits))?;
            self.no_zeroes = flags.contains(HandshakeFlags::NO_ZEROES);
            self.state = State::Option;
            return Ok((4, Progress::Continue));
        }
        let Ok((header, rest)) = OptionHeader::read_from_prefix(input) else { return Ok((0, Progress::Continue)) };
        if header.magic.get() != IHAVEOPT {
            return Err(ProtocolError::OptionMagic(header.magic.get()));
        }
        let (option, length) = (header.option.get(), header.length.get());
        if length > MAX_OPTION_BYTES {
            return Err(ProtocolError::OptionLength { option, length });
        }
        let Some(data) = rest.get(..length as usize) else { return Ok((0, Progress::Continue)) };
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(ProtocolError::TooManyOptions);
        }
        let progress = self.option(option, data, exports, output)?;
        Ok((size_of::<OptionHeader>() + data.len(), progress))
    }

    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &Exports,
        output: &mut Vec<u8>,
    ) -> Result<Progress, ProtocolError> {
        match option {
            opt::EXPORT_NAME => {
                let Some(export) = exports.find(data) else {
                    // This option has no error reply; the server can only leave.
                    return Err(ProtocolError::UnknownExport(Printable::bytes(data).to_string()));
                };
                output.extend_from_slice(&export.size_bytes.to_be_bytes());
                output.extend_from_slice(&self.flags(export).bits().to_be_bytes());
                if !self.no_zeroes {
                    output.extend_from_slice(&[0; 124]);
                }
                return Ok(self.transmission(export));
            }
            opt::ABORT => {
                reply(output, option, rep::ACK, &[]);
                return Ok(Progress::Abort);
            }
            opt::LIST if !data.is_empty() => refuse(output, option, rep::ERR_INVALID, "NBD_OPT_LIST takes no data"),
            opt::LIST => {
                for export in exports.iter() {
                    let mut body = (export.name.len() as u32).to_be_bytes().to_vec();
                    body.extend_from_slice(export.name.as_bytes());
                    body.extend_from_slice(export.description.as_bytes());
                    reply(output, option, rep::SERVER, &body);
                }
                reply(output, option, rep::ACK, &[]);
            }
            opt::STRUCTURED_REPLY if !data.is_empty() => {
                refuse(output, option, rep::ERR_INVALID, "NBD_OPT_STRUCTURED_REPLY takes no data");
            }
            opt::STRUCTURED_REPLY => {
                self.structured_replies = true;
                reply(output, option, rep::ACK, &[]);
            }
            opt::STARTTLS => refuse(output, option, rep::ERR_POLICY, "this server has no TLS"),
            opt::INFO | opt::GO => {
                let Some((name, wanted)) = parse_info_request(data) else {
                    refuse(output, option, rep::ERR_INVALID, "malformed export name or information requests");
                    return Ok(Progress::Continue);
                };
                let Some(export) = exports.find(name) else {
                    refuse(output, option, rep::ERR_UNKNOWN, "no export of that name; NBD_OPT_LIST tells them");
                    return Ok(Progress::Continue);
                };
                self.send_info(option, export, &wanted, output);
                reply(output, option, rep::ACK, &[]);
                if option == opt::GO {
                    return Ok(self.transmission(export));
                }
            }
            _ => refuse(output, option, rep::ERR_UNSUP, "option not supported"),
        }
        Ok(Progress::Continue)
    }

    fn transmission(&self, export: &Export) -> Progress {
        let export = Export { flags: self.flags(export), ..export.clone() };
        Progress::Transmission(Box::new(Negotiated { export, structured_replies: self.structured_replies }))
    }

    /// NBD_FLAG_SEND_DF may be set only where structured replies were agreed on.
    fn flags(&self, export: &Export) -> TransmissionFlags {
        let mut flags = export.flags;
        flags.set(TransmissionFlags::SEND_DF, self.structured_replies);
        flags
    }

    fn send_info(&self, option: u32, export: &Export, wanted: &[u16], output: &mut Vec<u8>) {
        let mut body = info::EXPORT.to_be_bytes().to_vec();
        body.extend_from_slice(&export.size_bytes.to_be_bytes());
        body.extend_from_slice(&self.flags(export).bits().to_be_bytes());
        reply(output, option, rep::INFO, &body);

        // Sent unasked too: the minimum differs from the default of one byte.
        let mut body = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for bytes in [export.minimum_block_bytes, export.preferred_block_bytes, export.maximum_request_bytes] {
            body.extend_from_slice(&bytes.to_be_bytes());
        }
        reply(output, option, rep::INFO, &body);

        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wanted.contains(&kind) {
                let mut body = kind.to_be_bytes().to_vec();
                body.extend_from_slice(text.as_bytes());
                reply(output, option, rep::INFO, &body);
            }
        }
    }
}

/// Export name and information requests of NBD_OPT_INFO and NBD_OPT_GO.
fn parse_info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length);
    if length > NBD_MAX_STRING {
        return None;
    }
    let (name, rest) = rest.split_at_checked(length as usize)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (requests, []) = rest.as_chunks::<2>() else { return None };
    let wanted: Vec<u16> = requests.iter().map(|bytes| u16::from_be_bytes(*bytes)).collect();
    (wanted.len() == usize::from(u16::from_be_bytes(*count))).then_some((name, wanted))
}

fn reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let header = OptionReplyHeader {
        magic: NBD_OPTION_REPLY_MAGIC.into(),
        option: option.into(),
        reply: kind.into(),
        length: (data.len() as u32).into(),
    };
    output.extend_from_slice(header.as_bytes());
    output.extend_from_slice(data);
}

fn refuse(output: &mut Vec<u8>, option: u32, kind: u32, message: &str) {
    reply(output, option, kind, message.as_bytes());
}
