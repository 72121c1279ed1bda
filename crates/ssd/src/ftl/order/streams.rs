//! In the order of streams: a version is mapped once everything of earlier epochs is, in each stream that it belongs to.
//!
//! Versions come in an order that keeps that of their streams (`controller::admission`), so whatever one waits for was accepted
//! before it, and every wait ends. A version is on one list at a time: that of the first thing found which it must wait for.

use std::collections::{BTreeMap, VecDeque};

use crash::order::{EpochId, Places};

use super::{MappingOrder, Plan};

#[cfg(test)]
mod verify;

/// Maps versions as `docs/ordering.md` says.
#[derive(Default)]
pub(crate) struct Streams {
    streams: BTreeMap<u64, Stream>,
    /// Accepted and neither mapped nor dropped.
    versions: BTreeMap<u32, Version>,
    /// Delayed versions whose turn has come.
    ready: VecDeque<Handle>,
    accepted: u64,
    #[cfg(test)]
    defect: Option<Defect>,
}

/// A deliberate defect, for tests.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    /// Nothing waits for its turn.
    MapsEarly,
    /// Only the first stream counts.
    NoSecondStream,
    /// Any version takes a write in.
    CoalescesAlways,
    /// What has waited for one of its streams is not looked at for the other.
    WokenIsReady,
    /// A stream that is closed orders nothing any more.
    ClosingForgets,
}

/// A stream that is open, or of which something is left.
#[derive(Default)]
struct Stream {
    /// The first epoch of which something is not mapped or may still come.
    first: u64,
    /// Epochs before this one are complete.
    complete_below: u64,
    /// From `first` on, as far as versions were accepted.
    epochs: VecDeque<Epoch>,
    is_closed: bool,
}

#[derive(Default)]
struct Epoch {
    /// Its versions that later epochs wait for.
    pending: u32,
    /// Programmed versions that wait until the epoch is the first.
    delayed: Vec<Handle>,
}

struct Version {
    places: Places,
    /// What it carries the rest of its unit from, while that is not mapped.
    below: Option<Handle>,
    /// A programmed version that waits for this one.
    above: Option<Handle>,
    serial: u64,
}

/// A version. The number alone may be that of another by now.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Handle {
    version: u32,
    serial: u64,
}

/// What a version has to wait for.
enum Blocker {
    Epoch { stream: u64, epoch: u64 },
    Below(Handle),
}

impl Streams {
    #[cfg(test)]
    pub fn broken(defect: Defect) -> Self {
        Self { defect: Some(defect), ..Self::default() }
    }

    fn find(&self, handle: Handle) -> Option<&Version> {
        self.versions.get(&handle.version).filter(|found| found.serial == handle.serial)
    }

    fn blocker(&self, version: &Version) -> Option<Blocker> {
        #[cfg(test)]
        if self.defect == Some(Defect::MapsEarly) {
            return None;
        }
        let later = |place: &&EpochId| self.streams.get(&place.stream).is_some_and(|stream| place.epoch > stream.first);
        if let Some(place) = version.places.iter().flatten().find(later) {
            return Some(Blocker::Epoch { stream: place.stream, epoch: place.epoch });
        }
        version.below.filter(|below| self.find(*below).is_some()).map(Blocker::Below)
    }

