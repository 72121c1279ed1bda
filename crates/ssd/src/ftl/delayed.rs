//! What is programmed and may not be mapped yet.

use std::collections::BTreeMap;

/// Delayed versions and the physical units that hold them.
#[derive(Default)]
pub(super) struct Delayed {
    ppn_of: BTreeMap<u32, u32>,
    version_at: BTreeMap<u32, u32>,
}

impl Delayed {
    pub fn insert(&mut self, version: u32, ppn: u32) {
        self.ppn_of.insert(version, ppn);
        self.version_at.insert(ppn, version);
    }

    /// Takes a version out: the physical unit that holds it.
    pub fn remove(&mut self, version: u32) -> Option<u32> {
        let ppn = self.ppn_of.remove(&version)?;
        self.version_at.remove(&ppn);
        Some(ppn)
    }

    /// What lay at one physical unit lies at another; whether there was anything.
    pub fn moved(&mut self, from: u32, to: u32) -> bool {
        let Some(version) = self.version_at.remove(&from) else { return false };
        self.insert(version, to);
        true
    }

    /// Takes any version out.
    pub fn pop(&mut self) -> Option<u32> {
        let (version, _) = self.ppn_of.first_key_value()?;
        self.remove(*version)
    }

    #[cfg(test)]
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.ppn_of.values().copied()
    }
}
