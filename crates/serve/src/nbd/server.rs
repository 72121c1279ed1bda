//! The event loop: sockets on one side, the device on the other, one thread.

use std::fmt;
use std::io;

use nvme::Status;
use ssd::Device;
use units::Nanos;

use super::calibrate::measure;
use super::connection::{Connection, End, data_bytes};
use crate::error::ServeError;
use super::export::Exports;
use super::listen::{Listen, Listener, Socket};
use super::transmission::{Ticket, error_of};
use crate::backend::{Backend, Reply, Request};
use crate::calibration::{Calibration, Lead};
use crate::clock::WallClock;
use crate::latency::{Latencies, LatencySummary};
use crate::poller::{Interest, Poller, Ready, use_exact_timers};
use crate::stop::Stop;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// How long no client is accepted after one could not be: descriptors or memory
/// have run out, and trying again at once would only fill the log.
const ACCEPT_PAUSE: Nanos = Nanos::from_secs(1);

/// How long clients get to take their last replies on shutdown.
const DRAIN_TIME: Nanos = Nanos::from_secs(2);

/// Requests taken from one connection before the others and the device get
/// their turn.
const REQUESTS_PER_TURN: usize = 64;

/// Bounds on what clients can make the server hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at a time; more are turned away.
    pub connections: usize,
    /// Requests of one client in the device; more are not read from its socket.
    pub outstanding: u32,
    /// Largest read or write in bytes, advertised as the maximum block size.
    pub request_bytes: u32,
    /// How long a client may take to finish the handshake. Afterwards it may be
    /// silent for as long as it likes.
    pub handshake: Nanos,
}

impl Limits {
    /// Data held for one client, in the device and on its way out; a client
    /// that reaches it is not read from. So the server's memory is at most
    /// `connections * (held_bytes + request_bytes)`, whatever clients do.
    pub(crate) fn held_bytes(&self) -> usize {
        2 * self.request_bytes as usize
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, outstanding: 256, request_bytes: 32 << 20, handshake: Nanos::from_secs(10) }
    }
}

/// How to serve.
pub struct ServeOptions {
    /// Refuse everything that changes the device.
    pub read_only: bool,
    /// How long before an answer is due the server stops sleeping and watches
    /// the clock. Zero sleeps always; calibration makes up for the median
    /// delay of waking up, and only its spread remains.
    pub spin: Nanos,
    /// Whether to measure the cost of serving first, for about half a second, and
    /// give answers early by as much. What a client does to the machine meanwhile
    /// spoils the measurement: start it when the log says that the server is ready.
    pub calibrate: bool,
    /// Bounds on what clients can make the server hold.
    pub limits: Limits,
    /// Takes one line for each thing an operator should know: that calibration
    /// is over and clients are answered, warnings, and clients dropped.
    pub log: Box<dyn Fn(&str)>,
}

impl Default for ServeOptions {
    /// Read and write, no spinning, calibrated, log lines to standard error.
    fn default() -> Self {
        Self {
            read_only: false,
            spin: Nanos::ZERO,
            calibrate: true,
            limits: Limits::default(),
            log: Box::new(|line| eprintln!("{line}")),
        }
    }
}

/// What was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// Clients accepted.
    pub connections: u64,
    /// Clients dropped for what they did.
    pub dropped: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Modelled latency, and how far serving was off.
    pub latency: LatencySummary,
    /// What answers were given early by.
    pub calibration: Calibration,
    /// The device's counters.
    pub counters: Vec<(String, u64)>,
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "served {} connections ({} dropped), {} bytes read, {} bytes written, {} errors",
            self.connections, self.dropped, self.read_bytes, self.written_bytes, self.errors
        )?;
        writeln!(f, "{}", self.latency)?;
        write!(f, "  {}", self.calibration)
    }
}

