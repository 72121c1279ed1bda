//! Who comes in, and who makes room for it.

use std::io;

use units::Nanos;

use super::{FIRST_CLIENT, LISTENER, NvmeTcpFrontEnd, SLOT_BITS, SURPLUS};
use crate::nvme_tcp::client::Client;
use crate::patience::{Cheapness, Kind, cheapest};
use crate::poller::{Interest, Poller};
use crate::socket::{Peer, Socket, is_out_of_descriptors};
use crate::subsystem::{ConnectionId, Standing};

/// How long no client is accepted after one could not be: descriptors or memory
/// have run out, and trying again at once would only fill the log.
const ACCEPT_PAUSE: Nanos = Nanos::from_secs(1);

/// Connections accepted in one turn; the next wait reports the others.
const ACCEPTS_PER_TURN: usize = 64;

impl NvmeTcpFrontEnd<'_> {
    /// Takes a connection that has been accepted.
    pub(super) fn connect(&mut self, socket: Socket, peer: Peer, poller: &Poller) -> io::Result<()> {
        let name = peer.name.clone();
        if !self.powered {
            self.dropped += 1;
            self.complaints.line(self.now, || format!("{name}: turned away, the device has no power"));
            return Ok(());
        }
        let regular = self.clients.len() - SURPLUS;
        if self.clients.iter().take(regular).all(Option::is_some) {
            self.make_room();
        }
        let limit = self.clients.iter().take(regular).flatten().count();
        let Some(slot) = self.clients.iter().position(Option::is_none) else {
            self.dropped += 1;
            self.complaints.line(self.now, || format!("{name}: turned away at once, {limit} are connected already"));
            return Ok(());
        };
        let surplus = slot >= regular;
        let token = FIRST_CLIENT + slot as u64;
        poller.add(&socket, token, Interest::READABLE)?;
        self.next_serial += 1;
        let id = ConnectionId(self.next_serial << SLOT_BITS | slot as u64);
        if surplus {
            self.dropped += 1;
            self.complaints.line(self.now, || format!("{name}: turned away, {limit} are connected already"));
        } else {
            self.accepted += 1;
            self.subsystem.connection_opened(self.now, id, self.local);
        }
        let peer = Peer { name: format!("{name} connection {}", self.next_serial), ..peer };
        self.clients[slot] = Some(Box::new(Client::new(socket, peer, id, token, surplus, self.now)));
        self.top = self.top.max(slot + 1);
        Ok(())
    }

    /// Closes the connection whose host does the least with it; whether there was one.
    fn make_room(&mut self) -> bool {
        let regular = self.clients.len() - SURPLUS;
        let present = self.clients.iter().take(regular).enumerate();
        let candidates = present.filter_map(|(slot, client)| {
            let client = client.as_deref()?;
            let kind = match self.subsystem.standing(client.id) {
                _ if client.is_closing() => Kind::Unknown,
                Standing::Fresh => Kind::Unknown,
                Standing::Unauthenticated => Kind::Unproved,
                Standing::Idle => Kind::Unasking,
                Standing::Established => return None,
            };
            Some((slot, client.source, Cheapness::of(kind, client.moved_at(), self.now)?))
        });
        let Some((slot, cheapness)) = cheapest(candidates) else { return false };
        self.part(slot, Some(cheapness.reason().to_owned()), false);
        true
    }

    pub(super) fn accept_clients(&mut self, poller: &Poller) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    if let Err(error) = self.connect(socket, peer, poller) {
                        self.complaints.line(self.now, || format!("a client was not accepted: {error}"));
                    }
                }
                Ok(None) => return,
                // A client that left before it was accepted is no reason to pause.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Out of descriptors, most likely, of which clients have the most.
                Err(error) if is_out_of_descriptors(&error) && self.make_room() => {}
                // The clients that are there are served on.
                Err(error) => {
                    self.complaints.line(self.now, || format!("no client is accepted for {ACCEPT_PAUSE}: {error}"));
                    self.accept_paused_until = Some(self.now + ACCEPT_PAUSE);
                    self.watch_listener(false, poller);
                    return;
                }
            }
        }
    }

    pub(super) fn watch_listener(&mut self, readable: bool, poller: &Poller) {
        let Some(listener) = &self.listener else { return };
        if let Err(error) = poller.modify(listener, LISTENER, Interest { readable, writable: false }) {
            self.complaints.line(self.now, || format!("the listening socket cannot be watched: {error}"));
        }
    }
}
