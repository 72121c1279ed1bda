//! Real fio as the judge: it reads our I/O logs, and we read its.

use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use block::BioFlags;
use units::Nanos;
use workload::replay::{IologVersion, IologWriter, ReadOptions, Record, TraceFormat, TraceOp, TraceReader};

/// fio's first version that writes version 3 logs.
const NEEDED: (u32, u32) = (3, 31);

/// Whether a fio that can judge is installed; says so on standard error if not.
fn fio_is_here() -> bool {
    let version = Command::new("fio").arg("--version").output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut numbers = text.trim().trim_start_matches("fio-").split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < NEEDED {
        eprintln!("skipped: needs fio 3.31 or later (apt-get install fio)");
    }
    found >= NEEDED
}

/// Runs fio; its output.
fn fio(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("fio").current_dir(directory).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// I/Os issued, from fio's normal output: reads, writes, trims.
fn issued(output: &str) -> Vec<u64> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("issued rwts: total=")).unwrap();
    let totals = line.split_whitespace().next().unwrap();
    totals.split(',').take(3).map(|number| number.parse().unwrap()).collect()
}

fn read(path: &Path) -> (TraceFormat, Vec<Record>) {
    let file = BufReader::new(fs::File::open(path).unwrap());
    let reader = TraceReader::new("log", file, &ReadOptions::default()).unwrap();
    (reader.format(), reader.map(Result::unwrap).collect())
}

fn count(records: &[Record], op: TraceOp) -> u64 {
    records.iter().filter(|record| record.op == op).count() as u64
}

#[test]
fn we_read_what_fio_writes() {
    if !fio_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (number, (engine, workload, sync)) in [
        ("null", "randrw", "--fsync=4"),
        ("psync", "randwrite", "--fdatasync=3"),
        ("null", "randtrimwrite", "--fsync=0"),
        ("libaio", "read", "--iodepth=8"),
    ]
    .into_iter()
    .enumerate()
    {
        // A log for each run: fio appends to one that is there.
        let log = format!("log{number}");
        let arguments = [
            "--name=job",
            "--filename=disk",
            "--size=256k",
            "--bs=4k",
            &format!("--write_iolog={log}"),
            &format!("--ioengine={engine}"),
            &format!("--rw={workload}"),
            sync,
        ];
        let output = fio(directory.path(), &arguments);
        let (format, records) = read(&directory.path().join(&log));
        assert_eq!(format, TraceFormat::Iolog(IologVersion::V3));
        let counted = [TraceOp::Read, TraceOp::Write, TraceOp::Trim].map(|op| count(&records, op));
        assert_eq!(counted[..], issued(&output), "{engine} {workload}");
        assert!(records.iter().all(|record| record.offset + record.bytes <= 256 << 10));
        let synced = count(&records, TraceOp::Sync) + count(&records, TraceOp::DataSync);
        assert_eq!(synced > 0, matches!(workload, "randrw" | "randwrite"), "{engine} {workload}");
    }
}

#[test]
fn fio_reads_what_we_write() {
    if !fio_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |ms, op, offset| {
        let bytes = if matches!(op, TraceOp::Sync | TraceOp::DataSync) { 0 } else { 4096 };
        Record { at: Nanos::from_millis(ms), op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: 0 }
    };
    let records = [
        at(5_000, TraceOp::Write, 0),
        at(5_000, TraceOp::Sync, 0),
        at(5_150, TraceOp::Read, 4096),
        at(5_150, TraceOp::Trim, 8192),
        at(5_300, TraceOp::Read, 0),
        at(5_600, TraceOp::DataSync, 0),
        at(5_600, TraceOp::Write, 12_288),
    ];
    for version in [IologVersion::V2, IologVersion::V3] {
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut writer = IologWriter::new(log, version, "/dev/plumb").unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        let started = Instant::now();
        let output = fio(directory.path(), &["--name=job", "--ioengine=null", "--read_iolog=log"]);
        let took = started.elapsed();
        let [reads, writes, trims] = issued(&output)[..] else { panic!("three directions") };
        assert_eq!((reads, writes), (2, 2), "{version:?}");
        // fio 3.33 reads trims, even its own, and drops them ("bad ddir: 2").
        assert!(trims <= 1, "{version:?}");
        // 600 ms from the first I/O to the last: fio keeps the gaps. Its start
        // and end take their time too; a unit mistaken would be far off.
        assert!(took >= Duration::from_millis(590) && took < Duration::from_secs(20), "{version:?}: {took:?}");
    }
}
