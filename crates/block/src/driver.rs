//! From request to NVMe command (drivers/nvme/host/core.c, nvme_setup_cmd).

use nvme::{Command, Lba, LbaRange, WriteOrder, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction};
use ssd::Payload;

use crate::bio::{BioFlags, BioOp, Sector, ZoneOp};
use crate::limits::Limits;
use crate::order::Asks;
use crate::pool::Pool;
use crate::request::{Kind, Request, Rq};
use crate::slab::NIL;

/// Builds a request's command.
pub(crate) fn command(pool: &Pool, rq: Rq) -> Command {
    let request = &pool.requests[rq];
    let nsid = request.nsid;
    let limits = pool.limits(nsid);
    let own = || range(limits, request.sector, request.bytes);
    let fua = request.flags.contains(BioFlags::FUA);
    match request.kind {
        Kind::Flush => Command::Flush { nsid },
        Kind::Bio(BioOp::Read) => Command::Read { nsid, range: own(), fua },
        Kind::Manage => match pool.bios[request.first_bio].order.as_ref().map(|order| order.asks) {
            Some(Asks::Manage { stream, action }) => Command::StreamManagement { nsid, stream, action },
            _ => Command::Flush { nsid },
        },
        Kind::Bio(BioOp::Write) if request.ordered => {
            let order = pool.bios[request.first_bio].order.as_ref().map_or(WriteOrder::NONE, |order| order.wire);
            Command::ordered_write(nsid, own(), fua, order)
        }
        Kind::Bio(BioOp::Write) => Command::write(nsid, own(), fua),
        Kind::Bio(BioOp::WriteZeroes) => {
            // No NOUNMAP flag on bios: the device may deallocate if it can.
            Command::WriteZeroes { nsid, range: own(), fua, deallocate: limits.max_discard_sectors > 0 }
        }
        Kind::Bio(BioOp::ZoneAppend) => {
            let LbaRange { start: zone, count: blocks } = own();
            Command::ZoneAppend { nsid, zone, blocks, fua }
        }
        Kind::Bio(BioOp::ZoneReport) => Command::ZoneManagementReceive {
            nsid,
            start: range(limits, request.sector, 0).start,
            action: ZoneReceiveAction::Report,
            filter: ZoneReportFilter::All,
            partial: true,
            // At most the transfer limit, which is 8 MiB.
            bytes: u32::try_from(request.bytes).unwrap_or(u32::MAX),
        },
        Kind::Bio(BioOp::Zone(op)) => {
            let (action, all) = match op {
                ZoneOp::Open => (ZoneSendAction::Open, false),
                ZoneOp::Close => (ZoneSendAction::Close, false),
                ZoneOp::Finish => (ZoneSendAction::Finish, false),
                ZoneOp::Reset => (ZoneSendAction::Reset, false),
                ZoneOp::ResetAll => (ZoneSendAction::Reset, true),
            };
            Command::ZoneManagementSend { nsid, start: own().start, action, all, zrwa: false }
        }
        Kind::Bio(BioOp::Discard) => {
            // One range for each bio, adjacent or not (nvme_setup_discard).
            let ranges = bios(pool, request).map(|bio| range(limits, pool.bios[bio].sector, pool.bios[bio].bytes));
            Command::Deallocate { nsid, ranges: ranges.collect() }
        }
    }
}

/// Takes a write's data out of its bios, as one piece.
pub(crate) fn take_data(pool: &mut Pool, rq: Rq) -> Payload {
    let request = &pool.requests[rq];
    if !matches!(request.kind, Kind::Bio(op) if op.carries_data()) {
        return None;
    }
    let (first, last, bytes) = (request.first_bio, request.last_bio, request.bytes);
    if first == last {
        return pool.bios[first].data.take();
    }
    pool.bios[first].data.as_ref()?;
    let mut whole = Vec::with_capacity(bytes as usize);
    let mut bio = first;
    while bio != NIL {
        // All bios of a request carry data, or none does (Pool::merge_kind).
        whole.extend_from_slice(&pool.bios[bio].data.take()?);
        bio = pool.bios[bio].next;
    }
    debug_assert_eq!(whole.len() as u64, bytes);
    Some(whole.into_boxed_slice())
}

/// The bios of a request, in order.
pub(crate) fn bios<'a>(pool: &'a Pool, request: &Request) -> impl Iterator<Item = u32> + 'a {
    let first = (request.first_bio != NIL).then_some(request.first_bio);
    std::iter::successors(first, |bio| Some(pool.bios[*bio].next).filter(|next| *next != NIL))
}

/// A run of sectors in the namespace's logical blocks.
fn range(limits: &Limits, sector: u64, bytes: u64) -> LbaRange {
    // The limits keep every request below 2^32 blocks.
    LbaRange { start: Lba(limits.blocks(sector * Sector::BYTES)), count: limits.blocks(bytes) as u32 }
}
