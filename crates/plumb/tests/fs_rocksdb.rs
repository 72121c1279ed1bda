//! RocksDB on `plumb fs`, whose server is killed while it writes: what it was told is durable is there, and its files are whole.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fs_rig::{Rig, done, skipped};

/// Small, so that tables are written and merged all the time.
const SIZES: [&str; 4] = [
    "--value_size=400",
    "--write_buffer_size=200000",
    "--target_file_size_base=200000",
    "--max_bytes_for_level_base=800000",
];

/// Puts, each synced, that `db_bench` has told to be done.
fn acknowledged(progress: &Path) -> u64 {
    let said = fs::read_to_string(progress).unwrap_or_default();
    let count = |line: &str| line.split_once(": (")?.1.split_once(") ops")?.0.split_once(',')?.1.parse().ok();
    said.lines().filter_map(count).max().unwrap_or(0)
}

#[test]
fn what_rocksdb_has_synced_stays_when_the_server_is_killed() {
    if skipped(&["db_bench", "ldb"]) {
        return;
    }
    let rounds = if std::env::var_os("PLUMB_LONG").is_some() { 60 } else { 4 };
    let mut rig = Rig::new(512);
    let mut most = 0;
    for round in 0..rounds {
        let (database, progress) = (rig.place().join(format!("db-{round}")), rig.outside("progress"));
        let named = format!("--db={}", database.display());
        let mut load = Command::new("db_bench")
            .args([&named, "--benchmarks=fillseq", "--num=1000000", "--sync=1", "--stats_interval=50"])
            .args(SIZES)
            .stdout(Stdio::null())
            .stderr(File::create(&progress).unwrap())
            .spawn()
            .unwrap();
        // From its first puts on, and at another moment each time.
        let began = Instant::now();
        while acknowledged(&progress) == 0 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(150 + round * 173 % 1100));
        rig.kill();
        assert!(!load.wait().unwrap().success(), "it goes on without its file system");
        let synced = acknowledged(&progress);
        most = most.max(synced);
        rig.check();
        rig.mount(&[]);
        done(Command::new("ldb").args([&named, "checkconsistency"]));
        let keys = done(Command::new("ldb").args([&named, "scan", "--no_value", "--hex"]));
        let found = keys.lines().filter(|line| line.starts_with("0x")).count() as u64;
        println!("round {round}: {synced} puts synced, {found} there");
        assert!(synced > 0 && found >= synced, "round {round}: {synced} puts were synced, {found} are there");
        // Its own checksums, of every block of every table.
        let judged = ["--use_existing_db=1", "--benchmarks=verifychecksum,readseq", "--num=1000000"];
        done(Command::new("db_bench").arg(&named).args(judged).args(SIZES));
        fs::remove_dir_all(database).unwrap();
    }
    assert!(most > 300, "{most} puts at most");
    rig.unmount();
}
