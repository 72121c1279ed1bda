//! Durability that is asked for later.

use std::sync::Arc;

use crate::engine::SharedEngine;
use crate::error::Result;
use crate::mutant::{Mutant, mutated};

/// A batch that readers see and that is not durable yet, or is by now. Whoever gives tickets out instead of waiting lets many
/// batches share a flush. A ticket that nobody asks costs nothing.
#[derive(Clone)]
pub struct Ticket {
    engine: SharedEngine,
    msn: u64,
}

impl Ticket {
    pub(crate) fn new(engine: &SharedEngine, msn: u64) -> Self {
        Self { engine: Arc::clone(engine), msn }
    }

    /// Whether the batch, with all before it, is durable. It writes nothing and waits for a flush that is under way.
    pub fn is_durable(&self) -> bool {
        mutated(Mutant::TicketSaysTooMuch) || self.engine.is_durable(self.msn)
    }

    /// Makes the batch durable, with all that was committed before, where it is not. Of many who wait one flushes for all.
    ///
    /// # Errors
    ///
    /// What the storage met.
    pub fn wait(&self) -> Result<()> {
        self.engine.write_log(self.msn, !mutated(Mutant::TicketUnflushed))
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({})", self.msn)
    }
}
