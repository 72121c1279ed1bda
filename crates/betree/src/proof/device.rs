//! A store on a modelled device: what it is on memory, in the device's time, through cuts of its power.

use rand::{Rng, RngExt};
use storage::{Memory, Modelled, QueueExt, Storage};
use units::Nanos;

use super::below::{DEVICES, device};
use super::mutants::notices;
use super::workload::{Map, batch, content, durability, number, random, tiny, unsound};
use crate::mutant::Mutant;
use crate::{Batch, Database, Durability, Error, Options, Stats};

const CAPACITY_BYTES: u64 = 1 << 20;

/// The device's time and counters at the end, for runs that must be alike.
type Digits = (Nanos, Vec<(String, u64)>);

fn digits(device: &Modelled) -> Digits {
    (device.now(), device.counters())
}

/// Seeds from here on are those from 0 on with every value in its frame, and nothing discarded.
const PLAIN: u64 = 1000;

fn options(seed: u64) -> Options {
    let tiny = tiny(seed % PLAIN);
    if seed < PLAIN { tiny } else { Options { large_value_bytes: usize::MAX, discard_bytes: None, ..tiny } }
}

/// Goes on with a store until something fails or `batches` are there.
fn life(
    device: &Modelled,
    seed: u64,
    maps: &mut Vec<Map>,
    kept: &mut usize,
    batches: usize,
    random: &mut impl Rng,
) -> Result<(), Error> {
    let database = Database::open(device.clone(), options(seed))?;
    let tree = database.tree("t")?;
    while maps.len() <= batches {
        let next = maps.len();
        let mut map = maps.last().cloned().unwrap_or_default();
        let batch = batch(&tree, next as u64, random, &mut map);
        maps.push(map);
        let how = durability(random);
        database.commit(&batch, how)?;
        if how == Durability::Sync {
            *kept = next;
        }
        match random.random_range(0..20) {
            0 => database.checkpoint()?,
            1 => database.quiesce()?,
            2 => database.sync()?,
            _ => continue,
        }
        *kept = next;
    }
    Ok(())
}

/// Opens what a cut left; the batch up to which it recovered.
fn judge(device: &Modelled, seed: u64, maps: &[Map], kept: usize) -> Result<usize, String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let database = Database::open(device.clone(), options(seed)).map_err(failed("open"))?;
    let found = content(&database.tree("t").map_err(failed("tree"))?).map_err(failed("read"))?;
    let last = number(&found) as usize;
    if last < kept {
        return Err(format!("batch {kept} was acknowledged, and {last} is the last"));
    }
    if maps.get(last) != Some(&found) {
        return Err(format!("batch {last} is the last, and the content is not what it left"));
    }
    match unsound(&database) {
        Some(what) => Err(what),
        None => Ok(last),
    }
}

/// Switches the power on after a cut, with some of what was undecided.
fn power_on(device: &Modelled, random: &mut impl Rng) -> u64 {
    device.cut_power_at(device.now());
    let share = [0.0, 0.5, 0.9, 1.0][random.random_range(0..4)];
    device.power_on(|_, _| random.random_bool(share)).undecided_blocks
}

/// A store on one device whose power goes `cuts` times, in the middle of whatever it does, recovery included.
pub(super) fn lives(name: &str, seed: u64, cuts: usize) -> Result<(u64, Digits), String> {
    let failed = |error: Error| error.to_string();
    let device = device(name, CAPACITY_BYTES)?;
    drop(Database::create(device.clone(), options(seed), 9).map_err(failed)?);
    let mut random = random(seed % PLAIN);
    let (mut maps, mut kept, mut undecided) = (vec![Map::new()], 0, 0);
    // How long a life is where nothing happens.
    let began = device.now();
    life(&device, seed, &mut maps, &mut kept, 30, &mut random).map_err(failed)?;
    let span_ns = (device.now() - began).0;
    for cut in 0..cuts {
        device.cut_power_at(device.now() + Nanos(random.random_range(0..span_ns)));
        let batches = maps.len() + 30;
        let lived = life(&device, seed, &mut maps, &mut kept, batches, &mut random);
        if let Err(error) = lived
            && !device.is_off()
        {
            return Err(format!("cut {cut}: {error} with the power on"));
        }
        undecided += power_on(&device, &mut random);
        while random.random_range(0..3) == 0 {
            // Opening needs a few flushes; what it shows is there for good.
            device.cut_power_at(device.now() + Nanos(random.random_range(0..span_ns / 8)));
            let opened =
                Database::open(device.clone(), options(seed)).and_then(|database| content(&database.tree("t")?));
            if let Ok(found) = opened {
                kept = kept.max(number(&found) as usize);
            }
            undecided += power_on(&device, &mut random);
        }
        let last = judge(&device, seed, &maps, kept).map_err(|what| format!("cut {cut}: {what}"))?;
        maps.truncate(last + 1);
        kept = last;
    }
    Ok((undecided, digits(&device)))
}

