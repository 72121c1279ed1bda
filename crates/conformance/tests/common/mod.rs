//! What the tests of this crate share.
#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use conformance::plumb::{self, Profile};
use conformance::{Error, Guest, Kernel, Report, Series};

/// One guest at a time: each uses both processors of a small machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// Runs a test; what the host lacks skips it with the reason.
pub fn judge(test: impl FnOnce() -> Result<(), Error>) {
    let _one_guest = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    match test() {
        Ok(()) => {}
        Err(error) if error.is_missing() => println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
}

pub fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// Like [`judge`], for tests of minutes.
pub fn judge_long(test: impl FnOnce() -> Result<(), Error>) {
    if !is_long() {
        println!("skipped: takes minutes (PLUMB_LONG=1, or ./test --long)");
        return;
    }
    judge(test);
}

/// Where the transcript of a test goes; it stays after the test.
pub fn transcript(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(name)
}

/// A guest with the program under test in it.
pub fn guest(series: Series) -> Result<Guest, Error> {
    Ok(Guest::new(&Kernel::fetch(series)?).program(plumb::program(Profile::Dev)?))
}

/// Runs a script; every fault of it fails the test.
pub fn run(guest: &Guest, name: &str, script: &str) -> Result<Report, Error> {
    let report = guest.run(script, &transcript(name))?;
    let faults = report.faults();
    let checks: f64 = report.checks().iter().map(|check| check.elapsed.as_secs_f64()).sum();
    println!("{name}: {} checks, {checks:.0} s in the guest", report.checks().len());
    for (what, why) in report.unable() {
        println!("{name}: {what}: not with this kernel: {why}");
    }
    assert!(
        faults.is_empty(),
        "{name}: {} faults (transcript in {}):\n{}",
        faults.len(),
        report.folder().display(),
        faults.join("\n")
    );
    Ok(report)
}
