//! Databases and git under `plumb crash`, judged by the checks that are built in: what they promise as they are set up here holds in
//! every state, and the same program with a promise taken away is caught. `PLUMB_LONG` looks at 20,000 states of each, by seed, of
//! runs that have more, of which the kernel mounts 1,000; `PLUMB_TRIALS=DIR` keeps their folders, and a second start goes on there.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use std::fmt::Write;

use crash_rig::{Trial, bad};
use linux_rig::{has, is_long};

/// What the long suite looks at, of each program: by its check, on this machine.
const STATES: u64 = 20_000;
/// It generates more, since many are the same; of servers, whose crash points have few undecided writes, most.
const GENERATED: &str = "60000";
const GENERATED_OF_SERVERS: &str = "90000";
/// What the kernel mounts of them.
const MOUNTED: usize = 1000;
/// What a server is told.
const SERVER_TRANSACTIONS: usize = 60;

/// What is run: a name for its folder, flags, what is set up, and what runs.
struct Run<'a> {
    name: &'a str,
    flags: &'a [&'a str],
    setup: &'a str,
    script: &'a str,
}

impl Run<'_> {
    /// What was found in so many states that the kernel mounts, with these flags besides.
    fn report(&self, states: usize, more: &[&str]) -> serde_json::Value {
        let Self { name, flags, setup, script } = *self;
        let trial = Trial::kept("ext4", name).unwrap();
        let states = states.to_string();
        // Longer than an argument may be.
        let file = trial.folder.join("script");
        std::fs::write(&file, script).unwrap();
        let (status, report) = trial
            .run(&[flags, more, &["--states", &states, "--setup", setup]].concat(), &format!(". {}", file.display()));
        let is_bad = !bad(&report).is_empty() || report["offline"]["counts"]["bad"].as_u64() > Some(0);
        assert_eq!(status, i32::from(is_bad), "{report:#}");
        println!(
            "{name}: {} states at {} crash points of {} subsets, {} bad, {} acknowledged",
            report["states"],
            report["moments"],
            report["subsets"],
            bad(&report).len(),
            report["acknowledgements"]
        );
        report
    }

    fn clean(&self, states: usize) {
        let report = self.report(states, &[]);
        assert!(bad(&report).is_empty(), "{report:#}");
        let looked_at = report["states"].as_u64().unwrap();
        // A short run may have fewer.
        assert!(looked_at >= states as u64 / 2, "{looked_at} states");
    }

    fn clean_in_either_suite(&self, states: usize) {
        if is_long() { self.clean_at_length(GENERATED) } else { self.clean(states) }
    }

    /// Servers wait while they end, so more of them than processors look.
    fn clean_at_length(&self, generated: &str) {
        let report =
            self.report(MOUNTED, &["--offline-states", generated, "--offline-check", "--offline-threads", "8"]);
        let counts = &report["offline"]["counts"];
        println!("{}: {counts}", self.name);
        let of = |name: &str| counts[name].as_u64().unwrap();
        assert!(bad(&report).is_empty() && of("bad") + of("unread") == 0, "{report:#}");
        assert!(report["states"].as_u64() >= Some(MOUNTED as u64) && of("distinct") >= STATES, "{report:#}");
    }

    /// Found bad by the check, in these words.
    fn caught(&self, states: usize, says: &str) {
        let report = self.report(states, &[]);
        let says_so = |bad: &serde_json::Value| {
            let fault = &bad["verdict"]["fault"];
            fault["by"] == "check" && fault["what"].as_str().unwrap().contains(says)
        };
        assert!(bad(&report).iter().any(says_so), "{report:#}");
    }
}

fn can(programs: &[&str]) -> bool {
    linux_rig::kernel().is_some() && programs.iter().all(|program| has(program))
}

/// Transactions of many kinds, one a line: what a database is told, and at the end of the line, by the client's word for a command of
/// the shell, a query that answers 1 from then on. The table is `t(i, n, v)`, with a key `i`, a number and a text.
struct Client {
    /// Before each table's name.
    schema: &'static str,
    /// A text of so many letters.
    text: fn(usize) -> String,
    shell: &'static str,
}

impl Client {
    fn transactions(&self, count: usize) -> String {
        (0..count).fold(String::new(), |mut lines, number| {
            let (told, holds) = self.transaction(number);
            writeln!(lines, "{told}").unwrap();
            if let Some(holds) = holds {
                writeln!(lines, "{} echo '{holds}' > $PLUMB_ACKNOWLEDGE", self.shell).unwrap();
            }
            lines
        })
    }

