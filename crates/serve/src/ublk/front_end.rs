//! The event loop's view of ublk: tags that are fetched, served and committed.

use std::collections::VecDeque;
use std::io;

use units::Nanos;
use uring::Ring;

use super::abi::{COMMIT_AND_FETCH, FETCH, FETCH_OK, IoCommand};
use super::commands::io_command;
use super::control::{Control, Slow, disk_path};
use super::disk::{Disk, requests};
use super::errno::Errno;
use super::error::UblkError;
use super::mounts;
use super::operation::Operation;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{Clients, FIRST_TOKEN, FrontEnd, Outcome};
use crate::poller::{Interest, Poller, Ready};

const REQUESTS: u64 = FIRST_TOKEN;
const CONTROL: u64 = FIRST_TOKEN + 1;

/// Requests taken before the device and its answers get their turn.
const REQUESTS_PER_TURN: usize = 256;

/// Which request of which queue of which disk; at most one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    disk: u16,
    queue: u16,
    tag: u16,
}

impl Slot {
    fn token(self) -> u64 {
        u64::from(self.disk) << 32 | u64::from(self.queue) << 16 | u64::from(self.tag)
    }

    fn of(token: u64) -> Self {
        Self { disk: (token >> 32) as u16, queue: (token >> 16) as u16, tag: token as u16 }
    }
}

/// A request in the device.
pub(crate) struct Context {
    slot: Slot,
    operation: Operation,
}

/// Where a device's life is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// START_DEV is under way for so many disks.
    Starting(usize),
    Live,
    /// STOP_DEV is under way for so many disks.
    Stopping(usize),
    Stopped,
}

/// The disks of a device and the requests that the kernel has for them.
pub(crate) struct UblkFrontEnd<'a> {
    control: Control,
    /// `None` only while the front-end is dropped.
    ring: Option<Ring<io_uring::squeue::Entry>>,
    disks: Vec<Disk>,
    phase: Phase,
    /// Tags that will never be fetched again.
    aborted: u32,
    /// Answers that could not be committed; the loop hears of it in `send`.
    failure: Option<UblkError>,
    /// Requests that the device need not see.
    refused: VecDeque<(Slot, Errno)>,
    /// Whether completed fetches wait in the ring.
    more: bool,
    log: &'a dyn Fn(&str),
    ready_line: String,
}

impl<'a> UblkFrontEnd<'a> {
    /// For disks that have been added; `ready_line` is logged when all of them can
    /// be opened.
    pub(crate) fn new(
        control: Control,
        disks: Vec<Disk>,
        log: &'a dyn Fn(&str),
        ready_line: String,
    ) -> Result<Self, UblkError> {
        let mut front_end = Self {
            control,
            ring: None,
            phase: Phase::Starting(disks.len()),
            disks,
            aborted: 0,
            failure: None,
            refused: VecDeque::new(),
            more: false,
            log,
            ready_line,
        };
        // After `disks` has an owner that deletes them.
        let ring = Ring::new(requests(&front_end.disks)).map_err(|source| UblkError::Ring { source })?;
        front_end.ring = Some(ring);
        Ok(front_end)
    }

    fn ring(&mut self) -> io::Result<&mut Ring<io_uring::squeue::Entry>> {
        self.ring.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Gives the driver a tag's result and waits for its next request.
    fn commit(&mut self, slot: Slot, result: i32, addr: u64) {
        let Some(disk) = self.disks.get(usize::from(slot.disk)) else { return };
        let command = IoCommand { q_id: slot.queue, tag: slot.tag, result, addr };
        let Some(ring) = self.ring.as_mut() else { return };
        if let Err(source) = io_command(ring, disk.character(), COMMIT_AND_FETCH, command, slot.token()) {
            self.failure.get_or_insert(UblkError::Io { id: disk.id, action: "committing a request", source });
        }
    }

    /// A fetch has completed: there is a request, or there will be none.
    fn fetched(&mut self, slot: Slot, result: i32, engine: &mut Engine<Context>) -> Result<(), UblkError> {
        let Some(disk) = self.disks.get(usize::from(slot.disk)) else { return Ok(()) };
        match result {
            FETCH_OK => {}
            // UBLK_IO_RES_ABORT: the device stops.
            errno if errno == -libc::ENODEV => {
                self.aborted += 1;
                return Ok(());
            }
            errno => {
                let source = io::Error::from_raw_os_error(-errno);
                return Err(UblkError::Io { id: disk.id, action: "fetching a request", source });
            }
        }
        let taken = disk.take(slot.queue, slot.tag).and_then(|(operation, data)| {
            let request = operation.into_request(disk.nsid, disk.geometry, data)?;
            Ok((operation, request))
        });
        match taken {
            Ok((operation, request)) => {
                let (now, nsid) = (engine.now(), disk.nsid);
                engine.submit(now, usize::from(slot.queue), nsid, request, Context { slot, operation });
            }
            Err(errno) => self.refused.push_back((slot, errno)),
        }
        Ok(())
    }

    /// Takes note of START_DEV and STOP_DEV that have ended.
    fn follow_control(&mut self) -> Result<(), UblkError> {
        while let Some(finished) = self.control.finished() {
            match (finished.slow, finished.result) {
                // Asked to stop while it was starting: STOP_DEV follows.
                (Slow::Start, Err(_)) if matches!(self.phase, Phase::Stopping(_)) => {}
                (Slow::Start, Err(error)) => return Err(error),
                (Slow::Start, Ok(())) => self.one_done(),
                (Slow::Stop, result) => {
                    if let Err(error) = result {
                        (self.log)(&format!("warning: {error}"));
                    }
                    self.one_done();
                }
            }
        }
        Ok(())
    }

    fn one_done(&mut self) {
        self.phase = match self.phase {
            Phase::Starting(1) => {
                (self.log)(&self.ready_line);
                Phase::Live
            }
            Phase::Starting(left) => Phase::Starting(left.saturating_sub(1)),
            Phase::Stopping(1) => Phase::Stopped,
            Phase::Stopping(left) => Phase::Stopping(left.saturating_sub(1)),
            phase => phase,
        };
    }

    fn look_for_more(&mut self) -> bool {
        self.more = self.ring.as_mut().is_some_and(Ring::is_ready);
        self.more
    }
}

impl FrontEnd for UblkFrontEnd<'_> {
    type Context = Context;