    /// Puts a programmed version where it waits; `false` if it need not.
    fn wait(&mut self, handle: Handle) -> bool {
        let blocker = self.find(handle).and_then(|version| self.blocker(version));
        match blocker {
            None => return false,
            Some(Blocker::Epoch { stream, epoch }) => {
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.epoch(epoch).delayed.push(handle);
                }
            }
            Some(Blocker::Below(below)) => {
                if let Some(below) = self.versions.get_mut(&below.version) {
                    below.above = Some(handle);
                }
            }
        }
        true
    }

    /// Looks again at a version that has waited.
    fn wake(&mut self, handle: Handle) {
        #[cfg(test)]
        if self.defect == Some(Defect::WokenIsReady) {
            self.ready.push_back(handle);
            return;
        }
        if self.find(handle).is_some() && !self.wait(handle) {
            self.ready.push_back(handle);
        }
    }

    /// A version is mapped, or nobody needs it.
    fn satisfied(&mut self, version: u32) {
        let Some(version) = self.versions.remove(&version) else { return };
        for place in version.places.iter().flatten().filter(|place| !place.is_late) {
            if let Some(stream) = self.streams.get_mut(&place.stream) {
                let epoch = stream.epoch(place.epoch);
                epoch.pending = epoch.pending.saturating_sub(1);
                self.go_on(place.stream);
            }
        }
        version.above.into_iter().for_each(|above| self.wake(above));
    }

    /// Takes a stream past the epochs that are done.
    fn go_on(&mut self, number: u64) {
        while let Some(stream) = self.streams.get_mut(&number) {
            let done = stream.epochs.front().is_none_or(|epoch| epoch.pending == 0);
            if done && stream.is_closed && stream.epochs.iter().all(|epoch| epoch.pending == 0) {
                // Nothing is left to wait for.
                let epochs = self.streams.remove(&number).map(|stream| stream.epochs).unwrap_or_default();
                epochs.into_iter().flat_map(|epoch| epoch.delayed).for_each(|handle| self.wake(handle));
                return;
            }
            if !done || stream.first >= stream.complete_below {
                return;
            }
            stream.epochs.pop_front();
            stream.first += 1;
            let delayed = stream.epochs.front_mut().map(|epoch| std::mem::take(&mut epoch.delayed));
            delayed.into_iter().flatten().for_each(|handle| self.wake(handle));
        }
    }
}

impl Stream {
    /// One of its epochs, not earlier than the first.
    fn epoch(&mut self, number: u64) -> &mut Epoch {
        let at = number.saturating_sub(self.first) as usize;
        if self.epochs.len() <= at {
            self.epochs.resize_with(at + 1, Epoch::default);
        }
        &mut self.epochs[at]
    }
}

impl MappingOrder for Streams {
    fn accepted(&mut self, version: u32, places: &Places, below: u32) {
        #[cfg_attr(not(test), expect(unused_mut))]
        let mut places = *places;
        #[cfg(test)]
        if self.defect == Some(Defect::NoSecondStream) {
            places[1] = None;
        }
        for place in places.iter().flatten().filter(|place| !place.is_late) {
            // A stream that is closed and has nothing left orders nothing any more.
            if let Some(stream) = self.streams.get_mut(&place.stream) {
                stream.epoch(place.epoch).pending += 1;
            }
        }
        let below = self.versions.get(&below).map(|found| Handle { version: below, serial: found.serial });
        self.accepted += 1;
        self.versions.insert(version, Version { places, below, above: None, serial: self.accepted });
    }

    /// Only into one of the same epochs: with any other it would be mapped too late, or too early.
    fn may_coalesce(&self, version: u32, places: &Places) -> bool {
        #[cfg(test)]
        if self.defect == Some(Defect::CoalescesAlways) {
            return true;
        }
        self.versions.get(&version).is_some_and(|found| found.places == *places)
    }

    fn programmed(&mut self, version: u32) -> Plan {
        let serial = self.versions.get(&version).map_or(0, |found| found.serial);
        if self.wait(Handle { version, serial }) {
            return Plan::Delay;
        }
        self.satisfied(version);
        Plan::Map
    }

    fn dropped(&mut self, version: u32) {
        self.satisfied(version);
    }

    fn next_ready(&mut self) -> Option<u32> {
        while let Some(handle) = self.ready.pop_front() {
            if self.find(handle).is_some() {
                self.satisfied(handle.version);
                return Some(handle.version);
            }
        }
        None
    }

    fn opened(&mut self, stream: u64) {
        self.streams.insert(stream, Stream::default());
    }

