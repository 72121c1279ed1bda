//! How requests come from the kernel and answers go back: `/dev/fuse`, and an
//! io_uring beside it where the kernel has that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::abi::init::InitOut;
use crate::agreement::{self, Agreed, Answer, MAX_TRANSFER_BYTES, Wish};
use crate::channel::{Channel, Received};
use crate::error::FuseError;
use crate::request::{HEADER_ROOM_BYTES, Init, Operation, Parts};
use crate::ring_channel::{Enabled, Fetched, RingChannel};

/// Where a request is.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// In the buffer, so many bytes.
    Device(usize),
    /// In this entry of the ring.
    Ring(u32),
}

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTo {
    unique: u64,
    /// The ring's entry that the request is in, if that is how it came.
    entry: Option<u32>,
}

/// One request of the kernel.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The node it is about.
    pub node: u64,
    /// What is asked.
    pub operation: Operation<'a>,
    /// For the answer, if one is taken ([`Operation::is_answered`]).
    pub reply_to: ReplyTo,
}

/// Both ways to the kernel, as one.
pub struct Transport {
    /// Before the device, whose connection it uses.
    ring: Option<RingChannel>,
    channel: Channel,
    buffer: Box<[u8]>,
    /// While the terms are not agreed on.
    enabled: Option<Enabled>,
    /// The terms, once there are any. Requests come through the ring if they say so.
    agreed: Option<Agreed>,
    readable: bool,
    connected: bool,
    failure: Option<FuseError>,
}

impl Transport {
    /// Opens `/dev/fuse`, and a ring if one is wanted and there is one.
    ///
    /// # Errors
    ///
    /// When `/dev/fuse` is missing or may not be opened.
    pub fn open(io_uring: bool) -> Result<Self, FuseError> {
        let channel = Channel::open(false)?;
        let enabled = if io_uring { Enabled::new() } else { None };
        // Without one everything works, at a higher cost for each request.
        let ring = enabled.as_ref().and_then(|_| RingChannel::new(MAX_TRANSFER_BYTES as usize).ok().flatten());
        Ok(Self {
            enabled: enabled.filter(|_| ring.is_some()),
            ring,
            channel,
            buffer: vec![0; HEADER_ROOM_BYTES + MAX_TRANSFER_BYTES as usize].into_boxed_slice(),
            agreed: None,
            readable: true,
            connected: true,
            failure: None,
        })
    }

    /// The device, to mount with and to wait for: when it is readable, [`device_is_readable`](Self::device_is_readable) wants to
    /// be told.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// The ring, if a connection could use one. Its descriptor ends a wait when something has come; [`receive`](Self::receive)
    /// looks into it anyway.
    pub fn ring(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(AsFd::as_fd)
    }

    /// Whether the connection is still there.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether requests come through the ring, once the terms are agreed on.
    pub fn is_through_ring(&self) -> bool {
        self.agreed.is_some_and(|agreed| agreed.through_ring)
    }

    /// Something has come through `/dev/fuse`.
    pub fn device_is_readable(&mut self) {
        self.readable = true;
    }

    /// The next request, if there is one. Always from the same thread, to which the kernel gives what comes through the ring.
    ///
    /// # Errors
    ///
    /// When what has come is no request, or the kernel lacks what is needed.
    pub fn receive(&mut self) -> Result<Option<Incoming<'_>>, FuseError> {
        let source = loop {
            let Some(source) = self.fetch()? else { return Ok(None) };
            if self.agreed.is_some() {
                break source;
            }
            let parts = self.parts(source)?;
            match (parts.header.unique, parts.init().map_err(FuseError::protocol)?) {
                (unique, Some(offer)) => self.agree(unique, &offer)?,
                (_, None) => break source,
            }
        };
        let parts = self.parts(source)?;
        let entry = match source {
            Source::Device(_) => None,
            Source::Ring(entry) => Some(entry),
        };
        Ok(Some(Incoming {
            node: parts.header.nodeid,
            operation: parts.operation().map_err(FuseError::protocol)?,
            reply_to: ReplyTo { unique: parts.header.unique, entry },
        }))
    }

    /// Where the next request is.
    fn fetch(&mut self) -> Result<Option<Source>, FuseError> {
        let failed = |error: io::Error| FuseError::protocol(format_args!("a request cannot be read: {error}"));
        if self.is_through_ring()
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

    /// The parts of a request.
    fn parts(&self, source: Source) -> Result<Parts<'_>, FuseError> {
        let shape = self.agreed.unwrap_or_default().shape;
        match source {
            Source::Device(length) => {
                Parts::of(self.buffer.get(..length).unwrap_or_default(), shape).map_err(FuseError::protocol)
            }
            Source::Ring(entry) => {
                let ring = self.ring.as_ref().ok_or_else(|| FuseError::protocol("there is no ring"))?;
                ring.parts(entry, shape).map_err(FuseError::protocol)
            }
        }
    }

    /// Answers an INIT; what comes then comes through the ring, if that was agreed on.
    fn agree(&mut self, unique: u64, offer: &Init) -> Result<(), FuseError> {
        let to = ReplyTo { unique, entry: None };
        match agreement::answer(offer, &Wish::SINGLE_FILE, self.ring.is_some()) {
            Answer::Again(terms) => self.reply(to, Ok(InitOut::as_bytes(&terms))),
            Answer::TooOld => {
                self.reply(to, Err(libc::EPROTO));
                return Err(FuseError::protocol(Wish::SINGLE_FILE.refusal()));
            }
            Answer::Agreed(terms, mut agreed) => {
                self.reply(to, Ok(InitOut::as_bytes(&terms)));
                // The kernel goes on with `/dev/fuse` when the first entry is refused.
                agreed.through_ring &=
                    self.ring.as_mut().is_some_and(|ring| ring.register(self.channel.as_fd()).is_ok());
                if !agreed.through_ring {
                    self.ring = None;
                }
                self.enabled = None;
                self.agreed = Some(agreed);
            }
        }
        Ok(())
    }

    /// Answers a request with a body, or with an error number (`EIO` and so on). Through the ring it
    /// leaves with the next [`send`](Self::send).
    pub fn reply(&mut self, to: ReplyTo, answer: Result<&[u8], i32>) {
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
            Err(error) => self.failure = Some(FuseError::protocol(format_args!("a reply was refused: {error}"))),
        }
    }

    /// Lets queued answers leave.
    ///
    /// # Errors
    ///
    /// When the kernel refused one since the last call.
    pub fn send(&mut self) -> Result<(), FuseError> {
        if let Some(ring) = &mut self.ring
            && let Err(error) = ring.submit()
        {
            self.failure.get_or_insert_with(|| FuseError::protocol(format_args!("replies were refused: {error}")));
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether there may be more requests at once.
    pub fn has_more(&mut self) -> bool {
        self.readable || self.ring.as_mut().is_some_and(RingChannel::is_ready)
    }
}