/// A bound server.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Binds the address, so that clients can connect (and wait) from here on.
    ///
    /// The socket file of a server that was killed is replaced; anything else
    /// in its place is an error. The file is removed when the server is dropped.
    ///
    /// # Errors
    ///
    /// When the address is taken or cannot be had.
    pub fn bind(listen: &Listen) -> Result<Self, ServeError> {
        Ok(Self { listener: Listener::bind(listen)? })
    }

    /// The address as an NBD URI (`nbdinfo URI`), with the port the system chose.
    pub fn uri(&self) -> String {
        self.listener.uri()
    }

    /// Serves `device` until somebody asks through `stop`: then nothing new is
    /// read, what is outstanding is answered, and the device is flushed.
    ///
    /// # Errors
    ///
    /// When the device cannot be served over NBD, the loop itself fails, or the
    /// device fails its last flush. What a client does wrong is no error: it is
    /// dropped with a log line.
    pub fn run(self, device: Box<dyn Device>, options: &ServeOptions, stop: &Stop) -> Result<ServeReport, ServeError> {
        if self.listener.is_remote() {
            (options.log)(
                "warning: NBD has no authentication; every machine that reaches this port can read and write the device",
            );
        }
        if !device.identity().keeps_contents {
            (options.log)("warning: the device keeps no contents; everything reads as zeroes");
        }
        let calibration = if options.calibrate {
            measure(options, self.listener.is_tcp())?
        } else {
            Calibration::default()
        };
        let mut event_loop = EventLoop::new(device, options, calibration)?;
        (options.log)(&format!("ready at {}; {calibration}", self.listener.uri()));
        event_loop.run(Some(self.listener), stop)?;
        event_loop.shut_down()
    }
}

/// What the server remembers of a request in the device.
struct Context {
    slot: usize,
    serial: u64,
    ticket: Ticket,
    data_bytes: usize,
    seen_at: Nanos,
}

