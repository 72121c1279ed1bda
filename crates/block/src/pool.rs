//! The bios and requests of a queue, and the rules by which they merge
//! (block/blk-merge.c).

use std::task::Waker;

use nvme::{NamespaceId, Status};
use ssd::Payload;
use trace::RequestId;
use units::Nanos;

use crate::bio::{Bio, BioFlags, BioOp, Sector};
use crate::config::NoMerges;
use crate::limits::Limits;
use crate::order::{Asks, Ordered};
use crate::request::{Kind, Request, Rq};
use crate::slab::{NIL, Slab};

/// A bio that carries one of these never merges (`REQ_NOMERGE_FLAGS`).
const NOMERGE_FLAGS: BioFlags =
    BioFlags::NOMERGE.union(BioFlags::PREFLUSH).union(BioFlags::FUA).union(BioFlags::PASSTHROUGH);

/// A bio in the queue.
pub(crate) struct BioSlot {
    pub(crate) nsid: NamespaceId,
    pub(crate) op: BioOp,
    pub(crate) flags: BioFlags,
    pub(crate) sector: u64,
    pub(crate) bytes: u64,
    /// A write's data until dispatch, a read's from completion.
    pub(crate) data: Payload,
    pub(crate) request: RequestId,
    pub(crate) queued_at: Nanos,
    pub(crate) completed_at: Nanos,
    /// The first failure so far, or success.
    pub(crate) status: Status,
    /// The bio it was cut from, and how far into it it starts.
    pub(crate) parent: u32,
    pub(crate) parent_offset: u64,
    /// Commands that must end before it does: itself, or the parts it was cut into.
    pub(crate) outstanding: u32,
    /// The next bio of the same request, or the next that an ordering gate holds.
    pub(crate) next: u32,
    /// What it has of order.
    pub(crate) order: Option<Box<Ordered>>,
    /// Nobody will ask for the result.
    pub(crate) detached: bool,
    pub(crate) waker: Option<Waker>,
}

impl BioSlot {
    pub(crate) fn new(bio: Bio, now: Nanos) -> Self {
        Self {
            nsid: bio.nsid,
            op: bio.op,
            flags: bio.flags,
            sector: bio.sector.0,
            bytes: bio.bytes,
            data: bio.data,
            request: bio.request,
            queued_at: now,
            completed_at: now,
            status: Status::SUCCESS,
            parent: NIL,
            parent_offset: 0,
            outstanding: 1,
            next: NIL,
            order: bio.order.map(Ordered::of_write),
            detached: false,
            waker: None,
        }
    }

    /// Whether it is a command of the gate of ordered writes.
    #[cold]
    pub(crate) fn is_management(&self) -> bool {
        self.order.as_ref().is_some_and(|order| matches!(order.asks, Asks::Manage { .. }))
    }

    pub(crate) fn end_sector(&self) -> u64 {
        self.sector + self.bytes / Sector::BYTES
    }

    pub(crate) fn is_done(&self) -> bool {
        self.outstanding == 0
    }
}

/// How a bio joins a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    /// It begins where the request ends.
    Back,
    /// It ends where the request begins.
    Front,
    /// It becomes one more range of a discard.
    Discard,
}

/// How a try to merge went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// The bio is part of the request now.
    Merged(Merge),
    /// They do not fit together.
    Unrelated,
    /// They fit together, but the request would outgrow a limit.
    Refused,
}

/// Counts of merges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MergeCounts {
    pub(crate) back: u64,
    pub(crate) front: u64,
    pub(crate) discard: u64,
    pub(crate) requests: u64,
}

/// Bios, requests, and what a merge needs to know.
pub(crate) struct Pool {
    pub(crate) bios: Slab<BioSlot>,
    pub(crate) requests: Slab<Request>,
    /// Limits of each namespace; index 0 is namespace 1.
    pub(crate) limits: Vec<Limits>,
    pub(crate) nomerges: NoMerges,
    pub(crate) merges: MergeCounts,
}

/// Place of a namespace in the lists that hold one entry for each.
pub(crate) fn place(nsid: NamespaceId) -> usize {
    (nsid.0 as usize).wrapping_sub(1)
}

impl Pool {
    /// Limits of a namespace that exists.
    pub(crate) fn limits(&self, nsid: NamespaceId) -> &Limits {
        &self.limits[place(nsid)]
    }

    /// Whether merges may be tried for a bio at all (bio_mergeable, QUEUE_FLAG_NOMERGES).
    pub(crate) fn bio_mergeable(&self, bio: u32) -> bool {
        let bio = &self.bios[bio];
        self.nomerges != NoMerges::Never && op_mergeable(bio.op) && !bio.flags.intersects(NOMERGE_FLAGS)
    }

    /// Whether anything may still join a request (rq_mergeable).
    pub(crate) fn request_mergeable(&self, rq: Rq) -> bool {
        let request = &self.requests[rq];
        let Kind::Bio(op) = request.kind else { return false };
        op_mergeable(op) && !request.nomerge && request.sequence.is_none() && !request.flags.intersects(NOMERGE_FLAGS)
    }

