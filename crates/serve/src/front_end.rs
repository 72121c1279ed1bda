//! What a way of showing the device to clients has to offer to the event loop.

use std::io;

use nvme::{Lba, NamespaceId, Status};
use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::engine::Engine;
use crate::error::ServeError;
use crate::poller::{Poller, Ready};

/// Descriptors of a front-end have tokens from here on; smaller ones are the loop's.
pub(crate) const FIRST_TOKEN: u64 = 1 << 16;

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// A read's bytes or a report (empty for other requests), or the failure.
    pub(crate) result: Result<Box<[u8]>, Status>,
    /// The completion's command specific result (dwords 0 and 1).
    pub(crate) value: u64,
}

/// One way to show the device to clients: NBD, NVMe/TCP, ublk, FUSE.
///
/// The loop calls, in this order and again and again: [`ready`](Self::ready) for
/// each descriptor with an event, [`take`](Self::take), [`answer`](Self::answer)
/// for each request that has ended, [`send`](Self::send), and
/// [`expire`](Self::expire) when the deadline has passed. None of them blocks.
pub(crate) trait FrontEnd {
    /// What it remembers of a request in the device.
    type Context;

    /// Starts watching its descriptors, with tokens from [`FIRST_TOKEN`] on.
    fn attach(&mut self, poller: &Poller) -> io::Result<()>;

    /// A descriptor became ready.
    fn ready(&mut self, event: &Ready, poller: &Poller, now: Nanos) -> Result<(), ServeError>;

    /// Gives the engine the requests that are at hand, a bounded number; says
    /// whether more are there without another event. They were seen at
    /// [`Engine::now`]. A request may be answered at once.
    fn take(&mut self, engine: &mut Engine<Self::Context>) -> Result<bool, ServeError>;

    /// A request has ended.
    fn answer(&mut self, context: Self::Context, outcome: Outcome, now: Nanos);

    /// Sends what is ready, as far as descriptors take it, and changes what they
    /// are watched for.
    fn send(&mut self, poller: &Poller) -> Result<(), ServeError>;

    /// Whether requests are at hand that no descriptor will announce; asked after
    /// [`send`](Self::send), since an answer that left may have made room for a
    /// request that is buffered already.
    fn has_more(&self) -> bool {
        false
    }

    /// When [`expire`](Self::expire) is to be called, if nothing happens before.
    fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// The deadline has passed.
    fn expire(&mut self, _now: Nanos, _poller: &Poller) {}

    /// The device has lost its power; `orphans` are the requests that were in it
    /// and will not be answered by it. Until the power is back every request is
    /// answered with `Status::NAMESPACE_NOT_READY`.
    fn power_lost(&mut self, orphans: Vec<Self::Context>, now: Nanos);

    /// The device has its power back.
    fn power_restored(&mut self, now: Nanos);

    /// The device's controller changed these zones (named by their first blocks)
    /// without a command: hosts that asked for it are to be told.
    fn zones_changed(&mut self, _nsid: NamespaceId, _zones: &[Lba], _now: Nanos) {}

    /// Somebody asked the server to stop. A front-end that needs to be served while
    /// it goes (a kernel that writes its cache back) begins to go here, and says in
    /// [`stopped`](Self::stopped) when it has; being asked twice ends serving at once.
    fn stop(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        Ok(())
    }

    /// Whether serving may end now that somebody asked.
    fn stopped(&self) -> bool {
        true
    }

    /// Whether serving is over although nobody asked: what was served is gone.
    fn ended(&self) -> bool {
        false
    }

    /// Whether memory that contents no longer take stays with this process: where the
    /// kernel writes its cache to the device, more may be needed when there is none.
    fn keeps_memory(&self) -> bool {
        false
    }

    /// Serving ends: takes no new requests, and says whether everything that was
    /// answered has gone out. Called again after each wait until it says so or
    /// two seconds have passed.
    fn drain(&mut self, poller: &Poller) -> bool;

    /// Clients so far, for the report.
    fn clients(&self) -> Clients;
}

/// What a front-end counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// Clients accepted.
    pub accepted: u64,
    /// Clients connected now.
    pub connected: u64,
    /// Clients dropped for what they did.
    pub dropped: u64,
}
