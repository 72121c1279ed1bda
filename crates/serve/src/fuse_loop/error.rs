//! Why a device is not available as a loop device.

use std::io;
use std::path::PathBuf;

use fuse::FuseError;

/// What to do instead where the path through FUSE and loop is closed.
const ELSEWHERE: &str =
    "`plumb linux` shows the device to a real kernel without root, `plumb serve --nbd` to programs that speak NBD";

/// A reason that a device is not served, or no longer, as a loop device.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// A device file is missing.
    #[error("{} is not there ({remedy}); {ELSEWHERE}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What brings it.
        remedy: &'static str,
    },
    /// A device file may not be opened.
    #[error("{} cannot be opened ({source}); loop devices need root. {ELSEWHERE}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file system cannot be mounted.
    #[error("FUSE cannot be mounted ({source}); it needs CAP_SYS_ADMIN and Linux 5.8. {ELSEWHERE}")]
    Mount {
        /// The system's reason.
        source: io::Error,
    },
    /// No loop device could be attached.
    #[error("no loop device could be attached: {source}; `losetup -l` shows which are taken")]
    Attach {
        /// The system's reason.
        source: io::Error,
    },
    /// The loop device could not be detached.
    #[error("{} could not be detached: {source}", path.display())]
    Detach {
        /// The loop device.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The loop driver cannot express the logical block.
    #[error(
        "logical blocks of {lba_bytes} bytes cannot be a loop device's, which are 512 bytes to a page of {page_bytes}; \
         choose a device with another LBA format"
    )]
    BlockSize {
        /// The device's logical block size.
        lba_bytes: u32,
        /// The machine's page size.
        page_bytes: u32,
    },
    /// Loop devices have no zones.
    #[error(
        "{model} is a zoned device, and loop devices have no zones; `plumb serve --nvme-tcp` and `--ublk` show them"
    )]
    Zoned {
        /// The device's model name.
        model: String,
    },
    /// The process sits in a memory cgroup whose reclaim can wait for this very device.
    #[error(
        "this process is in the memory cgroup {} with a limit of {limit_bytes} bytes: when the group runs full, the \
         kernel may wait for this very device to free memory, for ever. Start the server outside (`echo $$ > \
         {}/cgroup.procs` as root), or give --prefault {needed_bytes} so that contents need no more memory",
        group.display(), outside.display()
    )]
    MemoryLimited {
        /// The group.
        group: PathBuf,
        /// Its hierarchy's root.
        outside: PathBuf,
        /// The group's limit.
        limit_bytes: u64,
        /// What would have to be reserved.
        needed_bytes: u64,
    },
    /// Memory could not be reserved or locked.
    #[error("{bytes} bytes of memory cannot be {what}: {source}")]
    Memory {
        /// How much.
        bytes: u64,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel sent something that is no FUSE request, or took no reply.
    #[error("the FUSE connection is broken: {what}")]
    Protocol {
        /// What was wrong.
        what: String,
    },
    /// The watchdog could not be started.
    #[error("the watchdog {} could not be started: {source}", program.display())]
    Watchdog {
        /// Its program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl From<FuseError> for LoopError {
    fn from(error: FuseError) -> Self {
        let path = || "/dev/fuse".into();
        match error {
            FuseError::Missing => Self::Missing { path: path(), remedy: "`modprobe fuse` may bring it" },
            FuseError::Refused(source) => Self::Refused { path: path(), source },
            FuseError::Protocol { what } => Self::Protocol { what },
        }
    }
}
