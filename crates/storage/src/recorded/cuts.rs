//! Every moment at which the power could have gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Event, WriteId};
use crate::Image;

/// A write that may or may not have survived a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undecided {
    /// Its name.
    pub id: WriteId,
    /// Where.
    pub offset_bytes: u64,
    /// What; zeroes for a discard.
    pub bytes: Arc<[u8]>,
}

/// One moment at which the power goes.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How many events had happened.
    pub events: usize,
    /// The bytes that a completed flush covers, and nothing newer.
    pub durable: Image,
    /// The newer writes in order of submission: any subset may have survived.
    pub undecided: Vec<Undecided>,
    /// The test's last mark.
    pub mark: Option<u64>,
}

impl Cut {
    /// The bytes after the cut where exactly those units of undecided writes survived that `survives` says. Units are
    /// `atomic_bytes` long and numbered through each write; it is asked in order of submission.
    pub fn image(&self, atomic_bytes: usize, mut survives: impl FnMut(&Undecided, usize) -> bool) -> Image {
        let mut image = self.durable.clone();
        for write in &self.undecided {
            for (unit, bytes) in write.bytes.chunks(atomic_bytes.max(1)).enumerate() {
                if survives(write, unit) {
                    image.write(write.offset_bytes + (unit * atomic_bytes) as u64, bytes);
                }
            }
        }
        image
    }
}

/// Goes through the cuts of a recording: one before the first event and one after each that changes what a cut could
/// leave.
pub struct Cuts<'a> {
    events: &'a [Event],
    next: usize,
    begun: bool,
    durable: Image,
    /// Writes since submitted, in order, with whether they have completed.
    pending: BTreeMap<WriteId, (Undecided, bool)>,
    /// Of each outstanding flush, which writes it covers.
    flushes: BTreeMap<u64, Vec<WriteId>>,
    mark: Option<u64>,
}

impl<'a> Cuts<'a> {
    /// The cuts of `events` over a storage that was `before`.
    pub fn new(before: Image, events: &'a [Event]) -> Self {
        Self {
            events,
            next: 0,
            begun: false,
            durable: before,
            pending: BTreeMap::new(),
            flushes: BTreeMap::new(),
            mark: None,
        }
    }

    /// Takes one event; whether a cut after it can leave something that a cut before it could not.
    fn step(&mut self, event: &Event) -> bool {
        match event {
            Event::Submitted { id, offset_bytes, bytes } => {
                let write = Undecided { id: *id, offset_bytes: *offset_bytes, bytes: Arc::clone(bytes) };
                self.pending.insert(*id, (write, false));
                true
            }
            Event::Completed(id) => {
                if let Some((_, completed)) = self.pending.get_mut(id) {
                    *completed = true;
                }
                false
            }
            Event::FlushSubmitted(flush) => {
                let covered = self.pending.iter().filter(|(_, (_, completed))| *completed).map(|(id, _)| *id);
                self.flushes.insert(*flush, covered.collect());
                false
            }
            Event::FlushCompleted(flush) => {
                for id in self.flushes.remove(flush).unwrap_or_default() {
                    if let Some((write, _)) = self.pending.remove(&id) {
                        self.durable.write(write.offset_bytes, &write.bytes);
                    }
                }
                true
            }
            Event::Mark(value) => {
                self.mark = Some(*value);
                true
            }
        }
    }
}

impl Iterator for Cuts<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        let mut changed = !self.begun;
        self.begun = true;
        while !changed {
            let event = self.events.get(self.next)?;
            self.next += 1;
            changed = self.step(event);
        }
        Some(Cut {
            events: self.next,
            durable: self.durable.clone(),
            undecided: self.pending.values().map(|(write, _)| write.clone()).collect(),
            mark: self.mark,
        })
    }
}
