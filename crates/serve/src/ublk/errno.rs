//! How a command's status becomes the errno that the block layer turns back into
//! a `BLK_STS_*`.

use nvme::Status;

/// A Linux error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(i32);

impl Errno {
    /// `BLK_STS_IOERR`.
    pub(crate) const IO: Self = Self(libc::EIO);
    /// `BLK_STS_INVAL`.
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    /// `BLK_STS_NOTSUPP`.
    pub(crate) const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// `BLK_STS_MEDIUM`.
    pub(crate) const MEDIUM: Self = Self(libc::ENODATA);

    /// The value a commit carries.
    pub(crate) fn as_result(self) -> i32 {
        -self.0
    }
}

/// What Linux's NVMe driver would have made of the status (`nvme_error_status` of
/// `drivers/nvme/host/core.c`, and `blk_errors` of `block/blk-core.c` for the
/// number), so that programs see the same error on ublk as on NVMe. A device
/// without power is `EIO`, as one that was pulled out.
impl From<Status> for Errno {
    fn from(status: Status) -> Self {
        match status {
            Status::CAPACITY_EXCEEDED => Self(libc::ENOSPC),
            Status::LBA_OUT_OF_RANGE | Status::COMMAND_INTERRUPTED => Self(libc::EREMOTEIO),
            Status::INVALID_OPCODE | Status::INVALID_FIELD | Status::INVALID_NAMESPACE => Self::NOT_SUPPORTED,
            Status::WRITE_FAULT | Status::UNRECOVERED_READ | Status::WRITE_TO_READ_ONLY_RANGE => Self::MEDIUM,
            Status::TOO_MANY_OPEN_ZONES => Self(libc::ETOOMANYREFS),
            Status::TOO_MANY_ACTIVE_ZONES => Self(libc::EOVERFLOW),
            _ => Self::IO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_nvme_driver_maps_them() {
        for (status, errno) in [
            (Status::UNRECOVERED_READ, libc::ENODATA),
            (Status::TOO_MANY_OPEN_ZONES, libc::ETOOMANYREFS),
            (Status::TOO_MANY_ACTIVE_ZONES, libc::EOVERFLOW),
            (Status::ZONE_INVALID_WRITE, libc::EIO),
            (Status::NAMESPACE_NOT_READY, libc::EIO),
            (Status::LBA_OUT_OF_RANGE, libc::EREMOTEIO),
        ] {
            assert_eq!(Errno::from(status).as_result(), -errno, "{status}");
        }
    }
}