    fn transaction(&self, number: usize) -> (String, Option<String>) {
        let Self { schema, text, .. } = *self;
        let insert = |i: usize, v: &str| format!("insert into {schema}t values({i}, 0, {v});");
        let are_there = |i: &str| format!("select count(*) from {schema}t where {i}");
        let (pair, before) = (number + 1_000_000, number.saturating_sub(3));
        let (told, holds) = match number % 10 {
            0..=2 => (insert(number, &text(600)), are_there(&format!("i = {number}"))),
            // Is deleted below.
            3 => return (insert(number, "1"), None),
            4 => {
                let both = format!("begin; {} {} commit;", insert(number, "2"), insert(pair, &text(4000)));
                (both, are_there(&format!("i in ({number}, {pair})")).replace("count(*)", "count(*) - 1"))
            }
            5 => (
                format!("update {schema}t set n = {number} where i = 0;"),
                are_there(&format!("i = 0 and n >= {number}")),
            ),
            6 => (
                format!("delete from {schema}t where i = {before};"),
                are_there(&format!("i = {before}")).replace("count(*)", "1 - count(*)"),
            ),
            7 => (insert(number, &text(18_000)), are_there(&format!("i = {number} and length(v) = 18000"))),
            8 => {
                let (told, all) = (insert(number, "3"), format!("delete from {schema}t"));
                let partly = format!("begin; {told} savepoint s; {all}; rollback to savepoint s; commit;");
                (partly, are_there(&format!("i = {number}")))
            }
            _ => {
                let table = format!("{schema}u{number}");
                let made = format!("create table {table}(a int); create index x{number} on {table}(a);");
                (format!("{made} insert into {table} values(1);"), format!("select count(*) from {table}"))
            }
        };
        (told, Some(holds))
    }
}

/// Whose own checker takes most of a state's time, and is left out.
const EXT4: [&str; 5] = ["--fs", "ext4", "--size", "128MiB", "--no-fsck"];

/// One process, as an application has it.
fn sqlite(synchronous: &str, transactions: usize) -> String {
    let client = Client { schema: "", text: |letters| format!("hex(randomblob({}))", letters / 2), shell: ".shell" };
    let lines = client.transactions(transactions);
    format!("sqlite3 -batch db > /dev/null <<'END'\npragma synchronous={synchronous};\n{lines}END\n")
}

/// Whose database is in this mode; with these names of what is safe and what is not.
fn sqlite_in(mode: &str, name: &str, safe: &str, transactions: usize) {
    if !can(&["sqlite3", "mkfs.ext4"]) {
        return;
    }
    let setup = format!("sqlite3 db 'pragma journal_mode={mode}; create table t(i integer primary key, n, v text)'");
    let flags = [&EXT4[..], &["--check-as", "sqlite:db"]].concat();
    let transactions = if is_long() { transactions } else { 8 };
    let script = sqlite(safe, transactions);
    Run { name, flags: &flags, setup: &setup, script: &script }.clean_in_either_suite(60);
    let (name, script) = (format!("{name}-off"), sqlite("off", 6));
    Run { name: &name, flags: &flags, setup: &setup, script: &script }
        .caught(60, "acknowledged, and not so any more: select count(*)");
}

#[test]
fn sqlite_with_a_rollback_journal() {
    sqlite_in("delete", "sqlite-extra", "extra", 500);
}

#[test]
fn sqlite_with_a_write_ahead_log() {
    sqlite_in("wal", "sqlite-wal", "full", 600);
}

/// Commits of many kinds. git makes no promise of when a commit's reference is durable: it is asked of commits of which everything
/// was synchronised.
fn git(synchronises: &str, commits: usize) -> String {
    format!(
        "cd repository; git config core.fsync {synchronises}
         for i in $(seq {commits}); do
             case $((i % 8)) in
                 0) git rm -q g$((i - 5)) ;;
                 1) echo $i > f; mkdir d$i; seq $i 3000 > d$i/many; git add . ;;
                 2) echo $i > f$i; git add . ;;
                 3) git mv f$((i - 1)) g$i ;;
                 4) git checkout -qb branch$i; echo $i > h; git add .; git commit -qm on-branch; git checkout -q -
                    git merge -q --no-ff -m merged branch$i; echo $i > f ;;
                 5) git tag -a -m tagged tag$i; echo $i > f ;;
                 6) echo $i > f; git commit -qam before; echo again > f; git commit -qa --amend -m amended; echo $i > f ;;
                 *) git pack-refs --all; [ $((i % 32)) != 31 ] || git repack -adq; echo $i > f ;;
             esac
             git commit -qam $i
             [ $((i % 5)) != 0 ] || {{ sync; git rev-parse HEAD > $PLUMB_ACKNOWLEDGE; }}
         done"
    )
}

