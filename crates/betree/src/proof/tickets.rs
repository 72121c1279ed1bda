//! Durability that is asked for later: what a ticket says is what is there after the program was killed.

use storage::Memory;

use crate::{Batch, Database, Error, Options, Ticket};

fn check(fine: bool, what: &str) -> Result<(), String> {
    if fine { Ok(()) } else { Err(what.to_owned()) }
}

/// All up to the last one that was waited for is durable, and nothing behind.
pub(super) fn kept() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let memory = Memory::new(16 << 20);
    let options = Options { log_bytes: 1 << 20, ..Options::default() };
    let database = Database::create(memory.clone(), options.clone(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let put = |number: u8| {
        let mut batch = Batch::new();
        batch.insert(&tree, [number], [number]);
        database.commit_with_ticket(&batch).map_err(failed)
    };
    let tickets = (0..9).map(put).collect::<Result<Vec<_>, _>>()?;
    check(tickets.iter().all(|ticket| !ticket.is_durable()), "durable before anybody asked")?;
    let flushes = database.stats().flushes;
    tickets[4].wait().map_err(failed)?;
    // All nine were in the frame that the fifth waited for.
    check(tickets.iter().all(Ticket::is_durable), "not durable, and somebody waited for it")?;
    tickets[8].wait().map_err(failed)?;
    check(database.stats().flushes == flushes + 1, "not one flush for all")?;
    let late = put(9)?;
    check(!late.is_durable(), "durable behind the one that was waited for")?;
    let killed = Database::open(Memory::from_image(memory.image()), options).map_err(failed)?;
    let tree = killed.tree("t").map_err(failed)?;
    check(tree.iter().count() == 9, "not what the tickets said")?;
    let mut batch = Batch::new();
    batch.require(&tree, "x", Some(b"there"));
    check(matches!(killed.commit_with_ticket(&batch), Err(Error::Conflict)), "a ticket for a refused batch")?;
    // A checkpoint makes it durable as well.
    database.checkpoint().map_err(failed)?;
    check(late.is_durable(), "not durable behind a checkpoint")
}

#[test]
fn a_ticket_is_durable_with_all_before_it_and_nothing_behind() {
    kept().unwrap();
}
