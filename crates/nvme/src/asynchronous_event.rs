//! Asynchronous events (Base 5.2; ZNS 4.1.2).

/// An event: its type, its information, and the log page that clears it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AsynchronousEvent {
    /// Asynchronous Event Type (Base figure 146).
    pub kind: u8,
    /// Asynchronous Event Information (Base figures 147 to 151).
    pub information: u8,
    /// Log Page Identifier.
    pub log_page: u8,
}

/// Type 0: Error status.
const ERROR: u8 = 0;
/// Type 1: SMART / Health status.
const HEALTH: u8 = 1;
/// Type 2: Notice.
const NOTICE: u8 = 2;

impl AsynchronousEvent {
    /// Persistent Internal Error: the host has to reset the controller.
    pub const PERSISTENT_INTERNAL_ERROR: Self = Self { kind: ERROR, information: 0x03, log_page: 0x01 };
    /// NVM subsystem Reliability: SMART's critical warning has changed.
    pub const RELIABILITY: Self = Self { kind: HEALTH, information: 0x00, log_page: 0x02 };
    /// Temperature Threshold.
    pub const TEMPERATURE: Self = Self { kind: HEALTH, information: 0x01, log_page: 0x02 };
    /// Spare Below Threshold.
    pub const SPARE: Self = Self { kind: HEALTH, information: 0x02, log_page: 0x02 };
    /// Namespace Attribute Changed.
    pub const NAMESPACE_CHANGED: Self = Self { kind: NOTICE, information: 0x00, log_page: 0x04 };
    /// Zone Descriptor Changed (ZNS figure 20).
    pub const ZONE_CHANGED: Self = Self { kind: NOTICE, information: 0xef, log_page: 0xbf };
    /// Discovery Log Page Change.
    pub const DISCOVERY_CHANGED: Self = Self { kind: NOTICE, information: 0xf0, log_page: 0x70 };

    /// Every event that this crate names.
    pub const ALL: &[Self] = &[
        Self::PERSISTENT_INTERNAL_ERROR,
        Self::RELIABILITY,
        Self::TEMPERATURE,
        Self::SPARE,
        Self::NAMESPACE_CHANGED,
        Self::ZONE_CHANGED,
        Self::DISCOVERY_CHANGED,
    ];

    /// Dword 0 of the completion (Base figure 145).
    pub fn dword(self) -> u32 {
        u32::from(self.kind) | u32::from(self.information) << 8 | u32::from(self.log_page) << 16
    }

    /// The bit of Asynchronous Event Configuration (Base figure 326) that enables
    /// it; `None` for an error, which no host can mask.
    pub fn enabled_by(self) -> Option<EventConfiguration> {
        match self {
            Self::SPARE => Some(EventConfiguration::SPARE),
            Self::TEMPERATURE => Some(EventConfiguration::TEMPERATURE),
            Self::RELIABILITY => Some(EventConfiguration::HEALTH),
            Self::NAMESPACE_CHANGED => Some(EventConfiguration::NAMESPACE_ATTRIBUTE),
            Self::ZONE_CHANGED => Some(EventConfiguration::ZONE_DESCRIPTOR),
            Self::DISCOVERY_CHANGED => Some(EventConfiguration::DISCOVERY_LOG),
            _ => None,
        }
    }
}

bitflags::bitflags! {
    /// Asynchronous Event Configuration (CDW11 of feature 0Bh; Base figure 326).
    /// The notices' bits are those of OAES in Identify Controller.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EventConfiguration: u32 {
        /// Spare below threshold.
        const SPARE = 1 << 0;
        /// Temperature threshold.
        const TEMPERATURE = 1 << 1;
        /// The NVM subsystem's reliability is degraded.
        const RELIABILITY_DEGRADED = 1 << 2;
        /// The media are read only.
        const READ_ONLY = 1 << 3;
        /// The backup of volatile memory failed.
        const VOLATILE_MEMORY_BACKUP = 1 << 4;
        /// Every critical warning.
        const HEALTH = 0x1f;
        /// Namespace Attribute Notices.
        const NAMESPACE_ATTRIBUTE = 1 << 8;
        /// Zone Descriptor Changed Notices.
        const ZONE_DESCRIPTOR = 1 << 27;
        /// Discovery Log Page Change Notification.
        const DISCOVERY_LOG = 1 << 31;
    }
}
