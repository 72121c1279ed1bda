//! A server of a whole file system: several threads that take requests and answer them.
//!
//! Each thread has a descriptor of its own and takes one request at a time; as many are under way as there are threads, and
//! the rest wait with the kernel. A [`Handler`] that panics costs its request an I/O error, and nothing else.

mod activity;
mod notices;
mod rings;
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;

use zerocopy::IntoBytes;

pub use self::activity::Activity;
pub use self::notices::Notices;
use self::rings::RingWorker;
pub use self::rings::Rings;
use self::worker::Worker;
use crate::abi::OutHeader;
use crate::abi::init::InitOut;
use crate::agreement::{self, Agreed, Answer, MAX_TRANSFER_BYTES, Wish};
use crate::channel::{Channel, Received};
use crate::error::FuseError;
use crate::request::{Caller, HEADER_ROOM_BYTES, Init, Operation, Parts, Shape};

/// One request, as a handler sees it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The node it is about.
    pub node: u64,
    /// Who asks.
    pub caller: Caller,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// Answers requests, from several threads at a time.
pub trait Handler: Sync {
    /// Answers a request: writes the answer into `body`, which is empty, by the functions of [`reply`](crate::reply). What is
    /// written for a request that takes no answer is dropped.
    ///
    /// # Errors
    ///
    /// An error number, such as `ENOENT`.
    fn answer(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Result<(), i32>;
}

/// A connection whose terms are agreed on.
pub struct Server {
    channel: Channel,
    agreed: Agreed,
    /// Agreed on, and still to be offered.
    rings: Option<Rings>,
    activity: Arc<Activity>,
}

impl Server {
    /// Agrees with the kernel on the terms. `device` is the descriptor that the file system was mounted with, while `rings` were
    /// enabled if requests are to come through them. `names_alone`: who lists a directory does not get attributes along with the names.
    ///
    /// # Errors
    ///
    /// When the kernel lacks what is needed, or the file system is unmounted meanwhile.
    pub fn connect(device: OwnedFd, rings: Option<Rings>, names_alone: bool) -> Result<Self, FuseError> {
        let whole = Wish::FILE_SYSTEM;
        let wish = if names_alone { whole.with_names_alone() } else { whole };
        let channel = Channel::from(device);
        let mut buffer = vec![0; HEADER_ROOM_BYTES + MAX_TRANSFER_BYTES as usize];
        loop {
            let failed = |error: io::Error| FuseError::protocol(format_args!("a request cannot be read: {error}"));
            let length = match channel.receive(&mut buffer).map_err(failed)? {
                Received::Request(length) => length,
                Received::Nothing => continue,
                Received::Ended => return Err(FuseError::protocol("unmounted before it was served")),
            };
            let parts = Parts::of(buffer.get(..length).unwrap_or_default(), Shape::default());
            let parts = parts.map_err(FuseError::protocol)?;
            let offer = parts.init().map_err(FuseError::protocol)?;
            let Some(offer) = offer else { return Err(FuseError::protocol("a request came before the terms")) };
            if let Some(agreed) = agree(&channel, parts.header.unique, &offer, &wish, rings.is_some())? {
                let rings = rings.filter(|_| agreed.through_ring);
                return Ok(Self { channel, agreed, rings, activity: Arc::default() });
            }
        }
    }

    /// What is counted while it serves.
    pub fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// A way to tell the kernel something without being asked.
    ///
    /// # Errors
    ///
    /// Where there are no more descriptors.
    pub fn notices(&self) -> io::Result<Notices> {
        self.channel.another().map(Notices::new)
    }

    /// Serves with so many threads until the file system is unmounted. `say` gets a line for the operator.
    ///
    /// # Errors
    ///
    /// When a thread cannot be had, or the kernel sends what is no request; then the connection is over.
    pub fn run(self, handler: &dyn Handler, threads: usize, say: &(dyn Fn(&str) + Sync)) -> Result<(), FuseError> {
        let failed = |error: io::Error| FuseError::protocol(format_args!("a thread cannot be had: {error}"));
        let another = || self.channel.another().map_err(failed);
        let device = || another().map(|channel| Worker::new(channel, self.agreed.shape, &self.activity));
        let ring = |queue| another().map(|channel| RingWorker::new(channel, self.agreed.shape, &self.activity, queue));
        let of_rings: Vec<RingWorker> =
            places(self.rings.as_ref(), threads).into_iter().map(ring).collect::<Result<_, _>>()?;
        let mut of_device: Vec<Worker> = (0..threads.max(1)).map(|_| device()).collect::<Result<_, _>>()?;
        thread::scope(|scope| {
            let mut running = Vec::new();
            let (offered, taken) = mpsc::channel();
            let named = |way: &str, number: usize| thread::Builder::new().name(format!("fuse-{way}{number}"));
            for (number, worker) in of_rings.into_iter().enumerate() {
                let offered = offered.clone();
                // Who waits for it is this function, which is not over yet.
                let tell = move |taken| offered.send(taken).unwrap_or_default();
                let run = move || worker.run(handler, say, &tell);
                running.push(named("ring-", number).spawn_scoped(scope, run).map_err(failed)?);
            }
            drop(offered);
            let through_rings = !running.is_empty() && taken.iter().all(|taken| taken);
            drop(self.rings);
            // Through the device comes what is forgotten or interrupted in any case.
            of_device.truncate(if through_rings { 1 } else { threads.max(1) });
            for (number, worker) in of_device.into_iter().enumerate() {
                running.push(named("", number).spawn_scoped(scope, move || worker.run(handler, say)).map_err(failed)?);
            }
            let mut result = Ok(());
            for thread in running {
                let ended = thread.join().unwrap_or_else(|_| Err(FuseError::protocol("a thread of the server died")));
                result = result.and(ended);
            }
            result
        })
    }
}

/// The queues of the threads that rings are to have.
fn places(rings: Option<&Rings>, threads: usize) -> Vec<usize> {
    let Some(rings) = rings else { return Vec::new() };
    (0..rings.threads(threads)).flat_map(|_| 0..rings.queues()).collect()
}

/// Answers an offer; there is an agreement unless the kernel has to ask again.
fn agree(
    channel: &Channel,
    unique: u64,
    offer: &Init,
    wish: &Wish,
    has_rings: bool,
) -> Result<Option<Agreed>, FuseError> {
    let reply = |body: &[u8], error: i32| {
        let header = OutHeader { len: (size_of::<OutHeader>() + body.len()) as u32, error, unique };
        channel.reply(header.as_bytes(), body).map_err(FuseError::protocol)
    };
    match agreement::answer(offer, wish, has_rings) {
        Answer::Again(terms) => reply(InitOut::as_bytes(&terms), 0).map(|_| None),
        Answer::TooOld => {
            reply(&[], -libc::EPROTO)?;
            Err(FuseError::protocol(wish.refusal()))
        }
        Answer::Agreed(terms, agreed) => reply(InitOut::as_bytes(&terms), 0).map(|_| Some(agreed)),
    }
}
