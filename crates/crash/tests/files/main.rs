//! The judge of files against an ideal file system and broken ones, and case by case.

#![allow(clippy::unwrap_used)]

mod cases;
mod ideal;

use crash::files::{Known, Promises, Rules, Violation, judge, judge_beside};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use ideal::{DEFECTS, Defect, Ideal, Step};

const FILE_SYSTEMS: [&str; 5] = ["ext4", "xfs", "btrfs", "f2fs", "vfat"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<(u8, u8, u8)>(), any::<u16>(), any::<(u8, u8)>());
    let step = step.prop_map(|((what, one, other), size, wait)| Step { what, one, other, size, wait });
    prop::collection::vec(step, 1..80)
}

/// What the judge says to a power cut.
fn judged(ideal: &Ideal, file_system: &str, until: u64, seed: u64, defect: Option<Defect>) -> Vec<Violation> {
    let promises = Promises::new(Rules::of(file_system), &Ideal::initial(), &ideal.calls);
    let (expectation, found) = (promises.promised(until), ideal.cut(until, seed, defect));
    let violations = judge(&expectation, &found);
    // What is known from other states changes nothing.
    let known = Known::default();
    for other in 1..4 {
        judge_beside(&expectation, &ideal.cut(until, seed ^ other, defect), &known);
    }
    assert_eq!(violations, judge_beside(&expectation, &found, &known));
    violations
}

fn cases() -> u32 {
    if std::env::var_os("PLUMB_LONG").is_some() { 20_000 } else { 1_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    /// It keeps more than any file system promises, so nobody may complain.
    #[test]
    fn nothing_is_said_of_an_ideal_file_system(steps in steps(), cut: u64, seed: u64) {
        let ideal = Ideal::run(&steps);
        let until = cut % (ideal.positions() + 2);
        for file_system in FILE_SYSTEMS {
            let violations = judged(&ideal, file_system, until, seed, None);
            prop_assert!(violations.is_empty(), "{file_system} at {until}: {violations:#?}\n{:#?}", ideal.calls);
        }
    }
}

/// How many of so many power cuts of a broken file system are complained about.
fn caught(file_system: &str, defect: Defect, tries: u32) -> u32 {
    let mut runner = TestRunner::deterministic();
    let strategy = (steps(), any::<u64>(), any::<u64>());
    let mut caught = 0;
    for _ in 0..tries {
        let (steps, cut, seed) = strategy.new_tree(&mut runner).unwrap().current();
        let ideal = Ideal::run(&steps);
        let until = cut % (ideal.positions() + 2);
        caught += u32::from(!judged(&ideal, file_system, until, seed, Some(defect)).is_empty());
    }
    caught
}

#[test]
fn every_broken_file_system_is_caught() {
    for defect in DEFECTS {
        let caught = caught("ext4", defect, 600);
        println!("{defect:?}: {caught} of 600");
        assert!(caught > 0, "{defect:?}");
    }
}

/// What a file system does not promise is not asked of it.
#[test]
fn what_is_not_promised_is_not_complained_about() {
    assert_eq!(caught("vfat", Defect::FsyncForgetsName, 300), 0);
    for file_system in ["btrfs", "f2fs", "vfat"] {
        assert_eq!(caught(file_system, Defect::RenameLeavesBoth, 300), 0, "{file_system}");
    }
}
