//! What the ublk driver and its servers exchange (Linux
//! `include/uapi/linux/ublk_cmd.h`; zones: `include/uapi/linux/blkzoned.h`).
//!
//! All integers are in the machine's own byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where control commands go.
pub(crate) const CONTROL_PATH: &str = "/dev/ublk-control";

/// Sizes and offsets of requests are in sectors of so many bytes.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// `log2` of [`SECTOR_BYTES`].
pub(crate) const SECTOR_SHIFT: u32 = 9;

/// Requests of one queue that the driver allows (`UBLK_MAX_QUEUE_DEPTH`).
pub(crate) const MAX_QUEUE_DEPTH: u16 = 4096;

/// Largest data of one request (`UBLK_IO_BUF_BITS`).
pub(crate) const MAX_REQUEST_BYTES: u32 = 32 << 20;

/// A control command, which travels in the SQE (`struct ublksrv_ctrl_cmd`).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ControlCommand {
    pub(crate) dev_id: u32,
    /// All ones unless the command is for one queue.
    pub(crate) queue_id: u16,
    /// Size of the buffer at `addr`.
    pub(crate) len: u16,
    pub(crate) addr: u64,
    pub(crate) data: u64,
    pub(crate) dev_path_len: u16,
    pub(crate) pad: u16,
    pub(crate) reserved: u32,
}

const _: () = assert!(size_of::<ControlCommand>() == 32);

/// A device (`struct ublksrv_ctrl_dev_info`).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub(crate) nr_hw_queues: u16,
    pub(crate) queue_depth: u16,
    pub(crate) state: u16,
    pub(crate) pad0: u16,
    pub(crate) max_io_buf_bytes: u32,
    pub(crate) dev_id: u32,
    pub(crate) ublksrv_pid: i32,
    pub(crate) pad1: u32,
    pub(crate) flags: u64,
    /// For the server alone; the driver keeps it.
    pub(crate) ublksrv_flags: u64,
    pub(crate) owner_uid: u32,
    pub(crate) owner_gid: u32,
    pub(crate) reserved1: u64,
    pub(crate) reserved2: u64,
}

const _: () = assert!(size_of::<DeviceInfo>() == 64);

/// `DeviceInfo::state` of a device that nobody serves (`UBLK_S_DEV_DEAD`).
pub(crate) const STATE_DEAD: u16 = 0;

/// What of the driver a device uses, or what a driver offers (`UBLK_F_*`).
pub(crate) mod feature {
    /// Opcodes are encoded as ioctl numbers.
    pub(crate) const IOCTL_ENCODE: u64 = 1 << 6;
    /// The server copies data with pread and pwrite on the character device.
    pub(crate) const USER_COPY: u64 = 1 << 7;
    /// Zones.
    pub(crate) const ZONED: u64 = 1 << 8;
}

/// A request (`struct ublksrv_io_desc`), as the driver writes it into the
/// descriptors of a queue.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct IoDescriptor {
    /// Operation in bits 7:0, flags above.
    pub(crate) op_flags: u32,
    /// Sectors, or zones for a report.
    pub(crate) count: u32,
    pub(crate) start_sector: u64,
    pub(crate) addr: u64,
}

const _: () = assert!(size_of::<IoDescriptor>() == 24);

/// `UBLK_IO_OP_*`.
pub(crate) mod operation {
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const DISCARD: u8 = 3;
    pub(crate) const WRITE_ZEROES: u8 = 5;
    pub(crate) const ZONE_OPEN: u8 = 10;
    pub(crate) const ZONE_CLOSE: u8 = 11;
    pub(crate) const ZONE_FINISH: u8 = 12;
    pub(crate) const ZONE_APPEND: u8 = 13;
    pub(crate) const ZONE_RESET_ALL: u8 = 14;
    pub(crate) const ZONE_RESET: u8 = 15;
    pub(crate) const REPORT_ZONES: u8 = 18;
}