#[test]
fn a_device_whose_power_goes_keeps_a_prefix_with_everything_acknowledged() {
    let (seeds, cuts) = if std::env::var_os("PLUMB_LONG").is_some() { (30, 100) } else { (2, 12) };
    for name in DEVICES {
        for seed in 0..seeds {
            let run = || lives(name, seed, cuts).unwrap_or_else(|what| panic!("{name}, seed {seed}: {what}"));
            let first = run();
            assert!(first.0 > 0, "cuts find something undecided");
            if seed == 0 {
                assert_eq!(first, run(), "{name}: the same seed gives the same digits");
            }
        }
    }
}

#[test]
fn defects_are_noticed_on_a_device() {
    let proof = || (PLAIN..PLAIN + 8).try_for_each(|seed| lives(DEVICES[0], seed, 20).map(drop));
    for mutant in [Mutant::SyncWithoutFlush, Mutant::NoFlushBeforeSuperblock] {
        assert!(notices(proof, Some(mutant)), "{mutant:?}");
    }
}

/// What a run of puts, counters, range deletes and reads leaves.
struct Outcome {
    content: Map,
    stats: Stats,
}

/// The same operations wherever they go; `clock` is the storage's.
fn operations(storage: impl Storage + Clone + 'static, clock: Option<Modelled>) -> Result<Outcome, Error> {
    let mut options = Options {
        leaf_bytes: 64 << 10,
        basement_bytes: 4096,
        buffer_bytes: 256 << 10,
        memtable_bytes: 128 << 10,
        fresh_bytes: 512 << 10,
        cache_bytes: 256 << 10,
        log_bytes: 1 << 20,
        ..tiny(3)
    };
    if let Some(device) = clock {
        options = options.clock(move || device.now());
    }
    let database = Database::create(storage.clone(), options.clone(), 5)?;
    let tree = database.tree("t")?;
    let mut random = random(1);
    for number in 0..6000u64 {
        let key = random.random_range(0..20_000u32).to_be_bytes();
        let mut batch = Batch::new();
        match random.random_range(0..20) {
            0 => batch.remove(&tree, key),
            1..4 => batch.upsert(&tree, [&key[..], b"count"].concat(), 1, number.to_le_bytes()),
            4 if number % 50 == 0 => {
                batch.remove_range(&tree, &key[..]..&(u32::from_be_bytes(key) + 500).to_be_bytes()[..]);
            }
            _ => {
                let mut value = vec![0; 100];
                random.fill(&mut value[..]);
                batch.insert(&tree, key, value);
            }
        }
        let how = if number % 40 == 0 { Durability::Sync } else { Durability::None };
        database.commit(&batch, how)?;
        if number % 16 == 0 {
            tree.get(random.random_range(0..20_000u32).to_be_bytes())?;
        }
    }
    database.quiesce()?;
    let stats = database.stats();
    drop((tree, database));
    let database = Database::open(storage, options)?;
    if let Some(what) = unsound(&database) {
        panic!("{what}");
    }
    Ok(Outcome { content: content(&database.tree("t")?)?, stats })
}

/// Nobody above the seam knows: not the content, not a byte of the storage, and no counter differs.
#[test]
fn a_store_on_a_device_is_the_one_in_memory() {
    const CAPACITY_BYTES: u64 = 24 << 20;
    let memory = Memory::new(CAPACITY_BYTES);
    let expected = operations(memory.clone(), None).unwrap();
    assert!(expected.content.len() > 2000 && expected.stats.checkpoints > 2, "{:?}", expected.stats);
    for name in DEVICES {
        let run = || {
            let device = device(name, CAPACITY_BYTES).unwrap();
            let found = operations(device.clone(), Some(device.clone())).unwrap();
            let digits = digits(&device);
            assert!(found.content == expected.content, "{name}: the content differs");
            let commit_latency = found.stats.commit_latency;
            assert_eq!(Stats { commit_latency, ..expected.stats }, found.stats, "{name}");
            let all = device.open_queue().unwrap().read(0, CAPACITY_BYTES as usize).unwrap();
            let mut image = storage::Image::new(CAPACITY_BYTES);
            image.write(0, &all);
            assert!(image == memory.image(), "{name}: the bytes differ");
            (digits, commit_latency)
        };
        let first = run();
        assert_eq!(first, run(), "{name}: the same seed gives the same digits");
        let ((time, counters), latency) = first;
        let counted = |name: &str| counters.iter().find(|(counter, _)| counter == name).map_or(0, |(_, value)| *value);
        let written = counted("host_written_bytes");
        assert!(written >= expected.stats.written_bytes() && latency.max > latency.p50, "{written} bytes");
        println!("{name}: {time}, {written} bytes written to the device; a commit: {latency:?}");
    }
}
