//! The work, in the order in which every engine does it.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Result;
use crate::engine::{Engine, counter};
use crate::measure::{Measured, Meter};
use crate::plan::{KEY_BYTES, Plan, key};
use crate::zipf;

/// Does phase after phase and gives what each took.
pub struct Run<'a> {
    engine: &'a mut dyn Engine,
    plan: &'a Plan,
    each: &'a mut dyn FnMut(&Measured),
    /// Entries that are there: fewer than planned where the time for loading was up.
    entries: u64,
    value: Vec<u8>,
}

/// Shares of an operation in a YCSB workload, in percent.
struct Mix {
    name: &'static str,
    read: u32,
    update: u32,
    insert: u32,
    scan: u32,
    /// Whether reads prefer what was inserted last.
    latest: bool,
}

/// As the benchmark's authors define them; F reads, changes and writes.
const YCSB: [Mix; 6] = [
    Mix { name: "YCSB A", read: 50, update: 50, insert: 0, scan: 0, latest: false },
    Mix { name: "YCSB B", read: 95, update: 5, insert: 0, scan: 0, latest: false },
    Mix { name: "YCSB C", read: 100, update: 0, insert: 0, scan: 0, latest: false },
    Mix { name: "YCSB D", read: 95, update: 0, insert: 5, scan: 0, latest: true },
    Mix { name: "YCSB E", read: 0, update: 0, insert: 5, scan: 95, latest: false },
    Mix { name: "YCSB F", read: 50, update: 0, insert: 0, scan: 0, latest: false },
];

const SYNCED: u64 = 2000;
const COUNTERS: u64 = 20_000;
const SERIES: u64 = 100;
const LARGE_BYTES: usize = 64 << 10;
const LARGE: u64 = 1000;

impl<'a> Run<'a> {
    pub fn new(engine: &'a mut dyn Engine, plan: &'a Plan, each: &'a mut dyn FnMut(&Measured)) -> Self {
        Self { engine, plan, each, entries: 0, value: vec![0; plan.value_bytes] }
    }

    pub fn all(&mut self) -> Result<()> {
        self.load()?;
        self.gets()?;
        self.scans()?;
        for mix in &YCSB {
            self.ycsb(mix)?;
        }
        self.synced()?;
        self.counters()?;
        self.time_series()?;
        self.range_deletes()?;
        self.large_values()
    }

    /// Repeats an operation, until the time for a phase is up at most, and gives how often.
    fn phase(&mut self, name: &str, count: u64, one: impl FnMut(&mut Self, u64) -> Result<()>) -> Result<u64> {
        self.phase_within(self.plan.limit_s, name, count, one)
    }

    fn phase_within(
        &mut self,
        limit_s: f64,
        name: &str,
        count: u64,
        mut one: impl FnMut(&mut Self, u64) -> Result<()>,
    ) -> Result<u64> {
        let mut meter = Meter::begin(name)?;
        let mut done = 0;
        while done < count && (done % 64 != 0 || meter.elapsed_s() < limit_s) {
            meter.time(|| one(self, done))?;
            done += 1;
        }
        (self.each)(&meter.end(done)?);
        Ok(done)
    }

    fn random_value(&mut self, random: &mut Xoshiro256PlusPlus) {
        random.fill(&mut self.value[..]);
    }