/// Force Unit Access (`UBLK_IO_F_FUA`).
pub(crate) const FLAG_FUA: u32 = 1 << 13;
/// Write Zeroes must not deallocate (`UBLK_IO_F_NOUNMAP`).
pub(crate) const FLAG_NOUNMAP: u32 = 1 << 15;

/// An I/O command, which travels in the SQE (`struct ublksrv_io_cmd`).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct IoCommand {
    pub(crate) q_id: u16,
    pub(crate) tag: u16,
    /// Bytes done, or a negative errno.
    pub(crate) result: i32,
    /// With user copy: 0, or the first sector that a Zone Append wrote.
    pub(crate) addr: u64,
}

const _: () = assert!(size_of::<IoCommand>() == 16);

/// Result of a fetch that a request answered (`UBLK_IO_RES_OK`).
pub(crate) const FETCH_OK: i32 = 0;

/// `struct ublk_param_basic`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct BasicParameters {
    pub(crate) attrs: u32,
    pub(crate) logical_bs_shift: u8,
    pub(crate) physical_bs_shift: u8,
    pub(crate) io_opt_shift: u8,
    pub(crate) io_min_shift: u8,
    pub(crate) max_sectors: u32,
    pub(crate) chunk_sectors: u32,
    pub(crate) dev_sectors: u64,
    pub(crate) virt_boundary_mask: u64,
}

/// `UBLK_ATTR_*`.
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 1 << 0;
    pub(crate) const ROTATIONAL: u32 = 1 << 1;
    pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(crate) const FUA: u32 = 1 << 3;
}

/// `struct ublk_param_discard`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DiscardParameters {
    pub(crate) discard_alignment: u32,
    pub(crate) discard_granularity: u32,
    pub(crate) max_discard_sectors: u32,
    pub(crate) max_write_zeroes_sectors: u32,
    pub(crate) max_discard_segments: u16,
    pub(crate) reserved0: u16,
}

/// `struct ublk_param_zoned`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ZonedParameters {
    pub(crate) max_open_zones: u32,
    pub(crate) max_active_zones: u32,
    pub(crate) max_zone_append_sectors: u32,
    pub(crate) reserved: [u8; 20],
}

/// `struct ublk_params`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Parameters {
    pub(crate) len: u32,
    pub(crate) types: u32,
    pub(crate) basic: BasicParameters,
    pub(crate) discard: DiscardParameters,
    /// Device numbers; the driver fills them in.
    pub(crate) devt: [u32; 4],
    pub(crate) zoned: ZonedParameters,
    pub(crate) tail: u32,
}

const _: () = assert!(size_of::<Parameters>() == 112);

/// `UBLK_PARAM_TYPE_*`: which parts of [`Parameters`] count.
pub(crate) mod parameter {
    pub(crate) const BASIC: u32 = 1 << 0;
    pub(crate) const DISCARD: u32 = 1 << 1;
    pub(crate) const ZONED: u32 = 1 << 3;
}

/// A zone in a report (`struct blk_zone`). Sectors.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct BlockZone {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) wp: u64,
    pub(crate) zone_type: u8,
    pub(crate) cond: u8,
    pub(crate) non_seq: u8,
    pub(crate) reset: u8,
    pub(crate) resv: [u8; 4],
    pub(crate) capacity: u64,
    pub(crate) reserved: [u8; 24],
}

impl BlockZone {
    /// Its size in a report.
    pub(crate) const BYTES: usize = 64;
    /// `BLK_ZONE_TYPE_SEQWRITE_REQ`.
    pub(crate) const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;
}

const _: () = assert!(size_of::<BlockZone>() == BlockZone::BYTES);

