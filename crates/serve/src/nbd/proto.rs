//! Numbers and message layouts of NBD `doc/proto.md`, under its names.
//!
//! All integers travel in network byte order.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "NBDMAGIC", the first eight bytes a server sends.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", before the handshake flags and before every option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const NBD_OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every simple reply.
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before every chunk of a structured reply.
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The TCP port registered for NBD.
pub const NBD_PORT: u16 = 10809;

/// Longest string (export name) the protocol allows.
pub const NBD_MAX_STRING: u32 = 4096;

bitflags::bitflags! {
    /// Handshake flags, both ways; the client's field is 32 bits wide.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct HandshakeFlags: u32 {
        /// NBD_FLAG_FIXED_NEWSTYLE: unknown options are refused, not fatal.
        const FIXED_NEWSTYLE = 1 << 0;
        /// NBD_FLAG_NO_ZEROES: no padding after the NBD_OPT_EXPORT_NAME answer.
        const NO_ZEROES = 1 << 1;
    }

    /// Transmission flags: what an export can do.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TransmissionFlags: u16 {
        /// NBD_FLAG_HAS_FLAGS.
        const HAS_FLAGS = 1 << 0;
        /// NBD_FLAG_READ_ONLY.
        const READ_ONLY = 1 << 1;
        /// NBD_FLAG_SEND_FLUSH.
        const SEND_FLUSH = 1 << 2;
        /// NBD_FLAG_SEND_FUA.
        const SEND_FUA = 1 << 3;
        /// NBD_FLAG_ROTATIONAL.
        const ROTATIONAL = 1 << 4;
        /// NBD_FLAG_SEND_TRIM.
        const SEND_TRIM = 1 << 5;
        /// NBD_FLAG_SEND_WRITE_ZEROES.
        const SEND_WRITE_ZEROES = 1 << 6;
        /// NBD_FLAG_SEND_DF.
        const SEND_DF = 1 << 7;
        /// NBD_FLAG_CAN_MULTI_CONN: a flush covers every connection's writes.
        const CAN_MULTI_CONN = 1 << 8;
    }

    /// Command flags of a request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CommandFlags: u16 {
        /// NBD_CMD_FLAG_FUA.
        const FUA = 1 << 0;
        /// NBD_CMD_FLAG_NO_HOLE.
        const NO_HOLE = 1 << 1;
        /// NBD_CMD_FLAG_DF.
        const DF = 1 << 2;
    }
}

/// Options of the handshake.
pub mod opt {
    /// NBD_OPT_EXPORT_NAME.
    pub const EXPORT_NAME: u32 = 1;
    /// NBD_OPT_ABORT.
    pub const ABORT: u32 = 2;
    /// NBD_OPT_LIST.
    pub const LIST: u32 = 3;
    /// NBD_OPT_STARTTLS.
    pub const STARTTLS: u32 = 5;
    /// NBD_OPT_INFO.
    pub const INFO: u32 = 6;
    /// NBD_OPT_GO.
    pub const GO: u32 = 7;
    /// NBD_OPT_STRUCTURED_REPLY.
    pub const STRUCTURED_REPLY: u32 = 8;
}

/// Replies to options; errors have bit 31 set.
pub mod rep {
    /// NBD_REP_ACK.
    pub const ACK: u32 = 1;
    /// NBD_REP_SERVER.
    pub const SERVER: u32 = 2;
    /// NBD_REP_INFO.
    pub const INFO: u32 = 3;
    /// NBD_REP_ERR_UNSUP.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// NBD_REP_ERR_POLICY.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// NBD_REP_ERR_INVALID.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// NBD_REP_ERR_UNKNOWN.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Information types of NBD_REP_INFO.
pub mod info {
    /// NBD_INFO_EXPORT.
    pub const EXPORT: u16 = 0;
    /// NBD_INFO_NAME.
    pub const NAME: u16 = 1;
    /// NBD_INFO_DESCRIPTION.
    pub const DESCRIPTION: u16 = 2;
    /// NBD_INFO_BLOCK_SIZE.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Request types.
pub mod cmd {
    /// NBD_CMD_READ.
    pub const READ: u16 = 0;
    /// NBD_CMD_WRITE.
    pub const WRITE: u16 = 1;
    /// NBD_CMD_DISC.
    pub const DISC: u16 = 2;
    /// NBD_CMD_FLUSH.
    pub const FLUSH: u16 = 3;
    /// NBD_CMD_TRIM.
    pub const TRIM: u16 = 4;
    /// NBD_CMD_WRITE_ZEROES.
    pub const WRITE_ZEROES: u16 = 6;
}

/// Chunk types of a structured reply; errors have bit 15 set.
pub mod reply_type {
    /// NBD_REPLY_TYPE_NONE.
    pub const NONE: u16 = 0;
    /// NBD_REPLY_TYPE_OFFSET_DATA.
    pub const OFFSET_DATA: u16 = 1;
    /// NBD_REPLY_TYPE_ERROR.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// NBD_REPLY_FLAG_DONE: the last chunk of a structured reply.
pub const NBD_REPLY_FLAG_DONE: u16 = 1 << 0;

/// Error values of replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NbdError {
    /// NBD_EPERM: a write to a read-only export.
    NotPermitted = 1,
    /// NBD_EIO.
    Io = 5,
    /// NBD_EINVAL: a request that breaks the rules of the export.
    Invalid = 22,
    /// NBD_ENOSPC: a write beyond the end, or a device out of room.
    NoSpace = 28,
}

/// Option header, client to server.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct OptionHeader {
    /// [`IHAVEOPT`].
    pub magic: U64,
    /// One of [`opt`].
    pub option: U32,
    /// Bytes of data that follow.
    pub length: U32,
}

/// Option reply header, server to client.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct OptionReplyHeader {
    /// [`NBD_OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// The option replied to.
    pub option: U32,
    /// One of [`rep`].
    pub reply: U32,
    /// Bytes of data that follow.
    pub length: U32,
}

/// Request message.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct RequestHeader {
    /// [`NBD_REQUEST_MAGIC`].
    pub magic: U32,
    /// [`CommandFlags`].
    pub flags: U16,
    /// One of [`cmd`].
    pub command: U16,
    /// The client's name for the request, returned in the reply.
    pub cookie: U64,
    /// First byte.
    pub offset: U64,
    /// Bytes.
    pub length: U32,
}

/// Simple reply message.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct SimpleReplyHeader {
    /// [`NBD_SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// 0 or an [`NbdError`].
    pub error: U32,
    /// The request's.
    pub cookie: U64,
}

/// Structured reply chunk message.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct StructuredReplyHeader {
    /// [`NBD_STRUCTURED_REPLY_MAGIC`].
    pub magic: U32,
    /// [`NBD_REPLY_FLAG_DONE`].
    pub flags: U16,
    /// One of [`reply_type`].
    pub reply_type: U16,
    /// The request's.
    pub cookie: U64,
    /// Bytes of payload that follow.
    pub length: U32,
}

const _: () = {
    assert!(size_of::<OptionHeader>() == 16);
    assert!(size_of::<OptionReplyHeader>() == 20);
    assert!(size_of::<RequestHeader>() == 28);
    assert!(size_of::<SimpleReplyHeader>() == 16);
    assert!(size_of::<StructuredReplyHeader>() == 20);
};
