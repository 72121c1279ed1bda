//! The hosts of one device, their turns, and the controllers behind them.

mod accept;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use nvme::{Lba, NamespaceId, QueueId, Status, SubmissionEntry};
use units::Nanos;

use super::client::{Client, End};
use super::connection::{Controller, Fatal, Step};
use super::limits::Limits;
use crate::complaints::Complaints;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{Clients, FIRST_TOKEN, FrontEnd, Outcome};
use crate::poller::{Interest, Poller, Ready};
use crate::socket::{Listener, Peer, Socket};
use crate::subsystem::{Answer, CloseReason, ConnectionId, DeviceRequest, Event, Reaction, Subsystem, Token, Transfer};

const LISTENER: u64 = FIRST_TOKEN;
const FIRST_CLIENT: u64 = FIRST_TOKEN + 1;

/// Connections beyond the limit that are told so at the same time; still more are
/// closed at once.
const SURPLUS: usize = 16;

/// Commands taken from one connection before the others and the device get their
/// turn.
const COMMANDS_PER_TURN: usize = 64;

/// Low bits of a [`ConnectionId`] that say where the connection is; the others
/// count.
const SLOT_BITS: u32 = 16;

/// What a connection has to know, from the subsystem.
struct Behind<'a> {
    subsystem: &'a Subsystem,
    id: ConnectionId,
}

impl Controller for Behind<'_> {
    fn transfer(&self, entry: &SubmissionEntry) -> Transfer {
        self.subsystem.transfer(self.id, entry)
    }

    fn queue_depth(&self) -> u32 {
        self.subsystem.queue_depth(self.id)
    }

    fn is_ordered(&self, entry: &SubmissionEntry) -> bool {
        self.subsystem.is_ordered(self.id, entry)
    }
}

/// Nobody: a connection that is only told that there is no room.
struct Nobody;

impl Controller for Nobody {
    fn transfer(&self, _: &SubmissionEntry) -> Transfer {
        Transfer::None
    }

    fn queue_depth(&self) -> u32 {
        1
    }

    fn is_ordered(&self, _: &SubmissionEntry) -> bool {
        false
    }
}

/// NVMe/TCP hosts.
pub(super) struct NvmeTcpFrontEnd<'a> {
    subsystem: Subsystem,
    limits: Limits,
    complaints: Complaints<'a>,
    listener: Option<Listener>,
    local: SocketAddr,
    /// By slot; the last [`SURPLUS`] are for those that are turned away.
    clients: Vec<Option<Box<Client>>>,
    /// One past the last slot in use: a turn looks no further.
    top: usize,
    /// Connections to take without a listener.
    adopted: Vec<Socket>,
    next_serial: u64,
    /// Requests that came of answers; the device gets them in the next turn.
    pending: VecDeque<DeviceRequest>,
    events: Vec<Event>,
    powered: bool,
    /// Whether somebody waits to be accepted.
    accept: bool,
    /// Until when no client is accepted, because one could not be.
    accept_paused_until: Option<Nanos>,
    now: Nanos,
    accepted: u64,
    dropped: u64,
}

