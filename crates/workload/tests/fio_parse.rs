//! Job files: what is read, what is refused and where, and what is printed back.

use std::collections::BTreeMap;
use std::process::Command;

use crate::common::parse;
use proptest::prelude::*;
use workload::fio::parse::{BlockSizes, Extent, ParseError, ParseErrorKind, Source, option_specs, options_document};
use workload::fio::{JobFile, PerDirection};

fn try_parse(text: &[u8]) -> Result<JobFile, ParseError> {
    JobFile::parse(&Source { name: "job.fio", text, variables: &BTreeMap::new(), overrides: &[] })
}

fn error(text: &str) -> ParseError {
    try_parse(text.as_bytes()).expect_err(text)
}

#[test]
fn globals_hold_for_the_jobs_below_them() {
    let file = parse(
        "[global]\nbs=8k ; comment\n# comment\n[a]\nrw=randread\n[global]\nbs=16k\niodepth=4\n[b]\nioengine=libaio\nbs=4k,32k",
    );
    let [a, b] = file.jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((a.options.blocks.read.clone(), a.options.iodepth), (BlockSizes::Fixed(8192), 1));
    assert_eq!(
        b.options.blocks,
        PerDirection {
            read: BlockSizes::Fixed(4096),
            write: BlockSizes::Fixed(32_768),
            trim: BlockSizes::Fixed(32_768)
        }
    );
    assert_eq!(b.options.iodepth, 4);
    assert_eq!(file.global.len(), 3);
    assert_eq!(b.given, [("ioengine".to_owned(), "libaio".to_owned()), ("bs".to_owned(), "4k,32k".to_owned())]);
}

#[test]
fn variables_and_overrides_are_put_in() {
    let variables = BTreeMap::from([("SIZE".to_owned(), "64m".to_owned())]);
    let overrides = ["iodepth=8".to_owned(), "io_size=${SIZE}".to_owned()];
    let source = Source {
        name: "job.fio",
        text: b"[a]\nsize=${SIZE}\nfilename=/dev/${UNSET}x\niodepth=2\nioengine=libaio",
        variables: &variables,
        overrides: &overrides,
    };
    let options = &JobFile::parse(&source).unwrap().jobs[0].options;
    assert_eq!((options.size, options.io_size), (Some(Extent::Bytes(64 << 20)), Some(Extent::Bytes(64 << 20))));
    assert_eq!((options.filename.as_deref(), options.iodepth), (Some("/dev/x"), 8));
    let bad = ["iodepth=4".to_owned(), "iodepht=4".to_owned()];
    let error = JobFile::parse(&Source { overrides: &bad, ..source }).unwrap_err();
    assert_eq!((error.file.as_str(), error.span.line), ("override", 2));
}

