//! A scheduler by itself with what it works on, for tests.

use trace::RequestId;
use units::Nanos;

use super::{Position, Scheduler};
use crate::bio::{Bio, BioFlags, BioOp, Sector};
use crate::config::{NoMerges, QueueConfig};
use crate::limits::Limits;
use crate::pool::{BioSlot, Pool};
use crate::request::{Direction, Kind, Request, Rq};
use crate::slab::Slab;

/// A scheduler with a pool, and short names for what tests do.
pub(super) struct Bench<S> {
    pub(super) scheduler: S,
    pub(super) pool: Pool,
    pub(super) freed: Vec<Rq>,
}

impl<S: Scheduler> Bench<S> {
    pub(super) fn new(scheduler: S) -> Self {
        let identity = ssd::NullDevice::new(1 << 30, 512, Nanos::ZERO);
        let limits = Limits::new(ssd::Device::identity(&identity), 1 << 30, &QueueConfig::default());
        let pool = Pool {
            bios: Slab::new(),
            requests: Slab::new(),
            limits: vec![limits],
            nomerges: NoMerges::All,
            merges: Default::default(),
        };
        Self { scheduler, pool, freed: Vec::new() }
    }

    pub(super) fn bio(&mut self, op: BioOp, sector: u64, sectors: u64) -> u32 {
        self.bio_with(op, sector, sectors, BioFlags::empty())
    }

    pub(super) fn bio_with(&mut self, op: BioOp, sector: u64, sectors: u64, flags: BioFlags) -> u32 {
        let bio = Bio {
            nsid: nvme::NamespaceId::FIRST,
            op,
            sector: Sector(sector),
            bytes: sectors * 512,
            flags,
            data: None,
            order: None,
            request: RequestId::default(),
        };
        self.pool.bios.insert(BioSlot::new(bio, Nanos::ZERO))
    }

    pub(super) fn insert(&mut self, op: BioOp, sector: u64, sectors: u64, now: Nanos) -> Rq {
        self.insert_with(op, sector, sectors, BioFlags::empty(), now)
    }

    pub(super) fn insert_with(&mut self, op: BioOp, sector: u64, sectors: u64, flags: BioFlags, now: Nanos) -> Rq {
        let bio = self.bio_with(op, sector, sectors, flags);
        let mut request = Request::new(Kind::Bio(op), nvme::NamespaceId::FIRST, 0, 0, now);
        (request.sector, request.bytes, request.segments) = (sector, sectors * 512, 1);
        (request.first_bio, request.last_bio) = (bio, bio);
        request.flags = flags;
        let rq = self.pool.requests.insert(request);
        self.scheduler.insert(&mut self.pool, rq, Position::Tail, now, &mut self.freed);
        rq
    }

    pub(super) fn merge(&mut self, op: BioOp, sector: u64, sectors: u64) -> bool {
        let bio = self.bio(op, sector, sectors);
        self.scheduler.merge_bio(&mut self.pool, 0, bio, &mut self.freed)
    }

    /// Dispatches one request: (direction, sector, sectors).
    pub(super) fn dispatch(&mut self, now: Nanos) -> Option<(Direction, u64, u64)> {
        let rq = self.scheduler.dispatch(&mut self.pool, 0, now)?;
        let request = &self.pool.requests[rq];
        Some((request.direction(), request.sector, request.bytes / 512))
    }

    /// Ends a request, as the queue does once it has left the device.
    pub(super) fn finish(&mut self, rq: Rq) {
        self.scheduler.finished(rq, &self.pool.requests[rq]);
    }

    pub(super) fn sectors(&mut self, now: Nanos) -> Vec<u64> {
        std::iter::from_fn(|| self.dispatch(now)).map(|(_, sector, _)| sector).collect()
    }
}
