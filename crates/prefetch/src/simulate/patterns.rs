//! Accesses as programs make them, made from a seed.

use super::trace::{Action, Step, Trace};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How a pattern is made, from a seed.
pub type Pattern = fn(u64) -> Trace;

/// Every pattern and its name.
pub const PATTERNS: [(&str, Pattern); 21] = [
    ("sequential", |_| sequential()),
    ("strided", |_| one_reader((0..1024).map(|i| (i * 256 * KIB, 16 * KIB)))),
    ("reverse", |_| one_reader((0..8192).rev().map(|i| (i * 16 * KIB, 16 * KIB)))),
    ("interleaved-2", |_| interleaved(2)),
    ("interleaved-4", |_| interleaved(4)),
    ("interleaved-8", |_| interleaved(8)),
    ("interleaved-16", |_| interleaved(16)),
    ("readreverse", read_reverse),
    ("random", |seed| random(seed, 5_000)),
    ("random-long", |seed| random(seed, 60_000)),
    ("ycsb", |seed| ycsb(seed, 40_000)),
    ("ycsb-short", |seed| ycsb(seed, 2_500)),
    ("ycsb-a", |seed| ycsb_mix(seed, Mix { operations: 10 * RECORDS as u32, reads: 50, scans: 0, latest: false })),
    ("ycsb-b", |seed| ycsb_mix(seed, Mix { operations: 10 * RECORDS as u32, reads: 95, scans: 0, latest: false })),
    ("ycsb-c", |seed| ycsb_mix(seed, Mix { operations: 10 * RECORDS as u32, reads: 100, scans: 0, latest: false })),
    ("ycsb-d", |seed| ycsb_mix(seed, Mix { operations: 10 * RECORDS as u32, reads: 95, scans: 0, latest: true })),
    ("ycsb-e", |seed| ycsb_mix(seed, Mix { operations: 40_000, reads: 0, scans: 95, latest: false })),
    ("db-mix", db_mix),
    ("self-prefetching", |_| self_prefetching()),
    ("mapped", mapped),
    ("turning", turning),
];

/// The pattern of this name.
pub fn named(name: &str) -> Option<Pattern> {
    PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
}

/// SplitMix64 (Steele et al., OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Numbers below a bound, few of them often (Gray et al., SIGMOD 1994, as YCSB uses it, with its exponent), spread over the range by a
/// hash.
struct ScrambledZipf {
    items: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl ScrambledZipf {
    const THETA: f64 = 0.99;

    fn new(items: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-Self::THETA)).sum::<f64>();
        let zeta_items = zeta(items);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - Self::THETA)) / (1.0 - zeta(2) / zeta_items);
        Self { items, zeta: zeta_items, alpha: 1.0 / (1.0 - Self::THETA), eta }
    }

    /// How popular the drawn one is, 0 the most.
    fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5f64.powf(Self::THETA) {
            1
        } else {
            ((self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64).min(self.items - 1)
        }
    }

    fn next(&self, random: &mut Random) -> u64 {
        Random(self.rank(random)).next() % self.items
    }
}

fn one_reader(reads: impl Iterator<Item = (u64, u64)>) -> Trace {
    Trace::of_reads(vec![256 * MIB], reads.map(|(offset, length)| (0, 0, offset, length)))
}

fn sequential() -> Trace {
    one_reader((0..8192).map(|i| (i * 16 * KIB, 16 * KIB)))
}

/// Strided readers that take turns, each in its part of a file.
fn interleaved(readers: u64) -> Trace {
    let part = 256 * MIB / readers;
    let rounds = part / (128 * KIB);
    one_reader((0..rounds).flat_map(|i| (0..readers).map(move |r| (r * part + i * 128 * KIB, 16 * KIB))))
}

/// Four threads that scan tables backward: uneven blocks, each beginning where the last read ends, after a read of the table's index
/// at its end.
fn read_reverse(seed: u64) -> Trace {
    let mut random = Random(seed);
    let mut reads = Vec::new();
    let table_bytes = 16 * MIB;
    let mut at = [0u64; 4];
    for table in 0..2 {
        for (lane, at) in at.iter_mut().enumerate() {
            *at = table_bytes - 256 * KIB;
            reads.push((table * 4 + lane, lane as u32, *at, 256 * KIB));
        }
        while at.iter().any(|at| *at > 0) {
            for (lane, at) in at.iter_mut().enumerate() {
                let length = (3800 + random.below(700)).min(*at);
                *at -= length;
                if length > 0 {
                    reads.push((table * 4 + lane, lane as u32, *at, length));
                }
            }
        }
    }
    Trace::of_reads(vec![table_bytes; 8], reads)
}

/// Pages of a file of 256 MiB, in no order.
pub(super) fn random(seed: u64, reads: u64) -> Trace {
    let mut random = Random(seed);
    one_reader((0..reads).map(|_| (random.below(65_536) * 4 * KIB, 4 * KIB)).collect::<Vec<_>>().into_iter())
}

const TABLES: u64 = 8;
const RECORDS: u64 = TABLES * 4096;

