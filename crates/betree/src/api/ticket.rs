//! Durability that is asked for later.

use std::sync::Arc;

use crate::engine::SharedEngine;
use crate::error::Result;

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
        self.engine.is_durable(self.msn)
    }

    /// Makes the batch durable, with all that was committed before, where it is not. Of many who wait one flushes for all.
    ///
    /// # Errors
    ///
    /// What the storage met.
    pub fn wait(&self) -> Result<()> {
        self.engine.write_log(self.msn, true)
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({})", self.msn)
    }
}

#[cfg(test)]
mod tests {
    use storage::Memory;

    use crate::{Batch, Database, Error, Options};

    /// What a ticket says is what is there after the program was killed: all up to the last one that was waited for.
    #[test]
    fn a_ticket_is_durable_with_all_before_it_and_nothing_behind() {
        let memory = Memory::new(16 << 20);
        let options = Options { log_bytes: 1 << 20, ..Options::default() };
        let database = Database::create(memory.clone(), options.clone(), 1).unwrap();
        let tree = database.tree("t").unwrap();
        let put = |number: u8| {
            let mut batch = Batch::new();
            batch.insert(&tree, [number], [number]);
            database.commit_with_ticket(&batch).unwrap()
        };
        let tickets: Vec<_> = (0..9).map(put).collect();
        assert!(tickets.iter().all(|ticket| !ticket.is_durable()));
        let flushes = database.stats().flushes;
        tickets[4].wait().unwrap();
        // All nine were in the frame that the fifth waited for.
        assert!(tickets.iter().all(super::Ticket::is_durable));
        tickets[8].wait().unwrap();
        assert_eq!(database.stats().flushes, flushes + 1, "one flush for all");
        let late = put(9);
        assert!(!late.is_durable());
        let killed = Database::open(Memory::from_image(memory.image()), options).unwrap();
        let tree = killed.tree("t").unwrap();
        assert_eq!(tree.iter().count(), 9);
        drop(tree);
        let mut batch = Batch::new();
        batch.require(&killed.tree("t").unwrap(), "x", Some(b"there"));
        assert!(matches!(killed.commit_with_ticket(&batch), Err(Error::Conflict)));
        drop(killed);
        // A checkpoint makes it durable as well.
        database.checkpoint().unwrap();
        assert!(late.is_durable());
    }
}
