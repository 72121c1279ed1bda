//! What a bio in the queue has of order.

use nvme::{Closing, Stream, StreamAction, WriteOrder};

use crate::bio::{Closes, OrderRequest};

/// An epoch of a stream that the queue knows, both counted from 0 and never wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InStream {
    /// The stream's index in the gate.
    pub(crate) stream: u32,
    pub(crate) epoch: u64,
}

/// What an ordered bio is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asks {
    /// A write of somebody's.
    Write(OrderRequest),
    /// The gate's own: a flush before a stream is opened again.
    Flush { stream: u32 },
    /// The gate's own: opens or closes a stream of the device.
    Manage { stream: Stream, action: StreamAction },
}

/// The order of one bio, decided once: when it is submitted, or in one sequence of
/// epochs for all, when it passes the gate.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    pub(crate) asks: Asks,
    /// The CPU that it is sent from.
    pub(crate) cpu: u16,
    pub(crate) places: [Option<InStream>; 2],
    /// What the command says; nothing where order is kept by waiting.
    pub(crate) wire: WriteOrder,
    /// It is the last of an epoch that a barrier closes by arrival.
    pub(crate) leaves_last: bool,
    /// Its order is kept by waiting and flushing, not by the device.
    pub(crate) waits: bool,
    /// It has gone to the device.
    pub(crate) has_left: bool,
    /// Commands that have not gone to the device: its own, or those of its parts.
    pub(crate) unsent: u32,
}

impl Ordered {
    pub(crate) fn new(asks: Asks) -> Self {
        Self {
            asks,
            cpu: 0,
            places: [None, None],
            wire: WriteOrder::NONE,
            leaves_last: false,
            waits: false,
            has_left: false,
            unsent: 1,
        }
    }

    /// That of somebody's write, before it is decided.
    #[cold]
    pub(crate) fn of_write(request: OrderRequest) -> Box<Self> {
        Box::new(Self::new(Asks::Write(request)))
    }

    /// That of a part of the bio: the last one alone closes epochs.
    pub(crate) fn part(&self, is_last: bool) -> Box<Self> {
        let mut part = Self { unsent: 1, ..self.clone() };
        if !is_last {
            part.wire.closing = Closing::None;
            part.leaves_last = false;
            if let Asks::Write(request) = &mut part.asks {
                request.closes = Closes::empty();
            }
        }
        Box::new(part)
    }

    /// Whether two writes may be one command: of the same epochs, kept in the same way, and none closes anything.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        #[cfg(test)]
        if crate::mutant::is(crate::mutant::Mutant::MergesAcrossEpochs) {
            return true;
        }
        let closes = |order: &Self| matches!(order.asks, Asks::Write(request) if !request.closes.is_empty());
        self.places == other.places && self.waits == other.waits && !closes(self) && !closes(other)
    }
}
