//! The Identify Controller data structure (Base 5.17.2.1, figure 275; the NVM
//! Command Set's own fields in NVM figure 101).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::{FactsError, IDENTIFY_BYTES, write_text};

/// The memory page that MDTS counts in: CAP.MPSMIN of a controller that takes
/// 4 KiB pages, as every modelled one does.
const PAGE_BYTES: u32 = 4096;

bitflags::bitflags! {
    /// Optional NVM Command Support (ONCS).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Oncs: u16 {
        /// Compare.
        const COMPARE = 1 << 0;
        /// Write Uncorrectable.
        const WRITE_UNCORRECTABLE = 1 << 1;
        /// Dataset Management.
        const DATASET_MANAGEMENT = 1 << 2;
        /// Write Zeroes.
        const WRITE_ZEROES = 1 << 3;
        /// The Save and Select fields of features.
        const SAVE_SELECT = 1 << 4;
        /// Reservations.
        const RESERVATIONS = 1 << 5;
        /// The Timestamp feature.
        const TIMESTAMP = 1 << 6;
        /// Verify.
        const VERIFY = 1 << 7;
        /// Copy.
        const COPY = 1 << 8;
    }

    /// Volatile Write Cache (VWC).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Vwc: u8 {
        /// A volatile write cache is present.
        const PRESENT = 1 << 0;
        /// Flush with the broadcast namespace is not supported.
        const FLUSH_ALL_UNSUPPORTED = 0b10 << 1;
        /// Flush with the broadcast namespace flushes all of them.
        const FLUSH_ALL_SUPPORTED = 0b11 << 1;
    }
}

/// A Power State Descriptor (Base figure 276).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct PowerStateDescriptor {
    /// Maximum Power (MP).
    pub mp: U16,
    /// Reserved.
    pub rsvd2: u8,
    /// Max Power Scale (MXPS) in bit 0, Non-Operational State (NOPS) in bit 1.
    pub flags: u8,
    /// Entry Latency (ENLAT) in microseconds.
    pub enlat: U32,
    /// Exit Latency (EXLAT) in microseconds.
    pub exlat: U32,
    /// Relative Read Throughput (RRT).
    pub rrt: u8,
    /// Relative Read Latency (RRL).
    pub rrl: u8,
    /// Relative Write Throughput (RWT).
    pub rwt: u8,
    /// Relative Write Latency (RWL).
    pub rwl: u8,
    /// Idle Power (IDLP).
    pub idlp: U16,
    /// Idle Power Scale (IPS).
    pub ips: u8,
    /// Reserved.
    pub rsvd19: u8,
    /// Active Power (ACTP).
    pub actp: U16,
    /// Active Power Workload (APW) and Active Power Scale (APS).
    pub apws: u8,
    /// Reserved.
    pub rsvd23: [u8; 9],
}

const _: () = assert!(size_of::<PowerStateDescriptor>() == 32);

