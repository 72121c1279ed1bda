//! One connection of a host, without its socket: bytes in, commands out, answers
//! in, bytes out (TCP 3.3).

use nvme::tcp::{
    DIGEST_BYTES, Direction, Field, Format, H2cData, Pdu, PduError, TerminateRequest, decode, digest, header_bytes,
};
use nvme::{Status, SubmissionEntry};

use super::commands::{Admission, Arrived, Commands, Waiting};
use super::input::Input;
use super::limits::Limits;
use super::reply;
use super::sgl::{DataPlan, plan};
use crate::output::Output;
use crate::subsystem::{Answer, Transfer};

/// What a connection has to know about the commands that it carries.
pub(super) trait Controller {
    /// The data that goes with a command.
    fn transfer(&self, entry: &SubmissionEntry) -> Transfer;

    /// Commands that the host may have outstanding.
    fn queue_depth(&self) -> u32;

    /// Whether the controller must get it in its turn among others of which that is so.
    fn is_ordered(&self, entry: &SubmissionEntry) -> bool;
}

/// What has come of the input.
#[derive(Debug)]
pub(super) enum Step {
    /// It needs more input, or room that is there when answers have left.
    Idle,
    /// A command with the data that it needs.
    Command(SubmissionEntry, Box<[u8]>),
    /// A command that ends with this status before it begins.
    Failed(SubmissionEntry, Status),
    /// A command whose identifier another one has: answered with
    /// [`Connection::answer_conflict`].
    Conflict(SubmissionEntry),
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fatal {
    /// The host broke the protocol; it has been told so.
    #[error("protocol violation: {0}")]
    Violation(#[from] PduError),
    /// The host found fault with what it got.
    #[error("ended by the host with fatal error status {status:#x}, information {information:#x}")]
    Terminated {
        /// FES.
        status: u16,
        /// FEI.
        information: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before ICReq.
    New,
    /// Commands flow.
    Ready,
    /// Nothing that comes is looked at any more.
    Ended,
}

/// What the next bytes are.
enum Incoming {
    Header,
    Data(Data),
}

/// Data on its way in.
struct Data {
    target: Target,
    /// Padding that comes before it.
    padding: usize,
    /// Bytes of it that have come.
    done: usize,
    length: usize,
    /// Whether its digest comes behind it.
    digest: bool,
}

/// Where data goes.
enum Target {
    Capsule(SubmissionEntry, Box<[u8]>),
    Transfer(H2cData),
}

/// A host's connection.
pub(super) struct Connection {
    phase: Phase,
    /// How PDUs from the host look.
    receives: Format,
    /// How PDUs to the host look.
    sends: Format,
    /// R2Ts that the host takes for one command.
    max_r2t: u32,
    input: Input,
    incoming: Incoming,
    commands: Commands,
    output: Output,
    /// Whether the input may hold something that has not been taken.
    fresh: bool,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::New,
            receives: Format::default(),
            sends: Format::default(),
            max_r2t: 1,
            input: Input::new(),
            incoming: Incoming::Header,
            commands: Commands::default(),
            output: Output::default(),
            fresh: false,
        }
    }

    /// Where the next bytes from the host go; empty when the buffer is full of
    /// what [`Connection::step`] has not taken. Long data goes past the buffer.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.phase == Phase::Ended {
            self.input.clear();
        }
        match &mut self.incoming {
            Incoming::Data(data) if data.goes_past(&self.input) => data.rest(&mut self.commands),
            _ => self.input.space(),
        }
    }

    /// `count` bytes have been put into [`Connection::space`].
    pub(super) fn received(&mut self, count: usize) {
        if self.phase == Phase::Ended {
            return;
        }
        self.fresh |= count > 0;
        match &mut self.incoming {
            Incoming::Data(data) if data.goes_past(&self.input) => data.done += count.min(data.length - data.done),
            _ => self.input.grew(count),
        }
    }

    /// What is to be sent.
    pub(super) fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Bytes to be sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.output.len()
    }

    /// Whether [`Connection::step`] may have something to give.
    pub(super) fn is_runnable(&self, limits: &Limits) -> bool {
        self.phase != Phase::Ended
            && (self.commands.has_turn()
                || self.commands.fits(self.output.len(), limits)
                || (self.fresh && self.reads_on(limits)))
    }

    /// Whether input is wanted: a host that does not read its answers is not
    /// listened to.
    pub(super) fn wants_input(&self, limits: &Limits) -> bool {
        self.phase == Phase::Ended || (!self.fresh && self.reads_on(limits))
    }

    fn reads_on(&self, limits: &Limits) -> bool {
        self.output.len() <= limits.held_bytes
    }

    /// Whether ICReq has come.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether the host owes something: the rest of a PDU, or data that it was
    /// asked for.
    pub(super) fn is_owed(&self) -> bool {
        !self.input.is_empty() || matches!(self.incoming, Incoming::Data(_)) || self.commands.expects_data()
    }

    /// Memory held for the host's data, beyond fixed buffers.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.commands.held_bytes() + self.output.len()
    }

    /// From here on nothing is taken from the host; what is to be sent still is.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Ended;
        self.commands = Commands::default();
        self.incoming = Incoming::Header;
        self.input.clear();
    }

    /// Takes the next command out of what has come.
    ///
    /// # Errors
    ///
    /// When the connection is over. A host that broke the protocol has been told
    /// so in the output, and nothing more is taken from it.
    pub(super) fn step(&mut self, controller: &dyn Controller, limits: &Limits) -> Result<Step, Fatal> {
        let result = self.advance(controller, limits);
        match &result {
            Err(Fatal::Violation(error)) => {
                reply::terminate(TerminateRequest::from(error), self.input.filled(), &mut self.output);
                self.end();
            }
            Err(Fatal::Terminated { .. }) => self.end(),
            Ok(_) => {}
        }
        result
    }

    fn advance(&mut self, controller: &dyn Controller, limits: &Limits) -> Result<Step, Fatal> {
        loop {
            if self.phase == Phase::Ended {
                return Ok(Step::Idle);
            }
            if let Some(Arrived { entry, data }) = self.commands.take_turn() {
                return Ok(arrived(entry, data));
            }
            if self.commands.fits(self.output.len(), limits) {
                if let Some(step) = self.start_waiting(limits) {
                    return Ok(step);
                }
                continue;
            }
            if !self.reads_on(limits) {
                return Ok(Step::Idle);
            }
            let progress = match &mut self.incoming {
                Incoming::Header => self.header(controller, limits)?,
                Incoming::Data(_) => self.data(controller, limits),
            };
            match progress {
                Progress::Step(step) => return Ok(step),
                Progress::Continue => {}
                Progress::Starved => {
                    self.fresh = false;
                    return Ok(Step::Idle);
                }
            }
        }
    }

    /// Lets the first waiting command go on.
    fn start_waiting(&mut self, limits: &Limits) -> Option<Step> {
        let Waiting { entry, bytes, to_host } = self.commands.start()?;
        if to_host {
            return Some(Step::Command(entry, Box::default()));
        }
        self.commands.receive(entry, bytes);
        self.ask(entry.cid.get(), limits);
        None
    }

    /// Sends the R2Ts that a command may have now.
    fn ask(&mut self, cid: u16, limits: &Limits) {
        while let Some(r2t) = self.commands.ask(cid, self.max_r2t, limits) {
            reply::push(&Pdu::ReadyToTransfer(r2t), &self.sends, &mut self.output);
        }
    }

    fn header(&mut self, controller: &dyn Controller, limits: &Limits) -> Result<Progress, Fatal> {
        let direction = Direction::HostToController;
        let input = self.input.filled();
        let needed = header_bytes(input, direction, &self.receives)?;
        if needed.is_none_or(|needed| input.len() < needed) {
            return Ok(Progress::Starved);
        }
        let Some((pdu, layout)) = decode(input, direction, &self.receives)? else { return Ok(Progress::Starved) };
        let sequence = |state| Err(PduError::Sequence { pdu: pdu.name(), state }.into());
        let target = match pdu {
            Pdu::H2cTerminate(TerminateRequest { status, information }) => {
                return Err(Fatal::Terminated { status, information });
            }
            Pdu::InitializeRequest(request) if self.phase == Phase::New => {
                let (response, receives, sends) = reply::negotiate(&request, limits);
                reply::push(&Pdu::InitializeResponse(response), &Format::default(), &mut self.output);
                (self.receives, self.sends, self.max_r2t) = (receives, sends, request.max_r2t);
                self.phase = Phase::Ready;
                None
            }
            _ if self.phase == Phase::New => return sequence("before ICReq"),
            Pdu::CapsuleCommand(entry) => {
                if layout.data_bytes > limits.in_capsule_bytes {
                    let plen = u32::try_from(layout.pdu_bytes()).unwrap_or(u32::MAX);
                    return Err(PduError::Field { field: Field::Length, value: plen }.into());
                }
                // A completion queue entry must be there for each command (Base 3.3.1.2.1).
                if self.commands.count() >= controller.queue_depth() as usize {
                    return sequence("with as many commands outstanding as the queue has entries");
                }
                Some(Target::Capsule(entry, vec![0; layout.data_bytes as usize].into()))
            }
            Pdu::H2cData(data) => {
                self.commands.expect(&data, limits)?;
                Some(Target::Transfer(data))
            }
            _ => return sequence("after ICReq"),
        };
        self.input.consume(layout.header_bytes);
        let Some(target) = target else { return Ok(Progress::Continue) };
        self.incoming = Incoming::Data(Data {
            target,
            padding: layout.data_offset - layout.header_bytes,
            done: 0,
            length: layout.data_bytes as usize,
            digest: layout.data_digest,
        });
        Ok(Progress::Continue)
    }

    fn data(&mut self, controller: &dyn Controller, limits: &Limits) -> Progress {
        let Incoming::Data(data) = &mut self.incoming else { return Progress::Continue };
        let padding = data.padding.min(self.input.filled().len());
        self.input.consume(padding);
        data.padding -= padding;
        if data.padding > 0 {
            return Progress::Starved;
        }
        let room = data.rest(&mut self.commands);
        let count = room.len().min(self.input.filled().len());
        room[..count].copy_from_slice(&self.input.filled()[..count]);
        self.input.consume(count);
        data.done += count;
        if data.done < data.length {
            return Progress::Starved;
        }
        let mut intact = true;
        if data.digest {
            let Some(received) = self.input.filled().first_chunk::<DIGEST_BYTES>() else { return Progress::Starved };
            intact = u32::from_le_bytes(*received) == digest(data.whole(&mut self.commands));
            self.input.consume(DIGEST_BYTES);
        }
        let Incoming::Data(Data { target, .. }) = std::mem::replace(&mut self.incoming, Incoming::Header) else {
            return Progress::Continue;
        };
        let step = match target {
            Target::Capsule(entry, data) => self.command(entry, data, intact, controller, limits),
            Target::Transfer(transfer) => self.transferred(&transfer, intact, limits),
        };
        step.map_or(Progress::Continue, Progress::Step)
    }

    /// A capsule has come; `None` where its command waits for data or room.
    fn command(
        &mut self,
        entry: SubmissionEntry,
        data: Box<[u8]>,
        intact: bool,
        controller: &dyn Controller,
        limits: &Limits,
    ) -> Option<Step> {
        let cid = entry.cid.get();
        if self.commands.admit(cid) == Admission::Conflict {
            return Some(Step::Conflict(entry));
        }
        if !intact {
            return Some(Step::Failed(entry, Status::TRANSIENT_TRANSPORT_ERROR));
        }
        let is_ordered = controller.is_ordered(&entry);
        let (bytes, to_host) = match plan(&entry, controller.transfer(&entry), data.len()) {
            Err(status) => return Some(Step::Failed(entry, status)),
            Ok(DataPlan::Ready(part)) => {
                let data = if part == (0..data.len()) { data } else { data.get(part).unwrap_or_default().into() };
                if is_ordered {
                    self.commands.line_up(cid);
                    self.commands.wait_for_turn(Arrived { entry, data: Some(data) });
                    return None;
                }
                self.commands.hold(cid, data.len() as u32, false);
                return Some(Step::Command(entry, data));
            }
            Ok(DataPlan::Fetch { bytes }) => (bytes, false),
            Ok(DataPlan::Give { bytes }) => (bytes, true),
        };
        if is_ordered {
            // It takes no room that others would have to leave first: whoever waits for it may be among them.
            self.commands.line_up(cid);
            self.commands.receive(entry, bytes);
            self.ask(cid, limits);
        } else {
            self.commands.wait(Waiting { entry, bytes, to_host });
        }
        None
    }

    /// The data of an H2CData PDU has come; the command, if that was all of it.
    fn transferred(&mut self, transfer: &H2cData, intact: bool, limits: &Limits) -> Option<Step> {
        match self.commands.arrived(transfer, intact) {
            Some(found) if self.commands.is_lined_up(transfer.command.0) => {
                self.commands.wait_for_turn(found);
                None
            }
            Some(Arrived { entry, data }) => Some(arrived(entry, data)),
            None => {
                self.ask(transfer.command.0, limits);
                None
            }
        }
    }

    /// Queues the answer to a command that [`Connection::step`] gave.
    pub(super) fn answer(&mut self, answer: Answer) {
        // An answer to a command of a connection that has ended goes nowhere.
        if let Some(data_limit) = self.commands.release(answer.cid.0) {
            reply::answer(answer, data_limit, &self.sends, &mut self.output);
        }
    }

    /// Queues the answer to a [`Step::Conflict`]; the command that had the
    /// identifier first is answered in its time.
    pub(super) fn answer_conflict(&mut self, answer: Answer) {
        if self.phase == Phase::Ready {
            reply::answer(answer, 0, &self.sends, &mut self.output);
        }
    }
}

/// The step of a command whose data has come.
fn arrived(entry: SubmissionEntry, data: Option<Box<[u8]>>) -> Step {
    match data {
        Some(data) => Step::Command(entry, data),
        None => Step::Failed(entry, Status::TRANSIENT_TRANSPORT_ERROR),
    }
}

/// What became of some input.
enum Progress {
    Step(Step),
    Continue,
    /// There is too little of it.
    Starved,
}

impl Data {
    /// Whether the next bytes from the socket can go where they belong at once.
    fn goes_past(&self, input: &Input) -> bool {
        self.padding == 0 && self.done < self.length && input.is_empty()
    }

    /// Room for what has not come.
    fn rest<'a>(&'a mut self, commands: &'a mut Commands) -> &'a mut [u8] {
        let done = self.done;
        self.whole(commands).get_mut(done..).unwrap_or_default()
    }

    /// Room for the PDU's data.
    fn whole<'a>(&'a mut self, commands: &'a mut Commands) -> &'a mut [u8] {
        match &mut self.target {
            Target::Capsule(_, data) => data,
            Target::Transfer(transfer) => commands.place(transfer),
        }
    }
}