impl<'a> NvmeTcpFrontEnd<'a> {
    pub(super) fn new(subsystem: Subsystem, limits: Limits, listener: Option<Listener>, log: &'a dyn Fn(&str)) -> Self {
        let local = listener.as_ref().and_then(Listener::tcp_address);
        let mut clients = Vec::new();
        clients.resize_with(limits.connections.min((1 << SLOT_BITS) - SURPLUS) + SURPLUS, || None);
        Self {
            subsystem,
            limits,
            complaints: Complaints::new(log),
            listener,
            local: local.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, nvme::tcp::NVME_TCP_PORT).into()),
            clients,
            top: 0,
            adopted: Vec::new(),
            next_serial: 0,
            pending: VecDeque::new(),
            events: Vec::new(),
            powered: true,
            accept: false,
            accept_paused_until: None,
            now: Nanos::ZERO,
            accepted: 0,
            dropped: 0,
        }
    }

    /// Has a connection that is taken when the loop begins.
    pub(super) fn adopt(&mut self, socket: Socket) {
        self.adopted.push(socket);
    }

    fn present(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().take(self.top).flatten().map(Box::as_ref)
    }

    /// The client of a connection that is still there.
    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        let slot = (id.0 & ((1 << SLOT_BITS) - 1)) as usize;
        self.clients.get_mut(slot)?.as_deref_mut().filter(|client| client.id == id)
    }

    /// Does what one client's input asks for; whether that may be done again.
    fn turn(&mut self, slot: usize, engine: &mut Engine<Context>) -> bool {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_deref_mut) else { return false };
        if !client.connection.is_runnable(&self.limits) {
            return false;
        }
        let (id, now) = (client.id, self.now);
        let step = if client.surplus {
            client.connection.step(&Nobody, &self.limits)
        } else {
            client.connection.step(&Behind { subsystem: &self.subsystem, id }, &self.limits)
        };
        match step {
            Ok(Step::Idle) => return false,
            Ok(Step::Command(entry, _) | Step::Failed(entry, _) | Step::Conflict(entry)) if client.surplus => {
                client.connection.answer(busy(&entry));
                client.close_soon(now);
            }
            Ok(Step::Command(entry, data)) => {
                let reaction = self.subsystem.capsule(now, id, &entry, data);
                self.react(id, reaction, Some(engine));
            }
            Ok(Step::Failed(entry, status)) => {
                let answer = self.subsystem.failed(now, id, &entry, status);
                client.connection.answer(answer);
            }
            Ok(Step::Conflict(entry)) => {
                let answer = self.subsystem.failed(now, id, &entry, Status::COMMAND_ID_CONFLICT);
                client.connection.answer_conflict(answer);
            }
            Err(fatal) => {
                let polite = matches!(fatal, Fatal::Violation(_));
                self.part(slot, Some(fatal.to_string()), polite);
            }
        }
        true
    }

    /// Carries out what the subsystem made of a command.
    fn react(&mut self, id: ConnectionId, reaction: Reaction, engine: Option<&mut Engine<Context>>) {
        match (reaction, engine) {
            (Reaction::Complete(answer), _) => self.answer_to(id, answer),
            (Reaction::Submit(request), Some(engine)) => submit(request, engine),
            (Reaction::Submit(request), None) => self.pending.push_back(request),
            (Reaction::Held, _) => {}
        }
    }

    fn answer_to(&mut self, id: ConnectionId, answer: Answer) {
        let close = answer.close;
        if let Some(client) = self.client(id).filter(|client| !client.is_closing()) {
            client.connection.answer(answer);
            if close {
                self.part((id.0 & ((1 << SLOT_BITS) - 1)) as usize, None, true);
            }
        }
    }

    /// Does what has become due in the subsystem.
    fn poll(&mut self, engine: &mut Engine<Context>) {
        let mut events = std::mem::take(&mut self.events);
        self.subsystem.poll(self.now, &mut events);
        for event in events.drain(..) {
            match event {
                Event::Answer(id, answer) => self.answer_to(id, answer),
                Event::Submit(request) => submit(request, engine),
                Event::BreakStreams(order) => engine.break_streams(&order),
                Event::Notice(id, text) => {
                    let peer = self.client(id).map_or_else(|| "a host".to_owned(), |client| client.peer.clone());
                    self.complaints.line(self.now, || format!("{peer}: {text}"));
                }
                Event::Close(id, reason) => {
                    if self.client(id).is_some() {
                        let slot = (id.0 & ((1 << SLOT_BITS) - 1)) as usize;
                        self.part(slot, complaint(reason).map(str::to_owned), true);
                    }
                }
            }
        }
        self.events = events;
    }

    /// Takes nothing more from a client: what is to be sent still is, if
    /// `polite`, and then it is closed. `complaint` is what it did wrong.
    fn part(&mut self, slot: usize, complaint: Option<String>, polite: bool) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_deref_mut) else { return };
        if !client.is_closing() {
            let (id, peer) = (client.id, &client.peer);
            if let Some(complaint) = complaint.filter(|_| !client.surplus) {
                self.dropped += 1;
                self.complaints.line(self.now, || format!("{peer}: dropped: {complaint}"));
            }
            client.close_soon(self.now);
            if !client.surplus {
                self.subsystem.closed(self.now, id);
            }
        }
        if !polite {
            self.clients[slot] = None;
            while self.top > 0 && self.clients[self.top - 1].is_none() {
                self.top -= 1;
            }
        }
    }

    /// A connection is over, and its socket is closed.
    fn close(&mut self, slot: usize, end: End) {
        let complaint = match end {
            End::Orderly => None,
            End::Dropped(reason) => Some(reason),
        };
        // Closing the descriptor removes it from epoll as well.
        self.part(slot, complaint, false);
    }

    fn send_all(&mut self, poller: &Poller) {
        for slot in 0..self.top {
            let Some(client) = &mut self.clients[slot] else { continue };
            if let Err(end) = client.send(poller, &self.limits, self.now) {
                self.close(slot, end);
            }
        }
    }
}

/// What is remembered of a request in the device: the rest is in the subsystem.
pub(super) struct Context(Token);

fn submit(request: DeviceRequest, engine: &mut Engine<Context>) {
    let DeviceRequest { token, queue, nsid, request } = request;
    engine.submit(engine.now(), queue, nsid, request, Context(token));
}

/// The answer to any first command of a surplus connection. The host may try again.
fn busy(entry: &SubmissionEntry) -> Answer {
    let status = nvme::CompletionStatus { do_not_retry: false, ..Status::CONNECT_CONTROLLER_BUSY.into() };
    let (cid, data) = (entry.command_id(), Box::default());
    Answer { queue: QueueId(0), cid, dw0: 0, dw1: 0, sqhd: Some(0), status, data, close: true }
}

