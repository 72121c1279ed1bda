//! The clients of one device, and their turns.

use std::io;

use units::Nanos;

use super::connection::{Connection, End, data_bytes};
use super::export::Exports;
use super::limits::Limits;
use super::transmission::{Ticket, error_of};
use crate::complaints::Complaints;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::front_end::{Clients, FIRST_TOKEN, FrontEnd, Outcome};
use crate::patience::cheapest;
use crate::poller::{Interest, Poller, Ready};
use crate::socket::{Listener, Peer, Socket, is_out_of_descriptors};

const LISTENER: u64 = FIRST_TOKEN;
const FIRST_CONNECTION: u64 = FIRST_TOKEN + 1;

/// How long no client is accepted after one could not be: descriptors or memory
/// have run out, and trying again at once would only fill the log.
const ACCEPT_PAUSE: Nanos = Nanos::from_secs(1);

/// Requests taken from one connection before the others and the device get
/// their turn.
const REQUESTS_PER_TURN: usize = 64;

/// What is remembered of a request in the device.
pub(crate) struct Context {
    slot: usize,
    serial: u64,
    ticket: Ticket,
    data_bytes: usize,
}

/// NBD clients.
pub(crate) struct NbdFrontEnd<'a> {
    exports: Exports,
    limits: Limits,
    complaints: Complaints<'a>,
    listener: Option<Listener>,
    connections: Vec<Option<Connection>>,
    /// Clients to take without a listener.
    adopted: Vec<Socket>,
    next_serial: u64,
    /// When the loop last woke up.
    now: Nanos,
    /// When a client was seen to wait to be accepted.
    accept: Option<Nanos>,
    /// Until when no client is accepted, because one could not be.
    accept_paused_until: Option<Nanos>,
    accepted: u64,
    dropped: u64,
}

impl<'a> NbdFrontEnd<'a> {
    pub(crate) fn new(exports: Exports, limits: Limits, listener: Option<Listener>, log: &'a dyn Fn(&str)) -> Self {
        let mut connections = Vec::new();
        connections.resize_with(limits.connections, || None);
        Self {
            exports,
            limits,
            complaints: Complaints::new(log),
            listener,
            connections,
            adopted: Vec::new(),
            next_serial: 0,
            now: Nanos::ZERO,
            accept: None,
            accept_paused_until: None,
            accepted: 0,
            dropped: 0,
        }
    }

    /// Has a connected client that is taken when the loop begins.
    pub(crate) fn adopt(&mut self, socket: Socket) {
        self.adopted.push(socket);
    }

    /// Takes a connected client.
    fn connect(&mut self, socket: Socket, peer: Peer, poller: &Poller, now: Nanos) -> io::Result<()> {
        let free = self.connections.iter().position(Option::is_none);
        let Some(slot) = free.or_else(|| self.make_room()) else {
            self.dropped += 1;
            let limit = self.connections.len();
            self.complaints.line(now, || format!("{}: turned away, {limit} clients are at work already", peer.name));
            return Ok(());
        };
        poller.add(&socket, FIRST_CONNECTION + slot as u64, Interest::READABLE)?;
        self.accepted += 1;
        self.next_serial += 1;
        let name = format!("{} client {}", peer.name, self.next_serial);
        let peer = Peer { name, ..peer };
        self.connections[slot] = Some(Connection::new(socket, peer, self.next_serial, now, &self.limits));
        self.send_one(slot, poller);
        Ok(())
    }

    /// Takes the place of the client that does the least with it; gives the place.
    fn make_room(&mut self) -> Option<usize> {
        let now = self.now;
        let present = self.connections.iter().enumerate();
        let candidates = present.filter_map(|(slot, client)| {
            client.as_ref().and_then(|client| Some((slot, client.source(), client.cheapness(now)?)))
        });
        let (slot, cheapness) = cheapest(candidates)?;
        self.close(slot, End::Dropped(cheapness.reason().to_owned()));
        Some(slot)
    }

    fn accept_clients(&mut self, poller: &Poller, now: Nanos) {
        // Bounded: the rest is reported by the next wait.
        for _ in 0..self.connections.len() {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    if let Err(error) = self.connect(socket, peer, poller, now) {
                        self.complaints.line(now, || format!("a client was not accepted: {error}"));
                    }
                }
                Ok(None) => return,
                // A client that left before it was accepted is no reason to pause.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Out of descriptors, most likely, of which clients have the most.
                Err(error) if is_out_of_descriptors(&error) && self.make_room().is_some() => {}
                // The clients that are there are served on.
                Err(error) => {
                    self.complaints.line(now, || format!("no client is accepted for {ACCEPT_PAUSE}: {error}"));
                    self.accept_paused_until = Some(now + ACCEPT_PAUSE);
                    self.watch_listener(false, poller);
                    return;
                }
            }
        }
    }

    fn watch_listener(&mut self, readable: bool, poller: &Poller) {
        let Some(listener) = &self.listener else { return };
        if let Err(error) = poller.modify(listener, LISTENER, Interest { readable, writable: false }) {
            self.complaints.line(self.now, || format!("the listening socket cannot be watched: {error}"));
        }
    }

    /// Sends a client what is ready and waits for what it can do next.
    fn send_one(&mut self, slot: usize, poller: &Poller) {
        let Some(connection) = &mut self.connections[slot] else { return };
        if let Err(end) = connection.send(self.now) {
            return self.close(slot, end);
        }
        let wanted = connection.wanted();
        if wanted != connection.interest {
            connection.interest = wanted;
            if let Err(error) = poller.modify(&connection.socket, FIRST_CONNECTION + slot as u64, wanted) {
                self.close(slot, End::Dropped(format!("cannot be watched: {error}")));
            }
        }
    }

    /// Ends a connection; what it has in the device is finished and not answered.
    fn close(&mut self, slot: usize, end: End) {
        // Closing the descriptor removes it from epoll as well.
        let Some(connection) = self.connections[slot].take() else { return };
        if let End::Dropped(reason) = end {
            self.dropped += 1;
            self.complaints.line(self.now, || format!("{}: dropped: {reason}", connection.peer));
        }
    }
}