/// Where a record is: tables of 16 MiB, blocks of 4 KiB.
fn record(number: u64) -> (usize, u64) {
    ((number / 4096) as usize, number % 4096 * 4 * KIB)
}

/// As YCSB B and E mixed: four threads read single records, and one read in twenty is a scan of up to 100.
pub(super) fn ycsb(seed: u64, operations: u32) -> Trace {
    let mut random = Random(seed);
    let zipf = ScrambledZipf::new(RECORDS);
    let mut reads = Vec::new();
    for turn in 0..operations {
        let number = zipf.next(&mut random);
        let count = if random.below(20) == 0 { random.below(100) + 1 } else { 1 };
        for number in number..(number + count).min(RECORDS) {
            let (file, offset) = record(number);
            reads.push((file, turn % 4, offset, 4 * KIB));
        }
    }
    Trace::of_reads(vec![16 * MIB; TABLES as usize], reads)
}

/// A core workload of YCSB (Cooper et al., SoCC 2010, Table 2), per cent of its operations: what is inserted and updated goes to memory
/// and to new files, and reads nothing. F, which reads what it then modifies, reads as C.
struct Mix {
    /// Of four threads.
    operations: u32,
    reads: u64,
    /// Of up to 100 records.
    scans: u64,
    /// Records are the more popular the newer they are.
    latest: bool,
}

/// What reads single records reads ten for each that there is, what scans some twenty.
fn ycsb_mix(seed: u64, mix: Mix) -> Trace {
    let mut random = Random(seed);
    let zipf = ScrambledZipf::new(RECORDS);
    let mut reads = Vec::new();
    for turn in 0..mix.operations {
        let kind = random.below(100);
        if kind >= mix.reads + mix.scans {
            continue;
        }
        let drawn = if mix.latest { RECORDS - 1 - zipf.rank(&mut random) } else { zipf.next(&mut random) };
        let count = if kind < mix.scans { random.below(100) + 1 } else { 1 };
        for number in drawn..(drawn + count).min(RECORDS) {
            let (file, offset) = record(number);
            reads.push((file, turn % 4, offset, 4 * KIB));
        }
    }
    Trace::of_reads(vec![16 * MIB; TABLES as usize], reads)
}

/// As db_bench: a thread scans forward (readwhilescanning), one backward (readreverse), two read groups of eight records
/// (multireadrandom).
fn db_mix(seed: u64) -> Trace {
    let mut random = Random(seed);
    let zipf = ScrambledZipf::new(RECORDS);
    let mut reads = Vec::new();
    for turn in 0..15_000u64 {
        for (lane, number) in [(0, turn), (1, RECORDS - 1 - turn)] {
            let (file, offset) = record(number);
            reads.push((file, lane, offset, 4 * KIB));
        }
        if turn.is_multiple_of(8) {
            for lane in [2, 3] {
                let mut group: Vec<u64> = (0..8).map(|_| zipf.next(&mut random)).collect();
                group.sort_unstable();
                reads.extend(group.into_iter().map(|number| {
                    let (file, offset) = record(number);
                    (file, lane, offset, 4 * KIB)
                }));
            }
        }
    }
    Trace::of_reads(vec![16 * MIB; TABLES as usize], reads)
}

/// A sequential reader that keeps half a MiB ahead of itself loaded.
fn self_prefetching() -> Trace {
    let mut trace = sequential();
    let steps = std::mem::take(&mut trace.steps);
    for step in steps {
        if let Action::Read { offset_bytes, .. } = step.action
            && offset_bytes % (128 * KIB) == 0
        {
            // From the beginning what lies ahead, then a piece more.
            let ahead = if offset_bytes == 0 { 0..5 } else { 4..5 };
            trace.steps.extend(ahead.map(|piece| Step {
                action: Action::Advise { offset_bytes: offset_bytes + piece * 128 * KIB, length_bytes: 128 * KIB },
                ..step
            }));
        }
        trace.steps.push(step);
    }
    trace
}

/// The weights of a model, mapped: tensors of 1 MiB in no order, each from its beginning on.
fn mapped(seed: u64) -> Trace {
    let mut random = Random(seed);
    let mut tensors: Vec<u64> = (0..128).collect();
    for last in (1..tensors.len()).rev() {
        tensors.swap(last, random.below(last as u64 + 1) as usize);
    }
    let map = Step { file: 0, lane: 0, think_ns: 0, action: Action::Map };
    let touches = tensors.into_iter().flat_map(|tensor| {
        (0..256).map(move |page| Step {
            action: Action::Touch { offset_bytes: tensor * MIB + page * 4 * KIB, length_bytes: 4 * KIB },
            ..map
        })
    });
    Trace { files: vec![128 * MIB], steps: [map].into_iter().chain(touches).collect() }
}

/// An adversary: four reads at equal distances, so that a reader is confirmed, and then elsewhere.
fn turning(seed: u64) -> Trace {
    let mut random = Random(seed);
    let turns: Vec<_> = (0..1500)
        .flat_map(|_| {
            let start = random.below(248 * 256) * 4 * KIB;
            (0..4).map(move |i| (start + i * 64 * KIB, 4 * KIB))
        })
        .collect();
    one_reader(turns.into_iter())
}
