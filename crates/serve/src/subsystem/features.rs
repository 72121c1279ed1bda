//! Set Features and Get Features of one controller (Base 5.27 and 5.15). No value
//! outlives a reset: nothing is saveable.

use nvme::{
    EventConfiguration, Feature, FeatureCapabilities, FeatureSelect, GetFeatures, SetFeatures, Status, SubmissionEntry,
};
use units::Nanos;

use super::execution::{Completion, Failure};
use super::facts::{Facts, KEEP_ALIVE_GRANULARITY_100MS};

/// TMPTH: no over temperature threshold below this.
const OVER_DEFAULT: u16 = 0xffff;
/// Error Recovery: Deallocated or Unwritten Logical Block Error Enable (DULBE).
const DULBE: u32 = 1 << 16;
/// Volatile Write Cache Enable (WCE).
const WRITE_CACHE_ENABLED: u32 = 1;
/// Host Identifier: Enable Extended Host Identifier (EXHID), as fabrics want.
const EXTENDED_HOST_IDENTIFIER: u32 = 1;

/// The values that a host can change.
pub(super) struct Features {
    arbitration: u32,
    over_threshold: u16,
    under_threshold: u16,
    error_recovery: u32,
    write_atomicity: u32,
    pub(super) events: EventConfiguration,
    /// I/O queues granted by Number of Queues; all of them where the host did not ask.
    pub(super) io_queues: u16,
}

/// What features look at besides themselves.
pub(super) struct Setting<'a> {
    pub(super) facts: &'a Facts,
    pub(super) discovery: bool,
    pub(super) has_io_queues: bool,
    pub(super) host_id: &'a [u8; 16],
    pub(super) keep_alive: &'a mut Nanos,
}

impl Features {
    pub(super) fn new(facts: &Facts) -> Self {
        Self {
            arbitration: 0,
            over_threshold: OVER_DEFAULT,
            under_threshold: 0,
            error_recovery: 0,
            write_atomicity: 0,
            events: EventConfiguration::empty(),
            io_queues: facts.io_queues,
        }
    }

    /// What can be done with a feature; `None` where it is not supported.
    fn capabilities(feature: Feature, setting: &Setting<'_>) -> Option<FeatureCapabilities> {
        let changeable = FeatureCapabilities::CHANGEABLE;
        match feature {
            Feature::AsynchronousEventConfiguration | Feature::KeepAliveTimer => Some(changeable),
            Feature::HostIdentifier => Some(FeatureCapabilities::empty()),
            // A discovery controller has no others (Base 3.1.2.3).
            _ if setting.discovery => None,
            Feature::Arbitration
            | Feature::PowerManagement
            | Feature::TemperatureThreshold
            | Feature::NumberOfQueues
            | Feature::WriteAtomicity => Some(changeable),
            Feature::ErrorRecovery => Some(changeable | FeatureCapabilities::NAMESPACE_SPECIFIC),
            Feature::VolatileWriteCache => {
                setting.facts.identity.volatile_write_cache.then_some(FeatureCapabilities::empty())
            }
            Feature::CommandSetProfile => Some(FeatureCapabilities::empty()),
            _ => None,
        }
    }

    pub(super) fn get(&self, entry: &SubmissionEntry, setting: &Setting<'_>) -> Result<Completion, Failure> {
        let GetFeatures { feature, select, cdw11 } = GetFeatures::decode(entry)?;
        let capabilities = Self::capabilities(feature, setting).ok_or(Status::INVALID_FIELD)?;
        let defaults = Self::new(setting.facts);
        let values = match select {
            FeatureSelect::Supported => return Ok(Completion::dword(capabilities.bits())),
            FeatureSelect::Current => self,
            FeatureSelect::Default | FeatureSelect::Saved => &defaults,
        };
        if capabilities.contains(FeatureCapabilities::NAMESPACE_SPECIFIC) {
            // One value for all namespaces, and the namespace has to be one.
            let nsid = entry.namespace_id();
            if nsid != nvme::NamespaceId::ALL && setting.facts.blocks(nsid).is_none() {
                return Err(Status::INVALID_NAMESPACE.into());
            }
        }
        let dword = match feature {
            Feature::Arbitration => values.arbitration,
            Feature::PowerManagement => 0,
            Feature::TemperatureThreshold => match threshold(cdw11)? {
                Threshold::Over => values.over_threshold.into(),
                Threshold::Under => values.under_threshold.into(),
            },
            Feature::ErrorRecovery => values.error_recovery,
            Feature::VolatileWriteCache => WRITE_CACHE_ENABLED,
            Feature::NumberOfQueues => queues_dword(values.io_queues),
            Feature::WriteAtomicity => values.write_atomicity,
            Feature::AsynchronousEventConfiguration => values.events.bits(),
            Feature::KeepAliveTimer => match select {
                FeatureSelect::Current => u32::try_from(setting.keep_alive.0 / 1_000_000).unwrap_or(u32::MAX),
                _ => 0,
            },
            Feature::CommandSetProfile => 0,
            Feature::HostIdentifier if cdw11 & EXTENDED_HOST_IDENTIFIER != 0 => {
                return Ok(Completion::data(setting.host_id.to_vec()));
            }
            _ => return Err(Status::INVALID_FIELD.into()),
        };
        Ok(Completion::dword(dword))
    }