/// `_IOC` of `include/uapi/asm-generic/ioctl.h`, type `'u'`.
const fn ioctl_number(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

const fn control_number(direction: u32, number: u32) -> u32 {
    ioctl_number(direction, number, size_of::<ControlCommand>())
}

const fn io_number(number: u32) -> u32 {
    ioctl_number(READ_WRITE, number, size_of::<IoCommand>())
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// `UBLK_U_CMD_*`.
pub(crate) mod control {
    use super::{READ, READ_WRITE, control_number};

    pub(crate) const GET_DEV_INFO: u32 = control_number(READ, 0x02);
    pub(crate) const ADD_DEV: u32 = control_number(READ_WRITE, 0x04);
    pub(crate) const DEL_DEV: u32 = control_number(READ_WRITE, 0x05);
    pub(crate) const START_DEV: u32 = control_number(READ_WRITE, 0x06);
    pub(crate) const STOP_DEV: u32 = control_number(READ_WRITE, 0x07);
    pub(crate) const SET_PARAMS: u32 = control_number(READ_WRITE, 0x08);
    /// Linux 6.5.
    pub(crate) const GET_FEATURES: u32 = control_number(READ, 0x13);
    /// Linux 6.9: does not wait for those who have the disk open.
    pub(crate) const DEL_DEV_ASYNC: u32 = control_number(READ, 0x14);
}

/// `UBLK_U_IO_FETCH_REQ`: give this tag's next request.
pub(crate) const FETCH: u32 = io_number(0x20);
/// `UBLK_U_IO_COMMIT_AND_FETCH_REQ`: this tag's request has ended; give the next.
pub(crate) const COMMIT_AND_FETCH: u32 = io_number(0x21);

/// Where the descriptors of a queue are mapped from on the character device
/// (`UBLKSRV_CMD_BUF_OFFSET`): each queue has room for the deepest.
pub(crate) fn descriptors_offset(queue: u16, page_bytes: u64) -> u64 {
    let room = u64::from(MAX_QUEUE_DEPTH) * size_of::<IoDescriptor>() as u64;
    u64::from(queue) * room.next_multiple_of(page_bytes)
}

/// Where the data of a request is read and written on the character device
/// (`UBLKSRV_IO_BUF_OFFSET`, `UBLK_QID_OFF`, `UBLK_TAG_OFF`).
pub(crate) fn data_offset(queue: u16, tag: u16) -> u64 {
    const BASE: u64 = 0x8000_0000;
    const TAG_SHIFT: u32 = 25;
    const QUEUE_SHIFT: u32 = 41;
    BASE + (u64::from(queue) << QUEUE_SHIFT) + (u64::from(tag) << TAG_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that a C program including the kernel's header prints.
    #[test]
    fn numbers_are_the_header_s() {
        assert_eq!(control::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(control::ADD_DEV, 0xc020_7504);
        assert_eq!(control::DEL_DEV, 0xc020_7505);
        assert_eq!(control::START_DEV, 0xc020_7506);
        assert_eq!(control::STOP_DEV, 0xc020_7507);
        assert_eq!(control::SET_PARAMS, 0xc020_7508);
        assert_eq!(control::GET_FEATURES, 0x8020_7513);
        assert_eq!(control::DEL_DEV_ASYNC, 0x8020_7514);
        assert_eq!(FETCH, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xc010_7521);
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(3, 5), 0x8000_0000 + (3 << 41) + (5 << 25));
        assert_eq!(descriptors_offset(2, 4096), 2 * 98_304);
    }

    #[test]
    fn fields_are_where_the_driver_looks_for_them() {
        assert_eq!(std::mem::offset_of!(Parameters, basic), 8);
        assert_eq!(std::mem::offset_of!(Parameters, discard), 40);
        assert_eq!(std::mem::offset_of!(Parameters, devt), 60);
        assert_eq!(std::mem::offset_of!(Parameters, zoned), 76);
        assert_eq!(std::mem::offset_of!(DeviceInfo, flags), 24);
        assert_eq!(std::mem::offset_of!(BlockZone, capacity), 32);
    }
}
