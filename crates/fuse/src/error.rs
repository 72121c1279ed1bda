//! Why requests do not come.

use std::io;

/// Why there is no connection to the kernel's FUSE, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The kernel has no FUSE, or it is not loaded.
    #[error("/dev/fuse is not there; `modprobe fuse` may bring it")]
    Missing,
    /// `/dev/fuse` may not be opened.
    #[error("/dev/fuse cannot be opened: {0}")]
    Refused(#[source] io::Error),
    /// The kernel sent something that is no FUSE request, or took no reply.
    #[error("the FUSE connection is broken: {what}")]
    Protocol {
        /// What was wrong.
        what: String,
    },
}

impl FuseError {
    pub(crate) fn protocol(what: impl ToString) -> Self {
        Self::Protocol { what: what.to_string() }
    }
}
