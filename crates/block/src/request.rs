//! Requests and the lists they wait on.

use nvme::NamespaceId;
use units::Nanos;

use crate::bio::{BioFlags, BioOp, Sector, ZoneOp};
use crate::flush::steps::Steps;
use crate::slab::{NIL, Slab};

/// "Holds no driver tag" (BLK_MQ_NO_TAG).
pub(crate) const NO_TAG: u16 = u16::MAX;

/// Index of a request; lives until the request is freed.
pub(crate) type Rq = u32;

/// One command to be: a bio, or several merged (`struct request`).
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) nsid: NamespaceId,
    /// Modifiers, those of the first bio less what the flush machine strips.
    pub(crate) flags: BioFlags,
    /// First sector; a merged discard has its first range's.
    pub(crate) sector: u64,
    /// Bytes of all bios together.
    pub(crate) bytes: u64,
    pub(crate) segments: u32,
    /// Bios in address order (discards: in merge order), linked through `BioSlot::next`.
    pub(crate) first_bio: u32,
    pub(crate) last_bio: u32,
    /// Software and hardware context, fixed when the request is made.
    pub(crate) ctx: u16,
    pub(crate) hctx: u16,
    /// Driver tag, or `NO_TAG`.
    pub(crate) tag: u16,
    /// A merge was refused for size: never merge again (req_set_nomerge).
    pub(crate) nomerge: bool,
    /// Its bio passed an ordering gate, which hears of its end (as of zone writes
    /// RQF_ZONE_WRITE_PLUGGING says).
    pub(crate) gated: bool,
    /// Its bios are ordered, or it is a command of the gate of ordered writes.
    pub(crate) ordered: bool,
    /// Neither freed nor failed.
    pub(crate) live: bool,
    /// Steps of the flush sequence that are behind it, for a request in one.
    pub(crate) sequence: Option<Steps>,
    /// For a flush, the oldest request it covers.
    pub(crate) flush_for: Rq,
    /// When the request was made, and when it went to the device.
    pub(crate) started_at: Nanos,
    pub(crate) dispatched_at: Nanos,
    previous: Rq,
    next: Rq,
}

/// What a request's command will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// What its bios ask for.
    Bio(BioOp),
    /// Flush: made by the flush machine, has no bios.
    Flush,
    /// Stream Management: made by the gate of ordered writes, has a bio without data.
    Manage,
}

/// Data direction, Linux's `rq_data_dir`: ops with an even number are reads.
/// In Linux 6.12 opening and finishing a zone have one (include/linux/blk_types.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read = 0,
    Write = 1,
}

/// I/O priority class, most urgent first (include/uapi/linux/ioprio.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    Realtime = 0,
    BestEffort = 1,
    Idle = 2,
}

impl Priority {
    pub(crate) const ALL: [Self; 3] = [Self::Realtime, Self::BestEffort, Self::Idle];

    pub(crate) fn of(flags: BioFlags) -> Self {
        if flags.contains(BioFlags::REALTIME) {
            Self::Realtime
        } else if flags.contains(BioFlags::IDLE_PRIORITY) {
            Self::Idle
        } else {
            Self::BestEffort
        }
    }
}

impl Request {
    pub(crate) fn new(kind: Kind, nsid: NamespaceId, ctx: u16, hctx: u16, now: Nanos) -> Self {
        Self {
            kind,
            nsid,
            flags: BioFlags::empty(),
            sector: 0,
            bytes: 0,
            segments: 0,
            first_bio: NIL,
            last_bio: NIL,
            ctx,
            hctx,
            tag: NO_TAG,
            nomerge: false,
            gated: false,
            ordered: false,
            live: true,
            sequence: None,
            flush_for: NIL,
            started_at: now,
            dispatched_at: now,
            previous: NIL,
            next: NIL,
        }
    }

    /// One past the last sector.
    pub(crate) fn end_sector(&self) -> u64 {
        self.sector + self.bytes / Sector::BYTES
    }

    pub(crate) fn priority(&self) -> Priority {
        Priority::of(self.flags)
    }

    pub(crate) fn direction(&self) -> Direction {
        match self.kind {
            Kind::Bio(BioOp::Read | BioOp::ZoneReport | BioOp::Zone(ZoneOp::Open | ZoneOp::Finish)) => Direction::Read,
            _ => Direction::Write,
        }
    }
}

/// A doubly linked list through the requests; a request is on one list at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestList {
    head: Rq,
    tail: Rq,
    len: u32,
}

impl Default for RequestList {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl RequestList {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<Rq> {
        (self.head != NIL).then_some(self.head)
    }

    pub(crate) fn last(&self) -> Option<Rq> {
        (self.tail != NIL).then_some(self.tail)
    }

    /// The request before `rq`, for a walk from the tail.
    pub(crate) fn before(requests: &Slab<Request>, rq: Rq) -> Option<Rq> {
        let previous = requests[rq].previous;
        (previous != NIL).then_some(previous)
    }

    /// The request after `rq`, for a walk from the head.
    pub(crate) fn after(requests: &Slab<Request>, rq: Rq) -> Option<Rq> {
        let next = requests[rq].next;
        (next != NIL).then_some(next)
    }

    pub(crate) fn push_back(&mut self, requests: &mut Slab<Request>, rq: Rq) {
        self.link(requests, self.tail, rq, NIL);
    }

    pub(crate) fn push_front(&mut self, requests: &mut Slab<Request>, rq: Rq) {
        self.link(requests, NIL, rq, self.head);
    }

    /// Puts `rq` just before `place`, which is on this list.
    pub(crate) fn insert_before(&mut self, requests: &mut Slab<Request>, place: Rq, rq: Rq) {
        let previous = requests[place].previous;
        self.link(requests, previous, rq, place);
    }

    pub(crate) fn pop_front(&mut self, requests: &mut Slab<Request>) -> Option<Rq> {
        let rq = self.first()?;
        self.remove(requests, rq);
        Some(rq)
    }

    pub(crate) fn remove(&mut self, requests: &mut Slab<Request>, rq: Rq) {
        debug_assert!(self.len > 0);
        let Request { previous, next, .. } = requests[rq];
        match previous {
            NIL => self.head = next,
            previous => requests[previous].next = next,
        }
        match next {
            NIL => self.tail = previous,
            next => requests[next].previous = previous,
        }
        (requests[rq].previous, requests[rq].next) = (NIL, NIL);
        self.len -= 1;
    }

    fn link(&mut self, requests: &mut Slab<Request>, previous: Rq, rq: Rq, next: Rq) {
        debug_assert!(requests[rq].previous == NIL && requests[rq].next == NIL, "request {rq} is on a list");
        (requests[rq].previous, requests[rq].next) = (previous, next);
        match previous {
            NIL => self.head = rq,
            previous => requests[previous].next = rq,
        }
        match next {
            NIL => self.tail = rq,
            next => requests[next].previous = rq,
        }
        self.len += 1;
    }
}
