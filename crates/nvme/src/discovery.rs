//! The Discovery log page (LID 70h; Base 5.16.1.23, figures 261 to 264).

use std::net::{IpAddr, SocketAddr};

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::{FactsError, write_text};

/// Transport Type (TRTYPE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TransportType {
    /// RDMA.
    Rdma = 1,
    /// Fibre Channel.
    FibreChannel = 2,
    /// TCP.
    Tcp = 3,
}

/// Subsystem Type (SUBTYPE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum SubsystemType {
    /// A referral to another discovery service.
    Referral = 1,
    /// An NVM subsystem.
    Nvm = 2,
    /// The discovery subsystem that gave the entry.
    CurrentDiscovery = 3,
}

/// ADRFAM: IPv4.
const FAMILY_IPV4: u8 = 1;
/// ADRFAM: IPv6.
const FAMILY_IPV6: u8 = 2;
/// TREQ bits 1:0 are 00b: without TLS there is nothing to say of a secure channel.
/// TREQ bit 2: hosts may disable SQ flow control.
const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
/// EFLAGS bit 1: the discovery service takes explicit persistent connections (EPCSD).
const PERSISTENT_CONNECTIONS: u16 = 1 << 1;

/// The head of the log page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DiscoveryLogHeader {
    /// Generation Counter: changes whenever the log page does.
    pub genctr: U64,
    /// Number of Records.
    pub numrec: U64,
    /// Record Format: 0.
    pub recfmt: U16,
    /// Reserved.
    pub rsvd18: [u8; 1006],
}

const _: () = assert!(size_of::<DiscoveryLogHeader>() == 1024);

impl DiscoveryLogHeader {
    /// The head of a page of `records` entries.
    pub fn new(generation: u64, records: u64) -> Self {
        Self { genctr: generation.into(), numrec: records.into(), recfmt: 0.into(), rsvd18: [0; 1006] }
    }
}

/// A Discovery Log Page Entry.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DiscoveryLogEntry {
    /// Transport Type.
    pub trtype: u8,
    /// Address Family.
    pub adrfam: u8,
    /// Subsystem Type.
    pub subtype: u8,
    /// Transport Requirements.
    pub treq: u8,
    /// Port ID.
    pub portid: U16,
    /// Controller ID: FFFFh, controllers are allocated dynamically.
    pub cntlid: U16,
    /// Admin Max SQ Size: 32 at least.
    pub asqsz: U16,
    /// Entry Flags.
    pub eflags: U16,
    /// Reserved.
    pub rsvd12: [u8; 20],
    /// Transport Service Identifier: the port, in decimal, padded with spaces.
    pub trsvcid: [u8; 32],
    /// Reserved.
    pub rsvd64: [u8; 192],
    /// NVM Subsystem Qualified Name.
    pub subnqn: [u8; 256],
    /// Transport Address, padded with spaces.
    pub traddr: [u8; 256],
    /// Transport Specific Address Subtype; byte 0 is TCP's Security Type.
    pub tsas: [u8; 256],
}

const _: () = assert!(size_of::<DiscoveryLogEntry>() == 1024);

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryFacts<'a> {
    /// What it leads to.
    pub kind: SubsystemType,
    /// The subsystem's name.
    pub nqn: &'a str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Number of the port of the NVM subsystem.
    pub port_id: u16,
    /// Entries of an admin queue, at most.
    pub admin_queue_entries: u16,
}

impl DiscoveryLogEntry {
    /// The entry for a subsystem that is reached by NVMe/TCP without TLS.
    ///
    /// # Errors
    ///
    /// When the name does not fit.
    pub fn of(facts: &DiscoveryFacts<'_>) -> Result<Self, FactsError> {
        let mut entry = Self::new_zeroed();
        entry.trtype = TransportType::Tcp as u8;
        entry.adrfam = if facts.address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
        entry.subtype = facts.kind as u8;
        entry.treq = FLOW_CONTROL_OPTIONAL;
        entry.portid = facts.port_id.into();
        entry.cntlid = crate::fabrics::CNTLID_DYNAMIC.into();
        entry.asqsz = facts.admin_queue_entries.into();
        if facts.kind == SubsystemType::CurrentDiscovery {
            entry.eflags = PERSISTENT_CONNECTIONS.into();
        }
        write_text("TRSVCID", &mut entry.trsvcid, &facts.address.port().to_string())?;
        write_text("SUBNQN", &mut entry.subnqn[..crate::fabrics::NQN_BYTES_MAX], facts.nqn)?;
        entry.subnqn[facts.nqn.len()..].fill(0);
        // An IPv6 address of the local link is of no use without its interface.
        let address = match facts.address {
            SocketAddr::V6(address) if address.scope_id() != 0 => format!("{}%{}", address.ip(), address.scope_id()),
            address => IpAddr::to_string(&address.ip()),
        };
        write_text("TRADDR", &mut entry.traddr, &address)?;
        Ok(entry)
    }
}
