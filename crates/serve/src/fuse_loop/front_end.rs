//! The FUSE file as a front-end: requests of the kernel in, answers out.

use std::io;

use nvme::{NamespaceId, Status};
use ssd::Identity;
use units::Nanos;

use super::abi::{FallocateMode, WriteOut};
use super::channel::{Channel, Received};
use super::disk::{Disk, MAX_TRANSFER_BYTES};
use super::error::LoopError;
use super::jobs::{AttachPlan, Done, Jobs};
use super::loop_device::LoopNumber;
use super::mount::Mount;
use super::request::{HEADER_ROOM_BYTES, Incoming, Operation, parse};
use super::watchdog::Watchdog;
use crate::backend::Request;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{Clients, FIRST_TOKEN, FrontEnd, Outcome};
use crate::poller::{Interest, Poller, Ready};

const CHANNEL: u64 = FIRST_TOKEN;
const JOBS: u64 = FIRST_TOKEN + 1;

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
enum Place {
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
    /// The device is there.
    fn ready(&self, device: LoopNumber);
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
    unique: u64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write { size: u32 },
    Other,
}

/// One file, served through `/dev/fuse`, with a loop device in front of it.
pub(crate) struct LoopFrontEnd<'a> {
    channel: Channel,
    mount: Mount,
    disk: Disk,
    takes_deallocate: bool,
    label: String,
    notes: &'a dyn Notes,
    watchdog: Option<Watchdog>,
    jobs: Jobs,
    place: Place,
    /// The device it was attached to last.
    number: Option<LoopNumber>,
    buffer: Box<[u8]>,
    readable: bool,
    connected: bool,
    powered: bool,
    /// Whether the power has failed since the loop device was attached: a disk
    /// that went away comes back as a new one, and what the old one's users still
    /// write must not reach it.
    severed: bool,
    stopping: bool,
    /// Opened and not yet released.
    handles: u32,
    outstanding: usize,
    next_beat: Nanos,
    failure: Option<LoopError>,
    clients: Clients,
}

