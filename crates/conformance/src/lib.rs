//! Stock Debian kernels in QEMU that judge what Plumb serves.
#![cfg_attr(test, allow(clippy::unwrap_used))]
