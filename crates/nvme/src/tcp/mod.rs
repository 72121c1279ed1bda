//! The protocol data units of NVMe/TCP (NVMe TCP Transport Specification 1.0c,
//! "TCP"), and what makes them valid.
//!
//! A PDU on the wire is a header of 8 to 128 bytes, an optional header digest,
//! padding up to the PDU Data Offset, data, and an optional data digest (TCP
//! 3.1). [`header_bytes`] says from the first 8 bytes how much to read before
//! [`decode`] can judge the header; its [`Layout`] says where the data is. So a
//! receiver never waits for, or makes room for, bytes that a wrong header
//! announced.
//!
//! What is wrong is a [`PduError`]: it names the Fatal Error Status and the
//! field, as the terminate request that answers it must.

mod common;
mod decode;
mod digest;
mod encode;
mod error;
mod layout;
mod pdu;
mod terminate;

pub use common::{CommonHeader, HEADER_BYTES, PduFlags, PduType};
pub use decode::{decode, header_bytes};
pub use digest::{DIGEST_BYTES, Digests, digest};
pub use encode::{EncodedData, encode};
pub use error::{Direction, FatalErrorStatus, Field, PduError};
pub use layout::{Alignment, Format, Layout};
pub use pdu::{C2hData, H2cData, InitializeRequest, InitializeResponse, Pdu, ReadyToTransfer};
pub use terminate::{MAX_OFFENDING_BYTES, TerminateRequest};

/// The port registered for NVMe over TCP, of discovery and I/O controllers alike
/// in this implementation (TCP 3.1.1).
pub const NVME_TCP_PORT: u16 = 4420;

/// PDU Format Version that this crate speaks (TCP figures 17 and 18).
pub const PDU_FORMAT_VERSION: u16 = 0;

/// In-capsule data that every controller takes with Fabrics and Admin commands
/// (TCP 3.3.2.1.1).
pub const ADMIN_IN_CAPSULE_BYTES: u32 = 8192;

/// The smallest MAXH2CDATA (TCP figure 18).
pub const MIN_MAX_H2C_DATA_BYTES: u32 = 4096;
