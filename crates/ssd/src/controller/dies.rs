//! The dies as the translation layer fills them: their write streams and
//! collectors, the rows on their way, and whose turn it is.

use std::ops::{Index, IndexMut};

use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use crate::config::Layout;
use crate::ftl::blocks::{Blocks, OpenBlock};
use crate::ftl::translation::Translation;
use crate::slab::NONE;

use super::die_set::DieSet;
use super::rows::{RecoveryRow, Row, Rows};

/// Rows of host data that a die takes at a time: one being programmed, one
/// whose data is on its way.
const HOST_ROWS_PER_DIE: u8 = 2;

/// Free blocks of a die that host data leaves to the collector: one that it
/// fills, one it needs to begin another victim before the last is erased.
const HOST_LEAVES_FREE: u32 = 3;

/// All dies.
pub(super) struct Dies {
    streams: Vec<DieStreams>,
    pub rows: Rows,
    /// Rows of host data in flight on all dies.
    pub host_rows: u32,
    /// Dies that could take a row of host data now.
    ready: DieSet,
    /// Where the search for such a die begins.
    next: u32,
    /// Die of the next journal page.
    next_journal: u32,
    /// The row that surviving writes go to after a power cut.
    recovery: Option<RecoveryRow>,
    channels: u32,
    recorder: Recorder,
}

impl Dies {
    pub fn new(layout: &Layout, streams: Vec<DieStreams>) -> Self {
        Self {
            streams,
            rows: Rows::new(layout),
            host_rows: 0,
            ready: DieSet::new(layout.dies),
            next: 0,
            next_journal: 0,
            recovery: None,
            channels: layout.channels,
            recorder: Recorder::default(),
        }
    }

    pub fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    /// A block is to be collected: notes it for the trace.
    pub fn note_victim(&mut self, now: Nanos, die: u32, block: u32) {
        if self.recorder.is_on() {
            self[die].began.push((block, now));
        }
    }

    /// A block is erased: records how long it was collected.
    pub fn note_erased(&mut self, now: Nanos, die: u32, block: u32) {
        let began = &mut self.streams[die as usize].began;
        let Some(at) = began.iter().position(|(began, _)| *began == block) else { return };
        let (_, start) = began.swap_remove(at);
        let track = Track::Die { channel: (die % self.channels) as u16, die: die as u16 };
        let (step, request) = (Step::GarbageCollect, RequestId(0));
        if self.recorder.is_on() {
            self.recorder.record(Span { start, end: now, track, step, request, offset: 0, bytes: 0 });
        }
    }

    /// The die whose turn it is to take a row of host data, of those that could.
    pub fn next_ready(&self) -> Option<u32> {
        self.ready.next_from(self.next)
    }

    /// A die takes a row: it is its neighbour's turn.
    pub fn take_turn(&mut self, die: u32) {
        self.next = (die + 1) % self.streams.len() as u32;
    }

    /// The die that takes the next journal page: each in turn.
    pub fn take_journal_turn(&mut self) -> u32 {
        let die = self.next_journal;
        self.next_journal = (die + 1) % self.streams.len() as u32;
        die
    }

    /// Power off: no row is on its way.
    pub fn forget_rows(&mut self, layout: &Layout) {
        self.rows = Rows::new(layout);
        self.host_rows = 0;
        self.recovery = None;
    }

    /// Power off: a die keeps the blocks that it fills, and nothing that was under way.
    pub fn forget_work(&mut self, layout: &Layout, die: u32) {
        let streams = &mut self[die];
        let (host, gc) = (streams.host, streams.gc);
        *streams = DieStreams { host, gc, ..DieStreams::new(layout) };
    }

    /// The next place for a surviving write in the row that takes them, if one is begun and has room.
    pub fn next_recovered(&mut self) -> Option<u32> {
        self.recovery.as_mut().and_then(RecoveryRow::take)
    }

    /// Surviving writes go to `row` from now on, which takes `width` units: the place of the first.
    pub fn begin_recovery(&mut self, mut row: Row, width: u32) -> u32 {
        row.count = 1;
        self.recovery = Some(RecoveryRow { row, width });
        row.first
    }

