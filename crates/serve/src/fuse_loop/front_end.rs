//! The FUSE file as a front-end: requests of the kernel in, answers out.

use std::io;

use fuse::{Body, Mount, ReplyTo, SingleFile, Transport, Watchdog};
use nvme::NamespaceId;
use ssd::Identity;
use units::Nanos;

use super::error::LoopError;
use super::jobs::{AttachPlan, Done, Jobs};
use super::loop_device::{LoopNumber, was_detached};
use super::step::{Kind, Note, Step, errno_of, step_of};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{Clients, FIRST_TOKEN, FrontEnd, Outcome};
use crate::poller::{Interest, Poller, Ready};

/// The descriptors' tokens with the poller.
const DEVICE: u64 = FIRST_TOKEN;
const RING: u64 = FIRST_TOKEN + 1;
const JOBS: u64 = FIRST_TOKEN + 2;

/// Requests taken before the device gets its turn.
const REQUESTS_PER_TURN: usize = 64;
/// Requests in the device; more stay with the kernel, which itself sends no
/// more than the negotiated number in the background and one for each thread
/// that waits.
const OUTSTANDING_MAX: usize = 1024;
/// How often the watchdog hears from a server that has something to do.
const BEAT: Nanos = Nanos::from_secs(1);

/// Where the loop device is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attachment {
    /// Being attached.
    Attaching,
    Attached(LoopNumber),
    /// To be detached as soon as nobody has it open.
    Leaving(LoopNumber),
    /// Not attached.
    Gone,
}

/// What the front-end says as it goes.
pub(crate) trait Notes {
    /// The device is there; requests come through an io_uring, or `/dev/fuse`.
    fn ready(&self, device: LoopNumber, through_ring: bool);
    /// A line for the operator.
    fn line(&self, line: &str);
    /// Whether the end of serving leaves the device attached, for the next loop
    /// with the same front-end.
    fn stays(&self) -> bool {
        false
    }
}

/// A request in the device.
pub(crate) struct Context {
    reply_to: ReplyTo,
    kind: Kind,
}

/// One file, served through `/dev/fuse`, with a loop device in front of it.
pub(crate) struct LoopFrontEnd<'a> {
    /// Before the transport: no request may come once that is given up.
    mount: Mount,
    transport: Transport,
    disk: SingleFile,
    takes_deallocate: bool,
    label: String,
    notes: &'a dyn Notes,
    watchdog: Option<Watchdog>,
    jobs: Jobs,
    place: Attachment,
    /// The device it was attached to last.
    number: Option<LoopNumber>,
    powered: bool,
    /// Whether the power has failed since the loop device was attached: a disk
    /// that went away comes back as a new one, and what the old one's users still
    /// write must not reach it.
    severed: bool,
    stopping: bool,
    /// Opened and not yet released.
    handles: u32,
    outstanding: usize,
    /// Whether requests wait that were not taken this turn.
    more: bool,
    next_beat: Nanos,
    failure: Option<LoopError>,
    clients: Clients,
}

impl<'a> LoopFrontEnd<'a> {
    /// Mounts a file of namespace 1's size; requests come through an io_uring if
    /// that is wanted and the kernel can do it. The loop device is attached once the
    /// event loop runs.
    pub(crate) fn new(
        identity: &Identity,
        name: &str,
        read_only: bool,
        label: String,
        io_uring: bool,
        notes: &'a dyn Notes,
    ) -> Result<Self, LoopError> {
        let transport = Transport::open(io_uring)?;
        let mount = Mount::new(transport.device()).map_err(|source| LoopError::Mount { source })?;
        let jobs = Jobs::new().map_err(|source| LoopError::Attach { source })?;
        let blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        let disk = SingleFile {
            name: name.to_owned(),
            size_bytes: blocks * u64::from(identity.lba_bytes),
            block_bytes: identity.lba_bytes,
            read_only,
        };
        Ok(Self {
            transport,
            mount,
            disk,
            takes_deallocate: identity.supports_deallocate,
            label,
            notes,
            watchdog: None,
            jobs,
            place: Attachment::Gone,
            number: None,
            powered: true,
            severed: false,
            stopping: false,
            handles: 0,
            outstanding: 0,
            more: false,
            next_beat: Nanos::ZERO,
            failure: None,
            clients: Clients::default(),
        })
    }

    /// The connection's number in fusectl.
    pub(crate) fn connection(&self) -> u32 {
        self.mount.connection()
    }