impl FrontEnd for NbdFrontEnd<'_> {
    type Context = Context;

    fn attach(&mut self, poller: &Poller) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            poller.add(listener, LISTENER, Interest::READABLE)?;
        }
        for socket in std::mem::take(&mut self.adopted) {
            self.connect(socket, Peer::local("calibration"), poller, Nanos::ZERO)?;
        }
        Ok(())
    }

    fn ready(&mut self, event: &Ready, _poller: &Poller, now: Nanos) -> Result<(), ServeError> {
        self.now = now;
        if event.token == LISTENER {
            self.accept = Some(now);
            return Ok(());
        }
        let slot = (event.token - FIRST_CONNECTION) as usize;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { return Ok(()) };
        if event.readable && connection.interest.readable {
            if let Err(end) = connection.receive(now) {
                self.close(slot, end);
            }
        } else if event.hung_up {
            self.close(slot, End::Dropped("hung up with requests outstanding".to_owned()));
        }
        Ok(())
    }

    fn take(&mut self, engine: &mut Engine<Context>) -> Result<bool, ServeError> {
        let now = engine.now();
        self.now = now;
        for slot in 0..self.connections.len() {
            for _ in 0..REQUESTS_PER_TURN {
                let Some(connection) = &mut self.connections[slot] else { break };
                if !connection.is_runnable(&self.limits) {
                    break;
                }
                match connection.next_request(&self.exports, &self.limits) {
                    Ok(Some((ticket, nsid, request))) => {
                        let data_bytes = data_bytes(&request);
                        let context = Context { slot, serial: connection.serial, ticket, data_bytes };
                        engine.submit(now, slot, nsid, request, context);
                    }
                    Ok(None) => break,
                    Err(end) => self.close(slot, end),
                }
            }
        }
        Ok(false)
    }

    fn answer(&mut self, context: Context, outcome: Outcome, _now: Nanos) {
        let Context { slot, serial, ticket, data_bytes } = context;
        let result = outcome.result.map_err(|status| error_of(status, ticket.is_write));
        if let Some(connection) = self.connections[slot].as_mut().filter(|client| client.serial == serial) {
            connection.answer(ticket, data_bytes, result);
        }
    }

    fn send(&mut self, poller: &Poller) -> Result<(), ServeError> {
        for slot in 0..self.connections.len() {
            self.send_one(slot, poller);
        }
        // Last, when those who leave have made room.
        if let Some(now) = self.accept.take() {
            self.accept_clients(poller, now);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.connections.iter().flatten().any(|client| client.is_runnable(&self.limits))
    }

    fn deadline(&self) -> Option<Nanos> {
        let clients = self.connections.iter().flatten();
        let deadlines = clients.filter_map(|client| client.deadline(&self.limits)).map(|(deadline, _)| deadline);
        deadlines.chain(self.accept_paused_until).min()
    }

    fn expire(&mut self, now: Nanos, poller: &Poller) {
        self.now = now;
        for slot in 0..self.connections.len() {
            let deadline = self.connections[slot].as_ref().and_then(|client| client.deadline(&self.limits));
            if let Some((_, what)) = deadline.filter(|(deadline, _)| *deadline <= now) {
                self.close(slot, End::Dropped(what.to_owned()));
            }
        }
        if self.accept_paused_until.is_some_and(|until| until <= now) {
            self.accept_paused_until = None;
            self.watch_listener(true, poller);
        }
    }

    fn power_lost(&mut self, orphans: Vec<Context>, now: Nanos) {
        // NBD has no word for a device that is gone: an error is what a host sees
        // of a drive that vanished.
        for context in orphans {
            let outcome = Outcome { result: Err(nvme::Status::ABORTED_POWER_LOSS), value: 0 };
            self.answer(context, outcome, now);
        }
    }

    fn power_restored(&mut self, _now: Nanos) {}

    fn drain(&mut self, poller: &Poller) -> bool {
        self.complaints.flush();
        for slot in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[slot] else { continue };
            connection.interest = Interest { readable: false, writable: true };
            let token = FIRST_CONNECTION + slot as u64;
            let watched = poller.modify(&connection.socket, token, connection.interest);
            if watched.is_err() || connection.send(self.now).is_err() || connection.is_idle() {
                self.close(slot, End::Orderly);
            }
        }
        self.connections.iter().all(Option::is_none)
    }

    fn clients(&self) -> Clients {
        let connected = self.connections.iter().flatten().count() as u64;
        Clients { accepted: self.accepted, connected, dropped: self.dropped }
    }
}
