//! The submission queue entry (Base 3.3.3.1).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CommandId, NamespaceId, SglDescriptor};

/// A 64-byte submission queue entry in the Common Command Format (Base figure 88).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SubmissionEntry {
    /// Opcode (OPC): CDW0 bits 7:0.
    pub opc: u8,
    /// CDW0 bits 15:8: Fused Operation (FUSE) in bits 1:0, PRP or SGL for Data
    /// Transfer (PSDT) in bits 7:6.
    pub flags: u8,
    /// Command Identifier (CID): CDW0 bits 31:16.
    pub cid: U16,
    /// Namespace Identifier (NSID).
    pub nsid: U32,
    /// Command Dword 2.
    pub cdw2: U32,
    /// Command Dword 3.
    pub cdw3: U32,
    /// Metadata Pointer (MPTR).
    pub mptr: U64,
    /// Data Pointer (DPTR): two PRP entries, or an SGL descriptor.
    pub dptr: SglDescriptor,
    /// Command Dword 10.
    pub cdw10: U32,
    /// Command Dword 11.
    pub cdw11: U32,
    /// Command Dword 12.
    pub cdw12: U32,
    /// Command Dword 13.
    pub cdw13: U32,
    /// Command Dword 14.
    pub cdw14: U32,
    /// Command Dword 15.
    pub cdw15: U32,
}

const _: () = assert!(size_of::<SubmissionEntry>() == 64);

impl SubmissionEntry {
    /// Fused Operation: 0 is a normal command.
    pub fn fuse(&self) -> u8 {
        self.flags & 0b11
    }

    /// PRP or SGL for Data Transfer: 0 PRPs, 1 and 2 SGLs, 3 reserved.
    pub fn psdt(&self) -> u8 {
        self.flags >> 6
    }

    /// The command identifier.
    pub fn command_id(&self) -> CommandId {
        CommandId(self.cid.get())
    }

    /// The namespace identifier.
    pub fn namespace_id(&self) -> NamespaceId {
        NamespaceId(self.nsid.get())
    }

    /// The data pointer read as PRP Entry 1 and PRP Entry 2.
    pub fn prps(&self) -> (u64, u64) {
        let bytes: [u8; 16] = zerocopy::transmute!(self.dptr);
        let [prp1, prp2]: [U64; 2] = zerocopy::transmute!(bytes);
        (prp1.get(), prp2.get())
    }

    /// Starting LBA of a command that has one: CDW10 low, CDW11 high.
    pub fn slba(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }

    /// Sets the starting LBA.
    pub fn set_slba(&mut self, slba: u64) {
        self.cdw10 = (slba as u32).into();
        self.cdw11 = ((slba >> 32) as u32).into();
    }
}
