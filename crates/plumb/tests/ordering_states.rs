//! A million distinct states of each order and program, judged without a kernel, and a thousand of each mounted: the table of
//! `docs/opimq.md`. `PLUMB_LONG` runs it.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use linux_rig::{PLUMB, has, is_long};
use ordering_rig::programs::{INSERTS, OLD, REPLACED, TABLE};
use ordering_rig::{Found, RUN, Run, is_ready};

/// Stock ext4, on a drive with FUA and on one without, and each order.
const ORDERINGS: [(&str, &str); 8] = [
    ("", ""),
    ("", "controller.without_fua=true"),
    ("streams:one,counted", ""),
    ("streams:task,counted", ""),
    ("streams:cgroup,counted", ""),
    ("streams:one,pinned", ""),
    ("streams:task,pinned", ""),
    ("streams:cgroup,pinned", ""),
];

/// The published design, in which nothing but arrival orders a dual write before a commit record of another queue (docs/ordering.md):
/// a state that shows it is no fault of the series.
const RACES: [&str; 2] = ["streams:task,pinned", "streams:cgroup,pinned"];

/// The words for it.
const RACE: &str = "the earlier came late, when its epoch had been closed by arrival";
/// What it can do to a file, at the most to one of so many states.
const OLD_CONTENTS: [&str; 3] = ["an old version in", "zeroes in", "bytes that were never written there in"];
const RACE_OF: u64 = 1000;

const MILLION: u64 = 1_000_000;
/// What the kernel mounts of them.
const MOUNTED: u64 = 1000;

/// How long a program is, in its own steps, and how many states of it are made.
struct Length {
    steps: u32,
    states: u64,
}

const fn length(steps: u32, states: u64) -> Length {
    Length { steps, states }
}

/// The program of so many steps, with each order. An epoch that is pinned, or a drive that is never told to write through, leaves fewer
/// states at a crash point, so that it takes a longer run to have a million.
fn counted(name: &str, program: Run<'_>, length_of: impl Fn(&str) -> Length, script: impl Fn(u32) -> String) {
    if !is_long() {
        println!("skipped: looks at millions of states; PLUMB_LONG=1 runs it");
        return;
    }
    if !is_ready() {
        return;
    }
    for (ordering, drive) in ORDERINGS {
        let Length { steps, states } = length_of(ordering);
        let script = script(steps);
        let name = format!("{name}, {}, {drive}", if ordering.is_empty() { "stock" } else { ordering });
        let run = Run { ordering, drive, delay_every: 0, mounted: MOUNTED, states, script: &script, ..program };
        let found = if RACES.contains(&ordering) {
            let found = run.run();
            println!("{name}: {} distinct states of {}, {} bad", found.distinct, found.generated, found.bad);
            assert_the_race_alone(&name, &found);
            found
        } else {
            run.assert_good(&name)
        };
        let mounted = found.report["states"].as_u64().unwrap();
        println!("{name}: {mounted} mounted");
        assert!(mounted >= MOUNTED, "{name}: {mounted} mounted");
        // Stock ext4 is there to be compared with: dbench leaves it a third of that.
        let least = if (ordering, drive) == ("", "") { MILLION / 4 } else { MILLION };
        assert!(found.distinct >= least, "{name}: {} distinct states of {}", found.distinct, found.generated);
    }
}

/// Nothing is wrong but a race that is known: where the kernel mounted a state, its cause is told; elsewhere a state is told by what it
/// lost and what it says, which is data that is missing behind a commit record that is there.
fn assert_the_race_alone(name: &str, found: &Found) {
    assert_eq!(found.unread, 0, "{name}");
    // The kernel mounts some of those that were found without it, too.
    let causes = found.report["causes"].as_array().unwrap();
    assert!(found.bad == 0 || !causes.is_empty(), "{name}: {:#}", found.report);
    for cause in causes {
        let is_race = cause["kind"] == "order" && cause["words"].as_str().unwrap().contains(RACE);
        assert!(is_race, "{name}: {cause:#}");
    }
    for bad in found.report["offline"]["shown"].as_array().unwrap() {
        let is_of_contents = |line: &str| OLD_CONTENTS.iter().any(|contents| line.contains(contents));
        assert!(bad["what"].as_str().unwrap().lines().any(is_of_contents), "{name}: {bad:#}");
        let smallest = bad["smallest"].as_array();
        assert!(smallest.is_none_or(|lost| !lost.is_empty()), "{name}: nothing has to be lost for it: {bad:#}");
    }
    assert!(found.bad * RACE_OF <= found.distinct, "{name}: {} of {}", found.bad, found.distinct);
}

fn is_pinned(ordering: &str) -> bool {
    ordering.ends_with(",pinned")
}

#[test]
fn of_a_mail_server() {
    let varmail = |how: &str| format!("{PLUMB} app varmail {how} --folder . --files 60 --threads 4");
    let setup = format!("{}; sync", varmail("--prepare"));
    let length =
        |ordering: &str| if is_pinned(ordering) { length(38_000, 75 * MILLION) } else { length(3000, 12 * MILLION) };
    counted("varmail", Run { setup: &setup, ..RUN }, length, |operations| {
        varmail(&format!("--run --operations {operations}"))
    });
}

#[test]
fn of_files_that_are_replaced() {
    let length =
        |ordering: &str| if is_pinned(ordering) { length(300, 18 * MILLION) } else { length(200, 12 * MILLION) };
    counted("renames", RUN, length, |rounds| REPLACED.replace("1 .. 20)", &format!("1 .. {rounds})")));
}

#[test]
fn of_a_database() {
    if has("sqlite3") {
        let length = |ordering: &str| length(30, if ordering.is_empty() { 12 * MILLION } else { 4 * MILLION });
        counted("SQLite", Run { setup: TABLE, ..RUN }, length, |rows| {
            INSERTS.replace("seq 30", &format!("seq {rows}"))
        });
    }
}

#[test]
fn of_a_file_server() {
    if has("dbench") {
        // Seconds of virtual time.
        let length = |ordering: &str| match ordering {
            ordering if RACES.contains(&ordering) => length(5, 25 * MILLION),
            _ => length(4, 20 * MILLION),
        };
        let dbench = |seconds| format!("dbench -c /usr/share/dbench/client.txt -t {seconds} -D . 2");
        counted("dbench", Run { size: "128MiB", ..RUN }, length, dbench);
    }
}

#[test]
fn of_tasks_that_do_everything() {
    let length = |ordering: &str| length(40, if ordering.is_empty() { 7 * MILLION } else { 4 * MILLION });
    counted("races", Run { setup: OLD, ..RUN }, length, |steps| {
        format!("{PLUMB} app races --tasks 3 --steps {steps} --seed 1")
    });
}