/// A device and its clients.
pub(crate) struct EventLoop<'a> {
    backend: Backend<Context>,
    exports: Exports,
    options: &'a ServeOptions,
    calibration: Calibration,
    lead: Lead,
    poller: Poller,
    clock: WallClock,
    connections: Vec<Option<Connection>>,
    next_serial: u64,
    latencies: Latencies,
    replies: Vec<Reply<Context>>,
    /// Until when no client is accepted, because one could not be.
    accept_paused_until: Option<Nanos>,
    accepted: u64,
    dropped: u64,
    read_bytes: u64,
    written_bytes: u64,
    errors: u64,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        device: Box<dyn Device>,
        options: &'a ServeOptions,
        calibration: Calibration,
    ) -> Result<Self, ServeError> {
        let exports = Exports::of(device.identity(), options.read_only, options.limits.request_bytes)?;
        let poller = Poller::new().map_err(|source| ServeError::Loop { action: "creating epoll", source })?;
        let mut connections = Vec::new();
        connections.resize_with(options.limits.connections, || None);
        Ok(Self {
            backend: Backend::new(device),
            exports,
            options,
            calibration,
            lead: Lead::new(calibration),
            poller,
            clock: WallClock::start(),
            connections,
            next_serial: 0,
            latencies: Latencies::new(calibration.transport),
            replies: Vec::new(),
            accept_paused_until: None,
            accepted: 0,
            dropped: 0,
            read_bytes: 0,
            written_bytes: 0,
            errors: 0,
        })
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Takes a connected client.
    pub(crate) fn adopt(&mut self, socket: Socket, peer: String) -> io::Result<()> {
        let Some(slot) = self.connections.iter().position(Option::is_none) else {
            self.dropped += 1;
            let limit = self.connections.len();
            (self.options.log)(&format!("{peer}: turned away, {limit} clients are connected already"));
            return Ok(());
        };
        self.poller.add(&socket, FIRST_CONNECTION + slot as u64, Interest::READABLE)?;
        self.accepted += 1;
        self.next_serial += 1;
        let deadline = self.clock.now() + self.options.limits.handshake;
        let peer = format!("{peer} client {}", self.next_serial);
        self.connections[slot] = Some(Connection::new(socket, peer, self.next_serial, deadline));
        self.send(slot);
        Ok(())
    }

    /// Serves until asked to stop.
    pub(crate) fn run(&mut self, listener: Option<Listener>, stop: &Stop) -> Result<(), ServeError> {
        let fail = |action| move |source| ServeError::Loop { action, source };
        use_exact_timers();
        self.poller.add(stop, STOP, Interest::READABLE).map_err(fail("watching for the end"))?;
        if let Some(listener) = &listener {
            self.poller.add(listener, LISTENER, Interest::READABLE).map_err(fail("watching for clients"))?;
        }
        let mut ready: Vec<Ready> = Vec::new();
        let mut busy = false;
        loop {
            let timeout = if busy { Some(Nanos::ZERO) } else { self.timeout() };
            ready.clear();
            self.poller.wait(timeout, &mut ready).map_err(fail("waiting"))?;
            let now = self.clock.now();
            let mut accept = false;
            for event in &ready {
                match event.token {
                    LISTENER => accept = true,
                    STOP if stop.take() => return Ok(()),
                    STOP => {}
                    token => self.receive((token - FIRST_CONNECTION) as usize, event),
                }
            }
            self.take_requests(now);
            busy = self.backend.advance(self.clock.now() + self.lead.now(), &mut self.replies);
            self.answer();
            self.send_all();
            // Buffered requests that waited for the replies just sent have no
            // event to announce them.
            busy |= self.connections.iter().flatten().any(|client| client.is_runnable(&self.options.limits));
            self.drop_late_handshakes(now);
            if let Some(listener) = &listener {
                if accept {
                    self.accept(listener);
                }
                self.watch(listener, now).map_err(fail("watching for clients"))?;
            }
        }
    }

    /// How long nothing can happen unless a socket says so.
    fn timeout(&self) -> Option<Nanos> {
        let device = self.backend.next_event().map(|due| due.since(self.lead.now() + self.options.spin));
        let handshake = self.connections.iter().flatten().filter_map(|connection| connection.handshake_deadline).min();
        let next = device.into_iter().chain(handshake).chain(self.accept_paused_until).min()?;
        Some(next.since(self.clock.now()))
    }

    fn accept(&mut self, listener: &Listener) {
        // Bounded: the rest is reported by the next wait.
        for _ in 0..self.connections.len() {
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    if let Err(error) = self.adopt(socket, peer) {
                        (self.options.log)(&format!("a client was not accepted: {error}"));
                    }
                }
                Ok(None) => return,
                // The clients that are there are served on.
                Err(error) => {
                    (self.options.log)(&format!("no client is accepted for {ACCEPT_PAUSE}: {error}"));
                    self.accept_paused_until = Some(self.clock.now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Stops and starts waiting for clients as the pause begins and ends.
    fn watch(&mut self, listener: &Listener, now: Nanos) -> io::Result<()> {
        let Some(until) = self.accept_paused_until else { return Ok(()) };
        let over = until <= now;
        if over {
            self.accept_paused_until = None;
        }
        self.poller.modify(listener, LISTENER, Interest { readable: over, writable: false })
    }

    fn receive(&mut self, slot: usize, event: &Ready) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { return };
        if event.readable && connection.interest.readable {
            if let Err(end) = connection.receive() {
                self.close(slot, end);
            }
        } else if event.hung_up {
            self.close(slot, End::Dropped("hung up with requests outstanding".to_owned()));
        }
    }

    /// Moves requests from the clients into the device.
    fn take_requests(&mut self, now: Nanos) {
        for slot in 0..self.connections.len() {
            let mut turn = 0;
            while let Some(connection) = &mut self.connections[slot] {
                if turn == REQUESTS_PER_TURN || !connection.is_runnable(&self.options.limits) {
                    break;
                }
                turn += 1;
                match connection.next_request(&self.exports, &self.options.limits) {
                    Ok(Some((ticket, nsid, request))) => {
                        let context = Context {
                            slot,
                            serial: connection.serial,
                            ticket,
                            data_bytes: data_bytes(&request),
                            seen_at: now,
                        };
                        match &request {
                            Request::Read { length, .. } => self.read_bytes += u64::from(*length),
                            Request::Write { data, .. } => self.written_bytes += data.len() as u64,
                            _ => {}
                        }
                        self.backend.submit(now, slot, nsid, request, context, &mut self.replies);
                    }
                    Ok(None) => break,
                    Err(end) => self.close(slot, end),
                }
            }
        }
    }

    fn answer(&mut self) {
        if self.replies.is_empty() {
            return;
        }
        let now = self.clock.now();
        for reply in self.replies.drain(..) {
            self.latencies.record(reply.modelled_latency(), now.since(reply.context.seen_at));
            let Context { slot, serial, ticket, data_bytes, seen_at } = reply.context;
            self.lead.learn(seen_at, reply.completed_at, now);
            self.errors += u64::from(reply.result.is_err());
            let result = reply.result.map_err(|status| error_of(status, ticket.is_write));
            if let Some(connection) = self.connections[slot].as_mut().filter(|client| client.serial == serial) {
                connection.answer(ticket, data_bytes, result);
            }
        }
    }

    fn send_all(&mut self) {
        for slot in 0..self.connections.len() {
            self.send(slot);
        }
    }

    /// Sends a client what is ready and waits for what it can do next.
    fn send(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else { return };
        if let Err(end) = connection.send() {
            return self.close(slot, end);
        }
        let wanted = connection.wanted();
        if wanted != connection.interest {
            connection.interest = wanted;
            if let Err(error) = self.poller.modify(&connection.socket, FIRST_CONNECTION + slot as u64, wanted) {
                self.close(slot, End::Dropped(format!("cannot be watched: {error}")));
            }
        }
    }

    fn drop_late_handshakes(&mut self, now: Nanos) {
        for slot in 0..self.connections.len() {
            let deadline = self.connections[slot].as_ref().and_then(|connection| connection.handshake_deadline);
            if deadline.is_some_and(|deadline| deadline <= now) {
                let limit = self.options.limits.handshake;
                self.close(slot, End::Dropped(format!("no complete handshake within {limit}")));
            }
        }
    }

    /// Ends a connection; what it has in the device is finished and not answered.
    fn close(&mut self, slot: usize, end: End) {
        let Some(connection) = self.connections[slot].take() else { return };
        // Closing the descriptor removes it from epoll as well.
        let _ = self.poller.remove(&connection.socket);
        if let End::Dropped(reason) = end {
            self.dropped += 1;
            (self.options.log)(&format!("{}: dropped: {reason}", connection.peer));
        }
    }

    /// Finishes what is outstanding, lets clients take their replies, and
    /// commits the device's cache.
    fn shut_down(mut self) -> Result<ServeReport, ServeError> {
        let status = self.backend.shut_down(&mut self.replies);
        self.answer();
        let deadline = self.clock.now() + DRAIN_TIME;
        let mut ready = Vec::new();
        loop {
            for slot in 0..self.connections.len() {
                let Some(connection) = &mut self.connections[slot] else { continue };
                connection.interest = Interest { readable: false, writable: true };
                let token = FIRST_CONNECTION + slot as u64;
                let watched = self.poller.modify(&connection.socket, token, connection.interest);
                if watched.is_err() || connection.send().is_err() || connection.is_idle() {
                    self.close(slot, End::Orderly);
                }
            }
            let now = self.clock.now();
            if self.connections.iter().all(Option::is_none) || now >= deadline {
                break;
            }
            ready.clear();
            let wait = self.poller.wait(Some(deadline.since(now)), &mut ready);
            wait.map_err(|source| ServeError::Loop { action: "sending the last replies", source })?;
        }
        if status != Status::SUCCESS {
            return Err(ServeError::LastFlush { status });
        }
        Ok(ServeReport {
            connections: self.accepted,
            dropped: self.dropped,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            errors: self.errors,
            latency: self.latencies.summary(),
            calibration: self.calibration,
            counters: self.backend.counters(),
        })
    }
}
