//! Tasks that meet in writeback, fsync and commits, on the kernel `order`, whose scheduling points sleep by a seed: what a power cut
//! leaves is judged without a kernel, and some of it mounted. With `PLUMB_LONG` each rule of the series is taken out of the kernel in
//! turn, and must be missed (`ordering_mutants/`).

#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::{Command, Stdio};

use linux_rig::{PLUMB, has, kernel_with_streams};

/// Free blocks that hold what no file may show.
const OLD: &str = "yes OLD | head -c 20000000 > old; sync; rm old; sync";

/// A file of 96 blocks, that is written over: one task has writeback begun of all of it, and another syncs it.
const OVERWRITTEN: &str = "head -c 393216 /dev/zero > common; sync";
const BEGUN_AND_SYNCED: &str = r#"
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 12) {
        for $b (0 .. 63) { sysseek(F, $b << 12, 0); syswrite(F, sprintf("A %d %d ....\n", $r, $b) x 500, 4096); }
        syscall(277, fileno(F), 0, 0, 2);
    }' &
perl -e 'use IO::Handle; open(F, "+<", "common") or die $!;
    for $r (1 .. 12) {
        sysseek(F, (64 + $r) << 12, 0); syswrite(F, sprintf("B %d ........\n", $r) x 500, 4096); F->sync or die $!;
    }' &
wait"#;

/// One task makes files of many blocks and syncs them, another makes a file longer and syncs that.
const GROWING: &str = r#"
perl -e 'use IO::Handle;
    for $r (1 .. 16) { open(F, ">", "grows$r") or die $!; syswrite(F, sprintf("G %4d ........\n", $r) x 10240, 163840); F->sync or die $!; close F; }' &
perl -e 'use IO::Handle; for $r (1 .. 40) { open(F, ">>", "other"); syswrite(F, sprintf("O %4d ........\n", $r) x 256); F->sync or die $!; close F; }' &
wait"#;

/// One task writes files past the page cache, another has commits made.
const DIRECT: &str = r#"
for i in 1 2 3 4 5 6; do
    perl -e 'print "direct $ARGV[0] ...\n" x 8192' $i | dd of=direct$i bs=16384 count=4 oflag=direct iflag=fullblock status=none
    echo x >> other; sync other
done &
perl -e 'use IO::Handle; for $r (1 .. 25) { open(F, ">>", "log"); syswrite(F, sprintf("O %4d ........\n", $r) x 256); F->sync or die $!; close F; }' &
wait"#;

/// One task has commits made without end; another makes a file longer, and overwrites a block of it once that transaction commits,
/// and syncs the data: nothing is left of it to commit.
const MET_BY_A_COMMIT: &str = r#"
perl -e 'use IO::Handle; for $r (1 .. 80) { open(F, ">>", "log"); syswrite(F, sprintf("O %4d ........\n", $r) x 256); F->sync or die $!; close F; }' &
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 40) {
        sysseek(F, 0, 2); syswrite(F, sprintf("L %4d ........\n", $r) x 256, 4096);
        select(undef, undef, undef, 0.001 * ($r % 7));
        sysseek(F, ($r % 16) << 12, 0); syswrite(F, sprintf("B %4d ........\n", $r) x 256, 4096);
        syscall(75, fileno(F)) == 0 or die $!;
    }' &
wait"#;

/// How a race is run.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// `streams...`, or nothing for stock ext4.
    ordering: &'a str,
    mount: &'a str,
    mkfs: &'a str,
    setup: &'a str,
    script: &'a str,
    delay_every: u32,
    seed: u64,
    states: u64,
    mounted: u64,
    kernel_patch: Option<&'a Path>,
}

const RUN: Run<'static> = Run {
    ordering: "streams",
    mount: "",
    mkfs: "-b 4096",
    setup: "true",
    script: "true",
    delay_every: 23,
    seed: 1,
    states: 3000,
    mounted: 4,
    kernel_patch: None,
};

/// Distinct states, and those that are bad.
struct Found {
    distinct: u64,
    bad: u64,
    unread: u64,
    report: serde_json::Value,
}

impl Run<'_> {
    fn run(&self) -> Found {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(PLUMB);
        command.args([
            "crash",
            "--time-limit",
            "3600",
            "--size",
            "48MiB",
            "--mkfs-options",
            self.mkfs,
            "--setup",
            self.setup,
        ]);
        if !self.ordering.is_empty() {
            command.args(["--ordering", self.ordering]);
        }
        if !self.mount.is_empty() {
            command.args(["--mount-options", self.mount]);
        }
        if let Some(patch) = self.kernel_patch {
            command.args(["--kernel", "order", "--kernel-patch"]).arg(patch);
        }
        command.args(["--migrate-every", "3", "--delay-every", &self.delay_every.to_string()]);
        command.args(["--seed", &self.seed.to_string(), "--offline-states", &self.states.to_string()]);
        command.args(["--states", &self.mounted.to_string(), "--json", "--out"]).arg(folder.path().join("out"));
        command.args(["--", "sh", "-c", self.script]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let counts = |name: &str| report["offline"]["counts"][name].as_u64().unwrap();
        let [distinct, bad, unread] = ["distinct", "bad", "unread"].map(counts);
        Found { distinct, bad, unread, report }
    }

    /// Everything is good, whoever judges.
    fn assert_good(&self, name: &str) {
        let found = self.run();
        println!("{name}, seed {}: {} distinct states, {} bad", self.seed, found.distinct, found.bad);
        let mounted = found.report["bad"].as_array().unwrap().len();
        assert_eq!((found.bad, found.unread, mounted), (0, 0, 0), "{name}, seed {}: {:#}", self.seed, found.report);
        assert!(found.distinct > 100, "{name}: {:#}", found.report);
    }
}

fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

fn is_ready() -> bool {
    kernel_with_streams().is_some() && has("mkfs.ext4") && has("perl")
}

#[test]
fn an_fsync_waits_for_what_another_task_has_not_submitted() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { setup: OVERWRITTEN, script: BEGUN_AND_SYNCED, seed, ..RUN }.assert_good("begun and synced");
    }
}

#[test]
fn a_commit_waits_for_what_another_task_has_not_submitted() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { mount: "nodelalloc", setup: OLD, script: GROWING, seed, ..RUN }.assert_good("growing, nodelalloc");
    }
}

#[test]
fn a_commit_waits_for_what_is_written_past_the_page_cache() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { setup: OLD, script: DIRECT, seed, delay_every: 97, ..RUN }.assert_good("direct");
    }
}

#[test]
fn an_fsync_that_finds_a_commit_under_way_is_kept() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { setup: OVERWRITTEN, script: MET_BY_A_COMMIT, seed, ..RUN }.assert_good("met by a commit");
    }
}

#[test]
fn tasks_that_do_everything_to_few_files_lose_nothing() {
    if !is_ready() {
        return;
    }
    let full = format!("{OLD}; yes filler | head -c 38000000 > filler; sync");
    let kinds = [
        ("streams:task,counted", "", "-b 4096", OLD),
        ("streams:one,counted", "nodelalloc", "-b 4096", OLD),
        ("streams:cgroup,counted", "", "-b 1024", OLD),
        ("streams:one,pinned", "nodelalloc", "-b 1024", OLD),
        ("streams:task,counted", "", "-b 4096", &*full),
        ("", "", "-b 4096", OLD),
    ];
    for (number, (ordering, mount, mkfs, setup)) in (1..).zip(kinds) {
        for seed in 1..=if is_long() { 20 } else { 1 } {
            let seed = seed * 100 + number;
            let script = format!("exec {PLUMB} app races --tasks 3 --steps 16 --seed {seed}");
            let states = if is_long() { 3000 } else { 1000 };
            let run = Run { ordering, mount, mkfs, setup, script: &script, seed, states, ..RUN };
            run.assert_good(&format!("{ordering} {mount} {mkfs}"));
        }
    }
}

/// A rule of the series that is taken out, and the race in which that shows.
struct Mutant {
    patch: &'static str,
    run: Run<'static>,
}

const MUTANTS: [Mutant; 7] = [
    Mutant {
        patch: "fsync-passes-over-others-pages.patch",
        run: Run { setup: OVERWRITTEN, script: BEGUN_AND_SYNCED, states: 6000, ..RUN },
    },
    Mutant {
        patch: "commit-passes-over-others-pages.patch",
        run: Run { mount: "nodelalloc", setup: OLD, script: GROWING, states: 6000, ..RUN },
    },
    Mutant {
        patch: "direct-writes-are-not-reported.patch",
        run: Run { setup: OLD, script: DIRECT, delay_every: 97, states: 6000, ..RUN },
    },
    Mutant {
        patch: "fsync-relies-on-the-commit-under-way.patch",
        run: Run { setup: OVERWRITTEN, script: MET_BY_A_COMMIT, states: 6000, ..RUN },
    },
    Mutant { patch: "record-in-the-epoch-of-its-blocks.patch", run: Run { setup: OLD, script: GROWING, ..RUN } },
    Mutant { patch: "no-flush-at-the-end.patch", run: Run { setup: OLD, script: GROWING, ..RUN } },
    Mutant { patch: "data-without-the-journals-stream.patch", run: Run { setup: OLD, script: GROWING, ..RUN } },
];

#[test]
fn a_kernel_without_one_of_the_rules_is_found_out() {
    if !is_long() {
        println!("skipped: builds kernels; PLUMB_LONG=1 runs it");
        return;
    }
    if !is_ready() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ordering_mutants");
    for Mutant { patch, run } in MUTANTS {
        let file = folder.join(patch);
        let mut looked_at = 0;
        let caught = (1..=5).any(|seed| {
            let found = Run { seed, kernel_patch: Some(&file), ..run }.run();
            looked_at += found.distinct;
            found.bad > 0
        });
        println!("{patch}: {} after {looked_at} distinct states", if caught { "found out" } else { "not found" });
        assert!(caught, "{patch}: {looked_at} distinct states are good");
    }
}
