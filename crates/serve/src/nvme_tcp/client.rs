//! A connection with its socket and its times.

use std::io::{self, Read};
use std::net::Shutdown;

use units::Nanos;

use super::connection::Connection;
use super::limits::Limits;
use crate::patience::Pace;
use crate::poller::{Interest, Poller};
use crate::socket::{Peer, Socket, Source};
use crate::subsystem::ConnectionId;

/// How long a connection that is over is kept for the host to read the last
/// words: closing with unread input would have TCP take them back. The
/// specification lets the host take 30 s (TCP 3.5.2); it has nothing to do in
/// them.
const LINGER: Nanos = Nanos::from_secs(1);

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The host closed it between two PDUs, or was told to.
    Orderly,
    /// The host went away in the middle of something, or broke the protocol.
    Dropped(String),
}

/// A host's connection on its socket.
pub(super) struct Client {
    pub(super) socket: Socket,
    pub(super) peer: String,
    pub(super) source: Source,
    pub(super) id: ConnectionId,
    pub(super) connection: Connection,
    interest: Interest,
    token: u64,
    /// Accepted beyond the limit, only to be told so.
    pub(super) surplus: bool,
    accepted_at: Nanos,
    pace: Pace,
    /// Set when nothing more is taken: when it is closed at the latest.
    closing: Option<Nanos>,
    /// Whether this end has said that it sends no more.
    shut: bool,
}

impl Client {
    pub(super) fn new(socket: Socket, peer: Peer, id: ConnectionId, token: u64, surplus: bool, now: Nanos) -> Self {
        Self {
            socket,
            peer: peer.name,
            source: peer.source,
            id,
            connection: Connection::new(),
            interest: Interest::READABLE,
            token,
            surplus,
            accepted_at: now,
            pace: Pace::new(now),
            closing: None,
            shut: false,
        }
    }

    /// Reads once.
    pub(super) fn receive(&mut self, now: Nanos) -> Result<(), End> {
        let space = self.connection.space();
        if space.is_empty() {
            return Ok(());
        }
        match (&self.socket).read(space) {
            Ok(0) if self.closing.is_none() && self.connection.is_owed() => {
                Err(End::Dropped("hung up in the middle of a PDU".to_owned()))
            }
            Ok(0) => Err(End::Orderly),
            Ok(count) => {
                self.pace.moved(now, count);
                self.connection.received(count);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(_) if self.closing.is_some() => Err(End::Orderly),
            Err(error) => Err(End::Dropped(format!("read failed: {error}"))),
        }
    }

    /// Whether a descriptor that is readable is to be read.
    pub(super) fn reads(&self) -> bool {
        self.interest.readable
    }

    /// Takes nothing more; the rest of the output still goes out.
    pub(super) fn close_soon(&mut self, now: Nanos) {
        self.connection.end();
        self.closing.get_or_insert(now + LINGER);
    }

    /// When bytes last went either way.
    pub(super) fn moved_at(&self) -> Nanos {
        self.pace.moved_at()
    }

    /// Whether it takes nothing more.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Sends what it can, and changes what the socket is watched for.
    pub(super) fn send(&mut self, poller: &Poller, limits: &Limits, now: Nanos) -> Result<(), End> {
        let unsent = self.connection.unsent_bytes();
        if unsent > 0 {
            self.connection.output().send(&self.socket).map_err(|error| match self.closing {
                Some(_) => End::Orderly,
                None => End::Dropped(format!("write failed: {error}")),
            })?;
            self.pace.moved(now, unsent - self.connection.unsent_bytes());
        }
        self.pace.owes(now, self.connection.unsent_bytes() > 0 || self.connection.is_owed());
        if self.closing.is_some() && self.connection.unsent_bytes() == 0 && !self.shut {
            self.shut = true;
            // A host that has gone already has nothing to be told.
            if finish(&self.socket).is_err() {
                return Err(End::Orderly);
            }
        }
        let wanted =
            Interest { readable: self.connection.wants_input(limits), writable: self.connection.unsent_bytes() > 0 };
        self.watch(wanted, poller)
    }

    /// Sends what it can and reads nothing; whether all has gone.
    pub(super) fn drain(&mut self, poller: &Poller) -> Result<bool, End> {
        let sent = self.connection.output().send(&self.socket);
        sent.map_err(|_| End::Orderly)?;
        self.watch(Interest { readable: false, writable: true }, poller)?;
        Ok(self.connection.unsent_bytes() == 0)
    }

    fn watch(&mut self, wanted: Interest, poller: &Poller) -> Result<(), End> {
        if wanted == self.interest {
            return Ok(());
        }
        self.interest = wanted;
        let watched = poller.modify(&self.socket, self.token, wanted);
        watched.map_err(|error| End::Dropped(format!("cannot be watched: {error}")))
    }

    /// When the host has to have done what is expected of it, and what that is.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<(Nanos, &'static str)> {
        if let Some(closing) = self.closing {
            return Some((closing, "closed"));
        }
        if self.surplus {
            return Some((self.accepted_at + LINGER, "was turned away"));
        }
        if !self.connection.is_ready() {
            return Some((self.accepted_at + limits.handshake, "sent no ICReq in time"));
        }
        let what = match self.connection.unsent_bytes() {
            0 => "does not send what it began or was asked for",
            _ => "does not read its answers",
        };
        self.pace.deadline(limits.stall).map(|deadline| (deadline, what))
    }
}

/// Says that this end sends no more.
fn finish(socket: &Socket) -> io::Result<()> {
    match socket {
        Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
        Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
    }
}