    /// A die's streams beside the rows.
    pub fn with_rows(&mut self, die: u32) -> (&mut DieStreams, &mut Rows) {
        (&mut self.streams[die as usize], &mut self.rows)
    }

    /// Units of the next row of host data on a die.
    pub fn host_row_units(&self, layout: &Layout, blocks: &Blocks, die: u32) -> u32 {
        let host = self[die].host;
        let slc = if host.block == NONE { blocks.free_slc(die) > 0 } else { layout.is_slc(host.block) };
        layout.units_per_superpage * if slc { 1 } else { layout.superpages_per_row }
    }

    /// Notes whether the die could take a row of host data now. The last free
    /// blocks are the collector's.
    pub fn refresh(&mut self, blocks: &Blocks, die: u32) {
        let streams = &self[die];
        let room = streams.host.block != NONE || blocks.free_slc(die) > 0 || blocks.free(die) > HOST_LEAVES_FREE;
        let ready = room && streams.host_rows < HOST_ROWS_PER_DIE;
        self.ready.put(die, ready);
    }

    /// Takes the next row of a die's host or collector stream.
    pub fn take_row(&mut self, layout: &Layout, ftl: &mut Translation, die: u32, gc: bool) -> Option<Row> {
        let streams = &mut self[die];
        let open = if gc { &mut streams.gc } else { &mut streams.host };
        if open.block == NONE {
            let slc = !gc && ftl.blocks.free_slc(die) > 0;
            *open = OpenBlock { block: ftl.blocks.open(die, slc)?, superpage: 0 };
        }
        let OpenBlock { block, superpage } = *open;
        let (step, end) = if layout.is_slc(block) {
            (1, layout.slc_superpages_per_block)
        } else {
            (layout.superpages_per_row, layout.superpages_per_block)
        };
        ftl.blocks.programming[block as usize] += 1;
        open.superpage += step;
        if open.superpage >= end {
            ftl.close_block(block);
            *open = OpenBlock::NONE;
        }
        let first = (block * layout.superpages_per_block + superpage) * layout.units_per_superpage;
        Some(Row { die, block, first, count: 0 })
    }
}

impl Index<u32> for Dies {
    type Output = DieStreams;
    #[inline]
    fn index(&self, die: u32) -> &DieStreams {
        &self.streams[die as usize]
    }
}

impl IndexMut<u32> for Dies {
    #[inline]
    fn index_mut(&mut self, die: u32) -> &mut DieStreams {
        &mut self.streams[die as usize]
    }
}

/// The write streams and the collector of one die.
#[derive(Clone)]
pub(super) struct DieStreams {
    pub host: OpenBlock,
    pub gc: OpenBlock,
    /// Rows of host data in flight.
    pub host_rows: u8,
    /// Rows of moved data in flight.
    pub gc_rows: u8,
    /// Whether free blocks fell below the low mark and have not recovered.
    pub collecting: bool,
    /// The block being read, and its next superpage.
    pub victim: u32,
    pub superpage: u32,
    /// Collector reads in flight: superpage numbers, oldest first.
    pub reading: [u32; COLLECTOR_READS],
    pub reads: usize,
    /// Units read and not yet programmed, with where they were: (logical, physical).
    pub pending: Vec<(u32, u32)>,
    /// Victims read to the end and not yet erased.
    pub doomed: u32,
    /// Of these, those whose units are all mapped elsewhere.
    pub erasing: u32,
    /// Blocks being collected and since when, for the trace.
    pub began: Vec<(u32, Nanos)>,
}

/// Collector reads in flight per die.
pub(super) const COLLECTOR_READS: usize = 2;

impl DieStreams {
    pub fn new(layout: &Layout) -> Self {
        let pending =
            Vec::with_capacity(layout.units_per_superpage as usize * (layout.superpages_per_row as usize + 3));
        Self {
            host: OpenBlock::NONE,
            gc: OpenBlock::NONE,
            host_rows: 0,
            gc_rows: 0,
            collecting: false,
            victim: NONE,
            superpage: 0,
            reading: [0; COLLECTOR_READS],
            reads: 0,
            pending,
            doomed: 0,
            erasing: 0,
            began: Vec::new(),
        }
    }

    pub fn all(layout: &Layout) -> Vec<Self> {
        (0..layout.dies).map(|_| Self::new(layout)).collect()
    }
}