    /// Has somebody look after the connection.
    pub(crate) fn set_watchdog(&mut self, watchdog: Watchdog) {
        self.watchdog = Some(watchdog);
    }

    /// The loop device it was attached to last.
    pub(crate) fn number(&self) -> Option<LoopNumber> {
        self.number
    }

    fn start_attaching(&mut self) -> Result<(), LoopError> {
        let plan = AttachPlan {
            name: self.disk.name.clone(),
            block_bytes: self.disk.block_bytes,
            read_only: self.disk.read_only,
            label: self.label.clone(),
            wanted: self.number,
        };
        self.place = Attachment::Attaching;
        self.severed = !self.powered;
        let mount = self.mount.try_clone();
        mount.and_then(|mount| self.jobs.attach(mount, plan)).map_err(|source| LoopError::Attach { source })
    }

    fn start_detaching(&mut self, number: LoopNumber) -> Result<(), LoopError> {
        self.place = Attachment::Leaving(number);
        self.jobs.detach(number, self.label.clone()).map_err(|source| LoopError::Detach { path: number.path(), source })
    }

    fn job_done(&mut self, done: Done) -> Result<(), LoopError> {
        match done {
            Done::Attached(result) => {
                let number = result.map_err(|source| LoopError::Attach { source })?;
                self.number = Some(number);
                self.place = Attachment::Attached(number);
                self.clients.accepted += 1;
                self.clients.connected = 1;
                if let Some(watchdog) = &mut self.watchdog {
                    watchdog.holds(Some(number.0));
                }
                if self.stopping || !self.powered {
                    return self.start_detaching(number);
                }
                self.notes.ready(number, self.transport.is_through_ring());
            }
            Done::Detached(number, Ok(users)) => {
                if self.place == Attachment::Leaving(number) && !users.is_empty() {
                    let (device, users) = (number.path(), users.join(", "));
                    let until = match (self.stopping, self.powered) {
                        (true, _) => "it is served until it is released; asked again to stop, the server cuts it off",
                        (false, false) => "every request fails; with power it comes back once it is released",
                        (false, true) => "every request fails; it comes back once it is released",
                    };
                    self.notes.line(&format!("{} is still in use ({users}): {until}", device.display()));
                }
            }
            // Somebody else has detached it already.
            Done::Detached(_, Err(error)) if was_detached(&error) => {}
            Done::Detached(number, Err(source)) => return Err(LoopError::Detach { path: number.path(), source }),
        }
        Ok(())
    }

    /// Nobody has the file open any more.
    fn released(&mut self) -> Result<(), LoopError> {
        let number = match self.place {
            // The job that opened it says what became of it.
            Attachment::Attaching | Attachment::Gone => return Ok(()),
            Attachment::Attached(number) => {
                self.notes.line(&format!("{} was detached by another program", number.path().display()));
                self.stopping = true;
                number
            }
            Attachment::Leaving(number) => number,
        };
        self.place = Attachment::Gone;
        self.number = Some(number);
        self.clients.connected = 0;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.holds(None);
        }
        if self.powered && !self.stopping { self.start_attaching() } else { Ok(()) }
    }

    /// Takes one request; says whether there was one.
    fn take_one(&mut self, engine: &mut Engine<Context>) -> Result<bool, LoopError> {
        let Some(incoming) = self.transport.receive()? else { return Ok(false) };
        let reply_to = incoming.reply_to;
        match step_of(incoming.node, &incoming.operation, &self.disk, self.takes_deallocate) {
            Step::Nothing => {}
            Step::Submit(..) if self.severed => self.transport.reply(reply_to, Err(libc::EIO)),
            Step::Submit(request, kind) => {
                // Also for load that is never long outstanding.
                if self.next_beat <= engine.now() {
                    self.beat(engine.now());
                }
                self.outstanding += 1;
                engine.submit(engine.now(), 0, NamespaceId::FIRST, request, Context { reply_to, kind });
            }
            Step::Answer { answer, note } => {
                self.transport.reply(reply_to, answer.as_ref().map(Body::as_bytes).map_err(|number| *number));
                match note {
                    Note::Opened => self.handles += u32::from(answer.is_ok()),
                    Note::Released => {
                        self.handles = self.handles.saturating_sub(1);
                        if self.handles == 0 {
                            self.released()?;
                        }
                    }
                    Note::Nothing => {}
                }
            }
        }
        Ok(true)
    }

    fn look_for_more(&mut self) -> bool {
        self.outstanding < OUTSTANDING_MAX && self.transport.has_more()
    }

    fn beat(&mut self, now: Nanos) {
        self.next_beat = now + BEAT;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.beat();
        }
    }
}