    /// How `bio` would join `rq` by op and address (blk_rq_merge_ok, blk_try_merge).
    pub(crate) fn merge_kind(&self, rq: Rq, bio: u32) -> Option<Merge> {
        let (request, bio) = (&self.requests[rq], &self.bios[bio]);
        if request.kind != Kind::Bio(bio.op) || request.nsid != bio.nsid || !self.request_mergeable(rq) {
            return None;
        }
        // One command carries either data or none.
        if self.bios[request.first_bio].data.is_some() != bio.data.is_some() {
            return None;
        }
        // One order, too.
        if !self.alike_in_order(request.first_bio, bio.order.as_deref()) {
            return None;
        }
        // And one priority (block/blk-merge.c, blk_rq_merge_ok).
        if request.flags.symmetric_difference(bio.flags).intersects(BioFlags::PRIORITY) {
            return None;
        }
        if bio.op == BioOp::Discard && self.limits(bio.nsid).max_discard_segments > 1 {
            Some(Merge::Discard)
        } else if request.end_sector() == bio.sector {
            Some(Merge::Back)
        } else if bio.end_sector() == request.sector && !request.gated {
            // To the front of what is ordered fits only what came out of order:
            // left to fail (block/blk-merge.c, bio_attempt_front_merge).
            Some(Merge::Front)
        } else {
            None
        }
    }

    /// Merges `bio` into `rq` if they fit (blk_attempt_bio_merge). A request
    /// that has no room for it takes no further merges.
    pub(crate) fn attempt_merge(&mut self, rq: Rq, bio: u32) -> Attempt {
        let Some(kind) = self.merge_kind(rq, bio) else { return Attempt::Unrelated };
        let slot = &self.bios[bio];
        let (op, sector, bytes) = (slot.op, slot.sector, slot.bytes);
        let segments = self.limits(slot.nsid).segments(op, bytes);
        if !self.has_room(rq, op, sector, bytes, segments) {
            self.requests[rq].nomerge = true;
            return Attempt::Refused;
        }
        let request = &mut self.requests[rq];
        request.bytes += bytes;
        request.segments += segments;
        match kind {
            Merge::Back | Merge::Discard => {
                let last = std::mem::replace(&mut request.last_bio, bio);
                self.bios[last].next = bio;
                self.bios[bio].next = NIL;
            }
            Merge::Front => {
                request.sector = sector;
                let first = std::mem::replace(&mut request.first_bio, bio);
                self.bios[bio].next = first;
            }
        }
        match kind {
            Merge::Back => self.merges.back += 1,
            Merge::Front => self.merges.front += 1,
            Merge::Discard => self.merges.discard += 1,
        }
        Attempt::Merged(kind)
    }

    /// Whether a bio that fits a request would not outgrow its limits.
    pub(crate) fn has_room_for(&self, rq: Rq, bio: u32) -> bool {
        let bio = &self.bios[bio];
        let segments = self.limits(bio.nsid).segments(bio.op, bio.bytes);
        self.has_room(rq, bio.op, bio.sector, bio.bytes, segments)
    }

    /// Moves `next`'s bios behind `rq`'s if the two fit (attempt_merge); the
    /// caller frees `next`. A merged pair keeps the earlier start.
    pub(crate) fn merge_requests(&mut self, rq: Rq, next: Rq) -> bool {
        if !self.request_mergeable(rq) || !self.request_mergeable(next) {
            return false;
        }
        let (a, b) = (&self.requests[rq], &self.requests[next]);
        let Kind::Bio(op) = a.kind else { return false };
        let adjacent = a.nsid == b.nsid && (op == BioOp::Discard || a.end_sector() == b.sector);
        let same_data = self.bios[a.first_bio].data.is_some() == self.bios[b.first_bio].data.is_some();
        let (sector, bytes, segments, first, last) = (b.sector, b.bytes, b.segments, b.first_bio, b.last_bio);
        let same_priority = a.priority() == b.priority();
        let same_order = self.alike_in_order(a.first_bio, self.bios[b.first_bio].order.as_deref());
        if a.kind != b.kind || !adjacent || !same_data || !same_priority || !same_order {
            return false;
        }
        if !self.has_room(rq, op, sector, bytes, segments) {
            return false;
        }
        let started_at = a.started_at.min(b.started_at);
        let request = &mut self.requests[rq];
        request.bytes += bytes;
        request.segments += segments;
        request.started_at = started_at;
        let middle = std::mem::replace(&mut request.last_bio, last);
        self.bios[middle].next = first;
        let next = &mut self.requests[next];
        (next.first_bio, next.last_bio) = (NIL, NIL);
        self.merges.requests += 1;
        true
    }

    /// Whether what a bio has of order lets another join it in one command.
    #[inline]
    fn alike_in_order(&self, bio: u32, other: Option<&Ordered>) -> bool {
        match (self.bios[bio].order.as_deref(), other) {
            (None, None) => true,
            (Some(order), Some(other)) => order.is_alike(other),
            _ => false,
        }
    }

    /// Whether `bytes` at `sector` still go into a request.
    fn has_room(&self, rq: Rq, op: BioOp, sector: u64, bytes: u64, segments: u32) -> bool {
        let request = &self.requests[rq];
        let limits = self.limits(request.nsid);
        let bytes = request.bytes + bytes;
        bytes <= limits.max_bytes(op)
            && request.segments + segments <= limits.max_segments(op)
            && !limits.straddles(op, sector.min(request.sector), bytes)
    }
}

/// Write zeroes, appends and management never merge (rq_mergeable).
fn op_mergeable(op: BioOp) -> bool {
    !matches!(op, BioOp::WriteZeroes | BioOp::ZoneAppend | BioOp::Zone(_) | BioOp::ZoneReport)
}
