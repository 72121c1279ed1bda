//! Databases and git under `plumb crash`, judged by the checks that are built in: what they promise as they are set up here holds in
//! every state, and the same program with a promise taken away is caught. `PLUMB_LONG` looks at 20,000 states of each, and at 1,000 of
//! the two servers, whose states take seconds each.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};
use linux_rig::has;

/// How much is looked at.
struct Size {
    transactions: usize,
    states: usize,
}

fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

fn size(states: usize) -> Size {
    if is_long() { Size { transactions: 600, states: 20_000 } } else { Size { transactions: 6, states } }
}

/// The states that were looked at, and those that were bad.
fn looked_at(flags: &[&str], setup: &str, script: &str, states: usize) -> (u64, serde_json::Value) {
    let trial = Trial::new("ext4").unwrap();
    let states = states.to_string();
    let flags = [flags, &["--states", &states, "--setup", setup]].concat();
    let (status, report) = trial.run(&flags, script);
    assert_eq!(status, i32::from(!bad(&report).is_empty()), "{report:#}");
    let looked_at = report["states"].as_u64().unwrap();
    println!("{flags:?}: {looked_at} states, {} bad, {} acknowledged", bad(&report).len(), report["acknowledgements"]);
    (looked_at, report)
}

/// For what runs in the long suite alone.
const SERVER: Size = Size { transactions: 60, states: 1000 };

fn clean(flags: &[&str], setup: &str, script: &str, states: usize) {
    let (looked_at, report) = looked_at(flags, setup, script, states);
    assert!(bad(&report).is_empty(), "{report:#}");
    // A short run may have fewer.
    assert!(looked_at >= states as u64 / 2, "{looked_at} states");
}

/// Found bad by the check, in these words.
fn caught(flags: &[&str], setup: &str, script: &str, states: usize, says: &str) {
    let (_, report) = looked_at(flags, setup, script, states);
    let says_so = |bad: &serde_json::Value| {
        let fault = &bad["verdict"]["fault"];
        fault["by"] == "check" && fault["what"].as_str().unwrap().contains(says)
    };
    assert!(bad(&report).iter().any(says_so), "{report:#}");
}

fn can(programs: &[&str]) -> bool {
    linux_rig::kernel().is_some() && programs.iter().all(|program| has(program))
}

const EXT4: [&str; 4] = ["--fs", "ext4", "--size", "64MiB"];

/// One process, as an application has it.
fn sqlite(synchronous: &str, transactions: usize) -> String {
    let mut script = format!("sqlite3 -batch db > /dev/null <<'END'\npragma synchronous={synchronous};\n");
    for number in 0..transactions {
        script += &format!(
            "insert into t values({number}, hex(randomblob(300)));\n\
             .shell echo 'select count(*) from t where i = {number}' > $PLUMB_ACKNOWLEDGE\n"
        );
    }
    script + "END\n"
}

#[test]
fn sqlite_with_a_rollback_journal() {
    if !can(&["sqlite3", "mkfs.ext4"]) {
        return;
    }
    let setup = "sqlite3 db 'create table t(i integer primary key, v text)'";
    let flags = [&EXT4[..], &["--check-as", "sqlite:db"]].concat();
    let Size { transactions, states } = size(60);
    clean(&flags, setup, &sqlite("extra", transactions), states);
    caught(&flags, setup, &sqlite("off", 6), 60, "acknowledged, and not so any more: select count(*)");
}

#[test]
fn sqlite_with_a_write_ahead_log() {
    if !can(&["sqlite3", "mkfs.ext4"]) {
        return;
    }
    let setup = "sqlite3 db 'pragma journal_mode=wal; create table t(i integer primary key, v text)'";
    let flags = [&EXT4[..], &["--check-as", "sqlite:db"]].concat();
    let Size { transactions, states } = size(60);
    clean(&flags, setup, &sqlite("full", transactions), states);
    caught(&flags, setup, &sqlite("off", 6), 60, "acknowledged, and not so any more: select count(*)");
}

/// git makes no promise of when a commit's reference is durable, so none is asked of it; its objects and references are whole.
#[test]
fn git_that_synchronises_everything() {
    if !can(&["git", "mkfs.ext4"]) {
        return;
    }
    let setup = "git init -q repository; cd repository; git config user.name n; git config user.email e
        git config gc.auto 0; echo 0 > f; git add f; git commit -qm 0; sync";
    let script = |all: &str, commits: usize| {
        format!(
            "cd repository; git config core.fsync {all}
             for i in $(seq {commits}); do echo $i > f; echo $i > f$((i % 7)); git add .; git commit -qm $i; done"
        )
    };
    let flags = [&EXT4[..], &["--check-as", "git:repository", "--no-files"]].concat();
    let Size { transactions, states } = size(40);
    clean(&flags, setup, &script("all", transactions), states);
    // Names of objects are in the journal before what is in them is on the device.
    let lazy = script("none", 4).replace("git commit", "sync f; git commit");
    caught(&flags, setup, &lazy, 60, "empty");
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
         {start} {ask} -c 'create table t(i integer primary key, v text)'\n{stop} sync"
    );
    let script = |setting: &str, transactions: usize| {
        format!(
            "{POSTGRESQL_PATH} {} for i in $(seq {transactions}); do
                {ask} -c \"insert into t values($i, repeat(md5('$i'), 9))\"
                echo \"select count(*) from t where i = $i\" > $PLUMB_ACKNOWLEDGE
             done\n{stop}",
            start.replace("-c autovacuum=off", &format!("-c autovacuum=off -c {setting}"))
        )
    };
    let flags = ["--fs", "ext4", "--size", "256MiB", "--check-as", "postgresql:data"];
    let Size { transactions, states } = SERVER;
    clean(&flags, &setup, &script("fsync=on", transactions), states);
    caught(&flags, &setup, &script("synchronous_commit=off", 4), 16, "acknowledged, and not so any more");
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
         {start} {ask} -e 'create database d; create table d.t(i int primary key, v text) engine=innodb'\n{stop} sync"
    );
    let script = |setting: &str, transactions: usize| {
        format!(
            "{} for i in $(seq {transactions}); do
                {ask} -e \"insert into d.t values($i, repeat(md5('$i'), 9))\"
                echo \"select count(*) from d.t where i = $i\" > $PLUMB_ACKNOWLEDGE
             done\n{stop}",
            start.replace("--skip-networking", &format!("--skip-networking {setting}"))
        )
    };
    let flags = ["--fs", "ext4", "--size", "512MiB", "--check-as", "mariadb:data"];
    let Size { transactions, states } = SERVER;
    clean(&flags, &setup, &script("--innodb-flush-log-at-trx-commit=1", transactions), states);
    caught(&flags, &setup, &script("--innodb-flush-log-at-trx-commit=0", 4), 12, "acknowledged, and not so any more");
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
    // It allocates its log in advance.
    let flags = ["--fs", "ext4", "--size", "512MiB", "--check-as", "rocksdb:db"];
    let Size { transactions, states } = size(40);
    clean(&flags, "true", &script("sync db/* db .", transactions), states);
    caught(&flags, "true", &script("", 6), 60, "acknowledged, and not there any more");
}
