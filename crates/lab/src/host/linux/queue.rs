//! The device's queue inside: its settings, and the kernel's counters of it.

use block::{MqDeadlineConfig, NoMerges};

use crate::spec::Stack;

/// The lines that set the device's queue.
pub(crate) fn queue_commands(stack: &Stack) -> String {
    let mut script = String::from("node=$(readlink -f \"$PLUMB_DEVICE\"); disk=/sys/class/block/${node##*/}\n");
    for (file, value) in queue_settings(stack) {
        script += &format!("echo {value} > \"$disk/queue/{file}\"\n");
    }
    script
}

/// Files below `queue` and what is written to them, the scheduler first.
fn queue_settings(stack: &Stack) -> Vec<(String, String)> {
    let block = &stack.block;
    let mut settings = Vec::new();
    let mut set = |file: &str, value: String| settings.push((file.to_owned(), value));
    if let Some(scheduler) = block.scheduler {
        set("scheduler", scheduler.name().to_owned());
    }
    if let Some(requests) = block.nr_requests {
        set("nr_requests", requests.to_string());
    }
    if let Some(kib) = block.max_sectors_kb {
        set("max_sectors_kb", kib.to_string());
    }
    if block.nomerges != NoMerges::All {
        set("nomerges", u8::from(block.nomerges).to_string());
    }
    let default = MqDeadlineConfig::default();
    let MqDeadlineConfig { read_expire, write_expire, writes_starved, fifo_batch, front_merges, prio_aging_expire } =
        block.mq_deadline.clone();
    let mut tunable = |file: &str, value: u64, default: u64| {
        if value != default {
            set(&format!("iosched/{file}"), value.to_string());
        }
    };
    let ms = |time: units::Nanos| time.0 / 1_000_000;
    tunable("read_expire", ms(read_expire), ms(default.read_expire));
    tunable("write_expire", ms(write_expire), ms(default.write_expire));
    tunable("writes_starved", writes_starved.into(), default.writes_starved.into());
    tunable("fifo_batch", fifo_batch.into(), default.fifo_batch.into());
    tunable("front_merges", front_merges.into(), default.front_merges.into());
    tunable("prio_aging_expire", ms(prio_aging_expire), ms(default.prio_aging_expire));
    settings
}

/// The kernel's counters under the names of the model's, out of the text of `stat` (Documentation/admin-guide/iostats.rst).
pub(crate) fn queue_counters(line: &str) -> Vec<(String, u64)> {
    let values: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    const NAMES: [(usize, &str); 8] = [
        (0, "read_commands"),
        (1, "read_merges"),
        (4, "write_commands"),
        (5, "write_merges"),
        (11, "deallocate_commands"),
        (12, "merges_discard"),
        (15, "flush_commands"),
        (10, "time_in_queue_ms"),
    ];
    NAMES.iter().filter_map(|(column, name)| Some((format!("block.{name}"), *values.get(*column)?))).collect()
}
