//! One client: its socket, what has come in, what is to go out.

use std::io::{self, Read};

use nvme::NamespaceId;
use units::Nanos;
use zerocopy::FromBytes;

use super::export::{Export, Exports};
use super::handshake::{Handshake, Progress, ProtocolError};
use super::limits::Limits;
use super::proto::{NbdError, RequestHeader, cmd};
use super::transmission::{self, Message, Ticket};
use crate::backend::Request;
use crate::output::Output;
use crate::patience::{Cheapness, Kind, Pace};
use crate::poller::Interest;
use crate::socket::{Peer, Socket, Source};

/// Bytes read from a socket at once. Larger write payloads are read straight to
/// where they belong.
const INPUT_BYTES: usize = 64 << 10;

/// Room made at once for a write's payload: memory is given for bytes that have
/// come, not for bytes that were announced.
const PAYLOAD_STEP_BYTES: usize = 256 << 10;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// As the protocol has it.
    Orderly,
    /// The client went away in the middle of something, or broke the protocol.
    Dropped(String),
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Dropped(format!("protocol violation: {error}"))
    }
}

enum Phase {
    Handshake(Handshake),
    Transmission {
        export: Box<Export>,
        structured: bool,
        incoming: Incoming,
    },
    /// NBD_CMD_DISC or NBD_OPT_ABORT was received: what is outstanding is
    /// answered, nothing more is read.
    Closing,
}

/// What the next bytes are in the transmission phase.
enum Incoming {
    Header,
    Payload { ticket: Ticket, offset: u64, length: usize, fua: bool, data: Vec<u8> },
    Skip { ticket: Ticket, error: NbdError, left: usize },
}

/// A client.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) peer: String,
    source: Source,
    /// Tells replies to an earlier client of the same slot apart.
    pub(crate) serial: u64,
    /// When a client that has not finished the handshake is dropped.
    pub(crate) handshake_deadline: Option<Nanos>,
    pub(crate) interest: Interest,
    phase: Phase,
    input: Box<[u8]>,
    /// The part of `input` not yet understood.
    start: usize,
    end: usize,
    output: Output,
    outstanding: u32,
    /// Data of requests in the device.
    held_bytes: usize,
    /// Whether the buffered input may hold a message not yet taken.
    runnable: bool,
    /// Data of the next request, when that waits for room.
    waits_for_bytes: usize,
    pace: Pace,
    /// Whether it has ever asked for anything.
    has_asked: bool,
    /// Whether a request has come in whole since progress was last looked at.
    has_finished: bool,
}

impl Connection {
    pub(crate) fn new(socket: Socket, peer: Peer, serial: u64, now: Nanos, limits: &Limits) -> Self {
        let mut greeting = Vec::new();
        let handshake = Handshake::start(&mut greeting);
        let mut output = Output::default();
        output.push(&greeting);
        Self {
            socket,
            peer: peer.name,
            source: peer.source,
            serial,
            handshake_deadline: Some(now + limits.handshake),
            interest: Interest::READABLE,
            phase: Phase::Handshake(handshake),
            input: vec![0; INPUT_BYTES].into(),
            start: 0,
            end: 0,
            output,
            outstanding: 0,
            held_bytes: 0,
            runnable: false,
            waits_for_bytes: 0,
            pace: Pace::new(now),
            has_asked: false,
            has_finished: false,
        }
    }

    /// Whether [`Connection::next_request`] may have something to give.
    pub(crate) fn is_runnable(&self, limits: &Limits) -> bool {
        let held_bytes = self.held_bytes + self.output.len();
        self.runnable && has_room(self.outstanding, held_bytes, self.waits_for_bytes, limits)
    }

