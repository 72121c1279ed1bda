//! `plumb validate --data` for drives without zones: tables, and fio's own results.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::Quiet;
use lab::device::describe;
use lab::spec::Override;
use lab::validate::{
    Case, Drive, DriveEngine, DriveOp, Figure, JudgeOptions, Kind, Sheet, Table, Verdict, errors_table, judge, page,
    read_fio, read_tables, recognise,
};
use proptest::prelude::*;

const DEVICE: &str = "samsung-860evo-250gb";

fn judged(device: &str, tables: &[Table]) -> Verdict {
    let device = describe(device, Path::new(""), &[]).unwrap();
    let stop = AtomicBool::new(false);
    judge(&device, tables, &JudgeOptions { host: None, threads: 2, observer: &Quiet, stop: &stop }).unwrap()
}

fn table(text: &str) -> Table {
    recognise(&Sheet::parse("t.csv", text.as_bytes()).unwrap()).unwrap()
}

fn drive(case: &Result<Case, String>) -> Drive {
    match case {
        Ok(Case::Drive(drive)) => *drive,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_are_recognised_by_their_columns() {
    let here = table(
        "op,block_size_kib,queue_depth,jobs,iops,lat_mean_us,lat_p99_us\nrandread,4,8,2,10000,1600,3000\n\
         write,128,1,1,2000,480,\nmixed,4,1,1,5,5,5\nread,3.3,1,1,5,5,5\nread,4,0,1,5,5,5\n",
    );
    assert_eq!(here.kind, Kind::Drive);
    let first = drive(&here.rows[0].case);
    assert_eq!((first.op, first.block_bytes, first.queue_depth, first.jobs), (DriveOp::RandomRead, 4096, 8, 2));
    assert_eq!(here.rows[0].measured.get(Figure::P99), Some(3000.0));
    for row in &here.rows[2..] {
        assert!(row.case.is_err(), "{row:?}");
    }
    let there = table("RW,bs,IOdepth,bw_mib_s,clat_p50_us\nread,1m,32,500,60000\n");
    let only = drive(&there.rows[0].case);
    assert_eq!((only.op, only.block_bytes, only.queue_depth, only.jobs), (DriveOp::Read, 1 << 20, 32, 1));
    assert!(only.completion);
    assert_eq!(there.rows[0].measured.get(Figure::Iops), Some(500.0), "a rate follows from bandwidth");
    // A table with zones stays one of zones.
    assert_eq!(table("op,block_size_kib,concurrent_zones,queue_depth,iops\nwrite,4,1,1,5\n").kind, Kind::Load);
    let missing = Sheet::parse("t.csv", b"op,bs,iodepth,iops\nread,,1,5\n").unwrap();
    assert!(recognise(&missing).unwrap_err().to_string().contains("line 2"));
}

/// Runs jobs of fio's on the modelled device: what fio would have printed.
fn measured_json(jobs: &str, device: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.fio");
    std::fs::write(&path, jobs).unwrap();
    let device = Override::new("stack.device", device.into());
    let experiment = lab::adhoc::experiment(&path, &[device]).unwrap();
    let plan = lab::plan(&experiment).unwrap();
    lab::commands_of_run(&plan[0], 1).unwrap().0.fio_json.unwrap()
}

const JOBS: &str = "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\n\
    [r1]\nrw=randread\nbs=4k\nruntime=200ms\n[r16]\nrw=randread\nbs=8k\niodepth=16\nnumjobs=2\nruntime=100ms\n\
    [s8]\nrw=read\nbs=128k\niodepth=8\nruntime=200ms\nsize=4g\n[w1]\nrw=randwrite\nbs=4k\nruntime=100ms\n";

#[test]
fn fios_own_results_are_simulated_from_their_options() {
    let folder = tempfile::tempdir().unwrap();
    let json = measured_json(JOBS, DEVICE);
    std::fs::write(folder.path().join("mine.json"), format!("fio: this is a log line\n{json}\n")).unwrap();
    let tables = read_tables(&[folder.path().to_owned()]).unwrap();
    let rows: Vec<Drive> = tables[0].rows.iter().map(|row| drive(&row.case)).collect();
    assert_eq!(rows.len(), 4, "jobs of equal options are one row");
    assert_eq!((rows[1].jobs, rows[1].queue_depth, rows[1].block_bytes), (2, 16, 8192));
    assert_eq!(rows[2].span_bytes, Some(4 << 30));
    let same = judged(DEVICE, &tables);
    for row in &same.tables[0].rows {
        assert!(row.not_simulated.is_none(), "{row:?}");
        for figure in row.figures.iter().filter(|figure| figure.judged) {
            assert!(figure.error.abs() < 0.05, "{} {figure:?}", row.label);
        }
        for wanted in [Figure::Iops, Figure::Bandwidth, Figure::Mean, Figure::P50, Figure::P99] {
            assert!(row.figures.iter().any(|figure| figure.figure == wanted), "{} has no {wanted}", row.label);
        }
    }
    // Another device is another device.
    let other = judged("optane-905p-960gb", &tables);
    assert!(other.tables[0].summary.iter().any(|summary| summary.figure == Figure::Iops && summary.worst > 0.5));
    let device = describe(DEVICE, Path::new(""), &[]).unwrap();
    let page = page(&same, &device);
    assert!(page.contains("r16") && page.contains("I/Os in flight") || page.contains("randread"), "no chart");
    assert!(errors_table(&same).rows.len() >= 4 * 5);
}

fn fio(jobs: &str) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    std::fs::write(&path, format!("{{\"fio version\":\"fio-3.36\",\"jobs\":[{jobs}]}}")).unwrap();
    read_fio(&path).unwrap()
}

fn job(options: &str, more: &str) -> String {
    format!(
        "{{\"jobname\":\"j\",\"groupid\":0,\"job options\":{{{options}}},\
         \"read\":{{\"total_ios\":1000,\"iops\":500.0,\"bw_bytes\":2048000,\"lat_ns\":{{\"mean\":2000.0}}}}{more}}}"
    )
}

#[test]
fn jobs_that_cannot_be_compared_say_why() {
    let plain = "\"rw\":\"randread\",\"direct\":\"1\",\"size\":\"1g\",\"ioengine\":\"libaio\"";
    assert!(fio(&job(plain, "")).rows[0].case.is_ok());
    for (options, why) in [
        ("\"rw\":\"randrw\"", "mixes"),
        ("\"rate_iops\":\"100\"", "limits the rate"),
        ("\"rate\":\"1m\"", "limits the rate"),
        ("\"thinktime\":\"1ms\"", "pauses"),
        ("\"direct\":\"0\"", "page cache"),
        ("\"bssplit\":\"4k/50:8k/50\"", "several block sizes"),
        ("\"random_distribution\":\"zipf:1.2\"", "all places"),
        ("\"ioengine\":\"mmap\"", "mmap"),
        ("\"rw\":\"trim\"", "rw=trim"),
        ("\"rw\":\"read:4k\"", "skips"),
        ("\"bs\":\"soon\"", "bs=soon"),
        ("\"iodepth\":\"-3\"", "iodepth=-3"),
        ("\"offset\":\"50%\"", "offset=50%"),
        ("\"verify\":\"crc32c\"", "reads back"),
    ] {
        let key = options.split(':').next().unwrap();
        let rest: Vec<&str> = plain.split(',').filter(|pair| !pair.starts_with(key)).collect();
        let more = if why == "mixes" { ",\"write\":{\"total_ios\":5}" } else { "" };
        let row = &fio(&job(&format!("{},{options}", rest.join(",")), more)).rows[0];
        let reason = row.case.as_ref().unwrap_err();
        assert!(reason.starts_with("not comparable") && reason.contains(why), "{options}: {reason}");
    }
    let failed = fio(&job(plain, ",\"error\":5"));
    assert!(failed.rows[0].case.as_ref().unwrap_err().contains("error 5"));
    let beside = fio(&format!("{},{}", job(plain, ""), job("\"rw\":\"read\",\"direct\":\"1\",\"size\":\"1g\"", "")));
    assert!(beside.rows.iter().all(|row| row.case.as_ref().unwrap_err().contains("stonewall")));
    let idle = fio("{\"jobname\":\"j\"}");
    assert!(idle.rows[0].case.is_err());
}

#[test]
fn other_versions_intervals_and_broken_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read_fio(&path)
    };
    let plain = "\"rw\":\"randread\",\"direct\":\"1\",\"size\":\"1g\",\"iodepth\":\"4\"";
    // fio 2: microseconds and KiB.
    let old = format!(
        "{{\"jobs\":[{{\"jobname\":\"j\",\"job options\":{{{plain}}},\"read\":{{\"total_ios\":1000,\"iops\":500.0,\
         \"bw\":2000,\"lat\":{{\"mean\":80.5}},\"clat\":{{\"mean\":79.0,\"percentile\":{{\"99.000000\":120}}}}}}}}]}}"
    );
    let table = read(&old).unwrap();
    let figures = &table.rows[0].measured;
    assert_eq!((figures.get(Figure::Mean), figures.get(Figure::P99)), (Some(80.5), Some(120.0)));
    assert_eq!(figures.get(Figure::Bandwidth), Some(2.048));
    // Without an engine that keeps several in flight there is one.
    assert_eq!(drive(&table.rows[0].case).engine, DriveEngine::Synchronous);
    assert_eq!(drive(&table.rows[0].case).queue_depth, 1);
    // The last of several results holds.
    let twice = format!("{}\n{}\n", old.replace("500.0", "400.0"), old);
    assert_eq!(read(&twice).unwrap().rows[0].measured.get(Figure::Iops), Some(500.0));
    for text in [&old[..old.len() / 2], &old[..old.len() - 1], &twice[..twice.len() - 20]] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("x.json") && error.contains("interrupted"), "{error}");
    }
    for text in ["", "[]", "just text\n", "{}", "{\"jobs\":3}", "{\"jobs\":[]}x"] {
        match read(text) {
            Ok(table) => assert!(table.rows.is_empty(), "{text}"),
            Err(error) => assert!(error.to_string().contains("x.json"), "{error}"),
        }
    }
}

