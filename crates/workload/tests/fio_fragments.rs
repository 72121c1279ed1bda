//! Files in pieces (`frag_size`, `frag_distance`): where I/O goes, what it costs
//! and what it carries.

use crate::common::{null, parse, run, run_noted, run_on};
use units::Nanos;
use workload::IoCosts;
use workload::fio::start;

const LATENCY: Nanos = Nanos::from_micros(80);

#[test]
fn one_read_is_a_command_for_each_piece() {
    for (engine, depth) in [("psync", 1), ("libaio", 4), ("io_uring", 4), ("posixaio", 2)] {
        let job = format!(
            "[a]\nioengine={engine}\niodepth={depth}\nrw=read\nbs=128k\nsize=256k\noffset=1m\nfrag_size=64k\nfrag_distance=192k"
        );
        let (reports, notes) = run_noted(null(LATENCY), &job);
        assert_eq!(notes, ["r1024", "r1280", "r1536", "r1792"], "{engine}");
        let read = &reports[0].directions.read;
        assert_eq!((read.ios, read.bytes), (2, 256 << 10), "{engine} counts the program's I/Os, not the device's");
        // All pieces are on their way together.
        assert_eq!((read.lat.min(), read.lat.max()), (LATENCY, LATENCY), "{engine}");
    }
}

#[test]
fn requests_that_do_not_begin_with_a_piece_split_where_the_pieces_end() {
    // 12 KiB reads of 8 KiB pieces, 8 KiB apart.
    let job = "[a]\nrw=read\nbs=12k\nsize=48k\nfrag_size=8k\nfrag_distance=8k";
    let (_, notes) = run_noted(null(LATENCY), job);
    assert_eq!(notes, ["r0", "r16", "r20", "r32", "r48", "r64", "r68", "r80"]);
    let whole = "[a]\nrw=read\nbs=12k\nsize=48k\nfrag_size=0\nfrag_distance=8k";
    assert_eq!(run_noted(null(LATENCY), whole).1, ["r0", "r12", "r24", "r36"], "0 is one piece");
    // No gap, no split.
    let touching = "[a]\nrw=read\nbs=12k\nsize=48k\nfrag_size=4k\nfrag_distance=0";
    assert_eq!(run_noted(null(LATENCY), touching).1, ["r0", "r12", "r24", "r36"]);
}

#[test]
fn each_piece_costs_a_submission_and_an_interrupt() {
    let costs = IoCosts { submit: Nanos(1_400), complete: Nanos(1_000) };
    let mut busy = Vec::new();
    for engine in ["psync", "io_uring"] {
        for frag_size in [0, 4096] {
            let cpus = sim::cpu::CpuConfig::default();
            let (syscall, switch) = (cpus.syscall, cpus.context_switch);
            let (mut executor, host) = crate::common::host(Box::new(null(LATENCY)), 1, cpus, costs);
            let job = format!(
                "[a]\nioengine={engine}\nrw=read\nbs=128k\nsize=1m\nfrag_size={frag_size}\nfrag_distance=8k\ncpus_allowed=0"
            );
            let run = start(&host, &parse(&job)).unwrap();
            executor.run();
            let report = run.finish().remove(0);
            let pieces = if frag_size == 0 { 1 } else { 32 };
            // The pieces' interrupts come at once and run one after the other.
            let want = costs.submit * pieces + LATENCY + costs.complete * pieces + switch + syscall;
            let found = report.directions.read.lat.min();
            let within = Nanos(want.0 / 50).max(syscall);
            assert!(found.0.abs_diff(want.0) <= within.0, "{engine}, {pieces} pieces: {found:?}, not {want:?}");
            busy.push(host.cpus.busy(0));
        }
    }
    // Eight I/Os, each with 31 commands more.
    let more = (costs.submit + costs.complete) * 31 * 8;
    for pair in busy.chunks(2) {
        assert_eq!(pair[1].since(pair[0]), more);
    }
}

#[test]
fn a_file_in_pieces_keeps_what_is_written_to_it() {
    for engine in ["psync", "libaio\niodepth=8", "io_uring\niodepth=8\niodepth_batch=4"] {
        let job = format!(
            "[a]\nioengine={engine}\nrw=randwrite\nbs=4k,24k\nsize=1536k\nverify=crc32c\nfrag_size=20k\nfrag_distance=12k"
        );
        let report = run_on(null(LATENCY), &job, 3).remove(0);
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.verify.as_ref().unwrap().checked, 64);
    }
}