    /// Reads once from the socket.
    pub(crate) fn receive(&mut self, now: Nanos) -> Result<(), End> {
        let (buffer, at) = match &mut self.phase {
            Phase::Transmission { incoming: Incoming::Payload { data, length, .. }, .. } if self.start == self.end => {
                let at = data.len();
                data.resize((at + PAYLOAD_STEP_BYTES).min(*length), 0);
                (&mut data[at..], at)
            }
            _ => {
                if self.start == self.end {
                    (self.start, self.end) = (0, 0);
                } else if self.end == self.input.len() {
                    self.input.copy_within(self.start..self.end, 0);
                    (self.start, self.end) = (0, self.end - self.start);
                }
                if self.end == self.input.len() {
                    return Ok(());
                }
                (&mut self.input[self.end..], usize::MAX)
            }
        };
        let result = (&self.socket).read(buffer);
        let count = *result.as_ref().unwrap_or(&0);
        match &mut self.phase {
            Phase::Transmission { incoming: Incoming::Payload { data, .. }, .. } if at != usize::MAX => {
                data.truncate(at + count);
            }
            _ => self.end += count,
        }
        match result {
            Ok(0) => Err(self.end_of_file()),
            Ok(count) => {
                self.pace.moved(now, count);
                self.runnable = true;
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(End::Dropped(format!("read failed: {error}"))),
        }
    }

    /// Understands the next request in what has been read. `None`: it needs
    /// more input, or room that is there when replies have left.
    pub(crate) fn next_request(
        &mut self,
        exports: &Exports,
        limits: &Limits,
    ) -> Result<Option<(Ticket, NamespaceId, Request)>, End> {
        loop {
            match &mut self.phase {
                Phase::Closing => {
                    self.runnable = false;
                    return Ok(None);
                }
                Phase::Handshake(handshake) => {
                    let mut answer = Vec::new();
                    let step = handshake.step(&self.input[self.start..self.end], exports, &mut answer);
                    self.output.push(&answer);
                    let (used, progress) = step?;
                    self.start += used;
                    match progress {
                        Progress::Continue if used == 0 => {
                            self.runnable = false;
                            return Ok(None);
                        }
                        Progress::Continue => {
                            if self.output.len() > limits.request_bytes as usize {
                                return Err(End::Dropped("sends options without reading the replies".to_owned()));
                            }
                        }
                        Progress::Transmission(negotiated) => {
                            self.handshake_deadline = None;
                            self.phase = Phase::Transmission {
                                export: Box::new(negotiated.export),
                                structured: negotiated.structured_replies,
                                incoming: Incoming::Header,
                            };
                        }
                        Progress::Abort => self.phase = Phase::Closing,
                    }
                }
                Phase::Transmission { export, structured, incoming } => match incoming {
                    Incoming::Header => {
                        let input = &self.input[self.start..self.end];
                        let Ok((header, _)) = RequestHeader::read_from_prefix(input) else {
                            self.runnable = false;
                            return Ok(None);
                        };
                        let carries_data = matches!(header.command.get(), cmd::READ | cmd::WRITE);
                        let data_bytes = if carries_data { header.length.get() as usize } else { 0 };
                        let held_bytes = self.held_bytes + self.output.len();
                        self.waits_for_bytes = data_bytes;
                        if !has_room(self.outstanding, held_bytes, data_bytes, limits) {
                            return Ok(None);
                        }
                        self.waits_for_bytes = 0;
                        let message = transmission::parse(&header, export, *structured)?;
                        self.start += size_of::<RequestHeader>();
                        match message {
                            Message::Submit(ticket, request) => {
                                let nsid = export.nsid;
                                return Ok(Some(self.accept(ticket, nsid, request)));
                            }
                            Message::Write { ticket, offset, length, fua } => {
                                let length = length as usize;
                                let data = Vec::with_capacity(length);
                                *incoming = Incoming::Payload { ticket, offset, length, fua, data };
                            }
                            Message::Refuse { ticket, error, payload } => {
                                *incoming = Incoming::Skip { ticket, error, left: payload as usize };
                            }
                            Message::Disconnect => self.phase = Phase::Closing,
                        }
                    }
                    Incoming::Payload { ticket, offset, length, fua, data } => {
                        let here = (*length - data.len()).min(self.end - self.start);
                        data.extend_from_slice(&self.input[self.start..self.start + here]);
                        self.start += here;
                        if data.len() < *length {
                            self.runnable = false;
                            return Ok(None);
                        }
                        let data = std::mem::take(data).into_boxed_slice();
                        let (ticket, request) = (*ticket, Request::Write { offset: *offset, data, fua: *fua });
                        *incoming = Incoming::Header;
                        let nsid = export.nsid;
                        return Ok(Some(self.accept(ticket, nsid, request)));
                    }
                    Incoming::Skip { ticket, error, left } => {
                        let here = (*left).min(self.end - self.start);
                        self.start += here;
                        *left -= here;
                        if *left > 0 {
                            self.runnable = false;
                            return Ok(None);
                        }
                        transmission::reply(&mut self.output, *ticket, Err(*error));
                        *incoming = Incoming::Header;
                    }
                },
            }
        }
    }

    fn accept(&mut self, ticket: Ticket, nsid: NamespaceId, request: Request) -> (Ticket, NamespaceId, Request) {
        self.outstanding += 1;
        (self.has_asked, self.has_finished) = (true, true);
        self.held_bytes += data_bytes(&request);
        (ticket, nsid, request)
    }

    /// Queues the answer to a request that [`Connection::next_request`] gave;
    /// `held_bytes` is its [`data_bytes`].
    pub(crate) fn answer(&mut self, ticket: Ticket, held_bytes: usize, result: Result<Box<[u8]>, NbdError>) {
        debug_assert!(self.outstanding > 0 && self.held_bytes >= held_bytes);
        self.outstanding -= 1;
        self.held_bytes -= held_bytes;
        transmission::reply(&mut self.output, ticket, result);
    }

    /// Sends what it can; an orderly end when the client is done and has
    /// everything.
    pub(crate) fn send(&mut self, now: Nanos) -> Result<(), End> {
        let unsent = self.output.len();
        self.output.send(&self.socket).map_err(|error| End::Dropped(format!("write failed: {error}")))?;
        self.pace.moved(now, unsent - self.output.len());
        // Still runnable means that the client waits for the server.
        let owes = self.output.len() > 0 || (!self.runnable && self.is_mid_message());
        if std::mem::take(&mut self.has_finished) {
            self.pace.advanced(now);
        }
        self.pace.owes(now, owes);
        if matches!(self.phase, Phase::Closing) && self.is_idle() {
            return Err(End::Orderly);
        }
        Ok(())
    }

    /// Nothing in the device and nothing left to send.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.output.len() == 0
    }

