//! Why a device cannot be served over ublk.

use std::io;

/// A reason not to serve over ublk.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The driver is not there.
    #[error(
        "/dev/ublk-control does not exist: load the driver (modprobe ublk_drv; Linux 6.5 or later built with \
         CONFIG_BLK_DEV_UBLK, such as Debian 13's; Debian 12's 6.1 has none), or serve with --loop or --nbd"
    )]
    NoDriver,
    /// Only root may use the driver.
    #[error(
        "/dev/ublk-control: permission denied; run as root, or serve without privileges over NBD (--nbd) or inside \
         `plumb linux`"
    )]
    Permission,
    /// The driver's file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel gives no io_uring.
    #[error(
        "cannot set up io_uring: {source}; ublk needs it (sysctl kernel.io_uring_disabled=0, and enough locked memory)"
    )]
    Ring {
        /// The system's reason.
        source: io::Error,
    },
    /// The driver is too old.
    #[error("the kernel's ublk driver has no {what}, which came with Linux {since}; serve with --loop or --nbd")]
    TooOld {
        /// What it lacks.
        what: &'static str,
        /// The version that has it.
        since: &'static str,
    },
    /// Somebody serves a device of this number.
    #[error("/dev/ublkb{id} is served by {server}; stop it or choose another number")]
    InUse {
        /// The device.
        id: u32,
        /// Who serves it, such as `process 123`.
        server: String,
    },
    /// The driver makes no device.
    #[error("the ublk driver adds no device: {source}")]
    Add {
        /// The driver's reason.
        source: io::Error,
    },
    /// A control command failed.
    #[error("{command} of ublk device {id}: {source}")]
    Control {
        /// The command's name in the driver.
        command: &'static str,
        /// The device.
        id: u32,
        /// The driver's reason.
        source: io::Error,
    },
    /// The ring that carries requests failed.
    #[error("serving /dev/ublkb{id} stopped: {action}: {source}")]
    Io {
        /// The device.
        id: u32,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The block layer has no such blocks.
    #[error(
        "logical blocks of {lba_bytes} bytes cannot be served over ublk, which takes 512 to 4096; choose a device with \
         another LBA format"
    )]
    BlockSize {
        /// The device's logical block size.
        lba_bytes: u32,
    },
    /// The block layer has no such zones.
    #[error(
        "zones of {zone_bytes} bytes cannot be served over ublk: Linux takes powers of two below 2 TiB; choose another \
         zone.size with --set"
    )]
    ZoneSize {
        /// The distance between zones.
        zone_bytes: u64,
    },
}