    pub(super) fn set(&mut self, entry: &SubmissionEntry, setting: &mut Setting<'_>) -> Result<Completion, Failure> {
        let SetFeatures { feature, save, cdw11 } = SetFeatures::decode(entry)?;
        let capabilities = Self::capabilities(feature, setting).ok_or(Status::INVALID_FIELD)?;
        if save {
            return Err(Status::FEATURE_NOT_SAVEABLE.into());
        }
        match feature {
            Feature::Arbitration => self.arbitration = cdw11,
            // There is one power state, and it is 0.
            Feature::PowerManagement if cdw11 & 0x1f == 0 => {}
            Feature::TemperatureThreshold => match threshold(cdw11)? {
                Threshold::Over => self.over_threshold = cdw11 as u16,
                Threshold::Under => self.under_threshold = cdw11 as u16,
            },
            Feature::ErrorRecovery if cdw11 & DULBE == 0 => {
                let nsid = entry.namespace_id();
                if nsid != nvme::NamespaceId::ALL && setting.facts.blocks(nsid).is_none() {
                    return Err(Status::INVALID_NAMESPACE.into());
                }
                self.error_recovery = cdw11;
            }
            // The model's cache cannot be switched off; asking for what is, is no error.
            Feature::VolatileWriteCache if cdw11 & 1 == WRITE_CACHE_ENABLED => {}
            Feature::VolatileWriteCache => return Err(Status::FEATURE_NOT_CHANGEABLE.into()),
            Feature::NumberOfQueues => {
                let (submission, completion) = (cdw11 as u16, (cdw11 >> 16) as u16);
                if submission == u16::MAX || completion == u16::MAX {
                    return Err(Status::INVALID_FIELD.into());
                }
                if setting.has_io_queues {
                    return Err(Status::COMMAND_SEQUENCE_ERROR.into());
                }
                // Over fabrics both are the same queue.
                self.io_queues = setting.facts.io_queues.min(submission.max(completion) + 1);
                return Ok(Completion::dword(queues_dword(self.io_queues)));
            }
            Feature::WriteAtomicity => self.write_atomicity = cdw11 & 1,
            Feature::AsynchronousEventConfiguration => {
                self.events = EventConfiguration::from_bits_truncate(cdw11) & setting.facts.events(setting.discovery);
            }
            Feature::KeepAliveTimer => *setting.keep_alive = keep_alive(cdw11),
            // The only combination of command sets.
            Feature::CommandSetProfile if cdw11 & 0x1ff == 0 => return Ok(Completion::dword(0)),
            Feature::CommandSetProfile => return Err(Status::COMMAND_SET_COMBINATION_REJECTED.into()),
            // Over fabrics the identifier is Connect's (Base 5.27.1.25).
            Feature::HostIdentifier => return Err(Status::COMMAND_SEQUENCE_ERROR.into()),
            _ => return Err(Status::INVALID_FIELD.into()),
        }
        debug_assert!(capabilities.contains(FeatureCapabilities::CHANGEABLE) || feature == Feature::VolatileWriteCache);
        Ok(Completion::default())
    }
}

/// A keep alive timeout in milliseconds, rounded up to the granularity; 0: none.
pub(super) fn keep_alive(ms: u32) -> Nanos {
    let granularity_ms = u64::from(KEEP_ALIVE_GRANULARITY_100MS) * 100;
    Nanos(u64::from(ms).next_multiple_of(granularity_ms) * 1_000_000)
}

/// Which temperature threshold CDW11 selects (THSEL).
enum Threshold {
    Over,
    Under,
}

/// The threshold of the composite temperature, the only one; of all sensors
/// (TMPSEL Fh) is the same.
fn threshold(cdw11: u32) -> Result<Threshold, Status> {
    match (cdw11 >> 16 & 0xf, cdw11 >> 20 & 0b11) {
        (0 | 0xf, 0) => Ok(Threshold::Over),
        (0 | 0xf, 1) => Ok(Threshold::Under),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Number of Queues: both numbers zero-based.
fn queues_dword(queues: u16) -> u32 {
    let zero_based = u32::from(queues.saturating_sub(1));
    zero_based | zero_based << 16
}
