//! The I/O class of a run.

use std::io;

/// The class cannot be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the I/O class `idle`: {0}; leave --io-class away")]
pub struct IoClassError(#[source] pub(super) io::Error);