    /// What the loop should wait for.
    pub(crate) fn wanted(&self) -> Interest {
        let closing = matches!(self.phase, Phase::Closing);
        // Still runnable here means that whole messages are buffered and wait
        // for replies to leave first.
        Interest { readable: !closing && !self.runnable, writable: self.output.len() > 0 }
    }

    fn is_mid_message(&self) -> bool {
        match &self.phase {
            Phase::Closing => false,
            Phase::Handshake(_) => self.start != self.end,
            Phase::Transmission { incoming, .. } => !matches!(incoming, Incoming::Header) || self.start != self.end,
        }
    }

    /// When it has to have done what is expected of it, and what that is.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<(Nanos, &'static str)> {
        if let Some(deadline) = self.handshake_deadline {
            return Some((deadline, "no complete handshake in time"));
        }
        let what = if self.output.len() > 0 { "does not read its replies" } else { "does not finish what it began" };
        self.pace.deadline(limits.stall).map(|deadline| (deadline, what))
    }

    /// Where it comes from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// How cheap its place is, if it may be given to another client.
    pub(crate) fn cheapness(&self, now: Nanos) -> Option<Cheapness> {
        let moved_at = self.pace.moved_at();
        if matches!(self.phase, Phase::Handshake(_)) {
            return Cheapness::of(Kind::Unknown, moved_at, now);
        }
        if let Some(since) = self.pace.owes_since() {
            let stands = Cheapness::of(Kind::Stands, moved_at.max(since), now);
            return stands.or_else(|| Cheapness::of(Kind::Trickles, since, now));
        }
        match self.outstanding {
            0 if self.has_asked => Cheapness::of(Kind::Idle, moved_at, now),
            0 => Cheapness::of(Kind::Unasking, moved_at, now),
            _ => None,
        }
    }

    fn end_of_file(&self) -> End {
        if self.is_mid_message() { End::Dropped("hung up in the middle of a message".to_owned()) } else { End::Orderly }
    }
}

/// Whether one more request with `data_bytes` is within the limits. One alone
/// always is.
fn has_room(outstanding: u32, held_bytes: usize, data_bytes: usize, limits: &Limits) -> bool {
    outstanding < limits.outstanding && (held_bytes == 0 || held_bytes + data_bytes <= limits.held_bytes())
}

/// Bytes of data a request keeps in memory until it is answered.
pub(crate) fn data_bytes(request: &Request) -> usize {
    match request {
        Request::Read { length, .. } => *length as usize,
        Request::Write { data, .. } => data.len(),
        _ => 0,
    }
}
