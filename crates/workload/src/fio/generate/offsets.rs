//! Where the next I/O goes, relative to the region.

use sim::rng::Rng;

use super::below;
use super::permutation::Permutation;
use super::skew::Skew;
use crate::fio::parse::{BlockSizes, Distribution, Options, Sequencer};
use crate::fio::{Direction, PerDirection};

/// A job's offsets.
pub(super) struct Offsets {
    region_bytes: u64,
    kind: Kind,
    rng: Rng,
}

enum Kind {
    Sequential(Sequential),
    /// Every block once, all I/Os of one length.
    Once {
        order: Permutation,
        unit_bytes: u64,
        next: u64,
        count: u64,
    },
    /// Every block once, I/Os of several lengths.
    OnceMapped(Mapped),
    Drawn(Box<Drawn>),
}

/// Sequential offsets, with holes of `step` bytes between I/Os; each direction
/// goes its own way, as fio's do. Without holes a pass ends with the region;
/// with them it wraps, and only the bytes asked for end it.
struct Sequential {
    step: i64,
    /// Where the direction's next I/O begins.
    position: PerDirection<u64>,
}

/// Every block once, with a map of those used: an I/O begins at an unused block
/// and is cut short at the next used one (as fio's mark_random_map).
struct Mapped {
    order: Permutation,
    unit_bytes: u64,
    next: u64,
    count: u64,
    used: Vec<u64>,
}

/// Random offsets drawn with replacement.
struct Drawn {
    skews: PerDirection<Skew>,
    unit_bytes: PerDirection<u64>,
    random_percent: PerDirection<u8>,
    /// I/Os per random offset.
    run_length: u64,
    left_in_run: u64,
    sequencer: Sequencer,
    /// Begin of the direction's last I/O, and its end.
    last: PerDirection<(u64, u64)>,
}

impl Offsets {
    pub fn new(options: &Options, region_bytes: u64, mut rng: Rng) -> Self {
        let pattern = options.pattern;
        let uses = |direction: Direction| match direction {
            Direction::Read => pattern.reads,
            Direction::Write => pattern.writes && !pattern.trims,
            Direction::Trim => pattern.trims,
        };
        let used: Vec<Direction> = Direction::ALL.into_iter().filter(|direction| uses(*direction)).collect();
        let smallest = used.iter().map(|direction| options.blocks[*direction].min()).min().unwrap_or(4096);
        let with_replacement = options.no_random_map
            || options.modifier.is_some()
            || used.iter().any(|direction| {
                options.align_bytes[*direction].is_some()
                    || options.distribution[*direction] != Distribution::Uniform
                    || options.random_percent[*direction] < 100
            });
        let kind = if !pattern.random {
            Kind::Sequential(Sequential::new(options.modifier.unwrap_or(0)))
        } else if with_replacement {
            let unit_bytes = PerDirection::from_fn(|direction| {
                options.align_bytes[direction].unwrap_or_else(|| options.blocks[direction].min())
            });
            let skews = PerDirection::from_fn(|direction| {
                let unit = unit_bytes[direction];
                let room = region_bytes.saturating_sub(options.blocks[direction].min());
                Skew::new(&options.distribution[direction], room / unit + 1, unit, &mut rng)
            });
            Kind::Drawn(Box::new(Drawn {
                skews,
                unit_bytes,
                random_percent: options.random_percent,
                run_length: options.modifier.map_or(1, |modifier| modifier.unsigned_abs().max(1)),
                left_in_run: 0,
                sequencer: options.sequencer,
                last: PerDirection::default(),
            }))
        } else {
            let count = (region_bytes / smallest).max(1);
            let order = Permutation::new(count, &mut rng);
            let fixed = used.iter().all(|direction| options.blocks[*direction] == BlockSizes::Fixed(smallest));
            if fixed {
                Kind::Once { order, unit_bytes: smallest, next: 0, count }
            } else {
                let used = vec![0; count.div_ceil(64) as usize];
                Kind::OnceMapped(Mapped { order, unit_bytes: smallest, next: 0, count, used })
            }
        };
        Self { region_bytes, kind, rng }
    }

    /// Offset and length of the direction's next I/O, at most `wanted` long;
    /// `None` when the pass is over.
    #[inline]
    pub fn next(&mut self, direction: Direction, wanted: u64, min: u64) -> Option<(u64, u64)> {
        match &mut self.kind {
            Kind::Once { order, unit_bytes, next, count } => {
                if *next == *count {
                    return None;
                }
                let block = order.at(*next);
                *next += 1;
                Some((block * *unit_bytes, *unit_bytes))
            }
            Kind::Sequential(sequential) => sequential.next(direction, wanted, min, self.region_bytes),
            Kind::OnceMapped(mapped) => mapped.next(wanted),
            Kind::Drawn(drawn) => Some(drawn.next(direction, wanted, min, self.region_bytes, &mut self.rng)),
        }
    }

