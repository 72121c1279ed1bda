//! Why an experiment cannot be run, or what went wrong: one type for each part, and one that has them all.

mod linux;
mod live;
mod program;
mod study;

use crate::device::DeviceError;
use crate::results::ResultError;
use crate::spec::{SpecError, SpecSource};

pub use linux::LinuxHostError;
pub use live::LiveHostError;
pub use program::ProgramError;
pub use study::StudyHostError;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The spec is at fault.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A device profile is at fault.
    #[error(transparent)]
    Profile(#[from] ssd::profile::ProfileError),
    /// A job file, whose text follows, is at fault.
    #[error("{0}")]
    Job(Box<workload::fio::ParseError>, String),
    /// A trace is at fault.
    #[error(transparent)]
    Trace(#[from] workload::replay::TraceError),
    /// A trace does not fit the device.
    #[error(transparent)]
    Replay(#[from] workload::replay::ReplayError),
    /// An input file cannot be read.
    #[error("cannot read {path}: {source}")]
    Input {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A run under a real kernel cannot be, or went wrong.
    #[error(transparent)]
    Linux(#[from] LinuxHostError),
    /// A cell of the fragmentation study cannot be run, or went wrong.
    #[error(transparent)]
    Study(#[from] StudyHostError),
    /// The device of a run on this machine.
    #[error(transparent)]
    Live(#[from] LiveHostError),
    /// A program cannot be run, or what goes before it failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Workload and stack do not fit.
    #[error("{message}")]
    Unfit {
        /// What does not fit, and the remedy.
        message: String,
    },
    /// The results folder is at fault.
    #[error(transparent)]
    Results(#[from] ResultError),
}

impl LabError {
    /// With the place of the setting in the user's file, where the fault has one there.
    pub(crate) fn placed(self, source: &SpecSource) -> Self {
        let Self::Linux(
            LinuxHostError::Option { option, .. }
            | LinuxHostError::ModelOption { option, .. }
            | LinuxHostError::Setting { option, .. },
        ) = &self
        else {
            return self;
        };
        let fault = SpecError::Override { change: None, swept: None, message: self.to_string() };
        match source.at_key(option, fault) {
            placed @ SpecError::Syntax { .. } => placed.into(),
            _ => self,
        }
    }

    /// A setting that does not fit.
    pub(crate) fn unfit(error: impl std::error::Error) -> Self {
        Self::Unfit { message: error.to_string() }
    }
}

impl From<DeviceError> for LabError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Profile(error) => Self::Profile(error),
            DeviceError::Change(error) => Self::Spec(error),
            DeviceError::Unfit { .. } => Self::unfit(error),
        }
    }
}
