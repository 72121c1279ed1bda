//! Output in fio's forms.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::{null, run, run_on};
use serde_json::Value;
use units::Nanos;
use workload::fio::output::{Header, json_plus, text};

const JOBS: &str = "[global]\nioengine=libaio\nsize=1m\nbs=4k\ndirect=1\n\
    [mixed]\nrw=randrw\niodepth=4\nrwmixread=75\n\
    [writers]\nstonewall\nrw=write\nnumjobs=2\niodepth=2\ngroup_reporting\nfsync=16\nbs=16k\nlat_percentiles=1\nslat_percentiles=1\ndescription=two writers\n\
    [checked]\nstonewall\nrw=randwrite\nsize=256k\nverify=crc32c";

#[test]
fn text_is_fios() {
    let reports = run(JOBS, Nanos::from_micros(80));
    insta::assert_snapshot!("text", text(&reports, &["a note".to_owned()], &Header::default()));
}

#[test]
fn failures_are_in_the_text() {
    let device = crate::common::Failing { inner: null(Nanos::from_micros(80)), after: 10 };
    let reports = run_on(device, "[a]\nrw=write\nsize=1m\ndirect=1", 1);
    let text = text(&reports, &[], &Header::default());
    assert!(text.contains("err= 5"), "{text}");
    assert!(text.contains("SHORTFALL    : served 40960 of 1048576 bytes: write of 4096 bytes"), "{text}");
    let json: Value = serde_json::from_str(&json_plus(&reports, &Header::default())).unwrap();
    assert_eq!(json["jobs"][0]["error"], 5);
    assert!(json["jobs"][0]["plumb"]["shortfall"].as_str().unwrap().contains("served 40960"));
}