    fn load(&mut self) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        self.entries = self.phase_within(4.0 * self.plan.limit_s, "load", self.plan.entries, |run, number| {
            run.random_value(&mut random);
            run.engine.put(&key(number), &run.value)
        })?;
        self.phase("rest after load", 1, |run, _| run.engine.rest()).map(drop)
    }

    fn gets(&mut self) -> Result<()> {
        // What was read once is in the caches, as far as they go.
        for name in ["get, first", "get"] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(name.len() as u64);
            self.phase(name, self.plan.operations, |run, _| {
                let number = random.random_range(0..run.entries);
                match run.engine.get(&key(number))? {
                    Some(value) if value.len() == run.plan.value_bytes => Ok(()),
                    _ => Err(format!("entry {number} is not there").into()),
                }
            })?;
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        self.phase("get, absent", self.plan.operations, |run, _| {
            let mut absent = key(random.random_range(0..run.entries));
            absent[KEY_BYTES - 1] = b'a';
            if run.engine.get(&absent)?.is_some() { Err("a key is there that nobody put".into()) } else { Ok(()) }
        })
        .map(drop)
    }

    fn scans(&mut self) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        self.phase("scan of 100", self.plan.operations / 50, |run, _| {
            run.engine.scan(&key(random.random_range(0..run.entries)), 100).map(drop)
        })?;
        let meter = Meter::begin("scan of all")?;
        let (rows, _) = self.engine.scan(&[], u64::MAX)?;
        if rows != self.entries {
            return Err(format!("a scan found {rows} of {} entries", self.entries).into());
        }
        (self.each)(&meter.end(rows)?);
        Ok(())
    }

    fn ycsb(&mut self, mix: &Mix) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        self.phase(mix.name, self.plan.operations, |run, _| {
            let rank = zipf::rank(&mut random, run.entries);
            let number = match mix.latest {
                true => run.entries - 1 - rank,
                // Neighbours in rank are not neighbours in the order of loading.
                false => rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % run.entries,
            };
            let kind = random.random_range(0..100);
            if kind < mix.read {
                run.engine.get(&key(number)).map(drop)
            } else if kind < mix.read + mix.update {
                run.random_value(&mut random);
                run.engine.put(&key(number), &run.value)
            } else if kind < mix.read + mix.update + mix.insert {
                run.random_value(&mut random);
                run.engine.put(&key(run.entries), &run.value)?;
                run.entries += 1;
                Ok(())
            } else if mix.scan > 0 {
                run.engine.scan(&key(number), random.random_range(1..=100)).map(drop)
            } else {
                let mut value = run.engine.get(&key(number))?.ok_or("a key is missing")?;
                if let Some(first) = value.first_mut() {
                    *first = first.wrapping_add(1);
                }
                run.engine.put(&key(number), &value)
            }
        })
        .map(drop)
    }

    fn synced(&mut self) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        self.phase("put, synced", SYNCED.min(self.plan.operations), |run, _| {
            let number = random.random_range(0..run.entries);
            run.random_value(&mut random);
            run.engine.put_synced(&key(number), &run.value)
        })
        .map(drop)
    }

    fn counters(&mut self) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
        let name = |number: u64| [&b"counter/"[..], &number.to_be_bytes()].concat();
        let mut model = vec![0u64; COUNTERS as usize];
        let done = self.phase("counters", 2 * self.plan.operations, |run, _| {
            let number = zipf::rank(&mut random, COUNTERS);
            if let Some(sum) = model.get_mut(number as usize) {
                *sum += 3;
            }
            run.engine.add(&name(number), 3)
        })?;
        let mut sum = 0;
        for (number, own) in model.iter().enumerate() {
            let found = counter(self.engine.get(&name(number as u64))?.as_deref());
            if found != *own {
                return Err(format!("counter {number} is {found}, not {own}").into());
            }
            sum += found;
        }
        if sum == 3 * done { Ok(()) } else { Err(format!("counters come to {sum}").into()) }
    }

    /// Samples of some series, in the order of time, and queries of the newest of one.
    fn time_series(&mut self) -> Result<()> {
        let sample = |series: u64, at: u64| [&b"series/"[..], &series.to_be_bytes(), &at.to_be_bytes()].concat();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let count = self.plan.operations * 3;
        let done = self.phase("time series, append", count, |run, number| {
            run.engine.put(&sample(number % SERIES, number / SERIES), &number.to_le_bytes())
        })?;
        self.phase("time series, last 50", self.plan.operations / 20, |run, _| {
            let (series, newest) = (random.random_range(0..SERIES), done / SERIES);
            run.engine.scan(&sample(series, newest.saturating_sub(50)), 50).map(drop)
        })
        .map(drop)
    }

    /// A tenth of all entries at once, and then many small ranges; each until it is paid for.
    fn range_deletes(&mut self) -> Result<()> {
        self.phase("rest before deletes", 1, |run, _| run.engine.rest())?;
        self.phase("delete a tenth", 1, |run, _| run.engine.remove_range(&[0x40], &[0x59, 0x9a]))?;
        self.phase("delete a tenth, paid", 1, |run, _| run.engine.rest())?;
        for number in 0..1000.min(self.entries) {
            let key = key(number);
            let deleted = (&[0x40][..]..&[0x59, 0x9a][..]).contains(&&key[..]);
            if self.engine.get(&key)?.is_some() == deleted {
                return Err(format!("entry {number} is there and should not be, or the other way round").into());
            }
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
        self.phase("delete small ranges", self.plan.operations / 50, |run, _| {
            let from = random.random_range(0xa0_0000u32..0xc0_0000);
            let of = |number: u32| number.to_be_bytes()[1..].to_vec();
            run.engine.remove_range(&of(from), &of(from + 16))
        })?;
        self.phase("delete small ranges, paid", 1, |run, _| run.engine.rest()).map(drop)
    }

    fn large_values(&mut self) -> Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let name = |number: u64| [&b"large/"[..], &number.to_be_bytes()].concat();
        let mut large = vec![0; LARGE_BYTES];
        let done = self.phase("put 64 KiB", LARGE, |run, number| {
            random.fill(&mut large[..]);
            run.engine.put(&name(number), &large)
        })?;
        self.phase("rest after 64 KiB", 1, |run, _| run.engine.rest())?;
        self.phase("get 64 KiB", LARGE, |run, number| match run.engine.get(&name(number * 7 % done))? {
            Some(value) if value.len() == LARGE_BYTES => Ok(()),
            _ => Err("a large value is missing".into()),
        })?;
        self.phase("compact", 1, |run, _| run.engine.compact()).map(drop)
    }
}
