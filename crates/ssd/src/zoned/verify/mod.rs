//! Data is right: every command mix on every design, with power cuts, against the
//! naive model.

mod configs;
mod host;
mod workload;

use crash::Choice;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use units::Nanos;

use super::mutant::Mutant;
use host::Host;
use workload::{Action, actions, sequence};

/// Counters that show what a run has exercised.
fn counter(host: &Host, name: &str) -> u64 {
    host.counters().iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn every_design_keeps_every_promise() {
    let all = configs::all();
    assert!(all.len() > 100, "{} combinations", all.len());
    for (index, (name, config)) in all.iter().enumerate() {
        let mut host = Host::new(config, None);
        let actions = sequence(index as u8, 180, true);
        if let Err(error) = host.run(&actions) {
            panic!("{name}, seed {}: {error}", index as u8);
        }
    }
}

#[test]
fn zones_are_the_same_without_contents() {
    for (index, (name, config)) in configs::all().iter().enumerate().step_by(5) {
        let run = Host::without_contents(config).run(&sequence(index as u8, 200, true));
        assert_eq!(run, Ok(()), "{name}, seed {}", index as u8);
    }
}

#[test]
fn built_in_profiles_keep_every_promise() {
    for (name, config) in configs::profiles() {
        for seed in 0..8 {
            let run = Host::new(&config, None).run(&sequence(seed, 400, seed % 2 == 0));
            assert_eq!(run, Ok(()), "{name}, seed {seed}");
        }
    }
}

/// Long runs without cuts do what they are meant to.
#[test]
fn long_runs_fill_finish_and_reset() {
    for buffering in configs::BUFFERINGS {
        let mut host = Host::new(&configs::tiny(buffering), None);
        host.run(&sequence(1, 3000, false)).unwrap();
        assert!(host.done > 2000, "{}", host.done);
        for (name, least) in [("zone_resets", 40), ("zone_finishes", 15), ("zone_appends", 80), ("zone_opens", 40)] {
            let count = counter(&host, name);
            assert!(count >= least, "{buffering:?}: {name} {count}");
        }
    }
}

/// Every moment at which something happens in a short run, and the nanosecond
/// before it, is a moment at which the power may go.
#[test]
fn every_crash_point_of_short_runs() {
    let all = configs::all();
    for (index, (name, config)) in all.iter().enumerate().step_by(37) {
        let actions = sequence((index as u8).wrapping_add(100), 25, false);
        let mut host = Host::new(config, None);
        let mut moments = vec![Nanos::ZERO];
        replay(&mut host, &actions, Nanos::from_secs(1), &mut moments).unwrap();
        moments.sort_unstable();
        moments.dedup();
        for moment in moments {
            let undecided = name.starts_with("Volatile");
            let choices = [Choice::Nothing, Choice::Everything, Choice::Lot(moment.0)];
            for survivors in choices.into_iter().take(if undecided { 3 } else { 1 }) {
                let mut host = Host::new(config, None);
                let cut = replay(&mut host, &actions, moment, &mut Vec::new()).and_then(|()| host.cut(survivors));
                if let Err(error) = cut {
                    panic!("{name}, cut at {moment:?}, survivors {survivors:?}: {error}");
                }
            }
        }
    }
}

/// Does the actions up to `end`, and notes when something happened.
fn replay(host: &mut Host, actions: &[Action], end: Nanos, moments: &mut Vec<Nanos>) -> Result<(), String> {
    for action in actions.iter().chain([&Action::Wait { micros: u16::MAX }]) {
        if let Action::Wait { micros } = action {
            let until = host.now() + Nanos::from_micros((*micros).into());
            while let Some(next) = host.next_event()
                && next <= until.min(end)
            {
                moments.extend([Nanos(next.0.saturating_sub(1)), next]);
                host.advance(next)?;
            }
            host.advance(until.min(end).max(host.now()))?;
            if until >= end {
                return Ok(());
            }
        } else if !matches!(action, Action::Drain) {
            host.act(action)?;
        }
    }
    Ok(())
}

/// Each defect, on devices of many designs, is found by what it breaks; the same
/// commands find nothing wrong with sound devices.
#[test]
fn broken_devices_are_noticed() {
    let all = configs::all();
    for (name, config) in all.iter().step_by(31) {
        let complaint =
            |mutant| (0..10).find_map(|seed| Host::new(config, mutant).run(&sequence(seed, 400, false)).err());
        assert_eq!(complaint(None), None, "{name}");
        for mutant in Mutant::ALL {
            let signs: &[&str] = match mutant {
                Mutant::ResetForgetsBlock => &[" reads "],
                Mutant::FinishLeavesWritePointer => &[" reports ", " ends with "],
                Mutant::AppendReturnsWrongLba => &[" wrote block "],
                Mutant::OneOpenZoneTooMany => &[" reports ", " not Too Many Open Zones "],
                Mutant::FlushDoesNotWait | Mutant::SurvivesBehindGap => unreachable!("shows only after a power cut"),
            };
            let found = complaint(Some(mutant)).unwrap_or_default();
            assert!(signs.iter().any(|sign| found.contains(sign)), "{name}, {mutant:?}: `{found}`");
        }
    }
}

/// Each defect of power cuts is found on devices that have something to lose; sound ones pass the same cuts.
#[test]
fn broken_power_cuts_are_noticed() {
    let all = configs::all();
    for (name, config) in all.iter().filter(|(name, _)| name.starts_with("Volatile")).step_by(17) {
        let complaint =
            |mutant| (0..40).find_map(|seed| Host::new(config, mutant).run(&sequence(seed, 300, true)).err());
        assert_eq!(complaint(None), None, "{name}");
        for mutant in Mutant::OF_CUTS {
            let found = complaint(Some(mutant)).unwrap_or_default();
            assert!(found.contains("after the cut zone"), "{name}, {mutant:?}: `{found}`");
        }
    }
}

#[test]
fn the_same_commands_give_the_same_run() {
    for (_, config) in configs::all().iter().step_by(101) {
        let run = || {
            let mut host = Host::new(config, None);
            host.run(&sequence(3, 300, true)).unwrap();
            (host.now(), host.counters())
        };
        assert_eq!(run(), run());
    }
}

#[test]
fn the_host_sees_only_what_it_may() {
    let all = configs::all();
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    let input = (any::<prop::sample::Index>(), prop::collection::vec(actions(true), 1..200));
    TestRunner::new(config)
        .run(&input, |(which, actions)| {
            let (name, config) = which.get(&all);
            let mut host = Host::new(config, None);
            host.run(&actions).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))
        })
        .unwrap();
}
