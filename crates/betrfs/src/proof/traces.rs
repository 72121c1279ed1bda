//! Random operations on the file system and the model, with mounts in between.

use rand::RngExt;
use storage::Memory;

use super::action::{Scale, action, random};
use super::compare::{difference, tree};
use super::side::{Answer, Side};
use crate::operations::{Error, Operations, Timestamp};
use crate::{Model, Schema, Steps, Volume, VolumeOptions};

/// Nodes so small that a few operations make trees of several levels, and a log that goes round.
pub(super) fn tiny(seed: u64) -> VolumeOptions {
    let store = betree::Options {
        leaf_bytes: 16 << 10,
        basement_bytes: 1 << 10,
        fanout: 4,
        buffer_bytes: 16 << 10,
        memtable_bytes: 64 << 10,
        fresh_bytes: 128 << 10,
        cache_bytes: 1 << 18,
        log_bytes: 1 << 20,
        large_value_bytes: [16 << 10, 300, usize::MAX][(seed % 3) as usize],
        ..betree::Options::default()
    };
    // So few inodes in memory that most come from the store.
    VolumeOptions {
        store,
        inode_cache_bytes: [4000, 1 << 20][(seed / 3 % 2) as usize],
        recent_bytes: [200_000, 0, 1 << 20][(seed % 3) as usize],
        write_bytes_max: [30 << 10, 250 << 10][(seed % 2) as usize],
        notes_accesses: true,
        steps: Steps::default(),
        schema: if seed & PATHS == 0 { Schema::Inode } else { Schema::Path },
        moved_entries_max: [100, 2][(seed / 2 % 2) as usize],
    }
}

/// Of seeds with this, file systems have the schema with paths in keys.
pub(super) const PATHS: u64 = 1 << 40;

pub(super) fn long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// So many seeds of each schema; of that with paths fewer in the short suite.
pub(super) fn seeds_of_both(seeds: u64, short: u64) -> impl Iterator<Item = u64> {
    let of_paths = if long() { seeds } else { short };
    (0..seeds).chain((0..of_paths).map(|seed| seed | PATHS))
}

pub(super) fn at(step: u64) -> Timestamp {
    Timestamp { seconds: 1_000_000 + step as i64, nanoseconds: (step % 1000) as u32 }
}

/// One trace; what differs.
pub(super) fn trace(seed: u64, steps: u64, scale: Scale) -> Result<(), String> {
    trace_of(tiny(seed), seed, steps, scale)
}

/// One trace with these options.
fn trace_of(options: VolumeOptions, seed: u64, steps: u64, scale: Scale) -> Result<(), String> {
    let mut random = random(seed);
    let memory = Memory::new(64 << 20);
    let failed = |what: &str, error: Error| format!("{what}: {error}");
    let volume =
        Volume::create(memory.clone(), options.clone(), u128::from(seed), at(0)).map_err(|e| failed("create", e))?;
    let (mut real, mut model) = (Side::new(volume), Side::new(Model::new(at(0))));
    let mut trail = Vec::new();
    for step in 1..=steps {
        let action = action(&mut random, model.slots.len(), scale);
        let found = real.apply(&action, at(step));
        if found == Answer::Error(Error::NotSupported) {
            continue;
        }
        // What is owed is paid a little at a time.
        if seed & PATHS != 0 && random.random_range(0..4) == 0 {
            real.fs.reap(1).map_err(|e| failed("reap", e))?;
        }
        let right = model.apply(&action, at(step));
        if !matches!(right, Answer::Error(_)) {
            trail.push(format!("{step}: {action:?}"));
        }
        let tell = |what: String| format!("seed {seed}, step {step}, {action:?}: {what}\n{}", last(&trail));
        if right != found {
            return Err(tell(format!("{}, and {} is right", short(&found), short(&right))));
        }
        if model.slots.len() != real.slots.len() {
            return Err(tell("it led to another inode".to_owned()));
        }
        if random.random_range(0..150) == 0 || step == steps {
            let trees = (tree(&model.fs), tree(&real.fs));
            let (right, found) = match trees {
                (Ok(right), Ok(found)) => (right, found),
                (Err(error), _) | (_, Err(error)) => return Err(tell(error.to_string())),
            };
            if let Some(what) = difference(&right, &found) {
                return Err(tell(what));
            }
            if let Some(finding) = real.fs.check().map_err(|e| failed("fsck", e))?.first() {
                return Err(tell(finding.to_string()));
            }
        }
        if random.random_range(0..250) == 0 {
            real.fs.syncfs().map_err(|e| failed("syncfs", e))?;
            let Side { fs, slots, end, .. } = real;
            drop(fs);
            let volume = Volume::open(memory.clone(), options.clone()).map_err(|e| failed("open", e))?;
            real = Side { fs: volume, slots, opened: Vec::new(), end };
            model = Side { fs: model.fs.remounted(), slots: model.slots, opened: Vec::new(), end: model.end };
        }
    }
    let findings = real.fs.database().verify().map_err(|error| error.to_string())?;
    findings.first().map_or(Ok(()), |what| Err(format!("seed {seed}: the store: {what}")))
}

fn last(trail: &[String]) -> String {
    trail[trail.len().saturating_sub(40)..].join("\n")
}

fn short(answer: &Answer) -> String {
    let mut text = format!("{answer:?}");
    text.truncate(300);
    text
}

pub(super) const SMALL: Scale = Scale { file_bytes: 200_000, write_bytes: 80_000 };

#[test]
fn steps_that_are_left_out_change_nothing_that_is_seen() {
    let all = Steps { range_message: false, directory_cache: false, page_sharing: false, query_path: false };
    for seed in 100..103 {
        for steps in [all, Steps { page_sharing: true, ..all }, Steps { query_path: true, ..all }] {
            let options = VolumeOptions { steps, ..tiny(seed) };
            trace_of(options, seed, 500, SMALL).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

/// Thousands of operations; `PLUMB_LONG=1` does ten million.
#[test]
fn it_does_what_the_model_does() {
    let (traces, steps) = if long() { (3400, 3000) } else { (8, 700) };
    for seed in seeds_of_both(traces, 4) {
        trace(seed, steps, SMALL).unwrap_or_else(|what| panic!("{what}"));
    }
}
