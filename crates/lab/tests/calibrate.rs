//! `plumb calibrate device`: drives that we know, found again from fio's results alone.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::Quiet;
use lab::calibrate::{CalibrateError, CalibrateOptions, Calibration, Told, calibrate, nearest};
use lab::device::{Described, describe};
use lab::spec::Override;
use lab::validate::{Figure, JudgeOptions, Table, judge, read_tables};
use ssd::profile::Profile;

/// Runs jobs of fio's on a device: what fio would have written to its JSON file.
fn measured(jobs: &str, device: &str, changes: &Changes) -> Vec<Table> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.fio");
    std::fs::write(&path, jobs).unwrap();
    let mut overrides = vec![Override::new("stack.device", device.into())];
    for (key, value) in changes {
        let value: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
        overrides.push(Override::new(&format!("stack.device_set.{key}"), value["value"].clone()));
    }
    let experiment = lab::adhoc::experiment(&path, &overrides).unwrap();
    let plan = lab::plan(&experiment).unwrap();
    let json = lab::commands_of_run(&plan[0], 1).unwrap().0.fio_json.unwrap();
    let file = folder.path().join("fio.json");
    std::fs::write(&file, json).unwrap();
    read_tables(&[file]).unwrap()
}

fn options<'a>(stop: &'a AtomicBool) -> CalibrateOptions<'a> {
    CalibrateOptions { name: "mine", free_host: false, threads: 2, observer: &Quiet, stop }
}

fn fitted(base: &str, tables: &[Table]) -> Calibration {
    let stop = AtomicBool::new(false);
    let base = describe(base, Path::new(""), &[]).unwrap();
    calibrate(&base, tables, &options(&stop)).unwrap().unwrap()
}

/// The largest error of a rate that the profile in `text` makes on `tables`.
fn worst(text: &str, tables: &[Table]) -> f64 {
    let stop = AtomicBool::new(false);
    let profile = Profile::from_toml("fitted.toml", text).unwrap();
    let document = profile.document().unwrap();
    let device = Described { profile, document };
    let verdict =
        judge(&device, tables, &JudgeOptions { host: None, threads: 2, observer: &Quiet, stop: &stop }).unwrap();
    let figures = verdict.tables.iter().flat_map(|table| &table.rows).flat_map(|row| {
        row.figures.iter().filter(|figure| figure.figure == Figure::Iops).map(move |figure| (row, figure))
    });
    let mut worst: f64 = 0.0;
    for (row, figure) in figures {
        println!(
            "  {}: {:.0} measured, {:.0} modelled, {:+.1} %",
            row.label,
            figure.measured,
            figure.modelled,
            figure.error * 100.0
        );
        worst = worst.max(figure.error.abs());
    }
    worst
}

