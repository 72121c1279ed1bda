//! The server's side of FUSE, on the kernel's own interface (`include/uapi/linux/fuse.h`).
//!
//! There are two servers on one protocol (`abi`, [`Operation`]):
//!
//! - Of a whole file system: a [`FolderMount`] is where people see it, by root or by `fusermount3`; a [`Server`] takes its requests
//!   with several threads, and a [`Handler`] answers them in the words of [`reply`].
//! - Of one file below a loop device, in an event loop of the caller's: a [`Transport`] brings the kernel's requests and takes
//!   the answers, through `/dev/fuse` or an io_uring where the kernel has that. A [`Mount`] has no place in any directory
//!   tree. [`SingleFile`] answers what a file system of one file is asked beside its contents. Nothing of it waits: whoever
//!   serves waits for the descriptors of the transport, and calls [`Transport::device_is_readable`] and
//!   [`Transport::receive`].
//!
//! A [`Watchdog`] ends the connection when the server cannot.
//!
//! ```no_run
//! # fn ready(_: &impl std::os::fd::AsFd) {}
//! let file = fuse::SingleFile { name: "file".into(), size_bytes: 1 << 20, block_bytes: 4096, read_only: false };
//! let mut transport = fuse::Transport::open(false)?;
//! let mount = fuse::Mount::new(transport.device())?; // another thread opens the file
//! while transport.is_connected() {
//!     ready(&transport.device());
//!     transport.device_is_readable();
//!     while let Some(incoming) = transport.receive()? {
//!         let to = incoming.reply_to;
//!         match file.answer(incoming.node, &incoming.operation) {
//!             Some(answer) => transport.reply(to, answer.as_ref().map(fuse::Body::as_bytes).map_err(|number| *number)),
//!             None => match incoming.operation {
//!                 operation if !operation.is_answered() => {}
//!                 fuse::Operation::Read { length, .. } => transport.reply(to, Ok(&vec![0; length as usize])),
//!                 _ => transport.reply(to, Err(30)), // EROFS
//!             },
//!         }
//!     }
//!     transport.send()?;
//! }
//! # drop(mount);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod abi;
mod agreement;
mod channel;
mod connection;
mod error;
mod mount;
pub mod reply;
mod request;
mod ring_buffers;
mod ring_channel;
mod server;
mod single_file;
mod transport;
mod watch;
mod watchdog;

pub use abi::ROOT_NODE;
pub use abi::input::FallocateMode;
pub use abi::output::{Attributes, FileSystemSize, OpenFlags};
pub use agreement::MAX_TRANSFER_BYTES;
pub use error::FuseError;
pub use mount::{FolderMount, Mount, MountError, MountOptions, OptionError};
pub use reply::Body;
pub use request::{Caller, Forgets, Operation, SetAttributes, SetTime};
pub use server::{Activity, Handler, Notices, Request, Rings, Server};
pub use single_file::SingleFile;
pub use transport::{Incoming, ReplyTo, Transport};
pub use watch::{End, Watch};
pub use watchdog::{Watchdog, WatchdogProgram};
