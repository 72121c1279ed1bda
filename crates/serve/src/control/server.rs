//! The socket and its clients, within the event loop.

use std::io::{self, Read};
use std::path::Path;

use units::Nanos;

use super::line::{Lines, TooLong};
use super::message::{Reply, Request};
use crate::error::ServeError;
use crate::output::Output;
use crate::patience::{Cheapness, Kind, cheapest};
use crate::poller::{Interest, Poller, Ready};
use crate::socket::{Listener, Socket, is_out_of_descriptors};

/// Clients at a time. Another one gets the place of one that has been silent.
const MAX_CLIENTS: usize = 16;
/// Longest request.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// A client that has so much to read is not read from.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// The control socket. Its tokens are those from `first_token` on.
pub(crate) struct ControlServer {
    listener: Listener,
    clients: Vec<Option<ControlClient>>,
    first_token: u64,
    buffer: Box<[u8]>,
    /// Until when no client is accepted, because one could not be.
    accept_paused_until: Option<Nanos>,
}

/// How long no client is accepted after one could not be: descriptors or memory have
/// run out.
const ACCEPT_PAUSE: Nanos = Nanos::from_secs(1);

struct ControlClient {
    socket: Socket,
    lines: Lines,
    output: Output,
    interest: Interest,
    /// Nothing more is read; it goes when it has its replies.
    closing: bool,
    /// When bytes last went either way.
    moved_at: Nanos,
}

impl ControlClient {
    fn is_runnable(&self) -> bool {
        !self.closing && self.output.len() < MAX_UNREAD_BYTES && self.lines.has_line()
    }

    fn wanted(&self) -> Interest {
        let readable = !self.closing && self.output.len() < MAX_UNREAD_BYTES && !self.lines.has_line();
        Interest { readable, writable: self.output.len() > 0 }
    }
}

impl ControlServer {
    /// Listens at `path`; tokens from `first_token` on are its own.
    pub(crate) fn bind(path: &Path, first_token: u64) -> Result<Self, ServeError> {
        let listener = Listener::unix(path)?;
        let mut clients = Vec::new();
        clients.resize_with(MAX_CLIENTS, || None);
        Ok(Self { listener, clients, first_token, buffer: vec![0; READ_BYTES].into(), accept_paused_until: None })
    }

    /// Starts watching for clients.
    pub(crate) fn attach(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.listener, self.first_token, Interest::READABLE)
    }

    /// A descriptor became ready.
    pub(crate) fn ready(&mut self, event: &Ready, poller: &Poller, now: Nanos) {
        let at = event.token - self.first_token;
        if at == 0 {
            return self.accept(poller, now);
        }
        let slot = at as usize - 1;
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        if event.readable && client.interest.readable {
            match (&client.socket).read(&mut self.buffer) {
                // A client that closes its half still gets its replies.
                Ok(0) => client.closing = true,
                Ok(count) => {
                    client.moved_at = now;
                    client.lines.push(self.buffer.get(..count).unwrap_or_default());
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => self.close(slot),
            }
        } else if event.hung_up {
            self.close(slot);
        }
    }

    fn accept(&mut self, poller: &Poller, now: Nanos) {
        // Bounded: the rest is reported by the next wait.
        for _ in 0..MAX_CLIENTS {
            let socket = match self.listener.accept() {
                Ok(Some((socket, _))) => socket,
                Ok(None) => return,
                // A client that left before it was accepted is no reason to pause.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if is_out_of_descriptors(&error) && self.make_room(now).is_some() => continue,
                Err(_) => {
                    self.accept_paused_until = Some(now + ACCEPT_PAUSE);
                    return self.watch(poller, false);
                }
            };
            let free = self.clients.iter().position(Option::is_none);
            let Some(slot) = free.or_else(|| self.make_room(now)) else {
                turn_away(&socket);
                continue;
            };
            if poller.add(&socket, self.first_token + 1 + slot as u64, Interest::READABLE).is_ok() {
                self.clients[slot] = Some(ControlClient {
                    socket,
                    lines: Lines::new(MAX_LINE_BYTES),
                    output: Output::default(),
                    interest: Interest::READABLE,
                    closing: false,
                    moved_at: now,
                });
            }
        }
    }

    /// Takes the place of the client that has been silent for the longest, if that is a
    /// moment; gives the place.
    fn make_room(&mut self, now: Nanos) -> Option<usize> {
        let present = self.clients.iter().enumerate();
        let candidates = present.filter_map(|(slot, client)| {
            Some((slot, (), Cheapness::of(Kind::Unasking, client.as_ref()?.moved_at, now)?))
        });
        let (slot, _) = cheapest(candidates)?;
        self.close(slot);
        Some(slot)
    }

    /// When clients are accepted again, if they are not now.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.accept_paused_until
    }

    fn watch(&self, poller: &Poller, readable: bool) {
        // A listener that cannot be watched leaves the device served, without more
        // control clients.
        let _ = poller.modify(&self.listener, self.first_token, Interest { readable, writable: false });
    }

    fn close(&mut self, slot: usize) {
        // Closing the descriptor removes it from epoll as well.
        self.clients[slot] = None;
    }

    /// Answers one request of each client that has one.
    pub(crate) fn turn(&mut self, mut execute: impl FnMut(Request) -> Reply) {
        for client in self.clients.iter_mut().flatten() {
            if !client.is_runnable() {
                continue;
            }
            let reply = match client.lines.next() {
                Ok(Some(line)) => match parse(line) {
                    Ok(request) => execute(request),
                    Err(error) => Reply::failed(error),
                },
                Ok(None) => continue,
                Err(TooLong) => {
                    client.closing = true;
                    Reply::failed(format_args!("a request is longer than {MAX_LINE_BYTES} bytes; the connection ends"))
                }
            };
            push(&mut client.output, &reply);
        }
        // A line that is too long may never end.
        for client in self.clients.iter_mut().flatten() {
            if !client.closing && !client.lines.has_line() && client.lines.next() == Err(TooLong) {
                client.closing = true;
                push(
                    &mut client.output,
                    &Reply::failed(format_args!("a request is longer than {MAX_LINE_BYTES} bytes")),
                );
            }
        }
    }

    /// Whether requests are at hand that no descriptor will announce.
    pub(crate) fn has_more(&self) -> bool {
        self.clients.iter().flatten().any(ControlClient::is_runnable)
    }

    /// Sends what clients take; says whether everything has gone out.
    pub(crate) fn send(&mut self, poller: &Poller, now: Nanos) -> bool {
        if self.accept_paused_until.is_some_and(|until| until <= now) {
            self.accept_paused_until = None;
            self.watch(poller, true);
        }
        let mut all = true;
        for slot in 0..self.clients.len() {
            let Some(client) = &mut self.clients[slot] else { continue };
            let unsent = client.output.len();
            let sent = client.output.send(&client.socket);
            if client.output.len() < unsent {
                client.moved_at = now;
            }
            let gone = client.closing && client.output.len() == 0;
            if sent.is_err() || gone {
                self.close(slot);
                continue;
            }
            all &= client.output.len() == 0;
            let wanted = client.wanted();
            if wanted != client.interest {
                client.interest = wanted;
                if poller.modify(&client.socket, self.first_token + 1 + slot as u64, wanted).is_err() {
                    self.close(slot);
                }
            }
        }
        all
    }
}