    /// Where the direction's next I/O begins, if they are sequential.
    pub fn position(&self, direction: Direction) -> Option<u64> {
        match &self.kind {
            Kind::Sequential(sequential) => Some(sequential.position[direction]),
            _ => None,
        }
    }

    /// Moves the direction's next I/O, if they are sequential.
    pub fn go_to(&mut self, direction: Direction, position: u64) {
        if let Kind::Sequential(sequential) = &mut self.kind {
            sequential.position[direction] = position;
        }
    }

    /// Begins another pass.
    pub fn restart(&mut self) {
        match &mut self.kind {
            Kind::Once { order, next, count, .. } => {
                *order = Permutation::new(*count, &mut self.rng);
                *next = 0;
            }
            Kind::Sequential(sequential) => {
                *sequential = Sequential::new(sequential.step);
            }
            Kind::OnceMapped(mapped) => {
                mapped.order = Permutation::new(mapped.count, &mut self.rng);
                mapped.next = 0;
                mapped.used.fill(0);
            }
            Kind::Drawn(_) => {}
        }
    }
}

impl Sequential {
    fn new(step: i64) -> Self {
        Self { step, position: PerDirection::default() }
    }

    #[inline]
    fn next(&mut self, direction: Direction, wanted: u64, min: u64, region_bytes: u64) -> Option<(u64, u64)> {
        let mut offset = self.position[direction];
        let mut bytes = fit(wanted, region_bytes.saturating_sub(offset), min);
        if bytes.is_none() && self.step != 0 {
            offset = self.wrapped(region_bytes);
            bytes = fit(wanted, region_bytes.saturating_sub(offset), min);
        }
        let bytes = bytes?;
        // The step counts from the end of the last I/O: `rw=read:-8k` with 4k
        // blocks goes down by 4k.
        let next = (offset + bytes).checked_add_signed(self.step);
        self.position[direction] = match next {
            Some(next) if self.step == 0 || next < region_bytes => next,
            _ => self.wrapped(region_bytes),
        };
        Some((offset, bytes))
    }

    /// Where I/O with holes goes on past the region's end (or, going down, its begin).
    fn wrapped(&self, region_bytes: u64) -> u64 {
        if self.step < 0 { region_bytes.saturating_add_signed(self.step) } else { 0 }
    }
}

/// `wanted`, or as much of it as is left in multiples of `min`.
#[inline]
fn fit(wanted: u64, left: u64, min: u64) -> Option<u64> {
    if wanted <= left {
        return Some(wanted);
    }
    let cut = left / min * min;
    (cut > 0).then_some(cut)
}

impl Mapped {
    fn next(&mut self, wanted: u64) -> Option<(u64, u64)> {
        while self.next < self.count {
            let first = self.order.at(self.next);
            self.next += 1;
            if self.is_used(first) {
                continue;
            }
            let most = wanted.div_ceil(self.unit_bytes).min(self.count - first);
            let mut length = 0;
            while length < most && !self.is_used(first + length) {
                self.used[((first + length) / 64) as usize] |= 1 << ((first + length) % 64);
                length += 1;
            }
            return Some((first * self.unit_bytes, wanted.min(length * self.unit_bytes)));
        }
        None
    }

    fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] >> (block % 64) & 1 == 1
    }
}

impl Drawn {
    fn next(&mut self, direction: Direction, wanted: u64, min: u64, region_bytes: u64, rng: &mut Rng) -> (u64, u64) {
        let (last_start, last_end) = self.last[direction];
        let follows = if self.left_in_run > 0 {
            self.left_in_run -= 1;
            true
        } else {
            let random = u64::from(self.random_percent[direction]);
            let follows = random < 100 && below(rng, 100) >= random;
            self.left_in_run = self.run_length - 1;
            follows
        };
        let offset = match (follows, self.sequencer) {
            (true, Sequencer::Identical) if self.run_length > 1 => last_start,
            // At the end the next in order is the first.
            (true, _) if last_end + min <= region_bytes => last_end,
            (true, _) => 0,
            (false, _) => self.skews[direction].draw(rng) * self.unit_bytes[direction],
        };
        let bytes = fit(wanted, region_bytes - offset, min).unwrap_or(region_bytes - offset);
        self.last[direction] = (offset, offset + bytes);
        (offset, bytes)
    }
}