#[test]
fn a_real_fio_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, vec![1; 8 << 20]).unwrap();
    let jobs = format!(
        "[global]\nfilename={}\nsize=8m\ndirect=1\nioengine=libaio\nnumber_ios=300\nstonewall\n[one]\nrw=randread\niodepth=4\n\
         [two]\nrw=randwrite\nbs=8k\nnumjobs=2\niodepth=2\n[mixed]\nrw=randrw\n[slow]\nrw=read\nrate_iops=1000\n",
        file.display()
    );
    let path = folder.path().join("jobs.fio");
    std::fs::write(&path, jobs).unwrap();
    for format in ["json", "json+"] {
        let out = folder.path().join("out.json");
        let ran = std::process::Command::new("fio")
            .args([
                format!("--output-format={format}"),
                format!("--output={}", out.display()),
                path.display().to_string(),
            ])
            .current_dir(folder.path())
            .output();
        match ran {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                println!("skipped: fio has no direct I/O here: {}", String::from_utf8_lossy(&output.stderr));
                return;
            }
            Err(_) => {
                println!("skipped: fio is not installed");
                return;
            }
        }
        let table = read_fio(&out).unwrap();
        assert_eq!(table.rows.len(), 4, "{table:?}");
        let (one, two) = (drive(&table.rows[0].case), drive(&table.rows[1].case));
        assert_eq!((one.op, one.queue_depth, one.jobs, one.block_bytes), (DriveOp::RandomRead, 4, 1, 4096));
        assert_eq!((two.op, two.queue_depth, two.jobs, two.block_bytes), (DriveOp::RandomWrite, 2, 2, 8192));
        assert_eq!(one.span_bytes, Some(8 << 20));
        for row in &table.rows[..2] {
            assert!(row.measured.get(Figure::Iops).is_some() && row.measured.get(Figure::Mean).is_some(), "{row:?}");
        }
        assert!(table.rows[0].measured.get(Figure::P99).is_some());
        // Two processes: their percentiles follow from bins, which json+ has.
        assert_eq!(table.rows[1].measured.get(Figure::P99).is_some(), format == "json+");
        assert!(table.rows[2].case.as_ref().unwrap_err().contains("mixes"));
        assert!(table.rows[3].case.as_ref().unwrap_err().contains("rate_iops=1000"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_result_is_an_answer(cut in any::<prop::sample::Index>(), put in "[ -~]{0,20}") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let whole = format!("{{\"jobs\":[{}]}}", job("\"rw\":\"randread\",\"bs\":\"4k\",\"direct\":\"1\",\"size\":\"1g\"", ""));
        let at = cut.index(whole.len());
        std::fs::write(&path, format!("{}{put}{}", &whole[..at], &whole[at..])).unwrap();
        let _ = read_fio(&path);
    }
}
