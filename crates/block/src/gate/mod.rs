//! Ordering gates: whether, and when, a bio may become a request.
//!
//! A gate stands before the tags. A bio that it governs passes or is held; when
//! the request of one that passed has left for the device or has ended, the gate
//! says which may pass next. Each ordering is a file that looks and returns a
//! plan, and a line in [`Gates::new`]; here the queue carries the plans out.

mod zones;

use nvme::{NamespaceId, Status};
use units::Nanos;

use crate::bio::Sector;
use crate::limits::Limits;
use crate::pool::{BioSlot, Pool, place};
use crate::queue::Queue;
use crate::request::Rq;
use crate::slab::Slab;

/// What becomes of a bio that asks to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// It goes on.
    Pass,
    /// The gate keeps it, and gives it out again.
    Hold,
}

/// A bio that may pass, and the CPU from which.
struct Pass {
    bio: u32,
    cpu: u16,
}

/// The end of a request that passed a gate.
struct End {
    nsid: NamespaceId,
    /// Its first sector, and the CPU it was made on.
    sector: Sector,
    cpu: u16,
}

/// An ordering. Bios that it holds are its own, `BioSlot::next` included.
trait Gate {
    /// Whether it has a say in a bio. Any other goes past it.
    fn governs(&self, bio: &BioSlot) -> bool;

    /// A bio that it governs, and that fits one request, asks to pass.
    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan;

    /// A request was made of a bio that passed: lets it take bios along that are held.
    fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        let _ = (pool, rq);
    }

    /// The request of a bio that passed has ended. Appends what may pass since to
    /// `passing`.
    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>);

    /// A bio goes past the gate. Appends what it makes void of what is held to `void`.
    fn passed_by(&mut self, bios: &mut Slab<BioSlot>, bio: u32, void: &mut Vec<u32>) {
        let _ = (bios, bio, void);
    }

    /// Forgets everything, as after a power cut. Appends what is held to `void`.
    fn clear(&mut self, bios: &mut Slab<BioSlot>, void: &mut Vec<u32>);
}

/// The gates of a queue.
pub(crate) struct Gates {
    /// Of each namespace; none at all where nothing is ordered.
    gates: Vec<Option<Box<dyn Gate>>>,
    /// Requests that passed and have ended.
    ended: Vec<End>,
    /// Bios that were held.
    holds: u64,
    /// Kept for their memory.
    passing: Vec<Pass>,
    void: Vec<u32>,
}

impl Gates {
    /// The gates of namespaces with these limits.
    pub(crate) fn new(limits: &[Limits]) -> Self {
        let gate = |limits: &Limits| -> Option<Box<dyn Gate>> {
            let zones = limits.zoned.as_ref()?;
            Some(Box::new(zones::ZoneWritePlugs::new(zones)))
        };
        let mut gates: Vec<_> = limits.iter().map(gate).collect();
        if gates.iter().all(Option::is_none) {
            gates.clear();
        }
        Self { gates, ended: Vec::new(), holds: 0, passing: Vec::new(), void: Vec::new() }
    }

    fn of(&mut self, nsid: NamespaceId) -> Option<&mut Box<dyn Gate>> {
        self.gates.get_mut(place(nsid))?.as_mut()
    }

    /// Whether a gate has a say in a bio.
    #[inline]
    pub(crate) fn govern(&self, bio: &BioSlot) -> bool {
        !self.gates.is_empty() && matches!(self.gates.get(place(bio.nsid)), Some(Some(gate)) if gate.governs(bio))
    }

    /// Whether a bio that fits one request may go on; if not, it is held.
    #[inline]
    pub(crate) fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> bool {
        if !self.govern(&bios[bio]) {
            return true;
        }
        let Some(gate) = self.of(bios[bio].nsid) else { return true };
        let passes = gate.admit(bios, bio) == Plan::Pass;
        self.holds += u64::from(!passes);
        passes
    }

    /// A request was made of a bio that passed a gate.
    pub(crate) fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        if let Some(gate) = self.of(pool.requests[rq].nsid) {
            gate.gather(pool, rq);
        }
    }

    /// A request that passed a gate has ended.
    pub(crate) fn note_end(&mut self, nsid: NamespaceId, sector: u64, cpu: u16) {
        self.ended.push(End { nsid, sector: Sector(sector), cpu });
    }

    /// Whether requests have ended since the gates were last asked.
    #[inline]
    pub(crate) fn have_news(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Bios that were held so far.
    pub(crate) fn holds(&self) -> u64 {
        self.holds
    }
}

impl Queue {
    /// Sends what may pass since requests have ended.
    pub(crate) fn open_gates(&mut self, now: Nanos) {
        let mut ended = std::mem::take(&mut self.gates.ended);
        for end in ended.drain(..) {
            let mut passing = std::mem::take(&mut self.gates.passing);
            if let Some(gate) = self.gates.of(end.nsid) {
                gate.ended(&mut self.pool.bios, &end, &mut passing);
            }
            self.send_passing(now, passing);
        }
        debug_assert!(!self.gates.have_news(), "a request ended while it was made");
        self.gates.ended = ended;
    }

    fn send_passing(&mut self, now: Nanos, mut passing: Vec<Pass>) {
        for Pass { bio, cpu } in passing.drain(..) {
            self.request(now, cpu, bio, None);
        }
        self.gates.passing = passing;
    }

    /// A bio goes past the gates; what it makes void fails.
    pub(crate) fn pass_by(&mut self, now: Nanos, bio: u32) {
        let mut void = std::mem::take(&mut self.gates.void);
        if let Some(gate) = self.gates.of(self.pool.bios[bio].nsid) {
            gate.passed_by(&mut self.pool.bios, bio, &mut void);
        }
        self.fail_held(now, void, Status::ABORT_REQUESTED);
    }

    /// The power is gone: what is held fails.
    pub(crate) fn clear_gates(&mut self, now: Nanos) {
        self.gates.ended.clear();
        let mut void = std::mem::take(&mut self.gates.void);
        for gate in self.gates.gates.iter_mut().flatten() {
            gate.clear(&mut self.pool.bios, &mut void);
        }
        self.fail_held(now, void, Status::ABORTED_POWER_LOSS);
    }

    fn fail_held(&mut self, now: Nanos, mut void: Vec<u32>, status: Status) {
        for bio in void.drain(..) {
            self.complete_bio(bio, status, None, now);
        }
        self.gates.void = void;
    }
}
