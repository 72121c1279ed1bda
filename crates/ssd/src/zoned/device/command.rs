//! Commands inside the device, and the flash side of zones.

use std::collections::VecDeque;

use nvme::{Command, CommandId, LbaRange, QueueId, Status};
use trace::RequestId;
use units::Nanos;

use crate::Payload;
use crate::slab::{Fifo, NONE};
use crate::zoned::finish::FinishPlan;

/// A command from submission to completion.
pub(super) struct Cmd {
    pub queue: QueueId,
    pub cid: CommandId,
    pub request: RequestId,
    pub command: Command,
    pub data: Payload,
    pub status: Status,
    pub result: u64,
    /// Things that it waits for.
    pub left: u64,
    /// Data that is not in the buffer yet.
    pub incoming: Incoming,
    /// The latest end of what it waited for so far.
    pub ready: Nanos,
    /// When it began to wait for the buffer.
    pub since: Nanos,
    /// A write's blocks, where the zone's write pointer put them.
    pub range: LbaRange,
}

/// Data on its way into the buffer.
#[derive(Clone, Copy, Default)]
pub(super) struct Incoming {
    pub bytes: u64,
    /// Whether it comes from the host, over the link.
    pub over_link: bool,
    /// What the command takes after the link.
    pub delay: Nanos,
}

/// A part of a read: one page.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub command: u32,
    pub array: u32,
    pub bytes: u32,
    /// The page, counted in its zone.
    pub page: u64,
}

/// A volatile write that is not on flash altogether.
pub(super) struct Pending {
    pub sequence: u64,
    /// Its blocks, from the zone's start.
    pub start: u64,
    pub end: u64,
}

/// A finish under way.
#[derive(Clone, Copy)]
pub(super) struct Finishing {
    pub command: u32,
    pub plan: FinishPlan,
    /// Bytes of padding that are not programmed, or in the buffer.
    pub left_bytes: u64,
    /// When its next step is due; another `Pad` event is of an earlier finish.
    pub due: Nanos,
    /// Whether padding may begin: the time before it is over.
    pub begun: bool,
}

/// A zone's place on flash and in the buffer.
pub(super) struct ZoneFlash {
    /// Its physical zone, or `UNMAPPED`.
    pub physical: u32,
    /// Counts resets, so that what is in flight for an earlier life is known.
    pub generation: u32,
    /// Bytes programmed or on their way, from the zone's start.
    pub placed_bytes: u64,
    /// Blocks on flash, from the zone's start, without a gap.
    pub durable_blocks: u64,
    /// Programs in flight.
    pub in_flight: u32,
    /// The buffer unit being filled.
    pub unit: u32,
    /// Full units that have no array yet, oldest first.
    pub full: VecDeque<u32>,
    /// Whether it is among the zones that take turns at arrays.
    pub in_turn: bool,
    /// Commands that wait for the buffer.
    pub waiting: Fifo,
    pub finishing: Option<Finishing>,
    /// With least-busy placement: the array of each stripe unit, and how many
    /// units each array has.
    pub placement: Box<[u16]>,
    pub units_on: Box<[u16]>,
    /// Units on flash beyond a gap.
    pub ahead: Vec<u32>,
    /// The unit last saved, and its blocks that were.
    pub saved: (u32, u64),
}

impl ZoneFlash {
    pub fn new(physical: u32) -> Self {
        Self {
            physical,
            generation: 0,
            placed_bytes: 0,
            durable_blocks: 0,
            in_flight: 0,
            unit: NONE,
            full: VecDeque::new(),
            in_turn: false,
            waiting: Fifo::default(),
            finishing: None,
            placement: Box::default(),
            units_on: Box::default(),
            ahead: Vec::new(),
            saved: (NONE, 0),
        }
    }
}