/// The Identify Controller data structure.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyController {
    /// PCI Vendor ID.
    pub vid: U16,
    /// PCI Subsystem Vendor ID.
    pub ssvid: U16,
    /// Serial Number.
    pub sn: [u8; 20],
    /// Model Number.
    pub mn: [u8; 40],
    /// Firmware Revision.
    pub fr: [u8; 8],
    /// Recommended Arbitration Burst.
    pub rab: u8,
    /// IEEE OUI Identifier.
    pub ieee: [u8; 3],
    /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
    pub cmic: u8,
    /// Maximum Data Transfer Size: 2^mdts pages; 0 is no limit.
    pub mdts: u8,
    /// Controller ID.
    pub cntlid: U16,
    /// Version.
    pub ver: U32,
    /// RTD3 Resume Latency.
    pub rtd3r: U32,
    /// RTD3 Entry Latency.
    pub rtd3e: U32,
    /// Optional Asynchronous Events Supported.
    pub oaes: U32,
    /// Controller Attributes.
    pub ctratt: U32,
    /// Read Recovery Levels Supported.
    pub rrls: U16,
    /// Reserved.
    pub rsvd102: [u8; 9],
    /// Controller Type.
    pub cntrltype: u8,
    /// FRU Globally Unique Identifier.
    pub fguid: [u8; 16],
    /// Command Retry Delay Time 1.
    pub crdt1: U16,
    /// Command Retry Delay Time 2.
    pub crdt2: U16,
    /// Command Retry Delay Time 3.
    pub crdt3: U16,
    /// Reserved.
    pub rsvd134: [u8; 119],
    /// NVM Subsystem Report.
    pub nvmsr: u8,
    /// VPD Write Cycle Information.
    pub vwci: u8,
    /// Management Endpoint Capabilities.
    pub mec: u8,
    /// Optional Admin Command Support.
    pub oacs: U16,
    /// Abort Command Limit, zero-based.
    pub acl: u8,
    /// Asynchronous Event Request Limit, zero-based.
    pub aerl: u8,
    /// Firmware Updates.
    pub frmw: u8,
    /// Log Page Attributes.
    pub lpa: u8,
    /// Error Log Page Entries, zero-based.
    pub elpe: u8,
    /// Number of Power States Support, zero-based.
    pub npss: u8,
    /// Admin Vendor Specific Command Configuration.
    pub avscc: u8,
    /// Autonomous Power State Transition Attributes.
    pub apsta: u8,
    /// Warning Composite Temperature Threshold in kelvin.
    pub wctemp: U16,
    /// Critical Composite Temperature Threshold in kelvin.
    pub cctemp: U16,
    /// Maximum Time for Firmware Activation.
    pub mtfa: U16,
    /// Host Memory Buffer Preferred Size.
    pub hmpre: U32,
    /// Host Memory Buffer Minimum Size.
    pub hmmin: U32,
    /// Total NVM Capacity in bytes, 128 bits.
    pub tnvmcap: [u8; 16],
    /// Unallocated NVM Capacity in bytes, 128 bits.
    pub unvmcap: [u8; 16],
    /// Replay Protected Memory Block Support.
    pub rpmbs: U32,
    /// Extended Device Self-test Time.
    pub edstt: U16,
    /// Device Self-test Options.
    pub dsto: u8,
    /// Firmware Update Granularity.
    pub fwug: u8,
    /// Keep Alive Support.
    pub kas: U16,
    /// Host Controlled Thermal Management Attributes.
    pub hctma: U16,
    /// Minimum Thermal Management Temperature.
    pub mntmt: U16,
    /// Maximum Thermal Management Temperature.
    pub mxtmt: U16,
    /// Sanitize Capabilities.
    pub sanicap: U32,
    /// Host Memory Buffer Minimum Descriptor Entry Size.
    pub hmminds: U32,
    /// Host Memory Maximum Descriptors Entries.
    pub hmmaxd: U16,
    /// NVM Set Identifier Maximum.
    pub nsetidmax: U16,
    /// Endurance Group Identifier Maximum.
    pub endgidmax: U16,
    /// ANA Transition Time.
    pub anatt: u8,
    /// Asymmetric Namespace Access Capabilities.
    pub anacap: u8,
    /// ANA Group Identifier Maximum.
    pub anagrpmax: U32,
    /// Number of ANA Group Identifiers.
    pub nanagrpid: U32,
    /// Persistent Event Log Size.
    pub pels: U32,
    /// Domain Identifier.
    pub domainid: U16,
    /// Reserved.
    pub rsvd358: [u8; 10],
    /// Max Endurance Group Capacity in bytes, 128 bits.
    pub megcap: [u8; 16],
    /// Reserved.
    pub rsvd384: [u8; 128],
    /// Submission Queue Entry Size: required (3:0) and maximum (7:4), as powers
    /// of two.
    pub sqes: u8,
    /// Completion Queue Entry Size, likewise.
    pub cqes: u8,
    /// Maximum Outstanding Commands.
    pub maxcmd: U16,
    /// Number of Namespaces.
    pub nn: U32,
    /// Optional NVM Command Support, see [`Oncs`].
    pub oncs: U16,
    /// Fused Operation Support.
    pub fuses: U16,
    /// Format NVM Attributes.
    pub fna: u8,
    /// Volatile Write Cache, see [`Vwc`].
    pub vwc: u8,
    /// Atomic Write Unit Normal in logical blocks, zero-based.
    pub awun: U16,
    /// Atomic Write Unit Power Fail in logical blocks, zero-based.
    pub awupf: U16,
    /// I/O Command Set Vendor Specific Command Configuration.
    pub icsvscc: u8,
    /// Namespace Write Protection Capabilities.
    pub nwpc: u8,
    /// Atomic Compare & Write Unit.
    pub acwu: U16,
    /// Copy Descriptor Formats Supported.
    pub cdfs: U16,
    /// SGL Support.
    pub sgls: U32,
    /// Maximum Number of Allowed Namespaces.
    pub mnan: U32,
    /// Maximum Domain Namespace Attachments, 128 bits.
    pub maxdna: [u8; 16],
    /// Maximum I/O Controller Namespace Attachments.
    pub maxcna: U32,
    /// Reserved.
    pub rsvd564: [u8; 204],
    /// NVM Subsystem NVMe Qualified Name, terminated by zeroes.
    pub subnqn: [u8; 256],
    /// Reserved.
    pub rsvd1024: [u8; 768],
    /// I/O Queue Command Capsule Supported Size (fabrics).
    pub ioccsz: U32,
    /// I/O Queue Response Capsule Supported Size (fabrics).
    pub iorcsz: U32,
    /// In Capsule Data Offset (fabrics).
    pub icdoff: U16,
    /// Fabrics Controller Attributes.
    pub fcatt: u8,
    /// Maximum SGL Data Block Descriptors (fabrics).
    pub msdbd: u8,
    /// Optional Fabric Commands Support.
    pub ofcs: U16,
    /// Discovery Controller Type.
    pub dctype: u8,
    /// Reserved.
    pub rsvd1807: [u8; 241],
    /// Power State Descriptors.
    pub psd: [PowerStateDescriptor; 32],
    /// Vendor specific.
    pub vs: [u8; 1024],
}