/// Changes to a profile, as TOML values by dotted key.
type Changes = Vec<(&'static str, String)>;

/// What a drive is measured with, and what its fitted profile is then asked.
struct Trial {
    jobs: &'static str,
    other_jobs: &'static str,
}

const SSD: Trial = Trial {
    jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=120ms\nramp_time=30ms\n\
        [a]\nrw=randread\nbs=4k\n[b]\nrw=randread\nbs=4k\niodepth=32\nnumjobs=4\ngroup_reporting\n[c]\nrw=read\nbs=128k\niodepth=8\n\
        [d]\nrw=randread\nbs=64k\n[e]\nrw=randwrite\nbs=4k\n[f]\nrw=randwrite\nbs=4k\niodepth=32\nnumjobs=4\ngroup_reporting\n\
        [g]\nrw=write\nbs=128k\niodepth=8\n",
    other_jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=120ms\nramp_time=30ms\n\
        [a]\nrw=randread\nbs=16k\niodepth=4\n[b]\nrw=read\nbs=256k\n[c]\nrw=randwrite\nbs=16k\niodepth=8\n\
        [d]\nrw=write\nbs=64k\n[e]\nrw=randread\nbs=4k\niodepth=8\nnumjobs=2\ngroup_reporting\n",
};

const DISK: Trial = Trial {
    jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=10s\n\
        [a]\nrw=randread\nbs=4k\n[b]\nrw=randread\nbs=4k\niodepth=16\n[c]\nrw=read\nbs=1m\n[d]\nrw=write\nbs=1m\n\
        [e]\nrw=read\nbs=1m\noffset=900g\nsize=20g\n[f]\nrw=randwrite\nbs=64k\niodepth=4\nramp_time=10s\n",
    other_jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=15s\n\
        [a]\nrw=randread\nbs=64k\niodepth=4\n[b]\nrw=read\nbs=128k\noffset=500g\nsize=20g\n\
        [c]\nrw=randwrite\nbs=16k\nramp_time=60s\n",
};

const CARD: Trial = Trial {
    jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=2s\n\
        [a]\nrw=randread\nbs=4k\n[b]\nrw=read\nbs=512k\n[c]\nrw=write\nbs=512k\nramp_time=1s\n[d]\nrw=randwrite\nbs=4k\n",
    other_jobs: "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=2s\n\
        [a]\nrw=randread\nbs=64k\n[b]\nrw=read\nbs=128k\n[c]\nrw=write\nbs=128k\n[d]\nrw=randwrite\nbs=16k\n",
};

/// Fits `base` to what a changed one of it does, and asks the result for loads that it was not fitted to.
fn found_again(base: &str, trial: &Trial, changes: &Changes) -> Calibration {
    let found = fitted(base, &measured(trial.jobs, base, changes));
    println!("{base}, changed by {changes:?}:");
    for fit in &found.fits {
        println!("  {}: {} -> {} (x {:.3}) {:?}", fit.keys[0], fit.before, fit.after, fit.factor, fit.told);
    }
    let off = worst(&found.profile, &measured(trial.other_jobs, base, changes));
    assert!(off < 0.1, "a rate is {:.1} % off", off * 100.0);
    found
}

fn changes(pairs: &[(&'static str, &str)]) -> Changes {
    pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
}

#[test]
fn a_card_is_found_again() {
    let all = [
        ("controller.command_overhead", "'400us'"),
        ("bus.bandwidth", "'50MB'"),
        ("flash.read", "'110us'"),
        ("flash.program", "'700us'"),
    ];
    found_again("microsd-evo-128gb", &CARD, &changes(&all));
}

#[test]
fn a_disk_is_found_again() {
    let all = [
        ("geometry.rpm", "5400"),
        ("geometry.outer_rate", "'190MB'"),
        ("geometry.inner_rate", "'90MB'"),
        ("seek.average", "'11ms'"),
        ("seek.full_stroke", "'22ms'"),
        ("seek.track_to_track", "'1.3ms'"),
        ("seek.head_switch", "'1.3ms'"),
    ];
    let found = found_again("hdd-7200-1tb", &DISK, &changes(&all));
    assert!(
        found.fits.iter().any(|fit| fit.keys == ["geometry.rpm"] && fit.after == "5400"),
        "another speed of rotation"
    );
}

#[test]
fn an_ssd_is_found_again() {
    let all = [
        ("cell.read", "['95us']"),
        ("slc_cache.read", "'66us'"),
        ("controller.read", "'14us'"),
        ("controller.write", "'16us'"),
        ("link.bandwidth", "'450MB'"),
        ("link.submission_latency", "'4us'"),
        ("link.completion_latency", "'4us'"),
    ];
    let found = found_again("samsung-860evo-250gb", &SSD, &changes(&all));
    // Seven loads within the SLC cache do not tell how long the cells behind it take.
    assert!(found.fits.iter().any(|fit| fit.keys == ["cell.program"] && fit.told == Told::Kept && fit.factor == 1.0));
    // What comes out is a profile with a source for each value that was fitted.
    let profile = Profile::from_toml("mine.toml", &found.profile).unwrap();
    assert_eq!(profile.name, "mine");
    assert!(profile.sources["link.bandwidth"].starts_with("fitted to "), "{:?}", profile.sources);
    assert!(!profile.sources["cell.program"].starts_with("fitted to "), "{:?}", profile.sources);
    assert!(profile.expectations.is_empty());
}

/// Every drive without zones, each law of it changed by a factor from 0.7 to 1.4, several times.
#[test]
fn every_drive_is_found_again_in_the_long_run() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: PLUMB_LONG=1 fits every drive");
        return;
    }
    let mut dice = 1_u64;
    for round in 0..3 {
        for name in ssd::profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            let (trial, keys): (_, &[&'static [&'static str]]) = match profile.config {
                ssd::profile::DeviceConfig::Card(_) => (
                    &CARD,
                    &[&["controller.command_overhead"], &["bus.bandwidth"], &["flash.read"], &["flash.program"]],
                ),
                ssd::profile::DeviceConfig::Disk(_) => {
                    (&DISK, &[&["geometry.outer_rate", "geometry.inner_rate"], &["seek.average", "seek.full_stroke"]])
                }
                ssd::profile::DeviceConfig::Ssd(_) => (
                    &SSD,
                    &[
                        &["cell.read"],
                        &["cell.program"],
                        &["controller.read"],
                        &["controller.write"],
                        &["link.bandwidth"],
                        &["link.submission_latency", "link.completion_latency"],
                    ],
                ),
                ssd::profile::DeviceConfig::Zoned(_) => continue,
            };
            let document = profile.document().unwrap();
            let mut all = Changes::new();
            for together in keys {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let factor = 0.7 * 2.0_f64.powf((dice >> 40) as f64 / (1_u64 << 24) as f64);
                for key in *together {
                    let (table, field) = key.split_once('.').unwrap();
                    let text = |value: &toml::Value| {
                        let text = value.as_str().unwrap();
                        match text.parse::<units::Nanos>() {
                            Ok(time) if text.ends_with('s') => format!("'{}ns'", (time.0 as f64 * factor) as u64),
                            _ => format!("'{}B'", (text.parse::<units::ByteSize>().unwrap().0 as f64 * factor) as u64),
                        }
                    };
                    let value = match &document[table][field] {
                        toml::Value::Array(items) => {
                            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
                        }
                        single => text(single),
                    };
                    all.push((key, value));
                }
            }
            println!("round {round}");
            found_again(name, trial, &all);
        }
    }
}

