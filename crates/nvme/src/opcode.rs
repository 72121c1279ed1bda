//! Opcodes of the Admin Command Set, and of the NVM and Zoned Namespace Command
//! Sets.

use crate::Status;

/// A byte that is no opcode of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("opcode {0:#04x} is not in the command set")]
pub struct UnknownOpcode(pub u8);

/// What a controller completes such a command with.
impl From<UnknownOpcode> for Status {
    fn from(_: UnknownOpcode) -> Self {
        Self::INVALID_OPCODE
    }
}

/// Declares an opcode enumeration with its conversion from a byte.
macro_rules! opcodes {
    ($(#[$attribute:meta])* $set:ident { $($(#[$doc:meta])* $name:ident = $code:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $set {
            $($(#[$doc])* $name = $code,)*
        }

        impl $set {
            /// Every opcode, ascending.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl TryFrom<u8> for $set {
            type Error = UnknownOpcode;

            fn try_from(byte: u8) -> Result<Self, UnknownOpcode> {
                match byte {
                    $($code => Ok(Self::$name),)*
                    _ => Err(UnknownOpcode(byte)),
                }
            }
        }
    };
}

opcodes! {
    /// Admin commands (Base figure 138; NVM figure 45).
    AdminOpcode {
        /// Delete I/O Submission Queue.
        DeleteIoSubmissionQueue = 0x00,
        /// Create I/O Submission Queue.
        CreateIoSubmissionQueue = 0x01,
        /// Get Log Page.
        GetLogPage = 0x02,
        /// Delete I/O Completion Queue.
        DeleteIoCompletionQueue = 0x04,
        /// Create I/O Completion Queue.
        CreateIoCompletionQueue = 0x05,
        /// Identify.
        Identify = 0x06,
        /// Abort.
        Abort = 0x08,
        /// Set Features.
        SetFeatures = 0x09,
        /// Get Features.
        GetFeatures = 0x0a,
        /// Asynchronous Event Request.
        AsynchronousEventRequest = 0x0c,
        /// Namespace Management.
        NamespaceManagement = 0x0d,
        /// Firmware Commit.
        FirmwareCommit = 0x10,
        /// Firmware Image Download.
        FirmwareImageDownload = 0x11,
        /// Device Self-test.
        DeviceSelfTest = 0x14,
        /// Namespace Attachment.
        NamespaceAttachment = 0x15,
        /// Keep Alive.
        KeepAlive = 0x18,
        /// Directive Send.
        DirectiveSend = 0x19,
        /// Directive Receive.
        DirectiveReceive = 0x1a,
        /// Virtualization Management.
        VirtualizationManagement = 0x1c,
        /// NVMe-MI Send.
        NvmeMiSend = 0x1d,
        /// NVMe-MI Receive.
        NvmeMiReceive = 0x1e,
        /// Capacity Management.
        CapacityManagement = 0x20,
        /// Lockdown.
        Lockdown = 0x24,
        /// Doorbell Buffer Config.
        DoorbellBufferConfig = 0x7c,
        /// Fabrics Commands.
        Fabrics = 0x7f,
        /// Format NVM.
        FormatNvm = 0x80,
        /// Security Send.
        SecuritySend = 0x81,
        /// Security Receive.
        SecurityReceive = 0x82,
        /// Sanitize.
        Sanitize = 0x84,
        /// Get LBA Status.
        GetLbaStatus = 0x86,
    }
}

opcodes! {
    /// I/O commands of the NVM Command Set (NVM figure 21), of the Zoned
    /// Namespace Command Set (ZNS figure 12), and Plumb's own.
    IoOpcode {
        /// Flush.
        Flush = 0x00,
        /// Write.
        Write = 0x01,
        /// Read.
        Read = 0x02,
        /// Write Uncorrectable.
        WriteUncorrectable = 0x04,
        /// Compare.
        Compare = 0x05,
        /// Write Zeroes.
        WriteZeroes = 0x08,
        /// Dataset Management.
        DatasetManagement = 0x09,
        /// Verify.
        Verify = 0x0c,
        /// Reservation Register.
        ReservationRegister = 0x0d,
        /// Reservation Report.
        ReservationReport = 0x0e,
        /// Reservation Acquire.
        ReservationAcquire = 0x11,
        /// Reservation Release.
        ReservationRelease = 0x15,
        /// Copy.
        Copy = 0x19,
        /// Zone Management Send.
        ZoneManagementSend = 0x79,
        /// Zone Management Receive.
        ZoneManagementReceive = 0x7a,
        /// Zone Append.
        ZoneAppend = 0x7d,
        /// Stream Management, of the vendor specific range.
        StreamManagement = 0x80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_an_opcode_or_refused() {
        let mut known = (0, 0);
        for byte in 0..=u8::MAX {
            match AdminOpcode::try_from(byte) {
                Ok(opcode) => {
                    assert_eq!(opcode as u8, byte);
                    known.0 += 1;
                }
                Err(error) => assert_eq!(error, UnknownOpcode(byte)),
            }
            match IoOpcode::try_from(byte) {
                Ok(opcode) => {
                    assert_eq!(opcode as u8, byte);
                    known.1 += 1;
                }
                Err(error) => assert_eq!(Status::from(error), Status::INVALID_OPCODE),
            }
        }
        assert_eq!(known, (AdminOpcode::ALL.len(), IoOpcode::ALL.len()));
    }

    /// Bits 1:0 of an opcode say which way data goes (Base 3.3.3.1, figure 87).
    #[test]
    fn data_transfer_bits() {
        for (opcode, direction) in [
            (IoOpcode::Write, 0b01),
            (IoOpcode::Read, 0b10),
            (IoOpcode::WriteZeroes, 0b00),
            (IoOpcode::DatasetManagement, 0b01),
            (IoOpcode::ZoneManagementSend, 0b01),
            (IoOpcode::ZoneManagementReceive, 0b10),
            (IoOpcode::ZoneAppend, 0b01),
            (IoOpcode::StreamManagement, 0b00),
        ] {
            assert_eq!(opcode as u8 & 0b11, direction);
        }
    }
}
