//! Threads of a server to which requests come through an io_uring, each on the processor of who asks.
//!
//! The kernel has a queue for each processor, and gives a request to an entry of the queue where it is made that has none. A
//! thread offers one entry, in a ring of its own: so it is offered only while the thread has nothing to do. It stays on its
//! queue's processor, where a wake-up is a switch and no interrupt of another processor that may sleep.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::worker::{Done, answer};
use super::{Activity, Handler};
use crate::abi::OutHeader;
use crate::agreement::MAX_TRANSFER_BYTES;
use crate::channel::Channel;
use crate::error::FuseError;
use crate::request::Shape;
use crate::ring_channel::{self, Enabled, Fetched, RingChannel};

/// The most memory for all threads' requests together.
const MEMORY_MAX_BYTES: usize = 256 << 20;

/// That the kernel is to offer its rings to connections that are made while this is there, if it has any.
#[derive(Debug)]
pub struct Rings {
    _enabled: Enabled,
    queues: usize,
}

impl Rings {
    /// Has them offered, to root; nothing where there are none.
    pub fn enable() -> Option<Self> {
        let queues = ring_channel::queues()?;
        Some(Self { _enabled: Enabled::new()?, queues })
    }

    /// Threads for each queue where so many are wanted, as memory has room for them.
    pub(super) fn threads(&self, wanted: usize) -> usize {
        let most = MEMORY_MAX_BYTES / (MAX_TRANSFER_BYTES as usize) / self.queues.max(1);
        wanted.div_ceil(self.queues.max(1)).min(most)
    }

    pub(super) fn queues(&self) -> usize {
        self.queues
    }
}

/// Takes one request at a time of one queue.
pub(super) struct RingWorker {
    channel: Channel,
    shape: Shape,
    activity: Arc<Activity>,
    queue: usize,
}

impl RingWorker {
    pub(super) fn new(channel: Channel, shape: Shape, activity: &Arc<Activity>, queue: usize) -> Self {
        Self { channel, shape, activity: Arc::clone(activity), queue }
    }

    /// Offers an entry, and says whether the kernel takes it; then serves until the connection is gone.
    pub(super) fn run(
        self,
        handler: &dyn Handler,
        say: &dyn Fn(&str),
        offered: &dyn Fn(bool),
    ) -> Result<(), FuseError> {
        let device = self.channel.as_fd();
        let ring = RingChannel::of_queue(self.queue, MAX_TRANSFER_BYTES as usize)
            .and_then(|mut ring| ring.register(device).map(|()| ring));
        offered(ring.is_ok());
        // Without it the kernel goes on with /dev/fuse.
        let Ok(ring) = ring else { return Ok(()) };
        let mut processor = CpuSet::new();
        processor.set(self.queue);
        // One that is not there makes no requests.
        let _ = sched_setaffinity(None, &processor);
        self.serve(ring, device, handler, say)
    }

    fn serve(
        &self,
        mut ring: RingChannel,
        device: BorrowedFd<'_>,
        handler: &dyn Handler,
        say: &dyn Fn(&str),
    ) -> Result<(), FuseError> {
        let failed = |error: std::io::Error| FuseError::protocol(format_args!("a ring of requests fails: {error}"));
        let mut body = Vec::with_capacity(MAX_TRANSFER_BYTES as usize);
        loop {
            ring.wait().map_err(failed)?;
            let entry = match ring.next().map_err(failed)? {
                Some(Fetched::Request(entry)) => entry,
                Some(Fetched::Ended) => return Ok(()),
                None => continue,
            };
            self.activity.begin();
            body.clear();
            let parts = ring.parts(entry, self.shape).map_err(FuseError::protocol)?;
            let unique = parts.header.unique;
            let Done { answered, panicked } = answer(&parts, handler, &mut body, say);
            // What takes no answer does not come this way, and an entry that is not answered is lost.
            let answer = answered.unwrap_or(Ok(()));
            let fits = body.len() <= MAX_TRANSFER_BYTES as usize;
            let (error, body) = match answer {
                Ok(()) if fits => (0, body.as_slice()),
                Ok(()) => (-libc::EIO, &[][..]),
                Err(number) => (-number, &[][..]),
            };
            let header = OutHeader { len: (size_of::<OutHeader>() + body.len()) as u32, error, unique };
            ring.reply(device, entry, header, body).map_err(failed)?;
            self.activity.end(panicked);
        }
    }
}
