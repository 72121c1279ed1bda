//! Array times by page type.

use units::Nanos;

use crate::config::SsdConfig;

/// How long array operations take.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    read: Vec<Nanos>,
    program: Vec<Nanos>,
    erase: Nanos,
    /// Read, program, erase of a block in SLC mode.
    slc: [Nanos; 3],
    bits: u32,
}

impl Timing {
    pub fn new(config: &SsdConfig) -> Self {
        let cell = &config.cell;
        let bits = cell.bits;
        let per_type = |times: &[Nanos]| (0..bits as usize).map(|page| times[page % times.len()]).collect();
        let slc = config
            .slc_cache
            .as_ref()
            .map_or([cell.read[0], cell.program[0], cell.erase], |slc| [slc.read, slc.program, slc.erase]);
        Self { read: per_type(&cell.read), program: per_type(&cell.program), erase: cell.erase, slc, bits }
    }

    /// tR of page `page` of a block.
    #[inline]
    pub fn read(&self, page: u32, slc: bool) -> Nanos {
        if slc { self.slc[0] } else { self.read[(page % self.bits) as usize] }
    }

    /// tPROG of the row that begins with page `page` of a block.
    #[inline]
    pub fn program(&self, page: u32, slc: bool) -> Nanos {
        if slc { self.slc[1] } else { self.program[(page % self.bits) as usize] }
    }

    /// tPROG of a map-journal page: one bit per cell, where the device has such blocks.
    pub fn program_journal(&self) -> Nanos {
        self.slc[1]
    }

    /// tBERS.
    pub fn erase(&self, slc: bool) -> Nanos {
        if slc { self.slc[2] } else { self.erase }
    }
}
