//! Why a file system is not mounted.

use std::io;
use std::path::PathBuf;

use crate::error::FuseError;

/// Why a file system is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no device.
    #[error(transparent)]
    Device(#[from] FuseError),
    /// There is no program that mounts for users.
    #[error("fusermount3 is not there, without which only root can mount; the package fuse3 has it")]
    NoFusermount,
    /// The mount was refused.
    #[error("{}: cannot mount there: {source}", folder.display())]
    Refused {
        /// Where.
        folder: PathBuf,
        /// By whom and why.
        #[source]
        source: io::Error,
    },
}