#[test]
fn without_a_base_the_nearest_drive_is_taken() {
    let stop = AtomicBool::new(false);
    for (name, trial) in [("optane-905p-960gb", &SSD), ("microsd-evo-128gb", &CARD)] {
        let tables = measured(trial.jobs, name, &Changes::new());
        let found = nearest(&tables, &options(&stop)).unwrap().unwrap();
        assert_eq!(found.profile.name, name);
    }
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let stop = AtomicBool::new(false);
    let device = |name| describe(name, Path::new(""), &[]).unwrap();
    let tables = measured(CARD.jobs, "microsd-evo-128gb", &Changes::new());
    let zoned = calibrate(&device("wd-zn540"), &tables, &options(&stop)).unwrap_err();
    assert!(matches!(zoned, CalibrateError::Zoned { .. }), "{zoned}");
    let mut one = tables.clone();
    one[0].rows.truncate(1);
    let mixed = "[global]\nioengine=libaio\ndirect=1\nruntime=1s\ntime_based\n[m]\nrw=randrw\nbs=4k\n";
    one.extend(measured(mixed, "microsd-evo-128gb", &Changes::new()));
    let few = calibrate(&device("microsd-evo-128gb"), &one, &options(&stop)).unwrap_err().to_string();
    assert!(few.starts_with("1 of 2 measurements can be used") && few.contains("mixes"), "{few}");
    // A load beyond the end of the device is left out of what is compared, with a word.
    let mut far = tables.clone();
    if let Ok(lab::validate::Case::Drive(drive)) = &mut far[0].rows[0].case {
        drive.offset_bytes = 1 << 50;
    }
    let found = calibrate(&device("microsd-evo-128gb"), &far, &options(&stop)).unwrap().unwrap();
    assert!(found.after.tables[0].rows[0].not_simulated.as_ref().unwrap().contains("the device has"));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(calibrate(&device("microsd-evo-128gb"), &tables, &options(&stop)).unwrap().is_none(), "it goes on");
}

#[test]
fn the_result_is_the_same_with_any_number_of_threads() {
    let tables = measured(CARD.jobs, "microsd-evo-128gb", &changes(&[("bus.bandwidth", "'70MB'")]));
    let stop = AtomicBool::new(false);
    let base = describe("microsd-evo-128gb", Path::new(""), &[]).unwrap();
    let with = |threads| {
        let options = CalibrateOptions { threads, ..options(&stop) };
        calibrate(&base, &tables, &options).unwrap().unwrap().profile
    };
    assert_eq!(with(1), with(3));
}