impl FrontEnd for LoopFrontEnd<'_> {
    type Context = Context;

    fn attach(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.transport.device(), DEVICE, Interest::READABLE)?;
        if let Some(ring) = self.transport.ring() {
            poller.add(&ring, RING, Interest::READABLE)?;
        }
        poller.add(&self.jobs, JOBS, Interest::READABLE)?;
        match self.place {
            Attachment::Gone => self.start_attaching().map_err(io::Error::other),
            // The device stayed from an earlier loop.
            Attachment::Attached(number) => {
                self.notes.ready(number, self.transport.is_through_ring());
                Ok(())
            }
            Attachment::Attaching | Attachment::Leaving(_) => Ok(()),
        }
    }

    fn ready(&mut self, event: &Ready, _poller: &Poller, _now: Nanos) -> Result<(), ServeError> {
        match event.token {
            JOBS => {
                for done in self.jobs.take() {
                    self.job_done(done)?;
                }
            }
            DEVICE => self.transport.device_is_readable(),
            // The ring is looked into every turn: it is the kernel's task work that
            // brings requests and wakes the loop.
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, engine: &mut Engine<Context>) -> Result<bool, ServeError> {
        for _ in 0..REQUESTS_PER_TURN {
            if self.outstanding >= OUTSTANDING_MAX || !self.take_one(engine)? {
                return Ok(false);
            }
        }
        self.more = self.look_for_more();
        Ok(self.more)
    }

    fn answer(&mut self, context: Context, outcome: Outcome, _now: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let Context { reply_to, kind } = context;
        match (outcome.result, kind) {
            (Err(status), _) => self.transport.reply(reply_to, Err(errno_of(status))),
            (Ok(data), Kind::Read) => self.transport.reply(reply_to, Ok(&data)),
            (Ok(_), Kind::Write { size }) => self.transport.reply(reply_to, Ok(Body::written(size).as_bytes())),
            (Ok(_), Kind::Other) => self.transport.reply(reply_to, Ok(&[])),
        }
    }

    fn send(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.transport.send().map_err(LoopError::from)?;
        // Giving answers may have brought the next requests.
        self.more = self.look_for_more();
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.watchdog.is_some() && self.outstanding > 0).then_some(self.next_beat)
    }

    fn expire(&mut self, now: Nanos, _poller: &Poller) {
        self.beat(now);
    }

    fn power_lost(&mut self, orphans: Vec<Context>, _now: Nanos) {
        self.powered = false;
        self.severed = true;
        for orphan in orphans {
            self.outstanding = self.outstanding.saturating_sub(1);
            self.transport.reply(orphan.reply_to, Err(libc::EIO));
        }
        if let Attachment::Attached(number) = self.place
            && let Err(error) = self.start_detaching(number)
        {
            self.failure = Some(error);
        }
    }

    fn power_restored(&mut self, _now: Nanos) {
        self.powered = true;
        if self.place == Attachment::Gone
            && !self.stopping
            && let Err(error) = self.start_attaching()
        {
            self.failure = Some(error);
        }
    }

    fn stop(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        if self.notes.stays() {
            return Ok(());
        }
        self.stopping = true;
        match self.place {
            Attachment::Attached(number) => Ok(self.start_detaching(number)?),
            Attachment::Attaching | Attachment::Leaving(_) | Attachment::Gone => Ok(()),
        }
    }

    fn stopped(&self) -> bool {
        self.place == Attachment::Gone || self.notes.stays()
    }

    fn ended(&self) -> bool {
        !self.transport.is_connected() || (self.place == Attachment::Gone && self.stopping)
    }

    fn keeps_memory(&self) -> bool {
        true
    }

    fn drain(&mut self, _poller: &Poller) -> bool {
        // A connection that was cut off leaves a device whose every request fails.
        if let Attachment::Attached(number) = self.place
            && !self.transport.is_connected()
        {
            match number.detach(&self.label) {
                Ok(()) => self.place = Attachment::Gone,
                Err(error) => self.notes.line(&format!("{} stays attached: {error}", number.path().display())),
            }
        }
        true
    }

    fn clients(&self) -> Clients {
        self.clients
    }
}
