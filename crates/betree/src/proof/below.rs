//! What a proof's store lies on.

use std::sync::Arc;

use ssd::profile::Profile;
use storage::{Buffer, Image, Memory, Modelled, ModelledOptions, QueueExt, Storage};

/// Profiles of an NVMe and a SATA SSD and a disk, all with volatile caches.
pub(super) const DEVICES: [&str; 3] = ["samsung-980pro-1tb", "samsung-860evo-250gb", "hdd-7200-1tb"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Below {
    Memory,
    /// A modelled device of this profile.
    Device(&'static str),
}

impl Below {
    /// With these bytes, durable.
    pub fn storage(self, image: &Image) -> Result<Arc<dyn Storage>, String> {
        Ok(match self {
            Self::Memory => Arc::new(Memory::from_image(image.clone())),
            Self::Device(name) => {
                let device = device(name, image.capacity_bytes())?;
                let mut queue = device.open_queue().map_err(|error| error.to_string())?;
                for (number, bytes) in image.blocks() {
                    let written = queue.write(number * bytes.len() as u64, Buffer::padded(bytes));
                    written.map_err(|error| error.to_string())?;
                }
                queue.flush().map_err(|error| error.to_string())?;
                Arc::new(device)
            }
        })
    }
}

/// The first bytes of a modelled device.
pub(super) fn device(name: &str, capacity_bytes: u64) -> Result<Modelled, String> {
    let options = ModelledOptions {
        capacity_bytes: Some(capacity_bytes),
        recover_from_flash: true,
        ..ModelledOptions::default()
    };
    let profile = Profile::builtin(name).map_err(|error| error.to_string())?;
    Modelled::new(&profile, &options).map_err(|error| error.to_string())
}
