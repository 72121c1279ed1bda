//! What it costs a device to keep the order of writes: the same ordered commands on one that ignores the order and on one that
//! keeps it, full and in the steady state of random overwriting. Usage: `order_cost [writes]`.

mod support;

use std::collections::BTreeMap;

use nvme::{
    Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, QueueId, Stream, StreamAction, StreamEpoch,
    WriteOrder,
};
use ssd::config::{Initial, OrderKind, Overwritten};
use ssd::profile::{DeviceConfig, Profile};
use ssd::{Device, Ssd, SsdConfig, Submission};
use support::{Random, cpu_s, resident_bytes};
use trace::RequestId;
use units::Nanos;

const DEPTH: u16 = 32;
/// Streams of applications; the journal's comes after them.
const APPLICATIONS: u16 = 8;
const JOURNAL: u16 = APPLICATIONS + 1;
/// Blocks of each epoch.
const EPOCH_BLOCKS: u32 = 4;
const JOURNAL_EPOCH_BLOCKS: u32 = 16;
const PROFILES: [&str; 3] = ["samsung-980pro-1tb", "samsung-850pro-256gb", "intel-s3500-480gb"];

/// In which streams writes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Unordered,
    Single,
    Dual,
}

/// A host's streams: the present epoch of each, and its blocks so far.
#[derive(Default)]
struct Streams(BTreeMap<u16, (Epoch, u32)>);

impl Streams {
    /// The next block of a stream, and the count if it closes the epoch.
    fn next(&mut self, stream: u16, of: u32) -> (StreamEpoch, u32) {
        let (epoch, blocks) = self.0.entry(stream).or_default();
        let place = StreamEpoch { stream: Stream(stream), epoch: *epoch };
        *blocks += 1;
        if *blocks < of {
            return (place, 0);
        }
        (*epoch, *blocks) = (epoch.next(), 0);
        (place, of)
    }

    fn order(&mut self, pattern: Pattern, number: u64) -> WriteOrder {
        if pattern == Pattern::Unordered {
            return WriteOrder::NONE;
        }
        let (first, first_blocks) = self.next(1 + (number % u64::from(APPLICATIONS)) as u16, EPOCH_BLOCKS);
        let (second, second_blocks) = match pattern {
            Pattern::Dual => self.next(JOURNAL, JOURNAL_EPOCH_BLOCKS),
            _ => (StreamEpoch::default(), 0),
        };
        let closing = match first_blocks.max(second_blocks) {
            0 => Closing::None,
            _ => Closing::Counted { first_blocks, second_blocks },
        };
        WriteOrder { first, second, closing }
    }
}

/// Keeps `DEPTH` random 4 KiB writes outstanding, and forgets the first half of what is counted.
fn measure(name: &str, config: &SsdConfig, pattern: Pattern, writes: u64) -> Result<(), String> {
    let mut ssd = Ssd::new(config).map_err(|error| error.to_string())?;
    let (blocks, lba_bytes) = (ssd.identity().namespace_blocks[0], u64::from(ssd.identity().lba_bytes));
    let per_write = 4096 / lba_bytes;
    let (mut random, mut streams, mut done) = (Random(7), Streams::default(), Vec::new());
    let mut now = Nanos::ZERO;
    for stream in 1..=JOURNAL {
        let action = StreamAction::Open { first: Epoch(0) };
        let command = Command::StreamManagement { nsid: NamespaceId::ALL, stream: Stream(stream), action };
        let (cid, request) = (CommandId(u16::MAX), RequestId(0));
        ssd.submit(now, Submission { queue: QueueId(1), cid, command, data: None, request });
        now = ssd.next_event().unwrap_or(now) + Nanos::from_millis(1);
        ssd.advance(now, &mut done);
    }
    done.clear();
    let (mut submitted, mut started, mut took) = (0, BTreeMap::new(), Vec::new());
    let (mut half, mut before) = (now, BTreeMap::new());
    let (cpu, resident) = (cpu_s(), resident_bytes());
    let scale = per_write as u32;
    while took.len() < (writes / 2) as usize {
        while started.len() < DEPTH.into() {
            let mut order = streams.order(pattern, submitted);
            if let Closing::Counted { first_blocks, second_blocks } = &mut order.closing {
                (*first_blocks, *second_blocks) = (*first_blocks * scale, *second_blocks * scale);
            }
            let range = LbaRange { start: Lba(random.below(blocks / per_write) * per_write), count: scale };
            let command = Command::ordered_write(NamespaceId::FIRST, range, false, order);
            let (cid, request) = (CommandId(submitted as u16), RequestId(0));
            ssd.submit(now, Submission { queue: QueueId(1), cid, command, data: None, request });
            started.insert(cid.0, now);
            submitted += 1;
        }
        now = ssd.next_event().ok_or("a write never completes")?;
        ssd.advance(now, &mut done);
        for completion in done.drain(..) {
            let since = started.remove(&completion.cid.0).unwrap_or(now);
            if !completion.status.is_success() {
                return Err(format!("{completion:?}"));
            }
            if submitted > writes / 2 {
                if took.is_empty() {
                    (half, before) = (now, ssd.counters().into_iter().collect());
                }
                took.push((now - since).0);
            }
        }
    }
    took.sort_unstable();
    let counters: BTreeMap<String, u64> = ssd.counters().into_iter().collect();
    let grown = |name: &str| counters.get(name).copied().unwrap_or(0) - before.get(name).copied().unwrap_or(0);
    let amplification = grown("flash_written_bytes") as f64 / grown("host_written_bytes").max(1) as f64;
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(0) as f64 / 1e3;
    println!(
        "{name}: {:.1} k writes/s, median {:.1} us, 99 % {:.1} us, 99.9 % {:.1} us, write amplification {amplification:.4}, \
         delayed {:.2} %, waits {}, tables {} bytes at most; {:.2} M writes per core-second, {:.1} MB resident",
        took.len() as f64 / (now - half).as_secs_f64() / 1e3,
        at(0.5),
        at(0.99),
        at(0.999),
        grown("order_delayed_bytes") as f64 / grown("destaged_bytes").max(1) as f64 * 100.0,
        counters.get("order_waits").copied().unwrap_or(0),
        counters.get("order_table_bytes_max").copied().unwrap_or(0),
        submitted as f64 / (cpu_s() - cpu) / 1e6,
        resident_bytes().saturating_sub(resident) as f64 / 1e6,
    );
    Ok(())
}

fn main() -> Result<(), String> {
    let writes = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    for profile in PROFILES {
        let profile = Profile::builtin(profile).map_err(|error| error.to_string())?;
        let DeviceConfig::Ssd(config) = &profile.config else { continue };
        for (pattern, name) in [
            (Pattern::Unordered, "unordered"),
            (Pattern::Single, "one stream each"),
            (Pattern::Dual, "two streams each"),
        ] {
            for (order, does) in [(OrderKind::Ignored, "ignored"), (OrderKind::Streams, "kept")] {
                let mut config = (**config).clone();
                config.order = order;
                config.initial = Initial { fill: 1.0, overwritten: Overwritten::Uniform, ..config.initial };
                measure(&format!("{}, {name}, order {does}", profile.name), &config, pattern, writes)?;
            }
        }
    }
    Ok(())
}
