//! The stalls of the WD ZN540's I/O at depth 1 beside resets back to back: rare, as
//! long as a reset, and invisible in the 99th percentile ([N]: the characterisation of
//! CLUSTER '23).

use crate::common::jobs::{Job, Outcome, Work, run};
use ssd::profile::{BuildOptions, Profile, builtin_text};
use units::Nanos;

const FULL_ZONES: u32 = 813;

/// I/O of one kind at depth 1 beside one thread of resets that the host spaces by 15 us.
fn beside_resets(work: Work, io: u64, pace: Option<Nanos>) -> Outcome {
    let mut table: toml::Table = builtin_text("wd-zn540").unwrap().parse().unwrap();
    let initial: toml::Table = format!("full_zones = [{FULL_ZONES}]").parse().unwrap();
    table.insert("initial".to_owned(), initial.into());
    let profile = Profile::from_table("wd-zn540", &table).unwrap();
    let mut device = profile.build(&BuildOptions::default()).unwrap();
    let zones = if work == Work::Read { 700..FULL_ZONES } else { 820..900 };
    let mut victim = Job::new(work, 4096, 1, zones);
    victim.think = Nanos(420);
    let mut resets = Job::new(Work::Reset, 0, 1, 0..700);
    resets.think = Nanos::from_micros(15);
    resets.pace = pace;
    // As long as so many I/Os took on the drive, stalls included.
    let length = Nanos::from_millis(io);
    run(device.as_mut(), Nanos::ZERO, &[victim, resets], Nanos::ZERO, length).swap_remove(0)
}

/// How many took longer than 10 ms, of a hundred thousand, and their mean in ms.
fn stalls(outcome: &Outcome) -> (f64, f64) {
    let long: Vec<f64> = outcome.latencies_ns.iter().map(|ns| *ns as f64 / 1e6).filter(|ms| *ms > 10.0).collect();
    let share = long.len() as f64 / outcome.latencies_ns.len() as f64;
    (share * 1e5, long.iter().sum::<f64>() / long.len().max(1) as f64)
}

#[test]
fn one_in_a_thousand_waits_for_a_whole_reset() {
    // The 99th percentile of writes did not move from 14.4 us; that of reads was 183 us
    // beside 30 resets/s ([A]), which meet more reads when they come back to back.
    for (work, run_ms, published, p99_us) in
        [(Work::Write, 2_300, 73.0, 20.0), (Work::Append, 2_900, 90.2, 20.0), (Work::Read, 11_000, 371.0, 250.0)]
    {
        let mut outcome = beside_resets(work, run_ms, None);
        let (count, mean_ms) = stalls(&outcome);
        println!("{work:?}: {count:.0} of 100,000 stalled, {mean_ms:.2} ms; published {published} and 15.8 to 15.9 ms");
        // One law for three: every second reset catches. The runs show 0.46 to 0.55.
        assert!((count / published - 1.0).abs() < 0.3, "{work:?}: {count} stalls");
        assert!((mean_ms / 15.85 - 1.0).abs() < 0.25, "{work:?}: {mean_ms} ms");
        assert!(outcome.quantile_us(0.99) < p99_us, "{work:?}: p99 {} us", outcome.quantile_us(0.99));
    }
}

#[test]
fn none_does_beside_resets_with_pauses() {
    let outcome = beside_resets(Work::Read, 3_000, Some(Nanos::from_millis(33)));
    assert_eq!(stalls(&outcome).0, 0.0);
}
