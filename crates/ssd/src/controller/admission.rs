//! The streams that are open, and when a write of theirs may be accepted: once the epochs before its own are complete, so that
//! the order of acceptance keeps that of every stream. A command that must wait does so without any of the buffer.

use std::collections::{BTreeMap, BTreeSet};

use crash::order::{EpochId, Places};
use nvme::{Close, Epoch, Status, Stream, StreamAction, WriteOrder};

/// What a command asks of streams.
pub(super) enum Request {
    /// A write that belongs to some, of so many blocks.
    Write { order: WriteOrder, places: Places, blocks: u64 },
    /// One is opened or closed.
    Manage { stream: Stream, action: StreamAction },
}

/// Whether a write may be accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    /// It may.
    Open,
    /// Not before something happens in this stream.
    Wait(Stream),
    /// It never may: a stream is broken or closed.
    Broken,
}

/// A deliberate defect, for tests.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    /// An epoch is complete when its barrier is there, whatever the count.
    CountIgnored,
    /// Identifiers are compared as plain numbers.
    NoWrap,
    /// Where a table is full, a write is taken as one without order.
    PromotesWhenFull,
}

/// All open streams.
#[derive(Default)]
pub(super) struct Admission {
    open: BTreeMap<Stream, OpenStream>,
    /// Streams ever opened.
    openings: u64,
    /// Streams in which a write waits for the table of epochs.
    full: BTreeSet<Stream>,
    /// Commands that had to wait.
    pub waits: u64,
    /// Blocks of writes that came when their epoch was closed.
    pub late_blocks: u64,
    #[cfg(test)]
    pub defect: Option<Defect>,
}

struct OpenStream {
    /// Which of all streams ever opened.
    number: u64,
    /// The first epoch that is not complete, counted from the stream's first, and its identifier.
    present: u64,
    id: Epoch,
    is_broken: bool,
    /// From the present one on, as far as writes were fetched.
    epochs: BTreeMap<u64, Arriving>,
}

/// An epoch whose writes are coming.
#[derive(Default)]
struct Arriving {
    fetched_blocks: u64,
    accepted_blocks: u64,
    /// How many blocks it has, once it is closed, and whether its host counted them.
    closed: Option<(u64, bool)>,
    /// Commands that wait for something in it.
    waiting: Vec<u32>,
}

/// What the acceptance of a write lets go on.
#[derive(Default)]
pub(super) struct Progress {
    /// Epochs that are complete: stream and epoch.
    pub completed: Vec<(u64, u64)>,
    /// Commands to look at again.
    pub woken: Vec<u32>,
}

