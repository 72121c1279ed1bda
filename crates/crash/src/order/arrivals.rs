//! When a device accepts the writes of a log, and what epochs they are of: identifiers off the wire become epochs that are counted
//! without wrapping, of streams that are told apart although they have the same number.
//!
//! A log says when commands were given to the device, not when it fetched them: that is in order only within a queue. So a write
//! that was under way in another queue when a barrier closed its epoch by arrival may be late, and counts as late.

use std::collections::BTreeMap;

use super::tuple::Close;
use super::{EpochId, OrderTuple, Places, WirePlace};

/// What came of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// This write is accepted.
    Accepted(usize),
    /// This write, accepted or not, may have come too late for its epoch of this stream.
    Late(usize, u64),
}

/// The streams of a log so far. Writes have numbers that their user gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    open: BTreeMap<u16, Stream>,
    openings: u64,
    /// Writes that belong to streams that are open.
    writes: BTreeMap<usize, Arrived>,
    /// Those that are not accepted.
    waiting: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Stream {
    number: u64,
    /// The first epoch that is not complete, and its identifier.
    present: u64,
    id: u16,
    epochs: BTreeMap<u64, Epoch>,
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    writes: Vec<usize>,
    closed: Option<Close>,
}

#[derive(Clone, Debug)]
struct Arrived {
    queue: u16,
    blocks: u64,
    names: [u16; 2],
    places: Places,
    is_accepted: bool,
    is_complete: bool,
}

impl Arrivals {
    /// A stream is opened.
    pub fn open(&mut self, stream: u16, first: u16) {
        self.openings += 1;
        let opened = Stream { number: self.openings, present: 0, id: first, epochs: BTreeMap::new() };
        self.open.insert(stream, opened);
    }

    /// A stream is closed: what waits in it is never accepted.
    pub fn close(&mut self, stream: u16) {
        let Some(closed) = self.open.remove(&stream) else { return };
        let is_of = |write: &Arrived| write.places.iter().flatten().any(|place| place.stream == closed.number);
        let writes = &self.writes;
        self.waiting.retain(|write| !writes.get(write).is_some_and(is_of));
        // A write of two streams is remembered for the other.
        self.writes
            .retain(|_, write| !is_of(write) || (write.is_accepted && write.places.iter().flatten().count() > 1));
    }

    /// A write is given to the device: the epochs that it is of; `None` where the device refuses it.
    pub fn write(
        &mut self,
        write: usize,
        blocks: u64,
        tuple: &OrderTuple,
        changes: &mut Vec<Change>,
    ) -> Option<Places> {
        if tuple.first.stream == 0 || tuple.first.stream == tuple.second.stream {
            return None;
        }
        let (mut places, mut names) = ([None, None], [0, 0]);
        for ((at, _), (place, name)) in tuple.places().zip(places.iter_mut().zip(&mut names)) {
            (*place, *name) = (Some(self.place(at)?), at.stream);
        }
        let queue = tuple.queue;
        let arrived = Arrived { queue, blocks, names, places, is_accepted: false, is_complete: false };
        self.writes.insert(write, arrived);
        self.waiting.push(write);
        for ((at, close), place) in tuple.places().zip(places.iter().flatten()) {
            let Some(stream) = self.open.get_mut(&at.stream).filter(|_| !place.is_late) else { continue };
            let epoch = stream.epochs.entry(place.epoch).or_default();
            epoch.writes.push(write);
            if epoch.closed.is_none() && close.is_some() {
                epoch.closed = close;
            }
            if close == Some(Close::ByArrival) {
                let writes = &self.writes;
                let is_there =
                    |other: &usize| writes.get(other).is_some_and(|other| other.queue == queue || other.is_complete);
                let (there, late): (Vec<usize>, Vec<usize>) = epoch.writes.drain(..).partition(is_there);
                epoch.writes = there;
                for write in late {
                    self.make_late(write, place.stream);
                    changes.push(Change::Late(write, place.stream));
                }
            }
        }
        self.advance(changes);
        Some(places)
    }

