//! What an ordering does: it looks at a bio and returns a plan.

use nvme::{NamespaceId, Status};
use trace::RequestId;
use units::Nanos;

use crate::bio::{Bio, BioFlags, BioOp, Owner, Sector};
use crate::order::{Asks, InStream, Ordered};
use crate::ordering::OrderStatistics;
use crate::pool::{BioSlot, Pool};
use crate::request::Rq;
use crate::slab::Slab;

/// What becomes of a bio that asks to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// It goes on.
    Pass,
    /// It goes on from this CPU.
    PassFrom(u16),
    /// The gate keeps it, and gives it out again.
    Hold,
}

/// A bio that may pass, and the CPU from which.
pub(crate) struct Pass {
    pub(crate) bio: u32,
    pub(crate) cpu: u16,
}

/// The end of a request that passed a gate.
pub(crate) struct End {
    pub(crate) nsid: NamespaceId,
    /// Its first sector, and the CPU it was made on.
    pub(crate) sector: Sector,
    pub(crate) cpu: u16,
    pub(crate) status: Status,
    /// Of an ordered one, what the gate itself asked for, if it did.
    pub(crate) asks: Option<Asks>,
    /// Its epochs, its bios, those of them that never left for the device, and whether a flush went before them.
    pub(crate) places: [Option<InStream>; 2],
    pub(crate) bios: u32,
    pub(crate) never_left: u32,
    pub(crate) took_flush: bool,
}

/// An ordering. Bios that it holds are its own, `BioSlot::next` included.
pub(crate) trait Gate {
    /// Whether it has a say in a bio. Any other goes past it.
    fn governs(&self, bio: &BioSlot) -> bool;

    /// A bio that it governs was submitted from a CPU, and is not cut yet.
    fn arrive(&mut self, bio: &mut BioSlot, cpu: u16) {
        let _ = (bio, cpu);
    }

    /// A bio that it governs, and that fits one request, asks to pass.
    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan;

    /// A request was made of a bio that passed: lets it take bios along that are held.
    fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        let _ = (pool, rq);
    }

    /// A command of so many bios that passed goes to the device; what it says of order can still change.
    fn leaves(&mut self, order: &mut Ordered, bios: u32) {
        let _ = (order, bios);
    }

    /// The request of a bio that passed has ended. Appends what may pass since to
    /// `passing`.
    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>);

    /// Appends what may pass since something else happened: a bio came or left.
    fn pass_more(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        let _ = (bios, passing);
    }

    /// What broke since writes failed is to be in order again.
    fn restore(&mut self, bios: &mut Slab<BioSlot>) {
        let _ = bios;
    }

    /// An owner submits no more.
    fn end_owner(&mut self, bios: &mut Slab<BioSlot>, owner: Owner) {
        let _ = (bios, owner);
    }

    /// What it did for order.
    fn statistics(&self) -> OrderStatistics {
        OrderStatistics::default()
    }

    /// A bio goes past the gate. Appends what it makes void of what is held to `void`.
    fn passed_by(&mut self, bios: &mut Slab<BioSlot>, bio: u32, void: &mut Vec<u32>) {
        let _ = (bios, bio, void);
    }

    /// Forgets everything, as after a power cut. Appends what is held to `void`.
    fn clear(&mut self, bios: &mut Slab<BioSlot>, void: &mut Vec<u32>);
}

/// A bio of a gate's own: a flush, or a command without data.
pub(super) fn own_command(bios: &mut Slab<BioSlot>, asks: Asks, flags: BioFlags) -> u32 {
    let bio = Bio {
        nsid: NamespaceId::FIRST,
        op: BioOp::Write,
        sector: Sector(0),
        bytes: 0,
        flags,
        data: None,
        order: None,
        request: RequestId::default(),
    };
    let mut slot = BioSlot::new(bio, Nanos::ZERO);
    slot.detached = true;
    slot.order = Some(Box::new(Ordered::new(asks)));
    bios.insert(slot)
}