#[test]
fn git_that_synchronises_everything() {
    if !can(&["git", "mkfs.ext4"]) {
        return;
    }
    let setup = "git init -q repository; cd repository; git config user.name n; git config user.email e
        git config gc.auto 0; echo 0 > f; git add f; git commit -qm 0; sync";
    let flags = [&EXT4[..], &["--check-as", "git:repository", "--no-files"]].concat();
    let commits = if is_long() { 64 } else { 5 };
    Run { name: "git", flags: &flags, setup, script: &git("all", commits) }.clean_in_either_suite(40);
    // Names of objects are in the journal before what is in them is on the device.
    let lazy = "cd repository; git config core.fsync none
        for i in 1 2 3 4; do echo $i > f; echo $i > f$i; git add .; sync f; git commit -qm $i; done";
    Run { name: "git-lazy", flags: &flags, setup, script: lazy }.caught(60, "empty");
}

const POSTGRESQL_PATH: &str = "PATH=$PATH:/usr/sbin:/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)
    owner() { setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"; }\n";

#[test]
fn postgresql() {
    if !is_long() {
        println!("skipped: PostgreSQL (PLUMB_LONG)");
        return;
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut found| found.next().is_some());
    if !can(&["psql", "setpriv", "mkfs.ext4"]) || !installed {
        println!("skipped: PostgreSQL's server is not installed");
        return;
    }
    let server = "owner postgres -D data -k /tmp -c listen_addresses= -c shared_buffers=4MB -c max_connections=4 \
                  -c max_wal_senders=0 -c autovacuum=off";
    let ask = "psql -h /tmp -U postgres -q -X";
    let start = format!(
        "{server} > /tmp/server.log 2>&1 & server=$!
         until {ask} -c 'select 1' > /dev/null 2>&1; do sleep 0.1; kill -0 $server || {{ cat /tmp/server.log; exit 1; }}; done\n"
    );
    let stop = "kill -INT $(head -n 1 data/postmaster.pid); wait $server\n";
    let setup = format!(
        "{POSTGRESQL_PATH} mkdir data; chown 65534:65534 data; owner initdb -k -D data -U postgres -A trust > /dev/null
         {start} {ask} -c 'create table t(i integer primary key, n int, v text)'\n{stop} sync"
    );
    let client = Client { schema: "", text: |letters| format!("repeat('x', {letters})"), shell: r"\!" };
    let script = |setting: &str, transactions: usize| {
        format!(
            "{POSTGRESQL_PATH} {} {ask} > /dev/null <<'END'\n{}END\n{stop}",
            start.replace("-c autovacuum=off", &format!("-c autovacuum=off -c {setting}")),
            client.transactions(transactions)
        )
    };
    let flags = ["--fs", "ext4", "--size", "256MiB", "--no-fsck", "--check-as", "postgresql:data"];
    let (safe, unsafe_) = (script("fsync=on", SERVER_TRANSACTIONS), script("synchronous_commit=off", 4));
    Run { name: "postgresql", flags: &flags, setup: &setup, script: &safe }.clean_at_length(GENERATED_OF_SERVERS);
    Run { name: "postgresql-off", flags: &flags, setup: &setup, script: &unsafe_ }
        .caught(16, "acknowledged, and not so any more");
}

#[test]
fn mariadb() {
    if !is_long() {
        println!("skipped: MariaDB (PLUMB_LONG)");
        return;
    }
    if !can(&["mariadbd", "mariadb-install-db", "mkfs.ext4"]) {
        return;
    }
    let server = "mariadbd --no-defaults --user=root --datadir=$PWD/data --socket=/tmp/s.sock --pid-file=/tmp/s.pid \
                  --skip-networking --skip-grant-tables --innodb-log-file-size=4M --innodb-buffer-pool-size=16M --loose-innodb-buffer-pool-size-max=16M";
    let ask = "mariadb --no-defaults --socket=/tmp/s.sock";
    let start = format!(
        "PATH=$PATH:/usr/sbin:/sbin; {server} > /tmp/server.log 2>&1 & server=$!
         until {ask} -e 'select 1' > /dev/null 2>&1; do sleep 0.1; kill -0 $server || {{ cat /tmp/server.log; exit 1; }}; done\n"
    );
    let stop = "mariadb-admin --no-defaults --socket=/tmp/s.sock shutdown; wait $server\n";
    let setup = format!(
        "PATH=$PATH:/usr/sbin:/sbin
         mariadb-install-db --no-defaults --user=root --datadir=$PWD/data --auth-root-authentication-method=normal \
         --innodb-log-file-size=4M --loose-innodb-buffer-pool-size-max=128M > /tmp/install.log 2>&1 || {{ tail /tmp/install.log; exit 1; }}
         {start} {ask} -e 'create database d; create table d.t(i int primary key, n int, v text) engine=innodb'\n{stop} sync"
    );
    let client = Client { schema: "d.", text: |letters| format!("repeat('x', {letters})"), shell: r"\!" };
    let script = |setting: &str, transactions: usize| {
        format!(
            "{} {ask} > /dev/null <<'END'\n{}END\n{stop}",
            start.replace("--skip-networking", &format!("--skip-networking {setting}")),
            client.transactions(transactions)
        )
    };
    // Its asynchronous I/O is io_uring, whose writes are not followed to their files: judged by what it answers.
    let flags = ["--fs", "ext4", "--size", "512MiB", "--no-fsck", "--no-files", "--check-as", "mariadb:data"];
    let setting = |at_commit: u8| format!("--innodb-flush-log-at-trx-commit={at_commit}");
    let (safe, unsafe_) = (script(&setting(1), SERVER_TRANSACTIONS), script(&setting(0), 4));
    Run { name: "mariadb", flags: &flags, setup: &setup, script: &safe }.clean_at_length(GENERATED_OF_SERVERS);
    Run { name: "mariadb-off", flags: &flags, setup: &setup, script: &unsafe_ }
        .caught(12, "acknowledged, and not so any more");
}

/// `ldb` writes its log without a flush: whoever acknowledges has to synchronise it.
#[test]
fn rocksdb() {
    if !can(&["ldb", "mkfs.ext4"]) {
        return;
    }
    let script = |synchronise: &str, puts: usize| {
        format!(
            "for i in $(seq {puts}); do
                ldb --db=db --create_if_missing put key$i value$i > /dev/null
                {synchronise}
                echo key$i : value$i > $PLUMB_ACKNOWLEDGE
             done"
        )
    };
    let (safe, unsafe_) = (script("sync db/* db .", 6), script("", 6));
    Run { name: "rocksdb-ldb", flags: &ROCKSDB, setup: "true", script: &safe }.clean(40);
    Run { name: "rocksdb-ldb-off", flags: &ROCKSDB, setup: "true", script: &unsafe_ }
        .caught(60, "acknowledged, and not there any more");
}

/// It allocates its log in advance.
const ROCKSDB: [&str; 7] = ["--fs", "ext4", "--size", "512MiB", "--no-fsck", "--check-as", "rocksdb:db"];

/// Its own benchmark, with synchronous writes: puts, overwrites and deletions through its log, tables and compactions. (Its
/// `fillsync` writes a thousandth of what it is told.)
#[test]
fn rocksdb_by_its_own_benchmark() {
    if !can(&["db_bench", "ldb", "mkfs.ext4"]) {
        return;
    }
    let entries = if is_long() { 1000 } else { 12 };
    let script = format!(
        "db_bench --db=db --benchmarks=fillrandom,overwrite,deleterandom --sync=1 --num={entries} --value_size=3000 \
         --write_buffer_size=131072 --target_file_size_base=131072 --max_bytes_for_level_base=262144 --seed=1 \
         > /tmp/bench 2>&1 || {{ cat /tmp/bench; exit 1; }}
         grep -q 'overwrite *:' /tmp/bench"
    );
    Run { name: "rocksdb-bench", flags: &ROCKSDB, setup: "true", script: &script }.clean_in_either_suite(40);
}
