//! The queue carries out what its gates plan.

use nvme::Status;
use units::Nanos;

use crate::bio::Owner;
use crate::gate::Pass;
use crate::queue::Queue;

impl Queue {
    /// Sends what may pass since requests have left or ended.
    pub(crate) fn open_gates(&mut self, now: Nanos) {
        while self.gates.have_news() {
            self.gates.news = false;
            let mut ended = std::mem::take(&mut self.gates.ended);
            for end in ended.drain(..) {
                let mut passing = std::mem::take(&mut self.gates.passing);
                let gate = if end.asks.is_some() { Some(&mut self.gates.order) } else { self.gates.zones_of(end.nsid) };
                if let Some(gate) = gate {
                    gate.ended(&mut self.pool.bios, &end, &mut passing);
                }
                self.send_passing(now, passing);
            }
            if self.gates.ended.is_empty() {
                self.gates.ended = ended;
            }
            let mut passing = std::mem::take(&mut self.gates.passing);
            self.gates.order.pass_more(&mut self.pool.bios, &mut passing);
            self.send_passing(now, passing);
        }
    }

    /// What broke since writes failed is to be in order again.
    pub(crate) fn restore_order(&mut self, now: Nanos) {
        self.gates.order.restore(&mut self.pool.bios);
        self.gates.news = true;
        self.open_gates(now);
    }

    /// An owner of streams submits no more.
    pub(crate) fn end_owner(&mut self, now: Nanos, owner: Owner) {
        self.gates.order.end_owner(&mut self.pool.bios, owner);
        self.gates.news = true;
        self.open_gates(now);
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
        if let Some(gate) = self.gates.zones_of(self.pool.bios[bio].nsid) {
            gate.passed_by(&mut self.pool.bios, bio, &mut void);
        }
        self.fail_held(now, void, Status::ABORT_REQUESTED);
    }

    /// The power is gone: what is held fails.
    pub(crate) fn clear_gates(&mut self, now: Nanos) {
        self.gates.ended.clear();
        self.gates.news = false;
        let mut void = std::mem::take(&mut self.gates.void);
        for gate in self.gates.zones.iter_mut().flatten() {
            gate.clear(&mut self.pool.bios, &mut void);
        }
        self.gates.order.clear(&mut self.pool.bios, &mut void);
        self.fail_held(now, void, Status::ABORTED_POWER_LOSS);
    }

    fn fail_held(&mut self, now: Nanos, mut void: Vec<u32>, status: Status) {
        for bio in void.drain(..) {
            self.complete_bio(bio, status, None, now);
        }
        self.gates.void = void;
    }
}
