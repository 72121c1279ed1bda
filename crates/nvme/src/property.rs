//! Controller properties: what Property Get and Property Set reach (Base 3.1.3).

/// Properties that a fabrics controller has, by offset (Base figure 33).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Property {
    /// CAP: Controller Capabilities, 8 bytes.
    Capabilities = 0x00,
    /// VS: Version.
    Version = 0x08,
    /// CC: Controller Configuration.
    Configuration = 0x14,
    /// CSTS: Controller Status.
    Status = 0x1c,
    /// NSSR: NVM Subsystem Reset.
    SubsystemReset = 0x20,
    /// CRTO: Controller Ready Timeouts.
    ReadyTimeouts = 0x68,
}

impl Property {
    /// The property at this offset.
    pub fn at(offset: u32) -> Option<Self> {
        Some(match offset {
            0x00 => Self::Capabilities,
            0x08 => Self::Version,
            0x14 => Self::Configuration,
            0x1c => Self::Status,
            0x20 => Self::SubsystemReset,
            0x68 => Self::ReadyTimeouts,
            _ => return None,
        })
    }

    /// Whether it is 8 bytes and not 4.
    pub fn is_wide(self) -> bool {
        self == Self::Capabilities
    }
}

/// VS of NVMe 2.0.0 (Base figure 38).
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Controller Capabilities (CAP; Base figure 36), as far as fabrics use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Entries of a queue, at most (MQES, here not zero-based).
    pub queue_entries_max: u32,
    /// Longest time for CSTS.RDY to follow CC.EN in milliseconds (TO, in 500 ms).
    pub ready_timeout_ms: u32,
    /// Whether I/O command sets other than NVM are supported (CSS bit 6).
    pub command_sets: bool,
}

impl Capabilities {
    /// The property's value. Contiguous Queues Required is set, as fabrics want,
    /// and Controller Ready With Media, as 2.0 wants of every controller.
    pub fn bits(self) -> u64 {
        let mqes = u64::from(self.queue_entries_max.clamp(2, 1 << 16) - 1);
        let timeout = u64::from(self.ready_timeout_ms.div_ceil(500).min(0xff));
        // CSS bit 0 (NVM) at 37, bit 6 (command sets by CC.CSS 110b) at 43; CRMS.CRWMS at 59.
        let css = 1_u64 << 37 | u64::from(self.command_sets) << 43;
        mqes | 1 << 16 | timeout << 24 | css | 1 << 59
    }
}

/// Shutdown Notification (CC.SHN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownNotification {
    /// 00b: none.
    None,
    /// 01b: normal.
    Normal,
    /// 10b: abrupt.
    Abrupt,
    /// 11b, which means nothing.
    Reserved,
}

/// Controller Configuration (CC; Base figure 46).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// Enable (EN).
    pub fn enable(self) -> bool {
        self.0 & 1 != 0
    }

    /// I/O Command Set Selected (CSS): 0 NVM, 6 all supported ones, 7 none.
    pub fn command_set(self) -> u8 {
        (self.0 >> 4) as u8 & 0b111
    }

    /// Memory Page Size (MPS) as a power of two of 4 KiB.
    pub fn page_size(self) -> u8 {
        (self.0 >> 7) as u8 & 0xf
    }

    /// Arbitration Mechanism Selected (AMS): 0 is round robin.
    pub fn arbitration(self) -> u8 {
        (self.0 >> 11) as u8 & 0b111
    }

    /// Shutdown Notification (SHN).
    pub fn shutdown(self) -> ShutdownNotification {
        match self.0 >> 14 & 0b11 {
            0 => ShutdownNotification::None,
            1 => ShutdownNotification::Normal,
            2 => ShutdownNotification::Abrupt,
            _ => ShutdownNotification::Reserved,
        }
    }

    /// I/O Submission Queue Entry Size (IOSQES) as a power of two.
    pub fn submission_entry_size(self) -> u8 {
        (self.0 >> 16) as u8 & 0xf
    }

    /// I/O Completion Queue Entry Size (IOCQES) as a power of two.
    pub fn completion_entry_size(self) -> u8 {
        (self.0 >> 20) as u8 & 0xf
    }
}

/// How far a shutdown is (CSTS.SHST).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ShutdownStatus {
    /// 00b: no shutdown has been asked for.
    #[default]
    Normal = 0,
    /// 01b: under way.
    Occurring = 1,
    /// 10b: complete.
    Complete = 2,
}

/// Controller Status (CSTS; Base figure 47).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStatus {
    /// Ready (RDY).
    pub ready: bool,
    /// Controller Fatal Status (CFS).
    pub fatal: bool,
    /// Shutdown Status (SHST).
    pub shutdown: ShutdownStatus,
}

impl ControllerStatus {
    /// The property's value.
    pub fn bits(self) -> u32 {
        u32::from(self.ready) | u32::from(self.fatal) << 1 | (self.shutdown as u32) << 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_bit_by_bit() {
        let capabilities = Capabilities { queue_entries_max: 128, ready_timeout_ms: 7_500, command_sets: true };
        assert_eq!(capabilities.bits(), 0x0800_0820_0f01_007f);
        let narrow = Capabilities { queue_entries_max: 1 << 16, ready_timeout_ms: 1, command_sets: false };
        assert_eq!(narrow.bits(), 0x0800_0020_0101_ffff);
    }

    /// What Linux writes to enable a controller of several command sets.
    #[test]
    fn configuration_of_linux() {
        let cc = Configuration(0x0046_0061);
        assert!(cc.enable());
        assert_eq!((cc.command_set(), cc.page_size(), cc.arbitration()), (6, 0, 0));
        assert_eq!((cc.submission_entry_size(), cc.completion_entry_size()), (6, 4));
        assert_eq!(cc.shutdown(), ShutdownNotification::None);
        assert_eq!(Configuration(cc.0 | 1 << 14).shutdown(), ShutdownNotification::Normal);
    }

    #[test]
    fn status_bits() {
        let status = ControllerStatus { ready: true, fatal: true, shutdown: ShutdownStatus::Complete };
        assert_eq!(status.bits(), 0b1011);
    }
}
