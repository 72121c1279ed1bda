//! The scheduler of a device's queue.

use std::fs;
use std::path::{Path, PathBuf};

/// The scheduler of a device, as far as the kernel has it. A loop device keeps its scheduler for whoever has it next, so it gets
/// the old one back.
pub struct Scheduler {
    /// Where it is chosen.
    pub queue: PathBuf,
    before: Option<String>,
}

impl Scheduler {
    /// Which puts requests together that lie beside each other.
    pub fn deadline(device: &Path) -> Self {
        Self::chosen(device, "mq-deadline")
    }

    /// None, as Linux chooses for loop devices: what is counted then does not depend on a rule of this machine's.
    pub fn none(device: &Path) -> Self {
        Self::chosen(device, "none")
    }

    fn chosen(device: &Path, name: &str) -> Self {
        let queue = Path::new("/sys/block").join(device.file_name().unwrap()).join("queue/scheduler");
        let text = fs::read_to_string(&queue).unwrap_or_default();
        let before = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name.to_owned());
        let _ = fs::write(&queue, name);
        Self { queue, before }
    }

    /// Whether the kernel has it and took it.
    pub fn is_set(&self) -> bool {
        fs::read_to_string(&self.queue).is_ok_and(|text| text.contains("[mq-deadline]"))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(&self.queue, before);
        }
    }
}
