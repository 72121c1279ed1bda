//! Large, cold, read-only mappings: loaded from map time on.

use super::{Host, Mapping};
use crate::access::PAGE_BYTES;
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;

/// A mapping's contents from its first byte on: page faults tell nobody what will come next, and each of them waits for the device.
///
/// It is loaded if it may be kept, is cold, and is large: if the pass over what is not there takes longer than a fault, so that the
/// two overlap. What is written may be there for its own sake (a database's buffers).
pub(super) fn mapped(mapping: &Mapping, file_bytes: u64, host: &Host) -> Option<Plan> {
    let end_bytes = mapping.offset_bytes.saturating_add(mapping.length_bytes).min(file_bytes);
    let start_bytes = mapping.offset_bytes / PAGE_BYTES * PAGE_BYTES;
    let cold_bytes = end_bytes.saturating_sub(start_bytes).saturating_sub(mapping.resident_bytes);
    let is_cold = mapping.resident_bytes <= cold_bytes;
    let is_large = host.pass_ns(cold_bytes) > host.latency_ns;
    let fits = cold_bytes.saturating_add(PAGE_BYTES) <= host.free_bytes;
    let writable = mapping.writable && !mutated(Mutant::WritableMapped);
    (!writable && cold_bytes > 0 && is_cold && is_large && fits).then(|| Plan::contiguous(start_bytes, end_bytes))
}
