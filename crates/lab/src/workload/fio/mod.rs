//! fio jobs: Plumb's own on the modelled host, and the real fio under a real kernel.

mod job_file;
mod linux;
mod model;
mod result;

use std::sync::Arc;

use super::{Modelled, Reading, Workload};
use crate::error::LabError;
use crate::spec::HostKind;

/// Reads the jobs for the spec's host.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    match reading.spec.stack.host {
        HostKind::Model => Ok(Arc::new(Modelled(model::read(reading)?))),
        HostKind::Linux => Ok(Arc::new(linux::LinuxJobs::read(reading)?)),
        HostKind::Live => Err(super::not_live("host = \"linux\" for fio jobs")),
    }
}
