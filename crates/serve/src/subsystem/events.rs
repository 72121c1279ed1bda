//! Asynchronous events of one controller (Base 5.2): which have happened, which
//! the host knows of, and which of its requests wait for the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nvme::{AsynchronousEvent, ChangedZoneList, CommandId, EventConfiguration, Lba, NamespaceId, NamespaceList};

use super::facts::EVENT_REQUESTS_MAX;

/// The events of one controller. What it remembers is bounded: seven kinds of
/// events, [`EVENT_REQUESTS_MAX`] requests, and for each namespace the zones that
/// fit into a Changed Zone List.
#[derive(Default)]
pub(super) struct Events {
    /// Asynchronous Event Requests without an event.
    held: VecDeque<CommandId>,
    /// Happened, enabled, and not told.
    pending: BTreeSet<AsynchronousEvent>,
    /// Told, and their log page not read since.
    told: BTreeSet<AsynchronousEvent>,
    changed_namespaces: BTreeSet<NamespaceId>,
    changed_zones: BTreeMap<NamespaceId, ChangedZones>,
}

/// Zones that changed since the list was read.
enum ChangedZones {
    Some(BTreeSet<Lba>),
    TooMany,
}

impl Events {
    /// Holds a request; says whether there was room for it.
    pub(super) fn hold(&mut self, cid: CommandId) -> bool {
        let room = self.held.len() < EVENT_REQUESTS_MAX;
        if room {
            self.held.push_back(cid);
        }
        room
    }

    /// Lets go of a request that is aborted; says whether it was there.
    pub(super) fn release(&mut self, cid: CommandId) -> bool {
        let found = self.held.iter().position(|held| *held == cid);
        found.and_then(|index| self.held.remove(index)).is_some()
    }

    /// An event has happened. One that is masked is not told, now or later.
    pub(super) fn happened(&mut self, event: AsynchronousEvent, enabled: EventConfiguration) {
        if event.enabled_by().is_none_or(|bits| enabled.intersects(bits)) {
            self.pending.insert(event);
        }
    }

    /// The next event to tell, with the request to complete. Once one is told, all
    /// of its type wait until its log page is read.
    pub(super) fn next(&mut self) -> Option<(CommandId, AsynchronousEvent)> {
        let event = *self.pending.iter().find(|event| !self.told.iter().any(|told| told.kind == event.kind))?;
        let cid = self.held.pop_front()?;
        self.pending.remove(&event);
        self.told.insert(event);
        Some((cid, event))
    }

    /// A log page was read, and not with Retain Asynchronous Event.
    pub(super) fn log_page_read(&mut self, log_page: u8) {
        self.told.retain(|event| event.log_page != log_page);
        self.pending.retain(|event| event.log_page != log_page);
    }

    /// A namespace's attributes changed.
    pub(super) fn namespace_changed(&mut self, nsid: NamespaceId) {
        self.changed_namespaces.insert(nsid);
    }

    /// Zones changed.
    pub(super) fn zones_changed(&mut self, nsid: NamespaceId, zones: &[Lba]) {
        let changed = self.changed_zones.entry(nsid).or_insert_with(|| ChangedZones::Some(BTreeSet::new()));
        if let ChangedZones::Some(list) = changed {
            list.extend(zones.iter().take(ChangedZoneList::ENTRIES + 1));
            if list.len() > ChangedZoneList::ENTRIES {
                *changed = ChangedZones::TooMany;
            }
        }
    }

    /// The Changed Namespace List (Base 5.16.1.5).
    pub(super) fn changed_namespaces(&mut self, clear: bool) -> NamespaceList {
        let list = NamespaceList::after(NamespaceId(0), self.changed_namespaces.iter().copied());
        if clear {
            self.changed_namespaces.clear();
        }
        list
    }

    /// A namespace's Changed Zone List.
    pub(super) fn changed_zones(&mut self, nsid: NamespaceId, clear: bool) -> ChangedZoneList {
        let list = match self.changed_zones.get(&nsid) {
            None => ChangedZoneList::of([]),
            Some(ChangedZones::Some(zones)) => ChangedZoneList::of(zones.iter().copied()),
            Some(ChangedZones::TooMany) => ChangedZoneList::overflown(),
        };
        if clear {
            self.changed_zones.remove(&nsid);
        }
        list
    }

    /// Forgets everything, as a controller reset does; the requests' identifiers
    /// are free again.
    pub(super) fn reset(&mut self) -> Vec<CommandId> {
        let held = self.held.drain(..).collect();
        *self = Self::default();
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_of_a_type_at_a_time() {
        let mut events = Events::default();
        let all = EventConfiguration::all();
        for cid in 0..4 {
            assert!(events.hold(CommandId(cid)));
        }
        assert!(!events.hold(CommandId(4)), "a fifth request");
        events.happened(AsynchronousEvent::ZONE_CHANGED, all);
        events.happened(AsynchronousEvent::NAMESPACE_CHANGED, all);
        events.happened(AsynchronousEvent::SPARE, all);
        assert_eq!(events.next(), Some((CommandId(0), AsynchronousEvent::SPARE)));
        assert_eq!(events.next(), Some((CommandId(1), AsynchronousEvent::NAMESPACE_CHANGED)));
        assert_eq!(events.next(), None, "the other notice waits");
        events.happened(AsynchronousEvent::NAMESPACE_CHANGED, all);
        events.log_page_read(0x04);
        assert_eq!(events.next(), Some((CommandId(2), AsynchronousEvent::ZONE_CHANGED)));
        assert_eq!(events.next(), None);
        assert!(events.release(CommandId(3)));
        assert!(!events.release(CommandId(3)));
    }

    #[test]
    fn masked_events_are_not_told() {
        let mut events = Events::default();
        events.hold(CommandId(1));
        events.happened(AsynchronousEvent::ZONE_CHANGED, EventConfiguration::NAMESPACE_ATTRIBUTE);
        assert_eq!(events.next(), None);
        events.happened(AsynchronousEvent::PERSISTENT_INTERNAL_ERROR, EventConfiguration::empty());
        assert_eq!(events.next(), Some((CommandId(1), AsynchronousEvent::PERSISTENT_INTERNAL_ERROR)));
    }

    #[test]
    fn zone_lists_overflow() {
        let mut events = Events::default();
        let nsid = NamespaceId::FIRST;
        let zones = |count: u64| (0..count).map(Lba).collect::<Vec<_>>();
        events.zones_changed(nsid, &zones(511));
        events.zones_changed(nsid, &zones(511));
        assert_eq!(events.changed_zones(nsid, false).zones().map(Iterator::count), Some(511));
        events.zones_changed(nsid, &[Lba(511)]);
        assert!(events.changed_zones(nsid, true).zones().is_none());
        assert_eq!(events.changed_zones(nsid, true).zones().map(Iterator::count), Some(0));
    }
}
