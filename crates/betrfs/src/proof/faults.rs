//! Storage that fails: at every request of a run, once or from then on. A call says so, and nothing synced is lost.

use storage::{Fault, FaultKind, Faulty, Memory, Operation};

use super::action::{Action, Scale, action, random};
use super::compare::tree;
use super::side::{Answer, Side};
use super::traces::{at, seeds_of_both, tiny};
use crate::operations::{Error, Operations};
use crate::{Model, Volume, VolumeOptions, check};

const SCALE: Scale = Scale { file_bytes: 100_000, write_bytes: 20_000 };
const STEPS: u64 = 60;

fn options(seed: u64) -> VolumeOptions {
    let mut options = tiny(seed);
    (options.store.memtable_bytes, options.store.fresh_bytes) = (8 << 10, 16 << 10);
    // So little in memory that calls read.
    options.store.cache_bytes = 4 << 10;
    options.inode_cache_bytes = 1;
    options
}

/// How many requests the run makes without a fault; with one, how often it failed.
fn run(seed: u64, fault: Option<Fault>) -> Result<u64, String> {
    let words = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let memory = Memory::new(8 << 20);
    drop(Volume::create(memory.clone(), options(seed), 3, at(0)).map_err(words("create"))?);
    let (faulty, faults) = Faulty::new(memory.clone());
    if let Some(fault) = fault {
        faults.add(fault);
    }
    let mut random = random(seed);
    let mut model = Side::new(Model::new(at(0)));
    let mut states = vec![model.fs.copied()];
    let mut synced = 0;
    let opened = Volume::open(faulty, options(seed));
    if fault.is_none() {
        opened.as_ref().map_err(|error| error.to_string())?;
    }
    if let Ok(volume) = opened {
        let mut real = Side::new(volume);
        for step in 1..=STEPS {
            let action = match step % 7 {
                0 => Action::Fsync { inode: 0 },
                _ => action(&mut random, model.slots.len(), SCALE),
            };
            let before = model.fs.copied();
            let found = real.apply(&action, at(step));
            if found == Answer::Error(Error::NotSupported) {
                continue;
            }
            let right = model.apply(&action, at(step));
            states.push(model.fs.copied());
            match found {
                // Whether it happened is known when it is mounted again. Only what looks at nothing else may go on.
                Answer::Error(Error::Io(_) | Error::Corrupt(_)) if fault.is_some() => {
                    if !matches!(action, Action::Lookup { .. } | Action::Readdir { .. }) {
                        break;
                    }
                    let Side { slots, opened, end, .. } = model;
                    model = Side { fs: before, slots, opened, end };
                    model.slots.truncate(real.slots.len());
                    states.pop();
                }
                found if found != right => {
                    return Err(format!("step {step}, {action:?}: {found:?} instead of {right:?}"));
                }
                _ if matches!(action, Action::Fsync { .. } | Action::Syncfs) && !matches!(right, Answer::Error(_)) => {
                    synced = states.len() - 1;
                }
                _ => {}
            }
        }
    }
    let counted = if fault.is_some() { faults.injected() } else { faults.requests() };
    faults.clear();
    let findings = check(memory.clone(), &options(seed)).map_err(words("check"))?;
    if let Some(finding) = findings.first() {
        return Err(finding.to_string());
    }
    let volume = Volume::open(memory, options(seed)).map_err(words("mount"))?;
    while volume.reap(50).map_err(words("reap"))? {}
    let found = tree(&volume).map_err(words("read"))?;
    for state in states[synced..].iter().rev() {
        if tree(state).map_err(words("the model"))? == found {
            return Ok(counted);
        }
    }
    Err(format!("it is as no operation from {synced} on left it"))
}

/// Fails each request in turn; `stride` skips some.
fn every_request(seed: u64, stride: usize) -> Result<(), String> {
    let requests = run(seed, None)?;
    let mut runs = 0;
    for (kind, lasting) in [(FaultKind::Error, false), (FaultKind::Error, true), (FaultKind::Short, false)] {
        for at in (0..requests).step_by(stride) {
            let fault = Fault { operation: None, at, lasting, kind };
            let injected = run(seed, Some(fault)).map_err(|what| format!("{fault:?}: {what}"))?;
            assert!(injected > 0, "{fault:?} was not reached");
            runs += 1;
        }
    }
    // A read that returns a wrong bit once is an error, never a wrong answer.
    for at in (0..requests).step_by(stride) {
        let fault =
            Fault { operation: Some(Operation::Read), at, lasting: false, kind: FaultKind::Corrupt { bit: at * 977 } };
        run(seed, Some(fault)).map_err(|what| format!("{fault:?}: {what}"))?;
        runs += 1;
    }
    println!("seed {seed}: {requests} requests, {runs} runs with a fault");
    Ok(())
}

/// `PLUMB_LONG=1`: each request of more runs.
#[test]
fn a_failed_request_loses_nothing() {
    let (seeds, stride) = if std::env::var_os("PLUMB_LONG").is_some() { (6, 1) } else { (2, 7) };
    for seed in seeds_of_both(seeds, 1) {
        every_request(seed, stride).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