    /// A write completes: it had been accepted, whatever is known here.
    pub fn completed(&mut self, write: usize, changes: &mut Vec<Change>) {
        let Some(arrived) = self.writes.get_mut(&write) else { return };
        arrived.is_complete = true;
        if !arrived.is_accepted {
            arrived.is_accepted = true;
            self.waiting.retain(|waiting| *waiting != write);
            changes.push(Change::Accepted(write));
            self.advance(changes);
        }
    }

    /// The present epoch of a stream.
    #[cfg(test)]
    pub fn present(&self, stream: u16) -> WirePlace {
        self.open.get(&stream).map_or_else(WirePlace::default, |open| WirePlace { stream, epoch: open.id })
    }

    fn place(&self, at: WirePlace) -> Option<EpochId> {
        let stream = self.open.get(&at.stream)?;
        let ahead = at.epoch.wrapping_sub(stream.id) as i16;
        let epoch = stream.present.checked_add_signed(ahead.into()).filter(|_| ahead != i16::MIN)?;
        let is_closed = stream.epochs.get(&epoch).is_some_and(|epoch| epoch.closed == Some(Close::ByArrival));
        Some(EpochId { stream: stream.number, epoch, is_late: epoch < stream.present || is_closed })
    }

    fn make_late(&mut self, write: usize, stream: u64) {
        let places = self.writes.get_mut(&write).map(|write| &mut write.places);
        for place in places.into_iter().flatten().flatten().filter(|place| place.stream == stream) {
            place.is_late = true;
        }
    }

    /// Completes epochs and accepts writes until nothing more follows.
    fn advance(&mut self, changes: &mut Vec<Change>) {
        loop {
            let mut is_over = true;
            let Self { open, writes, waiting, .. } = self;
            for stream in open.values_mut() {
                while stream.epochs.get(&stream.present).is_some_and(|epoch| epoch.is_complete(writes)) {
                    stream.epochs.remove(&stream.present);
                    stream.present += 1;
                    stream.id = stream.id.wrapping_add(1);
                    is_over = false;
                }
            }
            waiting.retain(|number| match writes.get_mut(number) {
                Some(write) if write.is_due(open) => {
                    write.is_accepted = true;
                    changes.push(Change::Accepted(*number));
                    is_over = false;
                    false
                }
                found => found.is_some(),
            });
            if is_over {
                // Nobody asks any more for what is accepted and of no epoch that is under way.
                writes.retain(|_, write| !write.is_accepted || write.is_under_way(open));
                return;
            }
        }
    }
}

impl Epoch {
    /// Whether it has all writes that it will ever have.
    fn is_complete(&self, writes: &BTreeMap<usize, Arrived>) -> bool {
        let mut of_it = self.writes.iter().filter_map(|write| writes.get(write));
        match self.closed {
            None => false,
            Some(Close::ByArrival) => of_it.all(|write| write.is_accepted),
            Some(Close::Counted(counted)) => {
                of_it.filter(|write| write.is_accepted).map(|write| write.blocks).sum::<u64>() >= counted
            }
        }
    }
}

impl Arrived {
    /// Its places with their streams, those that are open still.
    fn streams<'a>(
        &'a self,
        open: &'a BTreeMap<u16, Stream>,
    ) -> impl Iterator<Item = (&'a EpochId, Option<&'a Stream>)> {
        let of_name = |name: &u16, place: &EpochId| open.get(name).filter(|stream| stream.number == place.stream);
        self.places.iter().flatten().zip(&self.names).map(move |(place, name)| (place, of_name(name, place)))
    }

    /// Whether the epochs before its own are complete.
    fn is_due(&self, open: &BTreeMap<u16, Stream>) -> bool {
        self.streams(open).all(|(place, stream)| stream.is_some_and(|stream| place.epoch <= stream.present))
    }

    fn is_under_way(&self, open: &BTreeMap<u16, Stream>) -> bool {
        self.streams(open)
            .any(|(place, stream)| !place.is_late && stream.is_some_and(|stream| place.epoch >= stream.present))
    }
}
