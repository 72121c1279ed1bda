//! Stock Debian kernels in QEMU that judge what Plumb serves.
//!
//! A [`Guest`] is a machine emulated without root (QEMU's TCG): a kernel of the distribution ([`Kernel::fetch`]), a root
//! file system of the host's own programs in memory, and a shared folder through which a script comes in and a transcript
//! goes out. The server under test runs inside the guest, so that its clients are the kernel's own drivers over loopback.
//! Emulation is slow and its clock is not a stopwatch: what is judged is behaviour, and speed only beside another server
//! in the same guest.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod apt;
pub mod capture;
mod cpio;
mod error;
pub mod fio_source;
pub mod guest;
pub mod host;
mod image;
mod kernel;
mod modules;
pub mod plumb;
mod programs;
mod report;
pub mod zonefs;

pub use error::{Ending, Error};
pub use guest::Guest;
pub use image::{HOST_ID, HOST_NQN};
pub use kernel::{Kernel, Series};
pub use report::{Check, Report};
