//! What a spec refers to, read and checked before anything runs.

use std::path::Path;
use std::sync::Arc;

use linux::Charges;
use ssd::profile::Profile;

use crate::error::{LabError, LinuxHostError};
use crate::host::Host;
use crate::spec::{Spec, SpecSource};
use crate::workload::{self, Reading, Shared, Workload};

/// A device profile and a workload.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The device, where it is a modelled one.
    pub profile: Option<Profile>,
    /// What runs on it.
    pub workload: Arc<dyn Workload>,
    /// What the processor's work costs, where it is charged.
    pub charge: Option<Charges>,
    digest: String,
}

impl Inputs {
    /// Reads what `spec`, a file in `folder` with the text `source`, refers to.
    pub(super) fn read(spec: &Spec, folder: &Path, source: &SpecSource, shared: &mut Shared) -> Result<Self, LabError> {
        let host = Host::of(spec);
        (host.check)(spec).map_err(|error| error.placed(source))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        let charge = charge(spec, folder, &mut hasher)?;
        let device = (host.models_device)(spec).then(|| shared.device(spec, folder)).transpose()?;
        let profile = device.as_ref().map_or("", |device| &device.hash);
        hasher.update(profile.as_bytes());
        let mut reading = Reading { spec, folder, source, profile, hasher: &mut hasher, shared };
        let workload = workload::read(&mut reading)?;
        let digest = hasher.finalize().to_hex()[..32].to_owned();
        let profile = device.map(|device| device.described.profile.clone());
        Ok(Self { profile, workload, charge, digest })
    }

    /// Identifies device and workload by content.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The table that `stack.linux.charge` names; results depend on it.
fn charge(spec: &Spec, folder: &Path, hasher: &mut blake3::Hasher) -> Result<Option<Charges>, LabError> {
    let file = &spec.stack.linux.charge;
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let charges = Charges::read(&folder.join(file)).map_err(LinuxHostError::from)?;
    hasher.update(charges.to_toml(&[]).as_bytes());
    Ok(Some(charges))
}