/// What the log says of a connection that the subsystem closes; `None` where the
/// host wanted it so.
fn complaint(reason: CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::KeepAliveExpired => Some("no Keep Alive command in time"),
        CloseReason::ConnectTimeout => Some("no Connect command in time"),
        CloseReason::Authentication => Some("authentication failed or took too long"),
        CloseReason::MadeRoom => Some("made room for another host"),
        CloseReason::ControllerReset | CloseReason::AdminQueueClosed => None,
    }
}

impl FrontEnd for NvmeTcpFrontEnd<'_> {
    type Context = Context;

    fn attach(&mut self, poller: &Poller) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            poller.add(listener, LISTENER, Interest::READABLE)?;
        }
        for socket in std::mem::take(&mut self.adopted) {
            self.connect(socket, Peer::local("calibration"), poller)?;
        }
        Ok(())
    }

    fn ready(&mut self, event: &Ready, _poller: &Poller, now: Nanos) -> Result<(), ServeError> {
        self.now = now;
        if event.token == LISTENER {
            self.accept = true;
            return Ok(());
        }
        let slot = event.token.wrapping_sub(FIRST_CLIENT) as usize;
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_deref_mut) else { return Ok(()) };
        if event.readable && client.reads() {
            if let Err(end) = client.receive(now) {
                self.close(slot, end);
            }
        } else if event.hung_up {
            self.close(slot, End::Dropped("hung up with commands outstanding".to_owned()));
        }
        Ok(())
    }

    fn take(&mut self, engine: &mut Engine<Context>) -> Result<bool, ServeError> {
        self.now = engine.now();
        for request in self.pending.drain(..) {
            submit(request, engine);
        }
        for slot in 0..self.top {
            for _ in 0..COMMANDS_PER_TURN {
                if !self.turn(slot, engine) {
                    break;
                }
            }
        }
        self.poll(engine);
        Ok(false)
    }

    fn answer(&mut self, context: Context, outcome: Outcome, now: Nanos) {
        self.now = now;
        let Outcome { result, value } = outcome;
        if let Some((id, reaction)) = self.subsystem.device_done(now, context.0, result, value) {
            self.react(id, reaction, None);
        }
    }

    fn send(&mut self, poller: &Poller) -> Result<(), ServeError> {
        self.send_all(poller);
        // Last, when those who leave have made room.
        if std::mem::take(&mut self.accept) {
            self.accept_clients(poller);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.pending.is_empty() || self.present().any(|client| client.connection.is_runnable(&self.limits))
    }

    fn deadline(&self) -> Option<Nanos> {
        let clients = self.present().filter_map(|client| client.deadline(&self.limits));
        let clients = clients.map(|(deadline, _)| deadline);
        clients.chain(self.subsystem.deadline()).chain(self.accept_paused_until).min()
    }

    fn expire(&mut self, now: Nanos, poller: &Poller) {
        // What is due in the subsystem is done by the next `take`.
        self.now = now;
        for slot in 0..self.top {
            let deadline = self.clients[slot].as_ref().and_then(|client| client.deadline(&self.limits));
            if let Some((_, what)) = deadline.filter(|(deadline, _)| *deadline <= now) {
                self.close(slot, End::Dropped(what.to_owned()));
            }
        }
        if self.accept_paused_until.is_some_and(|until| until <= now) {
            self.accept_paused_until = None;
            self.watch_listener(true, poller);
        }
        self.complaints.flush();
    }

    fn power_lost(&mut self, orphans: Vec<Context>, now: Nanos) {
        // A drive without power answers nobody: its connections are gone, and so
        // is what was under way.
        drop(orphans);
        self.now = now;
        self.powered = false;
        self.pending.clear();
        self.subsystem.power_lost(now);
        let count = self.present().count();
        self.complaints.line(now, || format!("power lost: {count} connections dropped"));
        for slot in 0..self.top {
            self.close(slot, End::Orderly);
        }
    }

    fn power_restored(&mut self, now: Nanos) {
        self.now = now;
        self.powered = true;
        self.subsystem.power_restored(now);
    }

    fn zones_changed(&mut self, nsid: NamespaceId, zones: &[Lba], now: Nanos) {
        self.now = now;
        self.subsystem.zones_changed(now, nsid, zones);
    }

    fn drain(&mut self, poller: &Poller) -> bool {
        for slot in 0..self.top {
            let Some(client) = &mut self.clients[slot] else { continue };
            if client.drain(poller).unwrap_or(true) {
                self.close(slot, End::Orderly);
            }
        }
        self.top == 0
    }

    fn clients(&self) -> Clients {
        let connected = self.present().filter(|client| !client.surplus).count() as u64;
        Clients { accepted: self.accepted, connected, dropped: self.dropped }
    }
}
