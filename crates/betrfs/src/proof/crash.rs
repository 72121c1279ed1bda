//! Power cuts: whatever survives, the check finds nothing, and the file system is as some prefix of the operations left it that
//! has everything synced.

use std::collections::BTreeSet;

use crash::{Cut, Cuts, VolatileCache};
use rand::{Rng, RngExt};
use storage::{Image, Memory, Recorded};
use twox_hash::XxHash3_128;

use super::action::{Action, Scale, action, packing, random};
use super::compare::{Tree, difference, tree};
use super::side::{Answer, Side};
use super::traces::{PATHS, at, long, tiny};
use crate::operations::{Error, InodeNumber, Operations, Timestamp};
use crate::{Model, Volume, VolumeOptions, check};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub states: u64,
    /// Of those that differ in any byte.
    pub distinct: BTreeSet<u128>,
    /// Writes that were durable when they returned.
    pub sync_writes: u64,
    /// States that lack what nobody was promised.
    pub behind: u64,
    /// States with an inode that was open and had no name.
    pub orphans: u64,
}

const SCALE: Scale = Scale { file_bytes: 140_000, write_bytes: 30_000 };

fn options(seed: u64) -> VolumeOptions {
    let mut options = tiny(seed);
    options.store.memtable_bytes = 16 << 10;
    options.store.fresh_bytes = 32 << 10;
    options.store.log_bytes = 512 << 10;
    options.inode_cache_bytes = 1 << 20;
    // Every operation is one batch.
    options.write_bytes_max = 100 << 10;
    options
}

/// Of all bytes that are not zero, and where they are.
fn digest(image: &Image) -> u128 {
    let of_block = |(number, bytes): (u64, &[u8; 4096])| XxHash3_128::oneshot_with_seed(number, bytes);
    image.blocks().map(of_block).fold(0, |all, one| all ^ one)
}

/// A file system when the power went, and what each operation so far left.
struct Story {
    before: Image,
    model: Model,
    time: u64,
}

