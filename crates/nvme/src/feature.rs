//! Set Features and Get Features (Base 5.27 and 5.15).

use crate::{Status, SubmissionEntry};

/// Declares the feature identifiers with their conversion from a byte.
macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Feature Identifiers (FID; Base figure 317, NVM figure 91).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Feature {
            $($(#[$doc])* $name = $code,)*
        }

        impl Feature {
            /// Every feature that this crate names, ascending.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The feature with this identifier.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

features! {
    /// Arbitration.
    Arbitration = 0x01,
    /// Power Management.
    PowerManagement = 0x02,
    /// LBA Range Type.
    LbaRangeType = 0x03,
    /// Temperature Threshold.
    TemperatureThreshold = 0x04,
    /// Error Recovery.
    ErrorRecovery = 0x05,
    /// Volatile Write Cache.
    VolatileWriteCache = 0x06,
    /// Number of Queues.
    NumberOfQueues = 0x07,
    /// Interrupt Coalescing.
    InterruptCoalescing = 0x08,
    /// Interrupt Vector Configuration.
    InterruptVectorConfiguration = 0x09,
    /// Write Atomicity Normal.
    WriteAtomicity = 0x0a,
    /// Asynchronous Event Configuration.
    AsynchronousEventConfiguration = 0x0b,
    /// Autonomous Power State Transition.
    AutonomousPowerStateTransition = 0x0c,
    /// Timestamp.
    Timestamp = 0x0e,
    /// Keep Alive Timer.
    KeepAliveTimer = 0x0f,
    /// Host Behavior Support.
    HostBehaviorSupport = 0x16,
    /// I/O Command Set Profile.
    CommandSetProfile = 0x19,
    /// Host Identifier.
    HostIdentifier = 0x81,
    /// Namespace Write Protection Config.
    WriteProtection = 0x84,
}

/// Which value Get Features asks for (SEL; Base figure 194).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FeatureSelect {
    /// The current value.
    Current = 0,
    /// The default value.
    Default = 1,
    /// The saved value; the default one where nothing was saved.
    Saved = 2,
    /// What can be done with the feature, see [`FeatureCapabilities`].
    Supported = 3,
}

impl FeatureSelect {
    /// The value in CDW10 bits 10:8; `None` for a reserved one.
    pub fn from_cdw10(cdw10: u32) -> Option<Self> {
        Some(match cdw10 >> 8 & 0b111 {
            0 => Self::Current,
            1 => Self::Default,
            2 => Self::Saved,
            3 => Self::Supported,
            _ => return None,
        })
    }
}

bitflags::bitflags! {
    /// Dword 0 of the answer to SEL 011b (Base figure 195).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FeatureCapabilities: u32 {
        /// The value can be saved.
        const SAVEABLE = 1 << 0;
        /// The feature belongs to a namespace.
        const NAMESPACE_SPECIFIC = 1 << 1;
        /// The value can be changed.
        const CHANGEABLE = 1 << 2;
    }
}

/// A Get Features command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetFeatures {
    /// The feature.
    pub feature: Feature,
    /// Which value.
    pub select: FeatureSelect,
    /// CDW11, which some features look at.
    pub cdw11: u32,
}

impl GetFeatures {
    /// Decodes the command.
    ///
    /// # Errors
    ///
    /// Invalid Field for a feature or a selector that is not known.
    pub fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let cdw10 = entry.cdw10.get();
        Ok(Self {
            feature: Feature::from_code(cdw10 as u8).ok_or(Status::INVALID_FIELD)?,
            select: FeatureSelect::from_cdw10(cdw10).ok_or(Status::INVALID_FIELD)?,
            cdw11: entry.cdw11.get(),
        })
    }
}

/// A Set Features command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetFeatures {
    /// The feature.
    pub feature: Feature,
    /// Save (SV): the value is to outlive a reset.
    pub save: bool,
    /// CDW11: the value.
    pub cdw11: u32,
}

impl SetFeatures {
    /// Decodes the command.
    ///
    /// # Errors
    ///
    /// Invalid Field for a feature that is not known.
    pub fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let cdw10 = entry.cdw10.get();
        Ok(Self {
            feature: Feature::from_code(cdw10 as u8).ok_or(Status::INVALID_FIELD)?,
            save: cdw10 >> 31 != 0,
            cdw11: entry.cdw11.get(),
        })
    }
}

impl Feature {
    /// Size in bytes of the data that the feature's value has beside CDW11, by
    /// CDW11 (the Host Identifier is 8 or 16 bytes, EXHID); `None` where it has none.
    pub fn data_bytes(self, cdw11: u32) -> Option<u32> {
        match self {
            Self::LbaRangeType => Some(4096),
            Self::AutonomousPowerStateTransition => Some(256),
            Self::Timestamp => Some(8),
            Self::HostBehaviorSupport => Some(512),
            Self::HostIdentifier => Some(if cdw11 & 1 != 0 { 16 } else { 8 }),
            _ => None,
        }
    }
}
