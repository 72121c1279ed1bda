//! A task: it writes a block of its file and has it committed, again and again.

use std::rc::Rc;

use block::{BioFlags, Closes, OrderRequest, Owner};

use super::commit::{self, fast_commit};
use super::lane::Lane;
use super::places::BLOCK_BYTES;
use super::{CommitMode, JOURNAL, Shared, SyncCall};

/// Writes of a transaction that nobody wants committed, before it is all the same.
const UNCOMMITTED_MAX: usize = 256;

/// Runs a task to its end.
pub(super) async fn run(shared: Rc<Shared>, number: u32) {
    let lane = Lane::new(&shared, &Rc::new(shared.host.cpus.thread(format!("task {number}"), None)));
    for call in 0..u64::from(shared.options.calls.get()) {
        lane.thread.compute(shared.options.think_time).await;
        // write: into the page cache.
        lane.thread.syscall().await;
        let began = shared.host.sim.now();
        lane.thread.syscall().await;
        sync(&shared, &lane, number, call).await;
        let took = shared.host.sim.now() - began;
        shared.measured.borrow_mut().called(took, shared.host.sim.now());
    }
    let mut measured = shared.measured.borrow_mut();
    measured.task_ended();
    drop(measured);
    // The journal's thread ends with the last task.
    shared.wanted.notify_all();
}

/// One fsync, fbarrier or fdatabarrier (ext4_sync_file).
async fn sync(shared: &Rc<Shared>, lane: &Lane, number: u32, call: u64) {
    let (options, blocks) = (&shared.options, shared.options.data_blocks.get());
    let is_ordered = commit::is_ordered(options.commit);
    let order = is_ordered.then(|| OrderRequest {
        // Control groups of four tasks: the root group is the journal's.
        owner: Owner { task: number, cgroup: 1 + number / 4 },
        joins: Some(JOURNAL),
        closes: Closes::OWN,
    });
    let sector = shared.places.file(number, call, blocks);
    let mut data = Some(lane.send(sector, u64::from(blocks) * BLOCK_BYTES, BioFlags::empty(), order).await);
    match &mut data {
        Some(sent) if is_ordered && options.call == SyncCall::Fdatabarrier => sent.bio.dispatched().await,
        _ if is_ordered => {}
        _ => {
            if let Some(sent) = data.take() {
                lane.wait(sent).await;
            }
        }
    }
    if options.commit == CommitMode::FastCommit {
        return fast_commit::join(shared, lane).await;
    }
    let (waits, is_wanted) = {
        let mut transactions = shared.transactions.borrow_mut();
        let running = transactions.running();
        // A task that does not wait comes again and again: its inode is in the transaction once.
        running.members = options.tasks.get().min(running.members + 1);
        running.data.extend(data);
        match options.call {
            SyncCall::Fdatabarrier if is_ordered => (None, running.data.len() >= UNCOMMITTED_MAX),
            SyncCall::Fbarrier if is_ordered => (Some(running.signals.dispatched.notified()), true),
            _ => (Some(running.signals.done.notified()), true),
        }
    };
    if is_wanted {
        shared.wanted.notify_all();
    }
    if let Some(waits) = waits {
        waits.await;
    }
}
