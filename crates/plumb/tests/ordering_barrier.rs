//! What a power cut takes of programs as they are whose `fsync` is a barrier, beside the same programs with every promise kept: the
//! counts of `docs/for-database-authors.md`. `PLUMB_LONG` looks at as many states as the page has.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use linux_rig::{PLUMB, has, is_long};
use ordering_rig::is_ready;

/// A program that does something so many times, each acknowledged by a line once it is over, and a check that answers for each state.
struct Program {
    setup: &'static str,
    /// `$TIMES` is how often.
    script: &'static str,
    /// `$LEVEL`, of SQLite.
    level: &'static str,
    /// Says in `$n` how many can be seen, or fails with a word where what can be seen is no prefix of what was done.
    seen: &'static str,
}

const TIMES: u32 = 30;

const SQLITE: &str = r#"{ echo "pragma synchronous=$LEVEL;"
    for i in $(seq $TIMES); do
        echo "insert into t values($i, hex(randomblob(500)));"
        echo ".shell echo $i > \$PLUMB_ACKNOWLEDGE"
    done; } | sqlite3 -batch db > /dev/null"#;

/// Nothing is damaged, and there is no row without those before it.
const ROWS: &str = r#"[ "$(sqlite3 db 'pragma integrity_check')" = ok ] || { echo broken; exit 1; }
    n=$(sqlite3 db 'select count(*) from t')
    [ "$(sqlite3 db 'select coalesce(max(i), 0) from t')" = $n ] || { echo broken: a hole; exit 1; }"#;

const WAL: Program = Program {
    setup: "sqlite3 db 'pragma journal_mode=wal; create table t(i integer primary key, v text)'",
    script: SQLITE,
    level: "full",
    seen: ROWS,
};

const ROLLBACK: Program = Program {
    setup: "sqlite3 db 'pragma journal_mode=delete; create table t(i integer primary key, v text)'",
    script: SQLITE,
    level: "extra",
    seen: ROWS,
};

/// git says nothing of when the name of a commit is durable: its folder is synchronised, as a caller would who has to know.
const GIT: Program = Program {
    setup: "git init -q . && git config user.name n && git config user.email e && git config core.fsync all && git config gc.auto 0 &&
        echo 0 > f && git add f && git commit -qm 0 && sync",
    script: r#"for i in $(seq $TIMES); do
        echo $i > f; git commit -qam $i; sync .git/refs/heads; echo $i > $PLUMB_ACKNOWLEDGE
    done"#,
    level: "",
    seen: r#"git fsck --full --strict > /tmp/said 2>&1 || { echo broken: $(cat /tmp/said); exit 1; }
    n=$(($(git rev-list --count HEAD) - 1))"#,
};

const LOG: Program = Program {
    setup: ": > log; sync",
    script: r#"perl -e 'use IO::Handle; open(L, ">>", "log") or die $!; my $said = $ENV{PLUMB_ACKNOWLEDGE};
    for my $i (1 .. $ENV{TIMES}) {
        syswrite(L, sprintf("%-511d\n", $i)); L->sync or die $!;
        open(A, ">", $said) or die $!; syswrite(A, "$i\n"); close A;
    }'"#,
    level: "",
    seen: r#"n=$(perl -e 'open(L, "<", "log") or die $!; my $n = 0;
    while (<L>) { $_ eq sprintf("%-511d\n", ++$n) or exit 1; } print $n') || { echo broken: line; exit 1; }"#,
};

/// States, and how many of them have lost how many of what was acknowledged.
struct Counts {
    states: u64,
    lost: BTreeMap<u64, u64>,
}

impl Program {
    fn counts(&self, fsync_as: &str, states: u64) -> Counts {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("export TIMES={TIMES} LEVEL={}; {}", self.level, self.script);
        let check = format!(
            "{}\n    lost=$(($(wc -l < $PLUMB_ACKNOWLEDGED) - n)); [ $lost -le 0 ] || {{ echo lost $lost; exit 1; }}",
            self.seen
        );
        let mut command = Command::new(PLUMB);
        command.args(["crash", "--ordering", "streams", "--fsync-as", fsync_as, "--size", "64MiB", "--no-files"]);
        command.args([
            "--states",
            &states.to_string(),
            "--time-limit",
            "3600",
            "--setup",
            self.setup,
            "--check",
            &check,
        ]);
        command.args(["--json", "--out"]).arg(folder.path().join("out")).args(["--", "sh", "-ec", &script]);
        let output = command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(report["acknowledgements"], TIMES, "{report:#}");
        let mut lost = BTreeMap::new();
        for bad in report["bad"].as_array().unwrap() {
            let fault = &bad["verdict"]["fault"];
            let number =
                fault["what"].as_str().unwrap().trim().strip_prefix("lost ").and_then(|text| text.parse().ok());
            // Nothing is damaged, and the kernel's mount and e2fsck find nothing.
            let number = number.unwrap_or_else(|| panic!("{bad:#}"));
            *lost.entry(number).or_default() += 1;
        }
        Counts { states: report["states"].as_u64().unwrap(), lost }
    }

    /// Durable loses nothing; a barrier loses the last at most, and does lose it.
    fn loses_the_last_at_most(&self, name: &str, states: u64) {
        let durable = self.counts("durable", states);
        let barrier = self.counts("barrier", states);
        println!(
            "{name}: of {} states {:?}, of {} with barriers {:?}",
            durable.states, durable.lost, barrier.states, barrier.lost
        );
        assert!(durable.states >= states / 2 && barrier.states >= states / 2, "{name}");
        assert_eq!(durable.lost, BTreeMap::new(), "{name}");
        assert_eq!(barrier.lost.keys().copied().collect::<Vec<_>>(), [1], "{name}: {:?}", barrier.lost);
    }
}

fn states() -> u64 {
    if is_long() { 300 } else { 40 }
}

#[test]
fn of_sqlite_with_a_write_ahead_log() {
    if is_ready() && has("sqlite3") {
        WAL.loses_the_last_at_most("SQLite, WAL", states());
    }
}

#[test]
fn of_sqlite_with_a_rollback_journal() {
    if is_ready() && has("sqlite3") {
        ROLLBACK.loses_the_last_at_most("SQLite, rollback journal", states());
    }
}

#[test]
fn of_git() {
    if is_ready() && has("git") {
        GIT.loses_the_last_at_most("git", states());
    }
}

#[test]
fn of_a_log() {
    if is_ready() {
        LOG.loses_the_last_at_most("a log", states());
    }
}
