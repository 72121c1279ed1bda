//! What an SSD begins with: where its data lies and how full its blocks are, which many devices of one profile share.

use crate::config::{ConfigError, SsdConfig};
use crate::ftl::blocks::Blocks;
use crate::slab::NONE;
use crate::state::InitialLayout;

use super::dies::DieStreams;

/// The state at the start. The seed alone says which units lie where; how full blocks are does not depend on it.
#[derive(Clone)]
pub(crate) struct Start {
    pub(super) initial: InitialLayout,
    pub(super) blocks: Blocks,
    pub(super) streams: Vec<DieStreams>,
    /// Host units written so far.
    pub(super) host_units: u64,
}

impl Start {
    /// As the configuration says.
    pub(crate) fn of(config: &SsdConfig) -> Result<Self, ConfigError> {
        let layout = config.layout()?;
        let initial = InitialLayout::new(config, &layout)?;
        let mut streams = DieStreams::all(&layout);
        let mut blocks = Blocks::new(&layout, config.initial.pe_cycles);
        let host_units = blocks.fill(&layout, &initial, |die, gc, block| {
            let streams = &mut streams[die as usize];
            if !gc && config.slc_cache.is_none() {
                streams.host = block;
                return;
            }
            // The host begins in the SLC cache; a block begun in full cells is
            // the collector's, unless it has one of its own.
            let earlier = std::mem::replace(&mut streams.gc, block);
            if earlier.block != NONE {
                streams.host = earlier;
            }
        });
        Ok(Self { initial, blocks, streams, host_units })
    }

    /// A copy of it under a seed.
    pub(super) fn under(&self, seed: u64) -> Self {
        Self { initial: self.initial.seeded(seed), ..self.clone() }
    }
}
