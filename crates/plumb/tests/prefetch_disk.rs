//! Prefetching on a disk, where each request takes some ten milliseconds, under a real kernel in virtual time: what is not worth loading
//! ahead there costs nothing.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use linux_rig::{has, is_long, kernel, points};

/// Runs patterns without the library and in these modes, with so much memory for program, library and page cache: what is gained in each.
fn gains(patterns: &[&str], modes: &[&str], memory: &str) -> Vec<Vec<f64>> {
    let libraries: Vec<&str> = std::iter::once("without").chain(modes.iter().copied()).collect();
    let sweep = format!(
        "{{\"workload.program.memory\"=[{memory:?}],\"workload.variables.PATTERN\"={patterns:?},library={libraries:?}}}"
    );
    let points = points("crossprefetch/disk.toml", &sweep);
    assert_eq!(points.len(), patterns.len() * libraries.len());
    let rows = points.chunks(libraries.len()).zip(patterns);
    rows.map(|(row, pattern)| {
        let metric = |at: usize, name: &str| row[at]["metrics"][name]["value"].as_f64().unwrap();
        let gain = |at: usize| {
            let name = format!("{pattern}, {}", libraries[at]);
            assert_eq!(metric(at, "program.output_hash"), metric(0, "program.output_hash"), "{name}");
            let ratio = |what: &str| metric(at, what) / metric(0, what);
            let (time, bytes) = (ratio("program.elapsed_s"), ratio("counter.device.host_read_bytes"));
            println!("{name}: {time:.3} times the time, {bytes:.3} times the bytes");
            assert!(time <= 1.005, "{name}: {time} times the time");
            assert!(bytes <= 1.05, "{name}: {bytes} times the bytes");
            1.0 / time
        };
        (1..libraries.len()).map(gain).collect()
    })
    .collect()
}

fn is_ready() -> bool {
    kernel().is_some() && has("mkfs.ext4") && has("python3")
}

#[test]
fn who_goes_backward_gains_and_who_reads_little_loses_nothing() {
    if !is_ready() {
        return;
    }
    let gains = gains(&["backward", "few"], &["predict+opt"], "512MiB");
    assert!(gains[0][0] >= 10.0, "{gains:?}");
}

#[test]
fn nothing_is_lost_in_any_pattern_and_mode() {
    if !is_long() {
        println!("skipped: forty-two guests; PLUMB_LONG=1 runs it");
        return;
    }
    if !is_ready() {
        return;
    }
    let patterns = ["forward", "backward", "strided", "random", "few", "short"];
    let gains = gains(&patterns, &["predict", "predict+opt", "budget"], "512MiB");
    // All of the file is read at random, and loaded when its reads have paid for it.
    assert!(gains[3][2] >= 1.8, "{gains:?}");
    // Python and the launcher leave a tenth of the file's size for its pages.
    let gains = self::gains(&patterns, &["predict+opt", "budget"], "26MiB");
    assert!(gains[1].iter().all(|gain| *gain >= 10.0), "{gains:?}");
}