fn words(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Goes on for some operations, cuts the power at every moment, and looks at what is left. A few of the states go on themselves.
fn explore(story: Story, seed: u64, steps: usize, depth: usize, seen: &mut Seen) -> Result<(), String> {
    let mut random = random(seed);
    // Every third story is mostly of writes that are held, and reads between them.
    let packs = seed % 3 == 2;
    // Every fourth is of who has opened his files with O_DSYNC.
    let syncs = seed % 4 == 1;
    let (recorded, recording) = Recorded::new(Memory::from_image(story.before.clone()));
    let recorded = std::sync::Arc::new(recorded);
    let mut models = vec![story.model.remounted()];
    {
        let open = || Volume::open(std::sync::Arc::clone(&recorded), options(seed)).map_err(words("open"));
        let (mut real, mut model) = (Side::new(open()?), Side::new(story.model));
        // What a mount finds is there for good.
        recording.mark(0);
        for step in 1..=steps {
            let now = at(story.time + step as u64);
            let action = match step % 9 {
                0 if !packs || step % 36 == 0 => Action::Fsync { inode: 0 },
                _ if packs && step > 12 => packing(&mut random, model.slots.len(), SCALE),
                _ => action(&mut random, model.slots.len(), SCALE),
            };
            let action = match action {
                Action::Write { inode, offset, length, seed, .. } if syncs => {
                    Action::SyncWrite { inode, offset, length, seed }
                }
                action => action,
            };
            let found = real.apply(&action, now);
            if found != Answer::Error(Error::NotSupported) {
                let right = model.apply(&action, now);
                if right != found {
                    return Err(format!("step {step}, {action:?}: the running file system differs"));
                }
            }
            models.push(model.fs.copied());
            if seed & PATHS != 0 && random.random_range(0..4) == 0 {
                real.fs.reap(1).map_err(words("reap"))?;
            }
            let mark = match action {
                Action::Fsync { .. } | Action::Syncfs => !matches!(found, Answer::Error(_)),
                Action::SyncWrite { .. } if !matches!(found, Answer::Error(_)) => {
                    seen.sync_writes += 1;
                    true
                }
                _ if random.random_range(0..25) == 0 => {
                    real.fs.settle().is_ok() && real.fs.database().checkpoint().is_ok()
                }
                // Without what is held.
                _ if packs && random.random_range(0..6) == 0 => {
                    real.fs.database().checkpoint().map_err(Error::from).map_err(words("checkpoint"))?;
                    false
                }
                _ if random.random_range(0..40) == 0 => {
                    real.fs.syncfs().map_err(words("syncfs"))?;
                    let Side { fs, slots, end, .. } = real;
                    drop(fs);
                    real = Side { fs: open()?, slots, opened: Vec::new(), end };
                    model = Side { fs: model.fs.remounted(), slots: model.slots, opened: Vec::new(), end: model.end };
                    true
                }
                _ => false,
            };
            if mark {
                recording.mark(step as u64);
            }
        }
    }
    let trees: Vec<Tree> = models.iter().map(tree).collect::<Result<_, _>>().map_err(words("the model"))?;
    let log = recording.take();
    for cut in Cuts::new(story.before, &log, VolatileCache::default()) {
        // Marks are only ever raised.
        let promised = cut.mark.map_or(0, |mark| mark as usize);
        for choice in 0..choices(&cut) {
            let image = survivors(&cut, choice, &mut random);
            seen.states += 1;
            if !seen.distinct.insert(digest(&image)) {
                continue;
            }
            let last = look(image.clone(), &trees, promised, seed, seen)
                .map_err(|what| format!("cut after {} entries, choice {choice}: {what}", cut.entries))?;
            seen.behind += u64::from(last + 1 < trees.len());
            if depth > 0 && random.random_range(0..150) == 0 {
                let model = models[last].remounted();
                let story = Story { before: image, model, time: story.time + steps as u64 };
                explore(story, (random.next_u64() / 6 * 6 + seed % 6) & !PATHS | seed & PATHS, 12, depth - 1, seen)?;
            }
        }
    }
    Ok(())
}

/// How many ways of a cut are looked at.
fn choices(cut: &Cut) -> usize {
    if cut.undecided.is_empty() { 1 } else { 4 }
}

/// Nothing, everything, whole writes by lot, or single sectors by lot survive.
fn survivors(cut: &Cut, choice: usize, random: &mut impl Rng) -> Image {
    match choice {
        0 => cut.image(4096, |_, _| false),
        1 => cut.image(4096, |_, _| true),
        2 => cut.image(512, |_, _| random.random_bool(0.7)),
        _ => {
            let mut last = (None, false);
            cut.image(4096, |write, _| {
                if last.0 != Some(write.id) {
                    last = (Some(write.id), random.random_bool(0.5));
                }
                last.1
            })
        }
    }
}

/// Checks and mounts what is left; returns the operation up to which everything is there.
fn look(image: Image, trees: &[Tree], promised: usize, seed: u64, seen: &mut Seen) -> Result<usize, String> {
    let clean = |findings: Vec<crate::Finding>| findings.first().map_or(Ok(()), |finding| Err(finding.to_string()));
    clean(check(Memory::from_image(image.clone()), &options(seed)).map_err(words("check"))?)?;
    let volume = Volume::open(Memory::from_image(image), options(seed)).map_err(words("open"))?;
    while volume.reap(7).map_err(words("reap"))? {}
    seen.orphans += u64::from(volume.removed_orphans() > 0);
    clean(volume.check().map_err(words("check again"))?).map_err(|what| format!("mounted: {what}"))?;
    let found = tree(&volume).map_err(words("read"))?;
    match trees.iter().rposition(|tree| *tree == found) {
        Some(last) if last >= promised => Ok(last),
        Some(last) => Err(format!("operation {promised} was synced, and {last} is the last")),
        None => {
            let nearest = trees[promised..].iter().filter_map(|tree| difference(tree, &found)).next();
            Err(format!("it is as no operation left it; as {promised} did: {}", nearest.unwrap_or_default()))
        }
    }
}

/// One story from an empty file system.
pub(super) fn story(seed: u64, steps: usize, depth: usize) -> Result<Seen, String> {
    let memory = Memory::new(8 << 20);
    drop(Volume::create(memory.clone(), options(seed), u128::from(seed) + 1, at(0)).map_err(words("create"))?);
    let mut seen = Seen::default();
    let story = Story { before: memory.image(), model: Model::new(at(0)), time: 0 };
    explore(story, seed, steps, depth, &mut seen)?;
    Ok(seen)
}

/// Time of the processor that this thread has taken.
fn processor_seconds() -> f64 {
    let counters = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counters.split(' ').next().and_then(|ns| ns.parse().ok()).map_or(0.0, |ns: f64| ns / 1e9)
}

/// Short stories; `PLUMB_LONG=1` tells longer ones until a million distinct states have been looked at.
#[test]
fn every_cut_leaves_a_prefix_with_everything_synced() {
    let long = long();
    let (stories, steps, enough) = if long { (10_000, 150, 1_000_000) } else { (24, 60, u64::MAX) };
    let (mut states, mut distinct, mut orphans, mut sync_writes) = (0, 0, 0, 0);
    let began = processor_seconds();
    // The long ones of both schemas in turn.
    let seeds = (0..stories).flat_map(|seed| [Some(seed), (long || seed < 6).then_some(seed | PATHS)]);
    for seed in seeds.flatten() {
        if distinct >= enough {
            break;
        }
        let seen = story(seed, steps, if long { 2 } else { 1 }).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(seen.behind > 0, "cuts lose what nobody was promised");
        states += seen.states;
        // File systems of different seeds have different names, so no state is another story's.
        distinct += seen.distinct.len() as u64;
        orphans += seen.orphans;
        sync_writes += seen.sync_writes;
        if long {
            let rate = distinct as f64 / (processor_seconds() - began);
            println!(
                "seed {seed}: {states} states so far, {distinct} distinct, {rate:.0} of them a second of a processor"
            );
        }
    }
    assert!(orphans > 0, "some cuts leave an inode without a name");
    assert!(sync_writes > 0, "some writes are durable when they return");
    println!(
        "{states} states after a power cut, {distinct} distinct, {orphans} with an orphan, {sync_writes} synchronous writes"
    );
    assert!(!long || distinct >= enough, "too few stories for a million");
}

/// The root of a new file system is there with its first sync.
#[test]
fn a_new_file_system_survives_at_once() {
    let (recorded, recording) = Recorded::new(Memory::new(8 << 20));
    let recorded = std::sync::Arc::new(recorded);
    let before = Memory::new(8 << 20).image();
    let now = Timestamp { seconds: 7, nanoseconds: 7 };
    drop(Volume::create(std::sync::Arc::clone(&recorded), options(0), 1, now).unwrap());
    recording.mark(1);
    let log = recording.take();
    let mut mounted = 0;
    for cut in Cuts::new(before, &log, VolatileCache::default()) {
        for survives in [false, true] {
            let image = cut.image(4096, |_, _| survives);
            match Volume::open(Memory::from_image(image), options(0)) {
                Ok(volume) => {
                    assert_eq!(volume.getattr(InodeNumber::ROOT).unwrap().modified, now);
                    assert_eq!(volume.check().unwrap(), []);
                    mounted += 1;
                }
                Err(error) => assert!(cut.mark.is_none(), "{error}"),
            }
        }
    }
    assert!(mounted > 0);
}