#[test]
fn zone_management_has_lines_of_its_own() {
    let jobs = "[global]\nzonemode=zbd\nioengine=io_uring_cmd\n[finish]\nrw=write\nbs=4k\nsize=4z\nfinish=1\n\
        [again]\nstonewall\nrw=write\nbs=128k\noffset=4z\nsize=1z\nio_size=2m";
    let reports = run_on(crate::common::zoned(""), jobs, 1);
    let text = text(&reports, &[], &Header::default());
    for line in
        ["\n  finish: IOPS=", "(3056KiB/", "\n FINISH: bw=", "; 0 zone resets", "; 2 zone resets", "\n  reset: IOPS="]
    {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let json: Value = serde_json::from_str(&json_plus(&reports, &Header::default())).unwrap();
    let (finish, again) = (&json["jobs"][0], &json["jobs"][1]);
    assert_eq!((&finish["finish"]["total_ios"], &finish["write"]["total_ios"]), (&4.into(), &4.into()));
    assert_eq!(
        (&finish["finish"]["io_bytes"], &finish["write"]["io_bytes"]),
        (&(4 * 764 * 1024).into(), &(4 * 768 * 1024).into())
    );
    assert!(finish["finish"]["clat_ns"]["percentile"]["99.000000"].as_u64().unwrap() > 8_000_000, "{finish:#}");
    assert_eq!((&again["reset"]["total_ios"], &again["plumb"]["zone_resets"]), (&2.into(), &2.into()));
    assert!(again["finish"].is_null() && finish["reset"].is_null());
}

#[test]
fn windows_without_completions_are_no_samples() {
    // Every 2 s one I/O; the run ends with the fifth, in the middle of a window.
    let job = "[a]\nrw=randread\nnorandommap\nsize=1m\nrate=2k\nruntime=10\ntime_based";
    let report = &run(job, Nanos::from_millis(600))[0];
    let (_, iops) = report.samples(&report.directions.read);
    assert_eq!((report.ios(), iops.mean, iops.count), (5, 2.0, 4), "{iops:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let job = "[a]\nioengine=io_uring\nrw=randrw\niodepth=8\nsize=4m\nrate_iops=20000\nrate_process=poisson\nbsrange=4k-16k\nnumjobs=3";
    let bytes = |seed| {
        let reports = run_on(null(Nanos::from_micros(80)), job, seed);
        (json_plus(&reports, &Header::default()), text(&reports, &[], &Header::default()))
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1).0, bytes(2).0);
}

#[test]
fn figures_agree_with_the_run() {
    let reports = run(JOBS, Nanos::from_micros(80));
    let json: Value = serde_json::from_str(&json_plus(&reports, &Header::default())).unwrap();
    let jobs = json["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 3, "the two writers are one");
    assert_eq!(jobs[1]["write"]["io_bytes"], 2 << 20);
    assert_eq!(jobs[1]["sync"]["total_ios"], 6);
    let (reads, writes) = (&jobs[0]["read"], &jobs[0]["write"]);
    assert_eq!(reads["total_ios"].as_u64().unwrap() + writes["total_ios"].as_u64().unwrap(), 256);
    let iops = reads["iops"].as_f64().unwrap() + writes["iops"].as_f64().unwrap();
    assert!((iops - 4.0 / 80e-6).abs() < 1000.0, "{iops} IOPS at depth 4 and 80 us");
    let binned: u64 = reads["clat_ns"]["bins"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(binned, reads["total_ios"].as_u64().unwrap());
    assert_eq!(jobs[2]["plumb"]["verify"]["mismatches"], 0);
}

/// Every key path of a JSON value; array elements are one, bins and percentiles any.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let open = at.ends_with("bins") || at.ends_with("percentile") || at.ends_with("options");
                let path = if open { format!("{at}.*") } else { format!("{at}.{key}") };
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{at}[]"), found)),
        _ => {}
    }
}

/// The keys are those of the fio installed here: none is missing, and what is
/// added is under `plumb`.
#[test]
fn json_has_fios_keys() {
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("job.fio");
    let (engine, ours) = ("ioengine=null", JOBS.replace("verify=crc32c", "loops=1"));
    std::fs::write(&job, ours.replace("ioengine=libaio", engine).replace("fsync=16\n", "")).unwrap();
    let Ok(output) = Command::new("fio").arg("--output-format=json+").arg(&job).current_dir(&directory).output() else {
        println!("skipped: fio not installed");
        return;
    };
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ours: Value =
        serde_json::from_str(&json_plus(&run(&ours, Nanos::from_micros(80)), &Header::default())).unwrap();
    let (mut want, mut have) = (BTreeSet::new(), BTreeSet::new());
    paths(&theirs, "", &mut want);
    paths(&ours, "", &mut have);
    let missing: Vec<&String> = want.difference(&have).filter(|path| !path.starts_with(".disk_util")).collect();
    assert!(missing.is_empty(), "fio has these: {missing:?}");
    let added: Vec<&String> = have
        .difference(&want)
        .filter(|path| !path.contains("plumb") && !path.starts_with(".jobs[].sync.lat_ns"))
        .collect();
    assert!(added.is_empty(), "fio lacks these: {added:?}");
}

/// fio's own converter reads the file.
#[test]
fn fio_jsonplus_clat2csv_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.json");
    std::fs::write(&file, json_plus(&run(JOBS, Nanos::from_micros(80)), &Header::default())).unwrap();
    let convert = |validate: &[&str]| {
        let csv = directory.path().join("out.csv");
        Command::new("fio_jsonplus_clat2csv").arg(&file).arg(csv).args(validate).output()
    };
    let Ok(converted) = convert(&[]) else {
        println!("skipped: fio_jsonplus_clat2csv not installed");
        return;
    };
    let said = String::from_utf8_lossy(&converted.stderr).into_owned();
    if said.contains("No module named") {
        println!("skipped: fio_jsonplus_clat2csv lacks a Python module: {said}");
        return;
    }
    assert!(converted.status.success(), "{said}");
    let validated = convert(&["--validate"]).unwrap();
    let said = String::from_utf8_lossy(&validated.stdout).into_owned();
    assert_eq!(said.matches("validated").count(), 3, "{said} {}", String::from_utf8_lossy(&validated.stderr));
}