/// Two files that fill each other's gaps, then the device read as it is.
#[test]
fn two_interleaved_files_lie_side_by_side() {
    let job = "
[global]
bs=64k
verify=pattern
[one]
rw=write
size=384k
frag_size=4k
frag_distance=12k
verify_pattern=0xaa
[other]
stonewall
rw=write
offset=4k
size=1152k
frag_size=12k
frag_distance=4k
verify_pattern=0xbb
[one-again]
stonewall
rw=read
size=384k
frag_size=4k
frag_distance=12k
verify_pattern=0xaa
[pieces-of-one]
stonewall
rw=read:12k
bs=4k
size=1536k
io_size=384k
verify_pattern=0xaa
[pieces-of-other]
stonewall
rw=read:4k
bs=12k
offset=4k
size=1532k
io_size=1140k
verify_pattern=0xbb
";
    let reports = run_on(null(LATENCY), job, 1);
    for report in &reports {
        assert!(report.is_clean(), "{}: {:?}", report.name, report.verify);
    }
    assert_eq!(reports[3].verify.as_ref().unwrap().checked, 96);
    // The check is a check: one byte further and it fails.
    let shifted = job
        .replace("[pieces-of-one]\nstonewall\nrw=read:12k\n", "[pieces-of-one]\nstonewall\noffset=4k\nrw=read:12k\n");
    assert!(!run_on(null(LATENCY), &shifted, 1)[3].is_clean());
}

#[test]
fn a_failed_piece_fails_its_io() {
    let device = crate::common::Failing { inner: null(LATENCY), after: 3 };
    let report = run_on(device, "[a]\nrw=write\nbs=128k\nsize=256k\nfrag_size=32k\nfrag_distance=32k", 1).remove(0);
    assert!(!report.is_clean());
    assert_eq!((report.errors[0].offset, report.errors[0].bytes), (0, 128 << 10), "the program's I/O, not a piece");
    assert_eq!(report.directions.write.ios, 0);
}

/// Linux merges the discards behind one plug into one command of several ranges
/// (block/blk-merge.c, blk_try_merge: ELEVATOR_DISCARD_MERGE).
#[test]
fn a_trim_names_each_piece() {
    let (reports, notes) = run_noted(null(LATENCY), "[a]\nrw=trim\nbs=64k\nsize=64k\nfrag_size=16k\nfrag_distance=16k");
    assert!(reports[0].is_clean());
    let ranges = |note: &String| note.matches("LbaRange").count();
    assert_eq!(notes.iter().map(ranges).collect::<Vec<_>>(), [4], "{notes:?}");
    assert!(notes[0].contains("Lba(64), count: 32"), "{notes:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let start_error = |job: &str| {
        let (_, host) = crate::common::free_host(null(LATENCY), 1);
        start(&host, &parse(job)).err().expect("it started").to_string()
    };
    // 64 MiB: 16 pieces, 5 MiB apart.
    let outside = start_error("[a]\nsize=1m\nfrag_size=64k\nfrag_distance=5m");
    assert!(outside.contains("bytes 0 to 79691776") && outside.contains("67108864"), "{outside}");
    assert!(start_error("[a]\nsize=1m\nfrag_size=1000\nfrag_distance=4k").contains("frag_size 1000"));
    assert!(start_error("[a]\nsize=1m\nfrag_size=4k\nfrag_distance=100").contains("frag_distance 100"));
    for (options, word) in [
        ("ioengine=io_uring_cmd\nfilename=/dev/ng0n1", "passthrough"),
        ("ioengine=io_uring\nsqthread_poll", "sqthread_poll"),
        ("zonemode=zbd\nzonesize=1m", "zonemode"),
    ] {
        let text = format!("[a]\nfrag_size=4k\n{options}");
        let source = workload::fio::parse::Source {
            name: "test.fio",
            text: text.as_bytes(),
            variables: &Default::default(),
            overrides: &[],
        };
        let error = workload::fio::JobFile::parse(&source).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    // The last piece may end where the device does.
    assert!(run("[a]\nsize=1m\nfrag_size=512k\nfrag_distance=63m", LATENCY)[0].is_clean());
}