impl Admission {
    /// Opens a stream, of at most `limit`: its number.
    pub fn open(&mut self, stream: Stream, first: Epoch, limit: u32) -> Result<u64, Status> {
        if stream == Stream::NONE {
            return Err(Status::INVALID_FIELD);
        }
        if self.open.contains_key(&stream) {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if self.open.len() >= limit as usize {
            return Err(Status::STREAM_RESOURCE_ALLOCATION_FAILED);
        }
        self.openings += 1;
        let number = self.openings;
        let epochs = BTreeMap::new();
        self.open.insert(stream, OpenStream { number, present: 0, id: first, is_broken: false, epochs });
        Ok(number)
    }

    /// Closes a stream: its number, and the commands that waited in it.
    pub fn close(&mut self, stream: Stream) -> Result<(u64, Vec<u32>), Status> {
        let mut closed = self.open.remove(&stream).ok_or(match stream {
            Stream::NONE => Status::INVALID_FIELD,
            _ => Status::COMMAND_SEQUENCE_ERROR,
        })?;
        self.full.remove(&stream);
        Ok((closed.number, closed.take_waiting()))
    }

    /// The streams that are open.
    pub fn open_streams(&self) -> Vec<Stream> {
        self.open.keys().copied().collect()
    }

    /// A write is fetched: the epochs that it belongs to.
    pub fn fetched(&mut self, order: &WriteOrder, blocks: u64) -> Result<Places, Status> {
        order.check()?;
        let mut places = [None, None];
        for ((place, close), to) in order.places().zip(&mut places) {
            #[cfg(test)]
            let wraps = self.defect != Some(Defect::NoWrap);
            let stream = self.open.get_mut(&place.stream).filter(|stream| !stream.is_broken);
            let stream = stream.ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
            let ahead = i64::from(place.epoch.since(stream.id).ok_or(Status::INVALID_FIELD)?);
            #[cfg(test)]
            let ahead = if wraps { ahead } else { i64::from(place.epoch.0) - i64::from(stream.id.0) };
            let epoch = stream.present.checked_add_signed(ahead);
            #[cfg(test)]
            let epoch = epoch.or((!wraps).then_some(0));
            let epoch = epoch.ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
            *to = Some(stream.fetched(epoch, blocks, close)?);
            self.late_blocks += if to.is_some_and(|place| place.is_late) { blocks } else { 0 };
        }
        Ok(places)
    }

    /// Whether a write may be accepted, where `first_epoch` says from which epoch on a stream is in the table of at most `limit`.
    pub fn gate(
        &mut self,
        order: &WriteOrder,
        places: &Places,
        first_epoch: impl Fn(u64) -> Option<u64>,
        limit: u32,
    ) -> Gate {
        let mut gate = Gate::Open;
        for ((at, _), place) in order.places().zip(places.iter().flatten()) {
            let Some(stream) = self.open.get(&at.stream).filter(|open| open.number == place.stream && !open.is_broken)
            else {
                return Gate::Broken;
            };
            if gate != Gate::Open {
                continue;
            }
            let under_way = stream.present - first_epoch(place.stream).unwrap_or(stream.present);
            if place.epoch > stream.present {
                gate = Gate::Wait(at.stream);
            } else if under_way >= u64::from(limit) && !place.is_late {
                self.full.insert(at.stream);
                gate = Gate::Wait(at.stream);
            }
        }
        gate
    }

    /// A command waits in one of its streams.
    pub fn wait(&mut self, stream: Stream, places: &Places, id: u32) {
        self.waits += 1;
        if let Some(open) = self.open.get_mut(&stream)
            && let Some(place) = places.iter().flatten().find(|place| place.stream == open.number)
        {
            open.epochs.entry(place.epoch).or_default().waiting.push(id);
        }
    }

    /// A write that was let in is accepted.
    pub fn accepted(&mut self, order: &WriteOrder, places: &Places, blocks: u64) -> Progress {
        let mut progress = Progress::default();
        for ((at, _), place) in order.places().zip(places.iter().flatten()) {
            let open = self.open.get_mut(&at.stream).filter(|open| open.number == place.stream && !place.is_late);
            let Some(open) = open else { continue };
            let Some(epoch) = open.epochs.get_mut(&place.epoch) else { continue };
            epoch.accepted_blocks += blocks;
            let is_complete = epoch.closed.is_some_and(|(blocks, _)| epoch.accepted_blocks >= blocks);
            #[cfg(test)]
            let is_complete = is_complete || (self.defect == Some(Defect::CountIgnored) && epoch.closed.is_some());
            if is_complete {
                progress.completed.push((open.number, open.present));
                // What waits in it waits for another stream by now, or for the table.
                let left = open.epochs.remove(&open.present);
                progress.woken.extend(left.into_iter().flat_map(|epoch| epoch.waiting));
                open.present += 1;
                open.id = open.id.next();
                progress.woken.extend(open.waiting_for_present());
            }
        }
        progress
    }

    /// Something was mapped: commands that waited for the table of epochs.
    pub fn take_full(&mut self) -> Vec<u32> {
        let full = std::mem::take(&mut self.full);
        let mut woken = Vec::new();
        for stream in full {
            woken.extend(self.open.get_mut(&stream).map(OpenStream::waiting_for_present).unwrap_or_default());
        }
        woken
    }

    /// Whether any command waits for the table of epochs.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// A write of these streams failed: they keep no order any more. Commands that wait in them.
    pub fn break_streams(&mut self, order: &WriteOrder) -> Vec<u32> {
        let mut waiting = Vec::new();
        for (place, _) in order.places() {
            if let Some(open) = self.open.get_mut(&place.stream) {
                open.is_broken = true;
                waiting.append(&mut open.take_waiting());
            }
        }
        waiting
    }

    /// Memory that its tables take.
    pub fn memory_bytes(&self) -> u64 {
        let of =
            |open: &OpenStream| size_of::<(Stream, OpenStream)>() + open.epochs.len() * size_of::<(u64, Arriving)>();
        self.open.values().map(of).sum::<usize>() as u64
    }

    /// Power off: every stream is closed, and no number is used again.
    pub fn reset(&mut self) {
        self.open.clear();
        self.full.clear();
    }
}

impl OpenStream {
    fn fetched(&mut self, number: u64, blocks: u64, close: Option<Close>) -> Result<EpochId, Status> {
        let mut place = EpochId { stream: self.number, epoch: number, is_late: number < self.present };
        if !place.is_late {
            let epoch = self.epochs.entry(number).or_default();
            match epoch.closed {
                Some((_, false)) => place.is_late = true,
                Some((counted, true)) if epoch.fetched_blocks + blocks > counted => {
                    return Err(Status::COMMAND_SEQUENCE_ERROR);
                }
                _ => {
                    epoch.fetched_blocks += blocks;
                    epoch.closed = match (close, epoch.closed) {
                        (None, closed) => closed,
                        (Some(Close::ByArrival), None) => Some((epoch.fetched_blocks, false)),
                        (Some(Close::Counted(counted)), None) if epoch.fetched_blocks <= counted.into() => {
                            Some((counted.into(), true))
                        }
                        _ => return Err(Status::COMMAND_SEQUENCE_ERROR),
                    };
                }
            }
        }
        if place.is_late && close.is_some() { Err(Status::COMMAND_SEQUENCE_ERROR) } else { Ok(place) }
    }

    fn waiting_for_present(&mut self) -> Vec<u32> {
        self.epochs.get_mut(&self.present).map(|epoch| std::mem::take(&mut epoch.waiting)).unwrap_or_default()
    }

    fn take_waiting(&mut self) -> Vec<u32> {
        self.epochs.values_mut().flat_map(|epoch| std::mem::take(&mut epoch.waiting)).collect()
    }
}