const _: () = assert!(size_of::<IdentifyController>() == IDENTIFY_BYTES);

/// What a modelled controller has to say about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerFacts {
    /// Serial number, at most 20 characters.
    pub serial: String,
    /// Model, at most 40 characters.
    pub model: String,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// NVM subsystem qualified name, at most 223 characters.
    pub subnqn: String,
    /// Total capacity in bytes.
    pub capacity_bytes: u64,
    /// Number of namespaces.
    pub namespaces: u32,
    /// Largest transfer of one command in bytes; `None` for no limit.
    pub max_transfer_bytes: Option<u32>,
    /// Entries of an I/O queue.
    pub queue_depth: u16,
    /// Optional commands.
    pub oncs: Oncs,
    /// Whether a power cut empties the write cache.
    pub volatile_write_cache: bool,
}

impl IdentifyController {
    /// The structure for a controller of the NVM Command Set.
    ///
    /// # Errors
    ///
    /// When a fact has no form in the structure.
    pub fn of(facts: &ControllerFacts) -> Result<Self, FactsError> {
        let mut id = Self::new_zeroed();
        write_text("SN", &mut id.sn, &facts.serial)?;
        write_text("MN", &mut id.mn, &facts.model)?;
        write_text("FR", &mut id.fr, &facts.firmware)?;
        // NQNs are at most 223 bytes and end in a zero byte (Base 4.5).
        write_text("SUBNQN", &mut id.subnqn[..223], &facts.subnqn)?;
        id.subnqn[facts.subnqn.len()..].fill(0);
        id.mdts = match facts.max_transfer_bytes {
            None => 0,
            Some(bytes) if bytes.is_power_of_two() && bytes > PAGE_BYTES => (bytes / PAGE_BYTES).trailing_zeros() as u8,
            Some(max_transfer_bytes) => return Err(FactsError::MaxTransfer { max_transfer_bytes }),
        };
        // Version 2.0.0: major, minor, tertiary (Base figure 38).
        id.ver = 0x0002_0000.into();
        // I/O controller.
        id.cntrltype = 1;
        id.tnvmcap = u128::from(facts.capacity_bytes).to_le_bytes();
        // 64-byte submission and 16-byte completion entries, required and maximum.
        id.sqes = 0x66;
        id.cqes = 0x44;
        id.maxcmd = facts.queue_depth.into();
        id.nn = facts.namespaces.into();
        id.oncs = facts.oncs.bits().into();
        let vwc = if facts.volatile_write_cache { Vwc::PRESENT } else { Vwc::empty() };
        id.vwc = (vwc | Vwc::FLUSH_ALL_SUPPORTED).bits();
        Ok(id)
    }

    /// Largest transfer of one command in bytes; `None` for no limit.
    pub fn max_transfer_bytes(&self) -> Option<u64> {
        match self.mdts {
            0 => None,
            // No transfer is larger than 2^64 bytes.
            pages => u64::from(PAGE_BYTES).checked_shl(pages.into()),
        }
    }

    /// Total capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        let [low, _]: [U64; 2] = zerocopy::transmute!(self.tnvmcap);
        low.get()
    }
}
