//! In the order of acceptance, which no device has yet: it shows that whoever asks an order does what it says (tests only).

use std::collections::BTreeMap;

use super::{MappingOrder, Plan};

/// Maps a version once all accepted before it are mapped.
#[derive(Default)]
pub(crate) struct InOrderOfAcceptance {
    /// Versions not yet mapped by when they were accepted, and whether they are programmed.
    waiting: BTreeMap<u64, (u32, bool)>,
    accepted_as: BTreeMap<u32, u64>,
    next: u64,
    defect: Option<Defect>,
}

/// A deliberate defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    /// Nothing waits for its turn.
    MapsEarly,
    /// Any version takes a write in.
    CoalescesAlways,
}

impl InOrderOfAcceptance {
    pub fn broken(defect: Defect) -> Self {
        Self { defect: Some(defect), ..Self::default() }
    }

    fn is_first(&self, version: u32) -> bool {
        self.waiting.first_key_value().is_some_and(|(_, (first, _))| *first == version)
    }
}

impl MappingOrder for InOrderOfAcceptance {
    fn accepted(&mut self, version: u32) {
        self.waiting.insert(self.next, (version, false));
        let before = self.accepted_as.insert(version, self.next);
        assert_eq!(before, None, "version {version} is accepted twice");
        self.next += 1;
    }

    /// Only into the one accepted last: none is between them.
    fn may_coalesce(&self, version: u32) -> bool {
        let newest = self.waiting.last_key_value().is_some_and(|(_, (newest, _))| *newest == version);
        newest || self.defect == Some(Defect::CoalescesAlways)
    }

    fn programmed(&mut self, version: u32) -> Plan {
        if self.is_first(version) || self.defect == Some(Defect::MapsEarly) {
            self.dropped(version);
            return Plan::Map;
        }
        if let Some((_, programmed)) = self.accepted_as.get(&version).and_then(|at| self.waiting.get_mut(at)) {
            *programmed = true;
        }
        Plan::Delay
    }

    fn dropped(&mut self, version: u32) {
        if let Some(at) = self.accepted_as.remove(&version) {
            self.waiting.remove(&at);
        }
    }

    fn next_ready(&mut self) -> Option<u32> {
        let (_, (version, programmed)) = self.waiting.first_key_value()?;
        let ready = programmed.then_some(*version)?;
        self.dropped(ready);
        Some(ready)
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.accepted_as.clear();
    }
}
