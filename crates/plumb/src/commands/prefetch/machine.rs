//! The machine of a simulation as options, and how its outcomes are told.

use clap::Args;
use prefetch::policy::POLICIES;
use prefetch::simulate::{Machine, Outcome, Trace, oracle, simulate};
use serde_json::{Value, json};
use units::{ByteSize, Nanos};

use crate::terminal::print_table;

/// A device, memory, and the kernel's readahead.
#[derive(Args)]
pub struct MachineArguments {
    /// From a small request to its answer
    #[arg(long, value_name = "TIME", default_value = "80us")]
    latency: Nanos,
    /// What the device reads in a second
    #[arg(long, value_name = "SIZE", default_value = "3GB")]
    bandwidth: ByteSize,
    /// Requests that the device works on at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue_depth: usize,
    /// The page cache
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: ByteSize,
    /// Most memory for what was loaded and is not read yet [default: half of the memory]
    #[arg(long, value_name = "SIZE")]
    budget: Option<ByteSize>,
    /// The kernel's own window
    #[arg(long, value_name = "SIZE", default_value = "128KiB")]
    read_ahead: ByteSize,
}

impl MachineArguments {
    /// The machine.
    pub fn machine(&self) -> Machine {
        Machine {
            latency_ns: self.latency.0,
            bandwidth_bytes_per_second: self.bandwidth.0,
            queue_depth: self.queue_depth,
            prefetch_depth: self.queue_depth.div_ceil(2),
            memory_bytes: self.memory.0,
            budget_bytes: self.budget.map_or(self.memory.0 / 2, |budget| budget.0),
            readahead_bytes: self.read_ahead.0,
            ..Machine::FLASH
        }
    }
}

/// What each policy makes of a trace, and perfect foresight.
pub struct Comparison {
    outcomes: Vec<(&'static str, Outcome)>,
    oracle: Outcome,
}

const HEADER: [&str; 10] = [
    "policy",
    "time",
    "of plain",
    "of the oracle's gain",
    "hits",
    "device",
    "accuracy",
    "coverage",
    "in time",
    "evicted unread",
];

impl Comparison {
    /// Simulates all of them.
    pub fn of(trace: &Trace, machine: &Machine) -> Self {
        let outcomes: Vec<_> =
            POLICIES.iter().map(|(name, policy)| (*name, simulate(trace, machine, *policy))).collect();
        // Foresight can do what any policy does: where none of its own ways is as fast, that is the bound.
        let ways = outcomes.iter().map(|(_, outcome)| *outcome).chain([oracle(trace, machine)]);
        let oracle = ways.min_by_key(|outcome| outcome.time_ns).unwrap_or_default();
        Self { outcomes, oracle }
    }

    fn plain(&self) -> Outcome {
        self.outcomes.first().map(|(_, outcome)| *outcome).unwrap_or_default()
    }

    /// The policy that takes the least time; of equal ones the first, which does least.
    pub fn best(&self) -> &'static str {
        self.outcomes.iter().min_by_key(|(_, outcome)| outcome.time_ns).map_or("app-only", |(name, _)| name)
    }

    /// A table.
    pub fn print(&self) {
        let plain = self.plain();
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let row = |name: &str, outcome: &Outcome| {
            let prefetched = outcome.prefetched_pages > 0;
            let of_prefetched = |share: f64| if prefetched { percent(share) } else { "-".into() };
            vec![
                name.to_owned(),
                Nanos(outcome.time_ns).to_string(),
                format!("{:.3}", outcome.time_ns as f64 / plain.time_ns.max(1) as f64),
                outcome.share_of_gain(&plain, &self.oracle).map_or("-".into(), percent),
                percent(outcome.hits as f64 / outcome.reads.max(1) as f64),
                ByteSize(outcome.device_bytes).to_string(),
                of_prefetched(outcome.accuracy()),
                of_prefetched(outcome.coverage()),
                of_prefetched(outcome.timeliness()),
                of_prefetched(outcome.evicted_pages as f64 / outcome.prefetched_pages.max(1) as f64),
            ]
        };
        let rows = self.outcomes.iter().map(|(name, outcome)| row(name, outcome));
        let rows: Vec<_> = rows.chain([row("oracle", &self.oracle)]).collect();
        print_table(&HEADER, &rows);
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let plain = self.plain();
        let one = |name: &str, outcome: &Outcome| {
            json!({
                "policy": name,
                "time_ns": outcome.time_ns,
                "share_of_oracle_gain": outcome.share_of_gain(&plain, &self.oracle),
                "reads": outcome.reads,
                "hits": outcome.hits,
                "device_bytes": outcome.device_bytes,
                "requests": outcome.requests,
                "prefetched_pages": outcome.prefetched_pages,
                "used_pages": outcome.used_pages,
                "late_pages": outcome.late_pages,
                "evicted_unread_pages": outcome.evicted_pages,
                "missed_pages": outcome.missed_pages,
            })
        };
        let all = self.outcomes.iter().map(|(name, outcome)| one(name, outcome));
        all.chain([one("oracle", &self.oracle)]).collect()
    }
}