#[test]
fn faults_name_their_place_and_the_remedy() {
    for (text, place, says) in [
        ("[a]\nrw=read\n  iodepht=4", (3, 3), "unknown option `iodepht`; did you mean `iodepth`?"),
        ("[a]\nxyzzy=4", (2, 1), "unknown option `xyzzy`"),
        ("[a]\nnowait", (2, 1), "fio's option `nowait` is not supported: of the engines' own settings"),
        ("[a]\nhipri", (2, 1), "sqthread_poll and hipri are options of io_uring"),
        ("[a]\nzonemode=strided", (2, 10), "`strided` is not modelled"),
        ("[a]\nzonesize=1m", (2, 1), "zonesize needs zonemode=zbd"),
        ("[a]\nrw=write\nsize=10z", (3, 1), "a size in zones (`z`) needs zonemode=zbd"),
        ("[a]\nsize=1.5z", (2, 6), "`1.5z` is not a number of zones"),
        ("[a]\nrw=write\nioengine=io_uring\nfinish=1", (4, 1), "need zonemode=zbd"),
        ("[a]\nrw=write\nzonemode=zbd\nfinish", (4, 1), "finish needs ioengine=io_uring"),
        ("[a]\nrw=write\nzonemode=zbd\nioengine=io_uring\nsoftfinish", (5, 1), "add finish=1"),
        ("[a]\nrw=read\nzonemode=zbd\nioengine=io_uring\nfinish", (5, 1), "finish follows a write"),
        (
            "[a]\nrw=write\nzonemode=zbd\nioengine=io_uring\nzone_append=1",
            (5, 1),
            "zone_append needs ioengine=io_uring_cmd",
        ),
        ("[a]\nrw=trimwrite\nzonemode=zbd", (3, 1), "a trim resets a whole zone"),
        ("[a]\nrw=trim\nzonemode=zbd\nbsrange=1m-2m", (4, 1), "bsrange and bssplit do not apply"),
        ("[a]\nzone_reset_frequency=2", (2, 22), "2 is out of range"),
        ("[a]\nmax_open_zones=5000", (2, 16), "5000 is out of range"),
        ("[a]\nioengine=io_uring_cmd\nfilename=/dev/nvme0n1", (3, 1), "write filename=/dev/ng0n1"),
        ("[a]\nioengine=io_uring\nfilename=/dev/ng0n1", (3, 1), "takes passthrough commands alone"),
        ("[a]\nioengine=io_uring_cmd\nfsync=1", (3, 1), "io_uring_cmd has no fsync"),
        ("[a]\nioengine=external:/a/rados", (2, 10), "only spdk_nvme is modelled"),
        ("[a]\nrw=write\nbs=2g", (3, 1), "must be at most 1g"),
        ("[a]\nbs=4q", (2, 4), "option `bs`: `4q` is not a size"),
        ("[a]\nrw = randred", (2, 6), "option `rw`: `randred` is not one of read, write"),
        ("[a]\niodepth", (2, 1), "option `iodepth` needs a value: write `iodepth=count`"),
        ("bs=4k\n[a]", (1, 1), "before the first section"),
        ("[a\nbs=4k", (1, 1), "lacks its closing"),
        ("[a]\ninclude other.fio", (2, 1), "`include` is not supported"),
        ("[a]\ndirect=0", (2, 8), "buffered I/O is not modelled: write direct=1"),
        ("[a]\nbuffered=1", (2, 10), "buffered I/O is not modelled"),
        ("[a]\nsize=${X", (2, 6), "`${` lacks its closing `}`"),
        ("[global]\nbs=4k", (1, 1), "has no job"),
        ("[a]\ntime_based", (2, 1), "time_based needs a runtime"),
        ("[a]\nrate=1m\nrate_iops=10", (3, 1), "exclude each other"),
        ("[a]\nnumjobs=4096\n[b]", (1, 1), "4097 threads"),
        ("[a]\nioengine=libaio\niodepth=65536\nnumjobs=32", (1, 1), "keep 2097152 I/Os in flight"),
        ("[a]\nbssplit=4k/60:8k/50", (2, 9), "add up to 110"),
        ("[a]\nfilename=a:b", (2, 10), "several files are not supported"),
    ] {
        let error = error(text);
        assert_eq!((error.span.line, error.span.column), place, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().starts_with(&format!("job.fio:{}:{}: ", place.0, place.1)), "{error}");
    }
    let error = try_parse(b"[a]\nbs=4k\nsi\xff").unwrap_err();
    assert_eq!(
        (error.kind, error.span.line, error.span.column, error.span.offset),
        (ParseErrorKind::NotText, 3, 3, 12)
    );
}

#[test]
fn what_is_assumed_is_said() {
    assert_eq!(parse("[a]\ndirect=1").notes, Vec::<String>::new());
    assert!(parse("[a]\n[b]\ndirect=1").notes[0].contains("no page cache is modelled: a without direct=1"));
    assert_eq!(parse("[a]\nioengine=io_uring_cmd\nfilename=/dev/ng0n1").notes, Vec::<String>::new());
    assert!(parse("[a]\ndirect=1\niodepth=8").notes[0].contains("ioengine=psync keeps one I/O in flight"));
}

