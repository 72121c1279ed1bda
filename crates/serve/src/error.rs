//! Why serving cannot start or go on.

use std::io;
use std::path::PathBuf;

/// A reason not to serve. What a single client does wrong is no reason: it is
/// dropped and the others are served on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody serves there already.
    #[error("{}: another server answers on this socket; stop it or choose another path", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is not a socket is in the way.
    #[error("{}: exists and is not a socket; remove it or choose another path", .path.display())]
    NotASocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address as asked for.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// NBD cannot express the device.
    #[error(
        "logical blocks of {lba_bytes} bytes cannot be served over NBD, which needs a power of two of at most 64 KiB; \
         choose a device with another LBA format"
    )]
    BlockSize {
        /// The device's logical block size.
        lba_bytes: u32,
    },
    /// NBD has no zones.
    #[error("{model} is a zoned device, and NBD has no words for zones; choose one with a conventional namespace")]
    Zoned {
        /// The device's model name.
        model: String,
    },
    /// A loop device is not available, or has failed.
    #[error(transparent)]
    FuseLoop(#[from] crate::fuse_loop::LoopError),
    /// ublk cannot serve it.
    #[error(transparent)]
    Ublk(#[from] crate::ublk::UblkError),
    /// Other machines would reach the subsystem, and it takes every host.
    #[error(
        "{address} can be reached by other machines, and every host would be let in; name the hosts with \
         --allow-host or give them secrets with --host-secret, or listen on 127.0.0.1"
    )]
    OpenToAll {
        /// The address as asked for.
        address: String,
    },
    /// The NVM subsystem cannot be made.
    #[error(transparent)]
    Subsystem(#[from] crate::subsystem::SubsystemError),
    /// What serving costs could not be measured.
    #[error("calibration failed: {source}; --no-calibration serves without it")]
    Calibration {
        /// What went wrong.
        source: io::Error,
    },
    /// The device could not commit what it had on shutdown.
    #[error("the device failed its last flush ({reason}); writes since the flush before it are lost")]
    LastFlush {
        /// Why.
        reason: String,
    },
    /// The image did not take all that was written.
    #[error("{count} writes to the image failed while serving, and the clients got errors; the first: {first}")]
    Image {
        /// How many.
        count: u64,
        /// The first of them.
        first: String,
    },
    /// The event loop itself failed.
    #[error("serving stopped: {action}: {source}")]
    Loop {
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