    fn completed(&mut self, stream: u64, epoch: u64) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.complete_below = epoch + 1;
            self.go_on(stream);
        }
    }

    fn closed(&mut self, stream: u64) {
        #[cfg(test)]
        if self.defect == Some(Defect::ClosingForgets)
            && let Some(found) = self.streams.get_mut(&stream)
        {
            found.epochs.iter_mut().for_each(|epoch| epoch.pending = 0);
        }
        if let Some(found) = self.streams.get_mut(&stream) {
            found.is_closed = true;
            self.go_on(stream);
        }
    }

    fn first_epoch(&self, stream: u64) -> Option<u64> {
        self.streams.get(&stream).map(|stream| stream.first)
    }

    fn memory_bytes(&self) -> u64 {
        let epochs: usize = self.streams.values().map(|stream| stream.epochs.len()).sum();
        let bytes = self.streams.len() * size_of::<(u64, Stream)>()
            + epochs * size_of::<Epoch>()
            + self.versions.len() * (size_of::<(u32, Version)>() + size_of::<Handle>());
        bytes as u64
    }

    fn clear(&mut self) {
        self.streams.clear();
        self.versions.clear();
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::NONE;

    fn at(stream: u64, epoch: u64) -> Option<EpochId> {
        Some(EpochId { stream, epoch, is_late: false })
    }

    fn with_streams() -> Streams {
        let mut streams = Streams::default();
        [1, 2].into_iter().for_each(|stream| streams.opened(stream));
        streams
    }

    fn ready(streams: &mut Streams) -> Vec<u32> {
        std::iter::from_fn(|| streams.next_ready()).collect()
    }

    #[test]
    fn a_dual_version_waits_in_both_streams() {
        let mut streams = with_streams();
        for (version, places) in
            [(0, [at(1, 0), None]), (1, [at(2, 0), None]), (2, [at(1, 1), at(2, 1)]), (3, [at(2, 2), None])]
        {
            for place in places.iter().flatten().filter(|place| place.epoch > 0) {
                streams.completed(place.stream, place.epoch - 1);
            }
            streams.accepted(version, &places, NONE);
        }
        assert_eq!([3, 2].map(|version| streams.programmed(version)), [Plan::Delay, Plan::Delay]);
        assert_eq!(streams.programmed(1), Plan::Map);
        assert_eq!(ready(&mut streams), []);
        assert_eq!(streams.programmed(0), Plan::Map);
        assert_eq!(ready(&mut streams), [2, 3]);
        assert_eq!((streams.first_epoch(1), streams.first_epoch(2)), (Some(1), Some(2)));
        streams.closed(1);
        assert_eq!((streams.first_epoch(1), streams.versions.len()), (None, 0));
    }

    #[test]
    fn part_of_a_unit_waits_for_what_is_below_it() {
        let mut streams = with_streams();
        streams.accepted(0, &[at(1, 0), None], NONE);
        streams.completed(1, 0);
        streams.accepted(1, &[at(1, 1), None], NONE);
        streams.accepted(2, &[None, None], 1);
        assert_eq!([2, 1].map(|version| streams.programmed(version)), [Plan::Delay, Plan::Delay]);
        streams.dropped(0);
        assert_eq!(ready(&mut streams), [1, 2]);
        // A number that is used again is another version.
        streams.accepted(0, &[at(1, 1), None], NONE);
        streams.accepted(1, &[None, None], 0);
        streams.dropped(0);
        streams.accepted(0, &[at(1, 1), None], NONE);
        assert_eq!(streams.programmed(1), Plan::Map);
        assert!(streams.memory_bytes() > 0);
        streams.clear();
        assert_eq!(streams.memory_bytes(), 0);
    }

    #[test]
    fn a_late_version_waits_and_is_not_waited_for() {
        let mut streams = with_streams();
        streams.accepted(0, &[at(1, 0), None], NONE);
        streams.completed(1, 0);
        streams.completed(1, 1);
        let late = Some(EpochId { stream: 1, epoch: 1, is_late: true });
        streams.accepted(1, &[late, None], NONE);
        streams.accepted(2, &[at(1, 2), None], NONE);
        assert_eq!([1, 2].map(|version| streams.programmed(version)), [Plan::Delay, Plan::Delay]);
        assert_eq!(streams.programmed(0), Plan::Map);
        assert_eq!(ready(&mut streams), [1, 2]);
    }
}
