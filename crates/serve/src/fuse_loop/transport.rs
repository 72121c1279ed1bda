//! How requests come from the kernel and answers go back: `/dev/fuse`, and an
//! io_uring beside it where the kernel has that.

use std::io;
use std::os::fd::AsFd;

use zerocopy::IntoBytes;

use super::abi::OutHeader;
use super::channel::{Channel, Received};
use super::disk::MAX_TRANSFER_BYTES;
use super::error::LoopError;
use super::request::{HEADER_ROOM_BYTES, Incoming, parse};
use super::ring_channel::{Enabled, Fetched, RingChannel};
use crate::front_end::FIRST_TOKEN;
use crate::poller::{Interest, Poller};

/// The descriptors' tokens with the poller.
pub(super) const CHANNEL: u64 = FIRST_TOKEN;
const RING: u64 = FIRST_TOKEN + 1;
/// The first token that is free for others.
pub(super) const NEXT_TOKEN: u64 = FIRST_TOKEN + 2;

/// Where a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// In the buffer, so many bytes.
    Device(usize),
    /// In this entry of the ring.
    Ring(u32),
}

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    unique: u64,
    /// The ring's entry that the request is in, if that is how it came.
    entry: Option<u32>,
}

/// Both ways to the kernel, as one.
pub(crate) struct Transport {
    /// Before the device, whose connection it uses.
    ring: Option<RingChannel>,
    channel: Channel,
    buffer: Box<[u8]>,
    /// While INIT has not been answered.
    enabled: Option<Enabled>,
    /// Whether requests come through the ring.
    through_ring: bool,
    readable: bool,
    connected: bool,
    failure: Option<LoopError>,
}

impl Transport {
    /// Opens `/dev/fuse`, and a ring if one is wanted and there is one.
    pub(crate) fn open(io_uring: bool) -> Result<Self, LoopError> {
        let channel = Channel::open().map_err(|source| {
            let path = "/dev/fuse".into();
            match source.kind() {
                io::ErrorKind::NotFound => LoopError::Missing { path, mend: "`modprobe fuse` may bring it" },
                _ => LoopError::Refused { path, source },
            }
        })?;
        let enabled = if io_uring { Enabled::new() } else { None };
        // Without one everything works, at a higher cost for each request.
        let ring = enabled.as_ref().and_then(|_| RingChannel::new(MAX_TRANSFER_BYTES as usize).ok().flatten());
        Ok(Self {
            enabled: enabled.filter(|_| ring.is_some()),
            ring,
            channel,
            buffer: vec![0; HEADER_ROOM_BYTES + MAX_TRANSFER_BYTES as usize].into_boxed_slice(),
            through_ring: false,
            readable: true,
            connected: true,
            failure: None,
        })
    }

    /// The device, to mount with.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether there is a ring that a connection could use.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether the connection is still there.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether requests come through the ring, once INIT has been answered.
    pub(crate) fn is_through_ring(&self) -> bool {
        self.through_ring
    }

    /// Has the poller watch for requests.
    pub(crate) fn attach(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.channel, CHANNEL, Interest::READABLE)?;
        self.ring.as_ref().map_or(Ok(()), |ring| poller.add(ring, RING, Interest::READABLE))
    }

    /// INIT has been answered; what comes now comes through the ring, if that was
    /// agreed on. From the thread that serves.
    pub(crate) fn agreed(&mut self, through_ring: bool) {
        if through_ring && let Some(ring) = &mut self.ring {
            // The kernel goes on with `/dev/fuse` when the first entry is refused.
            self.through_ring = ring.register(self.channel.as_fd()).is_ok();
        }
        if !self.through_ring {
            self.ring = None;
        }
        self.enabled = None;
    }

    /// Something has come through `/dev/fuse`.
    pub(crate) fn device_is_readable(&mut self) {
        self.readable = true;
    }

    /// Where the next request is, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Source>, LoopError> {
        let failed = |error: io::Error| LoopError::Protocol { what: format!("a request cannot be read: {error}") };
        if self.through_ring
            && let Some(ring) = &mut self.ring
        {
            match ring.next().map_err(failed)? {
                Some(Fetched::Request(entry)) => return Ok(Some(Source::Ring(entry))),
                Some(Fetched::Ended) => {
                    self.connected = false;
                    return Ok(None);
                }
                None => {}
            }
        }
        if !self.readable {
            return Ok(None);
        }
        match self.channel.receive(&mut self.buffer).map_err(failed)? {
            Received::Request(length) => return Ok(Some(Source::Device(length))),
            Received::Nothing => {}
            Received::Ended => self.connected = false,
        }
        self.readable = false;
        Ok(None)
    }

    /// What a request asks, and where its answer belongs.
    pub(crate) fn request(&self, source: Source) -> Result<(Incoming<'_>, ReplyTo), LoopError> {
        let (parsed, entry) = match source {
            Source::Device(length) => (parse(self.buffer.get(..length).unwrap_or_default()), None),
            Source::Ring(entry) => match &self.ring {
                Some(ring) => (ring.request(entry), Some(entry)),
                None => return Err(LoopError::Protocol { what: "there is no ring".to_owned() }),
            },
        };
        let incoming = parsed.map_err(|error| LoopError::Protocol { what: error.to_string() })?;
        let reply_to = ReplyTo { unique: incoming.unique, entry };
        Ok((incoming, reply_to))
    }

    /// Answers a request with a body, or with an error number. Through the ring it
    /// leaves with the next [`send`](Self::send).
    pub(crate) fn reply(&mut self, to: ReplyTo, answer: Result<&[u8], i32>) {
        let body = answer.unwrap_or_default();
        let header = OutHeader {
            // A body is at most a transfer of 1 MiB.
            len: (size_of::<OutHeader>() + body.len()) as u32,
            error: answer.err().map_or(0, |number| -number),
            unique: to.unique,
        };
        let replied = match (to.entry, &mut self.ring) {
            (Some(entry), Some(ring)) => ring.reply(self.channel.as_fd(), entry, header, body).map(|()| true),
            _ => self.channel.reply(header.as_bytes(), body),
        };
        match replied {
            Ok(connected) => self.connected &= connected,
            Err(error) => {
                self.failure = Some(LoopError::Protocol { what: format!("a reply was refused: {error}") });
            }
        }
    }

    /// Lets queued answers leave.
    pub(crate) fn send(&mut self) -> Result<(), LoopError> {
        if let Some(ring) = &mut self.ring
            && let Err(error) = ring.submit()
        {
            self.failure.get_or_insert(LoopError::Protocol { what: format!("replies were refused: {error}") });
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether there may be more requests at once.
    pub(crate) fn has_more(&mut self) -> bool {
        self.readable || self.ring.as_mut().is_some_and(RingChannel::is_ready)
    }
}
