//! A million distinct states of each order and program, judged without a kernel, and a thousand of each mounted: the table of
//! `docs/opimq.md`. `PLUMB_LONG` runs it.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use linux_rig::{PLUMB, has, is_long};
use ordering_rig::programs::{INSERTS, OLD, REPLACED, TABLE};
use ordering_rig::{RUN, Run, is_ready};

const ORDERINGS: [&str; 7] = [
    "",
    "streams:one,counted",
    "streams:task,counted",
    "streams:cgroup,counted",
    "streams:one,pinned",
    "streams:task,pinned",
    "streams:cgroup,pinned",
];

/// The published design, in which nothing but arrival orders a dual write before a commit record of another queue (docs/ordering.md):
/// a state that shows it is no fault of the series.
const RACES: [&str; 2] = ["streams:task,pinned", "streams:cgroup,pinned"];

/// Of this program so many states are generated.
fn counted(name: &str, program: Run<'_>) {
    if !is_long() {
        println!("skipped: looks at millions of states; PLUMB_LONG=1 runs it");
        return;
    }
    if !is_ready() {
        return;
    }
    for ordering in ORDERINGS {
        let run = Run { ordering, delay_every: 0, mounted: 1000, ..program };
        let name = format!("{name}, {}", if ordering.is_empty() { "stock" } else { ordering });
        if RACES.contains(&ordering) {
            let found = run.run();
            println!("{name}: {} distinct states, {} bad", found.distinct, found.bad);
            assert_eq!(found.unread, 0, "{name}");
            // Of what the kernel mounted nothing else is wrong.
            for cause in found.report["causes"].as_array().unwrap() {
                assert_eq!(cause["kind"], "order", "{name}: {cause:#}");
            }
        } else {
            run.assert_good(&name);
        }
    }
}

#[test]
fn of_a_mail_server() {
    let varmail = |how: &str| format!("{PLUMB} app varmail {how} --folder . --files 60 --threads 4");
    let (setup, script) = (format!("{}; sync", varmail("--prepare")), varmail("--run --operations 3000"));
    counted("varmail", Run { states: 12_000_000, setup: &setup, script: &script, ..RUN });
}

#[test]
fn of_files_that_are_replaced() {
    let script = REPLACED.replace("1 .. 20)", "1 .. 200)");
    counted("renames", Run { states: 12_000_000, script: &script, ..RUN });
}

#[test]
fn of_a_database() {
    if has("sqlite3") {
        counted("SQLite", Run { states: 4_000_000, setup: TABLE, script: INSERTS, ..RUN });
    }
}

#[test]
fn of_a_file_server() {
    if has("dbench") {
        // Four seconds of virtual time.
        let script = "dbench -c /usr/share/dbench/client.txt -t 4 -D . 2";
        counted("dbench", Run { size: "128MiB", states: 20_000_000, script, ..RUN });
    }
}

#[test]
fn of_tasks_that_do_everything() {
    let script = format!("{PLUMB} app races --tasks 3 --steps 40 --seed 1");
    counted("races", Run { states: 4_000_000, setup: OLD, script: &script, ..RUN });
}