/// Tells a client for whom there is no place, as far as its socket takes it at once.
fn turn_away(socket: &Socket) {
    let mut output = Output::default();
    push(&mut output, &Reply::failed(format_args!("{MAX_CLIENTS} clients are at work already; try again")));
    let _ = output.send(socket);
}

fn push(output: &mut Output, reply: &Reply) {
    // A reply is made of maps with text keys and of numbers: it can be written.
    let Ok(mut line) = serde_json::to_vec(reply) else { return };
    line.push(b'\n');
    output.push_owned(line.into());
}

/// A request out of a line.
pub(super) fn parse(line: &[u8]) -> Result<Request, String> {
    serde_json::from_slice(line).map_err(|error| {
        format!("not a request: {error}; a request is a JSON object on one line, such as {{\"command\":\"status\"}}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ssd::faults::{Effect, Fault, FaultId, Operation};

    use super::super::message::ZoneEventKind;
    use super::*;
    use crate::power::Survival;

    fn request() -> impl Strategy<Value = Request> {
        let survival = prop_oneof![
            Just(Survival::None),
            Just(Survival::All),
            any::<u64>().prop_map(|seed| Survival::Random { seed }),
            any::<u64>().prop_map(|writes| Survival::Prefix { writes }),
        ];
        let fault =
            (1..u64::MAX, proptest::option::of(any::<u64>()), 0.0..1.0).prop_map(|(nth, times, probability)| Fault {
                nth,
                times,
                probability,
                operations: vec![Operation::Read, Operation::ZoneSend],
                ..Fault::new(Effect::error(nvme::Status::WRITE_FAULT)).on(4, nth)
            });
        prop_oneof![
            Just(Request::Status),
            Just(Request::PowerOn),
            Just(Request::Faults),
            Just(Request::Stop),
            (survival, any::<bool>()).prop_map(|(survive, off)| Request::PowerCut { survive, off }),
            fault.prop_map(|fault| Request::Inject { fault }),
            proptest::option::of(any::<u32>()).prop_map(|id| Request::Clear { id: id.map(FaultId) }),
            any::<[u32; 3]>().prop_map(|[nsid, from, count]| Request::Zones { nsid, from, count }),
            any::<[u32; 2]>().prop_map(|[nsid, zone]| Request::ZoneEvent {
                nsid,
                zone,
                event: ZoneEventKind::FinishRecommended
            }),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive_their_text(request in request()) {
            let text = serde_json::to_string(&request).unwrap();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(parse(text.as_bytes()), Ok(request), "{}", text);
        }

        /// Arbitrary bytes, and requests with some bytes changed, are understood or
        /// refused in words.
        #[test]
        fn arbitrary_bytes(request in request(), at in any::<prop::sample::Index>(), byte: u8, noise: Vec<u8>) {
            if let Err(error) = parse(&noise) {
                prop_assert!(error.contains("not a request"));
            }
            let mut text = serde_json::to_vec(&request).unwrap();
            let at = at.index(text.len());
            text[at] = byte;
            let _ = parse(&text);
            let _ = parse(&text[..at]);
        }
    }

    #[test]
    fn short_forms() {
        let request = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(request(r#"{"command":"power-cut"}"#), Request::PowerCut { survive: Survival::None, off: false });
        assert_eq!(request(r#"{"command":"clear"}"#), Request::Clear { id: None });
        assert_eq!(request(r#"{"command":"zones"}"#), Request::Zones { nsid: 1, from: 0, count: 4096 });
        let fault = r#"{"command":"inject","fault":{"effect":{"kind":"media"},"lbas":[8,1]}}"#;
        let Request::Inject { fault } = request(fault) else { panic!("{fault}") };
        assert_eq!((fault.nth, fault.every, fault.times, fault.probability), (1, 1, None, 1.0));
        for bad in
            ["", "[]", "1", r#"{"command":"reboot"}"#, r#"{"command":"clear","Id":1}"#, r#"{"command":"status"} x"#]
        {
            assert!(parse(bad.as_bytes()).is_err(), "{bad} was accepted");
        }
    }
}