    /// Fetches every tag, from the thread that will serve, as the driver demands;
    /// and starts the disks, which the kernel does in another thread.
    fn attach(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(self.ring()?, REQUESTS, Interest::READABLE)?;
        poller.add(&self.control, CONTROL, Interest::READABLE)?;
        let Some(ring) = self.ring.as_mut() else { return Ok(()) };
        for (index, disk) in self.disks.iter().enumerate() {
            for (queue, tag) in disk.tags() {
                let slot = Slot { disk: index as u16, queue, tag };
                let command = IoCommand { q_id: queue, tag, result: 0, addr: 0 };
                io_command(ring, disk.character(), FETCH, command, slot.token())?;
            }
        }
        ring.submit()?;
        for disk in &self.disks {
            self.control.begin(Slow::Start, disk.id).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn ready(&mut self, event: &Ready, _poller: &Poller, _now: Nanos) -> Result<(), ServeError> {
        // Requests are taken every turn, since it is the kernel's task work that
        // brings them and wakes the loop, without an event.
        if event.token == CONTROL {
            self.follow_control()?;
        }
        Ok(())
    }

    fn take(&mut self, engine: &mut Engine<Context>) -> Result<bool, ServeError> {
        for _ in 0..REQUESTS_PER_TURN {
            let Some(completed) = self.ring.as_mut().and_then(Ring::completed) else { break };
            self.fetched(Slot::of(completed.token), completed.result, engine)?;
        }
        while let Some((slot, errno)) = self.refused.pop_front() {
            self.commit(slot, errno.as_result(), 0);
        }
        if self.phase == Phase::Live && self.aborted >= requests(&self.disks) {
            (self.log)("the disk was stopped by another program; serving ends");
            self.phase = Phase::Stopped;
        }
        Ok(self.look_for_more())
    }

    fn answer(&mut self, context: Context, outcome: Outcome, _now: Nanos) {
        let Context { slot, operation } = context;
        let Some(disk) = self.disks.get(usize::from(slot.disk)) else { return };
        let (result, addr) = match outcome.result {
            Ok(mut data) => disk.give(slot.queue, slot.tag, operation, &mut data, outcome.value),
            Err(status) => (Errno::from(status).as_result(), 0),
        };
        self.commit(slot, result, addr);
    }

    fn send(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        let id = self.disks.first().map_or(0, |disk| disk.id);
        let submitted = self.ring.as_mut().map_or(Ok(()), Ring::submit);
        submitted.map_err(|source| UblkError::Io { id, action: "giving answers to the driver", source })?;
        // Giving answers may have brought the next requests.
        self.look_for_more();
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn power_lost(&mut self, orphans: Vec<Context>, _now: Nanos) {
        for context in orphans {
            self.commit(context.slot, Errno::IO.as_result(), 0);
        }
    }

    fn power_restored(&mut self, _now: Nanos) {}

    /// Begins STOP_DEV: the kernel writes back what file systems and the page cache
    /// hold, which has to be served.
    fn stop(&mut self, _poller: &Poller) -> Result<(), ServeError> {
        for disk in &self.disks {
            for place in mounts::of(disk.id) {
                let path = disk_path(disk.id);
                (self.log)(&format!("warning: {path} is mounted on {place}, which ends with input/output errors"));
            }
        }
        self.phase = Phase::Stopping(self.disks.len());
        for disk in &self.disks {
            self.control.begin(Slow::Stop, disk.id)?;
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    /// Somebody else gave STOP_DEV.
    fn ended(&self) -> bool {
        self.phase == Phase::Stopped
    }

    fn keeps_memory(&self) -> bool {
        true
    }

    fn drain(&mut self, poller: &Poller) -> bool {
        // What cannot be given now is failed by the driver when the ring closes.
        let _ = self.send(poller);
        true
    }

    fn clients(&self) -> Clients {
        let disks = self.disks.len() as u64;
        let connected = if self.phase == Phase::Live { disks } else { 0 };
        Clients { accepted: disks, connected, dropped: 0 }
    }
}

impl Drop for UblkFrontEnd<'_> {
    /// Closes everything that keeps the devices in use, then deletes them.
    fn drop(&mut self) {
        drop(self.ring.take());
        for disk in std::mem::take(&mut self.disks) {
            let id = disk.id;
            drop(disk);
            if let Err(error) = self.control.delete(id) {
                (self.log)(&format!("warning: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back() {
        for slot in [
            Slot { disk: 0, queue: 0, tag: 0 },
            Slot { disk: 3, queue: 63, tag: 4095 },
            Slot { disk: u16::MAX, queue: u16::MAX, tag: u16::MAX },
        ] {
            assert_eq!(Slot::of(slot.token()), slot);
        }
    }
}
