//! Counters of the modelled host, under the names of the results.

use block::{HardwareQueueStatistics, OrderStatistics, Statistics};

/// The block layer's counters, in a fixed order; names end in their unit.
pub(super) fn block_counters(statistics: &Statistics) -> Vec<(String, u64)> {
    let dispatched = statistics.dispatched;
    let mut counters: Vec<(String, u64)> = [
        ("bios", statistics.bios),
        ("merges_back", statistics.merges_back),
        ("merges_front", statistics.merges_front),
        ("merges_discard", statistics.merges_discard),
        ("merges_request", statistics.merges_request),
        ("splits", statistics.splits),
        ("requeues", statistics.requeues),
        ("tag_waits", statistics.tag_waits),
        ("read_commands", dispatched.read),
        ("write_commands", dispatched.write),
        ("deallocate_commands", dispatched.deallocate),
        ("write_zeroes_commands", dispatched.write_zeroes),
        ("flush_commands", dispatched.flush),
        ("time_in_queue_ns", statistics.time_in_queue.0),
        ("time_at_device_ns", statistics.time_at_device.0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (index, queue) in statistics.hardware_queues.iter().enumerate() {
        let HardwareQueueStatistics { dispatched, .. } = queue;
        counters.push((format!("queue{index}_commands"), *dispatched));
    }
    counters
}

/// What was done for ordered writes; nothing where there were none.
pub(super) fn order_counters(order: &OrderStatistics) -> Vec<(String, u64)> {
    if order.bios == 0 {
        return Vec::new();
    }
    [
        ("order_bios", order.bios),
        ("order_bios_by_waiting", order.by_waiting),
        ("order_holds", order.holds),
        ("order_epochs", order.epochs),
        ("order_stream_commands", order.stream_commands),
        ("order_broken_streams", order.broken),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The processors' counters: `cpu.coreN_busy_ns` and totals.
pub(super) fn cpu_counters(counters: &[(String, u64)]) -> impl Iterator<Item = (String, u64)> {
    counters.iter().map(|(name, value)| {
        let name = name.strip_prefix("cpu").map_or(name.clone(), |core| format!("core{core}"));
        (format!("cpu.{name}"), *value)
    })
}
