//! Hosts: what stands between a workload and the device. Each is a file or a folder here, and a row of [`HOSTS`].

pub(crate) mod linux;
pub(crate) mod live;
pub(crate) mod model;

use ::linux::Charges;
use ssd::profile::Profile;

use crate::error::LabError;
use crate::spec::{HostKind, Spec};

/// What one run stands on.
#[derive(Clone, Copy, Debug)]
pub struct Stand<'a> {
    /// The settings of its point.
    pub spec: &'a Spec,
    /// The device, where it is a modelled one.
    pub profile: Option<&'a Profile>,
    /// What the processor's work costs, where it is charged.
    pub charge: Option<&'a Charges>,
    /// The seed.
    pub seed: u64,
}

/// A host of the table.
pub(crate) struct Host {
    kind: HostKind,
    /// Whether the spec's device is a modelled one.
    pub(crate) models_device: fn(&Spec) -> bool,
    /// Refuses what the spec asks for and the host has not.
    pub(crate) check: fn(&Spec) -> Result<(), LabError>,
}

/// Every host.
const HOSTS: [Host; 3] = [model::HOST, linux::HOST, live::HOST];

impl Host {
    /// That of `spec`.
    pub(crate) fn of(spec: &Spec) -> &'static Self {
        const { &HOSTS }.iter().find(|host| host.kind == spec.stack.host).unwrap_or(const { &HOSTS[0] })
    }
}

impl<'a> Stand<'a> {
    /// The modelled device.
    pub(crate) fn profile(self) -> Result<&'a Profile, LabError> {
        let message = || "host = \"live\" has no modelled device; write host = \"model\" or \"linux\"".to_owned();
        self.profile.ok_or_else(|| LabError::Unfit { message: message() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_host_has_a_row() {
        for kind in [HostKind::Model, HostKind::Linux, HostKind::Live] {
            assert_eq!(HOSTS.iter().filter(|host| host.kind == kind).count(), 1, "{kind:?}");
        }
    }
}
