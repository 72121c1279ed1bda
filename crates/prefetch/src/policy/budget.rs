//! Everything, within a budget: windows ahead of readers; regions of what is read at random for long; mappings from map time on.

use super::{Event, FileState, Host, Mapping, Policy};
use crate::access::PAGE_BYTES;
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;

/// Loads what pays within the memory that may be used, and gives up what it loaded for new.
pub(super) struct Budget;

impl Policy for Budget {
    fn observe(&self, file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        match event {
            Event::Opened => None,
            Event::Mapped(mapping) => mapped(mapping, file_bytes, host),
            Event::Read(access) => {
                let plan = super::window(file, access, file_bytes, true, host);
                if plan.is_some() || !file.streams.is_random() {
                    return plan;
                }
                file.bulk.pays(access, file_bytes, host)
            }
        }
    }

    fn lifts_limits(&self) -> bool {
        true
    }

    fn evicts(&self) -> bool {
        true
    }
}

/// A mapping's contents from its first byte on: page faults tell nobody what will come next, and each of them waits for the device.
///
/// It is loaded if it may be kept, is cold, and is large: if the pass over what is not there takes longer than a fault, so that the
/// two overlap. What is written may be there for its own sake (a database's buffers).
fn mapped(mapping: &Mapping, file_bytes: u64, host: &Host) -> Option<Plan> {
    let end_bytes = mapping.offset_bytes.saturating_add(mapping.length_bytes).min(file_bytes);
    let start_bytes = mapping.offset_bytes / PAGE_BYTES * PAGE_BYTES;
    let cold_bytes = end_bytes.saturating_sub(start_bytes).saturating_sub(mapping.resident_bytes);
    let is_cold = mapping.resident_bytes <= cold_bytes;
    let is_large = host.pass_ns(cold_bytes) > host.latency_ns;
    let fits = cold_bytes.saturating_add(PAGE_BYTES) <= host.free_bytes;
    let writable = mapping.writable && !mutated(Mutant::WritableMapped);
    (!writable && cold_bytes > 0 && is_cold && is_large && fits).then(|| Plan::contiguous(start_bytes, end_bytes))
}