impl<'a> LoopFrontEnd<'a> {
    /// Mounts a file of namespace 1's size. The loop device is attached once the
    /// event loop runs.
    pub(crate) fn new(
        identity: &Identity,
        name: &str,
        read_only: bool,
        label: String,
        notes: &'a dyn Notes,
    ) -> Result<Self, LoopError> {
        let channel = open_channel()?;
        let mount = Mount::new(&channel).map_err(|source| LoopError::Mount { source })?;
        let jobs = Jobs::new().map_err(|source| LoopError::Attach { source })?;
        let blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        let disk = Disk {
            name: name.to_owned(),
            size_bytes: blocks * u64::from(identity.lba_bytes),
            block_bytes: identity.lba_bytes,
            read_only,
        };
        let buffer = vec![0; HEADER_ROOM_BYTES + MAX_TRANSFER_BYTES as usize].into_boxed_slice();
        Ok(Self {
            channel,
            mount,
            disk,
            takes_deallocate: identity.supports_deallocate,
            label,
            notes,
            watchdog: None,
            jobs,
            place: Place::Gone,
            number: None,
            buffer,
            readable: true,
            connected: true,
            powered: true,
            severed: false,
            stopping: false,
            handles: 0,
            outstanding: 0,
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
        self.place = Place::Attaching;
        self.severed = !self.powered;
        let mount = self.mount.try_clone();
        mount.and_then(|mount| self.jobs.attach(mount, plan)).map_err(|source| LoopError::Attach { source })
    }

    fn start_detaching(&mut self, number: LoopNumber) -> Result<(), LoopError> {
        self.place = Place::Leaving(number);
        self.jobs.detach(number).map_err(|source| LoopError::Detach { path: number.path(), source })
    }

    fn job_done(&mut self, done: Done) -> Result<(), LoopError> {
        match done {
            Done::Attached(result) => {
                let number = result.map_err(|source| LoopError::Attach { source })?;
                self.number = Some(number);
                self.place = Place::Attached(number);
                self.clients.accepted += 1;
                self.clients.connected = 1;
                if let Some(watchdog) = &mut self.watchdog {
                    watchdog.attached(number);
                }
                if self.stopping || !self.powered {
                    return self.start_detaching(number);
                }
                self.notes.ready(number);
            }
            Done::Detached(number, Ok(users)) => {
                if self.place == Place::Leaving(number) && !users.is_empty() {
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
            Done::Detached(_, Err(error)) if error.raw_os_error() == Some(libc::ENXIO) => {}
            Done::Detached(number, Err(source)) => return Err(LoopError::Detach { path: number.path(), source }),
        }
        Ok(())
    }

    /// Nobody has the file open any more.
    fn released(&mut self) -> Result<(), LoopError> {
        let number = match self.place {
            // The job that opened it says what became of it.
            Place::Attaching | Place::Gone => return Ok(()),
            Place::Attached(number) => {
                self.notes.line(&format!("{} was detached by another program", number.path().display()));
                self.stopping = true;
                number
            }
            Place::Leaving(number) => number,
        };
        self.place = Place::Gone;
        self.number = Some(number);
        self.clients.connected = 0;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.detached();
        }
        if self.powered && !self.stopping { self.start_attaching() } else { Ok(()) }
    }

    /// Takes one request; says whether there was one.
    fn take_one(&mut self, engine: &mut Engine<Context>) -> Result<bool, LoopError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let taken = self.take_through(&mut buffer, engine);
        self.buffer = buffer;
        taken
    }

    fn take_through(&mut self, buffer: &mut [u8], engine: &mut Engine<Context>) -> Result<bool, LoopError> {
        let length = match self.channel.receive(buffer) {
            Ok(Received::Request(length)) => length,
            Ok(Received::Nothing) => return Ok(false),
            Ok(Received::Ended) => {
                self.connected = false;
                return Ok(false);
            }
            Err(error) => return Err(LoopError::Protocol { what: format!("a request cannot be read: {error}") }),
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        let incoming = parse(bytes).map_err(|error| LoopError::Protocol { what: error.to_string() })?;
        let Incoming { unique, node, operation } = incoming;
        if let Some(answer) = self.disk.answer(node, &operation) {
            let (opened, released) =
                (matches!(operation, Operation::Open) && answer.is_ok(), matches!(operation, Operation::Release));
            if matches!(operation, Operation::Init { .. }) && answer.is_err() {
                return Err(LoopError::Protocol {
                    what: "the kernel's FUSE is too old; Linux 5.8 is needed".to_owned(),
                });
            }
            self.reply(unique, answer.as_ref().map(super::disk::Body::as_bytes).map_err(|number| *number));
            self.handles += u32::from(opened);
            if released {
                self.handles = self.handles.saturating_sub(1);
                if self.handles == 0 {
                    self.released()?;
                }
            }
            return Ok(true);
        }
        if matches!(operation, Operation::Unanswered) {
            return Ok(true);
        }
        match request_of(&operation, &self.disk, self.takes_deallocate) {
            Ok(_) if self.severed => self.reply(unique, Err(libc::EIO)),
            Ok((request, kind)) => {
                // Also for load that is never long outstanding.
                if self.next_beat <= engine.now() {
                    self.beat(engine.now());
                }
                self.outstanding += 1;
                engine.submit(engine.now(), 0, NamespaceId::FIRST, request, Context { unique, kind });
            }
            Err(answer) => self.reply(unique, answer.map(|()| [].as_slice())),
        }
        Ok(true)
    }

    fn beat(&mut self, now: Nanos) {
        self.next_beat = now + BEAT;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.beat();
        }
    }

    fn reply(&mut self, unique: u64, answer: Result<&[u8], i32>) {
        match self.channel.reply(unique, answer) {
            Ok(connected) => self.connected &= connected,
            Err(error) => {
                self.failure = Some(LoopError::Protocol { what: format!("a reply was refused: {error}") });
            }
        }
    }
}

fn open_channel() -> Result<Channel, LoopError> {
    Channel::open().map_err(|source| {
        let path = "/dev/fuse".into();
        match source.kind() {
            io::ErrorKind::NotFound => LoopError::Missing { path, mend: "`modprobe fuse` may bring it" },
            _ => LoopError::Refused { path, source },
        }
    })
}

/// The device's request for a FUSE one, or its answer where the device is not asked.
fn request_of(
    operation: &Operation<'_>,
    disk: &Disk,
    takes_deallocate: bool,
) -> Result<(Request, Kind), Result<(), i32>> {
    let changes = !matches!(operation, Operation::Read { .. } | Operation::Fsync);
    if changes && disk.read_only {
        return Err(Err(libc::EROFS));
    }
    match *operation {
        Operation::Read { offset, length } => {
            // As from any file, a read ends at the end.
            let left = disk.size_bytes.saturating_sub(offset);
            let length = length.min(u32::try_from(left).unwrap_or(u32::MAX));
            if length == 0 {
                return Err(Ok(()));
            }
            Ok((Request::Read { offset, length }, Kind::Read))
        }
        Operation::Write { data: [], .. } => Err(Err(libc::EINVAL)),
        Operation::Write { offset, data } => {
            // A request's length is 32 bits wide.
            let size = data.len() as u32;
            Ok((Request::Write { offset, data: data.into(), fua: false }, Kind::Write { size }))
        }
        Operation::Fsync => Ok((Request::Flush, Kind::Other)),
        Operation::Fallocate { offset, length, mode } => {
            // The loop driver has one word, a hole, for Dataset Management and for
            // Write Zeroes that may deallocate; a hole reads as zeroes, and so do
            // the model's deallocated blocks.
            let request = if mode == FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE && takes_deallocate {
                Request::Trim { offset, length, fua: false }
            } else if mode == FallocateMode::KEEP_SIZE | FallocateMode::ZERO_RANGE {
                Request::WriteZeroes { offset, length, fua: false, deallocate: false }
            } else {
                return Err(Err(libc::EOPNOTSUPP));
            };
            Ok((request, Kind::Other))
        }
        _ => Err(Err(libc::ENOSYS)),
    }
}

/// The error number that makes the block layer see what the NVMe driver would
/// have reported (`nvme_error_status` in drivers/nvme/host/core.c and
/// `blk_errors` in block/blk-core.c).
fn errno_of(status: Status) -> i32 {
    match status {
        Status::CAPACITY_EXCEEDED => libc::ENOSPC,
        Status::LBA_OUT_OF_RANGE | Status::COMMAND_INTERRUPTED => libc::EREMOTEIO,
        Status::INVALID_OPCODE | Status::INVALID_FIELD | Status::INVALID_NAMESPACE => libc::EOPNOTSUPP,
        Status::WRITE_FAULT | Status::UNRECOVERED_READ | Status::NAMESPACE_WRITE_PROTECTED => libc::ENODATA,
        _ => libc::EIO,
    }
}

impl FrontEnd for LoopFrontEnd<'_> {
    type Context = Context;

    fn attach(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.channel, CHANNEL, Interest::READABLE)?;
        poller.add(&self.jobs, JOBS, Interest::READABLE)?;
        match self.place {
            Place::Gone => self.start_attaching().map_err(io::Error::other),
            // The device stayed from an earlier loop.
            Place::Attached(number) => {
                self.notes.ready(number);
                Ok(())
            }
            Place::Attaching | Place::Leaving(_) => Ok(()),
        }
    }

