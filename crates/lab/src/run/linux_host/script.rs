//! What runs inside: the queue's settings, fio, and the kernel's counters.

use std::path::Path;

use block::{MqDeadlineConfig, NoMerges};

use super::{FIO_RESULT, JOB_FILE, LinuxWorkload};
use crate::spec::Stack;

/// Begins the line with the kernel's counters of the device.
const COUNTERS: &str = "plumb-queue-counters ";

/// The shell script of a run; its status is fio's.
pub(super) fn of(stack: &Stack, scratch: &Path, workload: &LinuxWorkload) -> String {
    let mut script = queue_commands(stack);
    if workload.passthrough() {
        // The character device of the same namespace.
        script += "PLUMB_DEVICE=/dev/ng${node#/dev/nvme}; export PLUMB_DEVICE\n";
    }
    let folder = scratch.display();
    script += &format!(
        "status=0; fio --output-format=normal,json+ --output='{folder}/{FIO_RESULT}' '{folder}/{JOB_FILE}' >&2 || status=$?\n"
    );
    script += &format!("echo \"{COUNTERS}\"$(cat \"$disk/stat\")\nexit $status\n");
    script
}

/// The lines that set the device's queue.
pub(in super::super) fn queue_commands(stack: &Stack) -> String {
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

/// The kernel's counters under the names of the model's, out of the script's
/// output (Documentation/admin-guide/iostats.rst).
pub(super) fn told_counters(output: &str) -> Vec<(String, u64)> {
    let line = output.lines().rev().find_map(|line| line.strip_prefix(COUNTERS));
    line.map(queue_counters).unwrap_or_default()
}

/// The same out of the text of `stat`.
pub(in super::super) fn queue_counters(line: &str) -> Vec<(String, u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_by_column() {
        let text = format!("noise\n{COUNTERS}1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        let counters = told_counters(&text);
        assert!(counters.contains(&("block.read_commands".to_owned(), 1)));
        assert!(counters.contains(&("block.write_merges".to_owned(), 6)));
        assert!(counters.contains(&("block.flush_commands".to_owned(), 16)));
        assert_eq!(told_counters("nothing"), []);
        assert_eq!(told_counters(&format!("{COUNTERS}x")), []);
    }
}
