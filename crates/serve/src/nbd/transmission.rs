//! The transmission phase: requests in, replies out (doc/proto.md,
//! "Transmission phase"). Sans-IO.

use nvme::Status;
use zerocopy::IntoBytes;

use super::export::Export;
use super::handshake::ProtocolError;
use super::proto::{
    CommandFlags, NBD_REPLY_FLAG_DONE, NBD_REQUEST_MAGIC, NBD_SIMPLE_REPLY_MAGIC, NBD_STRUCTURED_REPLY_MAGIC, NbdError,
    RequestHeader, SimpleReplyHeader, StructuredReplyHeader, TransmissionFlags, cmd, reply_type,
};
use crate::backend::Request;
use crate::output::Output;

/// How a request is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    /// The client's name for the request.
    pub(crate) cookie: u64,
    /// First byte of a read that is answered by a structured reply.
    pub(crate) structured_read: Option<u64>,
    /// Whether the request changes the export, for the choice of error.
    pub(crate) is_write: bool,
}

/// What a request header amounts to.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request without payload.
    Submit(Ticket, Request),
    /// A write whose `length` bytes of payload follow.
    Write { ticket: Ticket, offset: u64, length: u32, fua: bool },
    /// A request that breaks the rules; `payload` bytes that follow are skipped.
    Refuse { ticket: Ticket, error: NbdError, payload: u32 },
    /// NBD_CMD_DISC: finish what is outstanding and close.
    Disconnect,
}

/// Understands a request header.
pub(crate) fn parse(header: &RequestHeader, export: &Export, structured: bool) -> Result<Message, ProtocolError> {
    if header.magic.get() != NBD_REQUEST_MAGIC {
        return Err(ProtocolError::RequestMagic(header.magic.get()));
    }
    let (command, offset, length) = (header.command.get(), header.offset.get(), header.length.get());
    let is_write = matches!(command, cmd::WRITE | cmd::TRIM | cmd::WRITE_ZEROES);
    let structured_read = (command == cmd::READ && structured).then_some(offset);
    let ticket = Ticket { cookie: header.cookie.get(), structured_read, is_write };
    let payload = if command == cmd::WRITE { length } else { 0 };
    let refuse = |error| Ok(Message::Refuse { ticket, error, payload });

    if command == cmd::DISC {
        return Ok(Message::Disconnect);
    }
    // NBD_CMD_FLAG_FUA is to be accepted on every command, meaningful or not.
    let allowed = CommandFlags::FUA
        | match command {
            cmd::READ if export.flags.contains(TransmissionFlags::SEND_DF) => CommandFlags::DF,
            cmd::WRITE_ZEROES => CommandFlags::NO_HOLE,
            _ => CommandFlags::empty(),
        };
    let flags = match CommandFlags::from_bits(header.flags.get()) {
        Some(flags) if allowed.contains(flags) => flags,
        _ => return refuse(NbdError::Invalid),
    };
    if is_write && export.flags.contains(TransmissionFlags::READ_ONLY) {
        return refuse(NbdError::NotPermitted);
    }
    if command == cmd::FLUSH {
        return Ok(Message::Submit(ticket, Request::Flush));
    }
    let minimum = u64::from(export.minimum_block_bytes);
    let bytes = u64::from(length);
    // Only messages that carry data are bounded by the maximum block size.
    let too_large = matches!(command, cmd::READ | cmd::WRITE) && length > export.maximum_request_bytes;
    if length == 0 || offset % minimum != 0 || bytes % minimum != 0 || too_large {
        return refuse(NbdError::Invalid);
    }
    if offset.checked_add(bytes).is_none_or(|end| end > export.size_bytes) {
        return refuse(if is_write { NbdError::NoSpace } else { NbdError::Invalid });
    }
    let fua = flags.contains(CommandFlags::FUA);
    Ok(match command {
        cmd::READ => Message::Submit(ticket, Request::Read { offset, length }),
        cmd::WRITE => Message::Write { ticket, offset, length, fua },
        cmd::TRIM if export.flags.contains(TransmissionFlags::SEND_TRIM) => {
            Message::Submit(ticket, Request::Trim { offset, length: bytes, fua })
        }
        cmd::WRITE_ZEROES => {
            let deallocate = !flags.contains(CommandFlags::NO_HOLE);
            Message::Submit(ticket, Request::WriteZeroes { offset, length: bytes, fua, deallocate })
        }
        _ => return refuse(NbdError::Invalid),
    })
}

/// The error value that says what a command's status says.
pub(crate) fn error_of(status: Status, is_write: bool) -> NbdError {
    match status {
        Status::CAPACITY_EXCEEDED => NbdError::NoSpace,
        Status::LBA_OUT_OF_RANGE if is_write => NbdError::NoSpace,
        Status::LBA_OUT_OF_RANGE | Status::INVALID_FIELD | Status::INVALID_OPCODE | Status::INVALID_NAMESPACE => {
            NbdError::Invalid
        }
        _ => NbdError::Io,
    }
}

/// Appends the answer to a request. A read's data goes along in one chunk, so
/// NBD_CMD_FLAG_DF is honoured by every reply.
pub(crate) fn reply(output: &mut Output, ticket: Ticket, result: Result<Box<[u8]>, NbdError>) {
    match (ticket.structured_read, result) {
        (Some(offset), Ok(data)) => {
            let length = data.len() as u32 + 8;
            output.push(structured(ticket.cookie, reply_type::OFFSET_DATA, length).as_bytes());
            output.push(&offset.to_be_bytes());
            output.push_owned(data);
        }
        (Some(_), Err(error)) => {
            // Error value and an empty message.
            output.push(structured(ticket.cookie, reply_type::ERROR, 6).as_bytes());
            output.push(&(error as u32).to_be_bytes());
            output.push(&0u16.to_be_bytes());
        }
        (None, result) => {
            let (error, data) = match result {
                Ok(data) => (0, data),
                Err(error) => (error as u32, Box::default()),
            };
            let header = SimpleReplyHeader {
                magic: NBD_SIMPLE_REPLY_MAGIC.into(),
                error: error.into(),
                cookie: ticket.cookie.into(),
            };
            output.push(header.as_bytes());
            output.push_owned(data);
        }
    }
}

fn structured(cookie: u64, reply_type: u16, length: u32) -> StructuredReplyHeader {
    StructuredReplyHeader {
        magic: NBD_STRUCTURED_REPLY_MAGIC.into(),
        flags: NBD_REPLY_FLAG_DONE.into(),
        reply_type: reply_type.into(),
        cookie: cookie.into(),
        length: length.into(),
    }
}