    fn ready(&mut self, event: &Ready, _poller: &Poller, _now: Nanos) -> Result<(), ServeError> {
        if event.token == JOBS {
            for done in self.jobs.take() {
                self.job_done(done)?;
            }
        } else {
            self.readable = true;
        }
        Ok(())
    }

    fn take(&mut self, engine: &mut Engine<Context>) -> Result<bool, ServeError> {
        for _ in 0..REQUESTS_PER_TURN {
            if !self.readable || self.outstanding >= OUTSTANDING_MAX {
                return Ok(false);
            }
            self.readable = self.take_one(engine)?;
        }
        Ok(self.readable)
    }

    fn answer(&mut self, context: Context, outcome: Outcome, _now: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let Context { unique, kind } = context;
        match (outcome.result, kind) {
            (Err(status), _) => self.reply(unique, Err(errno_of(status))),
            (Ok(data), Kind::Read) => self.reply(unique, Ok(&data)),
            (Ok(_), Kind::Write { size }) => {
                use zerocopy::IntoBytes;
                self.reply(unique, Ok(WriteOut { size, padding: 0 }.as_bytes()));
            }
            (Ok(_), Kind::Other) => self.reply(unique, Ok(&[])),
        }
    }

    fn send(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        // Answers have left already: a reply to /dev/fuse never has to wait.
        match self.failure.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn has_more(&self) -> bool {
        self.readable && self.outstanding < OUTSTANDING_MAX
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
            self.reply(orphan.unique, Err(libc::EIO));
        }
        if let Place::Attached(number) = self.place
            && let Err(error) = self.start_detaching(number)
        {
            self.failure = Some(error);
        }
    }

    fn power_restored(&mut self, _now: Nanos) {
        self.powered = true;
        if self.place == Place::Gone
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
            Place::Attached(number) => Ok(self.start_detaching(number)?),
            Place::Attaching | Place::Leaving(_) | Place::Gone => Ok(()),
        }
    }

    fn stopped(&self) -> bool {
        self.place == Place::Gone || self.notes.stays()
    }

    fn ended(&self) -> bool {
        !self.connected || (self.place == Place::Gone && self.stopping)
    }

    fn drain(&mut self, _poller: &Poller) -> bool {
        // A connection that was cut off leaves a device whose every request fails.
        if let Place::Attached(number) = self.place
            && !self.connected
        {
            match number.detach() {
                Ok(()) => self.place = Place::Gone,
                Err(error) => self.notes.line(&format!("{} stays attached: {error}", number.path().display())),
            }
        }
        true
    }

    fn clients(&self) -> Clients {
        self.clients
    }
}
