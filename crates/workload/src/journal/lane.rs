//! A thread of the host that sends bios and waits for them, and what that costs it.

use std::rc::Rc;

use block::{Bio, BioFlags, BioFuture, BioOp, OrderRequest, Sector};
use nvme::{NamespaceId, Status};
use sim::cpu::Thread;
use trace::RequestId;

use super::Shared;

/// A thread and its requests.
pub(super) struct Lane {
    pub shared: Rc<Shared>,
    pub thread: Rc<Thread>,
}

/// A bio on its way, and the processor that its interrupt goes to.
pub(super) struct Sent {
    pub bio: BioFuture,
    core: u16,
}

impl Lane {
    pub fn new(shared: &Rc<Shared>, thread: &Rc<Thread>) -> Self {
        Self { shared: shared.clone(), thread: thread.clone() }
    }

    /// Sends a write.
    pub async fn send(&self, sector: Sector, bytes: u64, flags: BioFlags, order: Option<OrderRequest>) -> Sent {
        self.thread.compute(self.shared.host.costs.submit).await;
        let core = self.thread.core();
        let bio = Bio {
            nsid: NamespaceId::FIRST,
            op: BioOp::Write,
            sector,
            bytes,
            flags: flags | BioFlags::SYNC,
            data: None,
            order,
            request: RequestId::default(),
        };
        Sent { bio: self.shared.host.disk.submit(core, bio), core }
    }

    /// Waits for a write.
    pub async fn wait(&self, sent: Sent) {
        let status = sent.bio.await.status;
        let host = &self.shared.host;
        host.sim.sleep_until(host.cpus.interrupt(sent.core, host.costs.complete)).await;
        if status != Status::SUCCESS {
            self.shared.measured.borrow_mut().failed(status);
        }
    }

    /// Writes and waits.
    pub async fn write(&self, sector: Sector, bytes: u64, flags: BioFlags) {
        let sent = self.send(sector, bytes, flags, None).await;
        self.wait(sent).await;
    }

    /// Has the device flush its cache (blkdev_issue_flush).
    pub async fn flush(&self) {
        self.write(Sector(0), 0, BioFlags::PREFLUSH).await;
    }
}