#[test]
fn the_document_is_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fio-options.md");
    if std::env::var_os("PLUMB_UPDATE_DOCS").is_some() {
        std::fs::write(path, options_document()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == options_document(), "docs/fio-options.md is out of date; run this test with PLUMB_UPDATE_DOCS=1");
}

/// Every option of the fio installed here is taken or explained.
#[test]
fn every_option_of_fio_is_known() {
    let Ok(help) = Command::new("fio").arg("--cmdhelp=all").output() else {
        println!("skipped: fio not installed");
        return;
    };
    let help = String::from_utf8(help.stdout).unwrap();
    let names: Vec<&str> = help.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert!(names.len() > 200, "{} options", names.len());
    let unknown: Vec<&str> = names
        .into_iter()
        .filter(|name| !name.contains(' ') && !name.is_empty())
        .filter(|name| {
            let result = try_parse(format!("[a]\n{name}=1").as_bytes());
            matches!(result, Err(ParseError { kind: ParseErrorKind::UnknownOption { .. }, .. }))
        })
        .collect();
    assert_eq!(unknown, Vec::<&str>::new(), "fio knows these");
}

/// Values an option may be given, by its name.
fn values(name: &'static str) -> BoxedStrategy<String> {
    let size = || (1_u64..1 << 20).prop_map(|kib| format!("{kib}k"));
    let listed = |item: BoxedStrategy<String>| {
        (prop::collection::vec(prop::option::of(item), 1..=3))
            .prop_map(|items| items.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(","))
    };
    let pick = |items: &[&'static str]| prop::sample::select(items.to_vec()).prop_map(str::to_owned);
    match name {
        "kb_base" => pick(&["1000", "1024"]).boxed(),
        "description" => "[a-z][a-z ]{0,20}[a-z]".boxed(),
        "ioengine" => pick(&[
            "psync",
            "libaio",
            "io_uring",
            "posixaio",
            "sync",
            "pvsync2",
            "io_uring_cmd",
            "spdk",
            "external:/a/spdk_nvme",
        ])
        .boxed(),
        "cmd_type" => Just("nvme".to_owned()).boxed(),
        "zonemode" => pick(&["none", "zbd"]).boxed(),
        "zonesize" | "zonecapacity" => size().boxed(),
        "zoneskip" => prop_oneof![size(), (0_u8..9).prop_map(|zones| format!("{zones}z"))].boxed(),
        "zone_reset_threshold" | "zone_reset_frequency" => pick(&["0", "0.25", "1", "1e-3"]).boxed(),
        "filename" => "/dev/[a-z]{1,8}".boxed(),
        "direct" | "nrfiles" => Just("1".to_owned()).boxed(),
        "buffered" => Just("0".to_owned()).boxed(),
        "rw" => pick(&["read", "write:288k", "read:-8k", "randread:8", "randrw", "readwrite", "trimwrite", "randtrim"])
            .boxed(),
        "rw_sequencer" => pick(&["sequential", "identical"]).boxed(),
        "bs" => listed(size().prop_filter("1g at most", |s| s.len() < 8).boxed()).boxed(),
        "bsrange" => listed((1_u32..64, 1_u32..64).prop_map(|(a, b)| format!("{a}k-{b}k")).boxed()).boxed(),
        "bssplit" => listed(pick(&["4k/10:64k/50:32k/40", "4k/50:1k/:32k/", "8k/100", "4k/:8k/"]).boxed()).boxed(),
        "blockalign" => listed((1_u32..64).prop_map(|k| format!("{k}k")).boxed()).boxed(),
        "size" | "offset" | "offset_increment" | "io_size" => {
            prop_oneof![size(), (1_u8..100).prop_map(|p| format!("{p}%")), (1_u8..100).prop_map(|z| format!("{z}z"))]
                .boxed()
        }
        "rate" | "rate_iops" => listed(size().boxed()).boxed(),
        "random_distribution" => listed(
            pick(&[
                "random",
                "zipf:1.2",
                "zipf:0.9:0.25",
                "pareto:0.3",
                "normal:12.5",
                "zoned:60/10:30/20:10/70",
                "zoned_abs:90/1m:10/9m",
            ])
            .boxed(),
        )
        .boxed(),
        "percentage_random" => listed((0_u8..=100).prop_map(|p| p.to_string()).boxed()).boxed(),
        "rwmixread" | "rwmixwrite" | "buffer_compress_percentage" => (0_u8..=100).prop_map(|p| p.to_string()).boxed(),
        "rate_process" => pick(&["linear", "poisson"]).boxed(),
        "prioclass" => pick(&["0", "1", "2", "3"]).boxed(),
        "io_submit_mode" => pick(&["inline", "offload"]).boxed(),
        "startdelay" => (0_u32..99, 0_u32..99).prop_map(|(a, b)| format!("{a}ms-{b}")).boxed(),
        "thinktime" | "thinktime_spin" | "runtime" | "ramp_time" | "log_avg_msec" => {
            (0_u32..9999, pick(&["", "s", "ms", "us", "m"])).prop_map(|(n, unit)| format!("{n}{unit}")).boxed()
        }
        "sync" => pick(&["none", "0", "1", "sync", "dsync"]).boxed(),
        "verify" => pick(&["0", "crc32c", "crc32c-intel", "crc64", "meta", "null", "pattern"]).boxed(),
        "verify_pattern" | "buffer_pattern" => pick(&["0xdeadbeef", "12", "\"abc\"-7", "0xf"]).boxed(),
        "percentile_list" => pick(&["50", "99.9:1", "1:5:99.99"]).boxed(),
        "unified_rw_reporting" => pick(&["none", "mixed", "both", "0", "1", "2"]).boxed(),
        "cpus_allowed" => pick(&["0", "3-1", "0-3,8"]).boxed(),
        "cpus_allowed_policy" => pick(&["shared", "split"]).boxed(),
        _ => (1_u32..64).prop_map(|n| n.to_string()).boxed(),
    }
}

fn setting() -> impl Strategy<Value = String> {
    let names: Vec<(&'static str, bool)> = option_specs().map(|spec| (spec.name, spec.form == "0|1")).collect();
    prop::sample::select(names).prop_flat_map(|(name, truth)| {
        let value = if truth && !matches!(name, "direct" | "buffered") {
            prop::bool::ANY.prop_map(|on| u8::from(on).to_string()).boxed()
        } else {
            values(name)
        };
        value.prop_map(move |value| format!("{name}={value}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = try_parse(&bytes);
    }

    #[test]
    fn any_settings_are_read_or_refused(
        lines in prop::collection::vec((prop::sample::select(option_specs().map(|s| s.name).collect::<Vec<_>>()), "\\PC{0,24}"), 0..8)
    ) {
        let body: String = lines.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        if let Err(error) = try_parse(format!("[job]\n{body}").as_bytes()) {
            prop_assert!(error.span.line >= 1 && error.span.line <= lines.len() + 1);
        }
    }

    #[test]
    fn what_is_printed_reads_back(global in prop::collection::vec(setting(), 0..6), own in prop::collection::vec(setting(), 0..12)) {
        let text = format!("[global]\n{}\n[job]\n{}\n[second]\n", global.join("\n"), own.join("\n"));
        let file = match try_parse(text.as_bytes()) {
            Ok(file) => file,
            Err(ParseError { kind: ParseErrorKind::Conflict { .. }, .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
        };
        let again = parse(&file.print());
        let options = |file: &JobFile| file.jobs.iter().map(|job| (job.name.clone(), job.options.clone())).collect::<Vec<_>>();
        prop_assert_eq!(options(&again), options(&file), "{}", file.print());
        prop_assert_eq!(again.print(), file.print());
    }
}
