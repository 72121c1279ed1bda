//! PostgreSQL and its tools do and say the same with the library and without. In the long suite.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;
mod suite_rig;

use std::os::unix::fs::chown;
use std::process::Command;

use common::Scratch;
use prefetch_rig::has;
use suite_rig::{REGRESS, postgresql_source};

/// A user that a server may run as.
const NOBODY: u32 = 65_534;

/// A cluster of its own, in the folder that it is started in: what it holds is loaded, scanned both ways, dumped, restored, backed up, and
/// checked by everything that comes with the server. Only what is the same each time is printed.
const SCRIPT: &str = r#"
set -e
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)
export LC_ALL=C PGHOST="$PWD" PGUSER=postgres PGDATABASE=postgres
ask() { psql -q -X -A -t "$@"; }
start() {
    postgres -D data -k "$PWD" -c listen_addresses= -c shared_buffers=4MB -c autovacuum=off -c max_wal_senders=4 > log 2>&1 &
    server=$!
    until ask -c 'select' > /dev/null 2>&1; do sleep 0.1; kill -0 $server || { cat log; exit 1; }; done
}
stop() { kill -INT $(head -n 1 data/postmaster.pid); wait $server; }
initdb -k -D data -U postgres -A trust -E UTF8 > /dev/null
start
ask <<'END'
create extension amcheck;
create table big(i integer primary key, n integer, v text);
insert into big select i, i * 7919 % 60000, repeat(md5(i::text), 8) from generate_series(1, 60000) i;
create index on big(n);
vacuum analyze big;
END
stop
find data/base -type f -exec dd if={} iflag=nocache count=0 status=none ';'
start
ask <<'END'
select count(*), sum(i), md5(string_agg(v, '' order by i)) from big;
select i, left(v, 8) from big order by i desc limit 5;
set enable_seqscan = off;
select sum(length(v)) from big where n between 1000 and 20000;
select md5(string_agg(v, '' order by n desc)) from big where n % 10 = 3;
END
pg_dump -t big | grep -v restrict | md5sum
pg_dump -Fc -f dump && createdb copy && pg_restore -d copy dump
ask -d copy -c 'select count(*), sum(n) from big'
pgbench -i -s 2 -q 2> /dev/null
pgbench -n -c 4 -t 100 | grep -o 'number of transactions actually processed: 400/400'
ask -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'
pg_amcheck -d postgres --heapallindexed && echo checked
pg_basebackup -D backup -c fast && pg_verifybackup backup
stop
pg_checksums --check -D data | grep Bad
pg_controldata data | grep 'cluster state'
"#;

/// A part of it is built from nothing: what came of it.
const BUILD: &str = r#"
set -e
cd ../source
for part in src/port src/common src/interfaces/libpq; do make -s -C $part clean; done
# It is read from the drive, sources and headers alike.
find src -name '*.[ch]' -exec dd if={} iflag=nocache count=0 status=none ';'
make -s -j2 -C src/interfaces/libpq
find src/port src/common src/interfaces/libpq -name '*.o' -o -name 'libpq.so.*' -type f | sort | xargs md5sum
"#;

/// Whether a server can be had here.
fn is_ready() -> bool {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: a server and its tools take a while (PLUMB_LONG=1)");
        return false;
    }
    let is_installed = std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut found| found.next().is_some());
    if !has("psql") || !has("setpriv") || !is_installed || !rustix::process::geteuid().is_root() {
        println!("skipped: PostgreSQL's server is not installed, or this is not root, which gives its server a user");
        return false;
    }
    true
}

/// A command as the server's user, in a folder of its own.
fn as_user(scratch: &Scratch, name: &str) -> Command {
    let folder = scratch.path(name);
    std::fs::create_dir(&folder).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).current_dir(&folder);
    command.env("XDG_CACHE_HOME", scratch.path("cache"));
    command
}

/// What it begins with under the library.
const UNDER: [&str; 8] =
    [env!("CARGO_BIN_EXE_plumb"), "prefetch", "run", "--quiet", "--mode", "budget", "--json", "report.json"];

/// The report of what ran there; it has seen something.
fn report(scratch: &Scratch, name: &str) -> serde_json::Value {
    let report = std::fs::read(scratch.path(name).join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert!(report["programs"].as_u64() > Some(20) && report["accesses"].as_u64() > Some(100), "{report}");
    report
}

#[test]
fn postgresqls_own_tests_pass() {
    if !is_ready() {
        return;
    }
    let scratch = Scratch::new();
    chown(scratch.path("."), Some(NOBODY), Some(NOBODY)).unwrap();
    if !postgresql_source(&scratch.path(".")) {
        return;
    }
    let mut under = as_user(&scratch, "with");
    let ran = under
        .args(UNDER)
        .args(["--min-file", "16KiB", "--", "sh", "-c", REGRESS])
        .env("SOURCE", scratch.path("source"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("All 2") && said.contains(" tests passed"), "{said}");
    println!("{said}{}", report(&scratch, "with"));

    // A project of gcc's comes out the same, bit by bit.
    let build = |mut command: Command| {
        let ran = command.args(["sh", "-c", BUILD]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(scratch.path("source")).status();
    assert!(owned.unwrap().success());
    let plain = build(as_user(&scratch, "build"));
    let mut under = as_user(&scratch, "build-with");
    under.args(UNDER).args(["--min-file", "4KiB", "--"]);
    assert_eq!(build(under), plain);
    assert!(plain.lines().count() > 80, "{plain}");
    println!("{}", report(&scratch, "build-with"));
}

#[test]
fn postgresql_says_the_same() {
    if !is_ready() {
        return;
    }
    let scratch = Scratch::new();
    chown(scratch.path("."), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut said = Vec::new();
    for with in [false, true] {
        let mut command = as_user(&scratch, if with { "with" } else { "without" });
        if with {
            command.args(UNDER).arg("--");
        }
        let output = command.args(["sh", "-c", SCRIPT]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        said.push((output.status.code(), text(&output.stdout), text(&output.stderr)));
    }
    assert_eq!(said[0].0, Some(0), "{:?}", said[0]);
    assert_eq!(said[0], said[1]);
    println!("{}", report(&scratch, "with"));
}
