//! What a store does here, on this file system or device.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use betree::{Database, Durability, Error, Options, Stats};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use units::{ByteSize, Nanos};

use super::super::Done;
use super::one::Packing;
use super::store;
use crate::failure::Failure;
use crate::terminal::print_table;

#[derive(Args)]
#[command(
    after_help = "Keys have 16 bytes and come in random order, each once; values do not compress. *Written* is bytes to
the storage for each byte of keys and values: at the end of the inserts, at rest (no work is owed), and compacted
(every message in its leaf). The store is made at PATH, which must not exist, and removed at the end."
)]
pub struct BenchArguments {
    /// The file to make
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// How many inserts
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    entries: u64,
    /// Bytes of a value
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    value: ByteSize,
    /// How many lookups; a hundredth as many scans of 100 entries
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    gets: u64,
    /// Sync each so many inserts [default: only at the end]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sync: Option<u64>,
    /// Memory for what was read
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache: ByteSize,
    /// How blocks are compressed
    #[arg(long, value_name = "HOW", default_value = "none")]
    compression: Packing,
    /// Keep the store
    #[arg(long)]
    keep: bool,
    /// Print an object
    #[arg(long)]
    json: bool,
}

/// A sequence of 64-bit numbers that looks random (SplitMix64, Steele and others, 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// A bijection of 64 bits.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The key of entry `number`.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key
}

fn bar(count: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}, {per_sec}, {eta} left");
    ProgressBar::new(count).with_message(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What was measured, by name and unit.
#[derive(Default)]
struct Results {
    rows: Vec<(String, String, Value)>,
}

impl Results {
    fn add(&mut self, name: &str, text: String, value: impl Into<Value>) {
        self.rows.push((name.to_owned(), text, value.into()));
    }

    fn rate(&mut self, name: &str, count: u64, began: Instant) {
        let rate = count as f64 / began.elapsed().as_secs_f64().max(1e-9);
        self.add(&format!("{name}_per_s"), format!("{rate:.0}/s"), rate);
    }

    fn written(&mut self, when: &str, stats: &Stats, user_bytes: u64) {
        let ratio = stats.written_bytes() as f64 / user_bytes.max(1) as f64;
        self.add(&format!("written_{when}"), format!("{ratio:.2} times"), ratio);
    }
}

/// Measures.
pub fn bench(arguments: &BenchArguments) -> Done {
    let path = &arguments.path;
    if path.exists() {
        return Err(Failure::input(format!(
            "{}: is there already, and a benchmark makes a store of its own; give the name of a new file",
            path.display()
        )));
    }
    if arguments.value.0 > betree::VALUE_BYTES_MAX as u64 {
        return Err(Failure::input(format!("--value {}: at most 1MiB", arguments.value)));
    }
    let user_bytes = arguments.entries * (16 + arguments.value.0);
    let capacity_bytes = (user_bytes * 4 + (512 << 20)).next_multiple_of(4096);
    let measured = store::file(path, Some(capacity_bytes)).and_then(|file| {
        let began = Instant::now();
        let options = Options {
            cache_bytes: arguments.cache.0 as usize,
            compression: arguments.compression.compression(),
            ..Options::default()
        };
        let options = options.clock(move || Nanos(began.elapsed().as_nanos() as u64));
        let database = Database::create(file, options, store::new_id());
        database
            .and_then(|database| measure(&database, arguments, user_bytes))
            .map_err(|error| store::fault(path, &error))
    });
    if !arguments.keep && path.exists() {
        let removed = std::fs::remove_file(path);
        removed.map_err(|error| Failure::Machine(format!("{}: cannot be removed: {error}", path.display())))?;
    }
    let results = measured?;
    if arguments.json {
        let object = results.rows.into_iter().map(|(name, _, value)| (name, value)).collect();
        println!("{}", Value::Object(object));
    } else {
        let rows: Vec<_> = results.rows.into_iter().map(|(name, text, _)| vec![name.replace('_', " "), text]).collect();
        print_table(&["what", "measured"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(database: &Database, arguments: &BenchArguments, user_bytes: u64) -> Result<Results, Error> {
    let (entries, value_bytes) = (arguments.entries, arguments.value.0 as usize);
    let tree = database.tree("bench")?;
    let mut results = Results::default();
    let mut numbers = Numbers(1);
    let mut value = vec![0; value_bytes];
    let inserting = bar(entries, "inserts");
    let began = Instant::now();
    for number in 0..entries {
        for part in value.chunks_mut(8) {
            let bytes = numbers.next().to_le_bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
        let synced = arguments.sync.is_some_and(|each| (number + 1) % each == 0);
        let durability = if synced { Durability::Sync } else { Durability::None };
        tree.insert(key(number), value.clone(), durability)?;
        inserting.inc(1);
    }
    database.sync()?;
    inserting.finish_and_clear();
    results.rate("inserts", entries, began);
    let latency = database.stats().commit_latency;
    for (name, time) in [("p50", latency.p50), ("p99", latency.p99), ("p999", latency.p999), ("max", latency.max)] {
        results.add(&format!("insert_{name}"), time.to_string(), json!({ "ns": time.0 }));
    }
    results.written("at_end", &database.stats(), user_bytes);
    let began = Instant::now();
    database.quiesce()?;
    results.add("quiesce_s", format!("{:.2} s", began.elapsed().as_secs_f64()), began.elapsed().as_secs_f64());
    results.written("at_rest", &database.stats(), user_bytes);
    reads(&tree, arguments, &mut results, "at_rest")?;
    let began = Instant::now();
    database.compact()?;
    results.add("compact_s", format!("{:.2} s", began.elapsed().as_secs_f64()), began.elapsed().as_secs_f64());
    results.written("compacted", &database.stats(), user_bytes);
    reads(&tree, arguments, &mut results, "compacted")?;
    Ok(results)
}

fn reads(tree: &betree::Tree, arguments: &BenchArguments, results: &mut Results, when: &str) -> Result<(), Error> {
    if arguments.entries == 0 {
        return Ok(());
    }
    let mut numbers = Numbers(2);
    let getting = bar(arguments.gets, "lookups");
    let (began, mut found) = (Instant::now(), 0);
    for _ in 0..arguments.gets {
        found += u64::from(tree.get(key(numbers.next() % arguments.entries))?.is_some());
        getting.inc(1);
    }
    getting.finish_and_clear();
    results.rate(&format!("gets_{when}"), arguments.gets, began);
    results.add(&format!("gets_{when}_found"), found.to_string(), found);
    let (began, scans) = (Instant::now(), arguments.gets / 100);
    let mut rows = 0;
    for _ in 0..scans {
        for entry in tree.range(key(numbers.next() % arguments.entries).as_slice()..).take(100) {
            entry?;
            rows += 1;
        }
    }
    results.rate(&format!("scanned_rows_{when}"), rows, began);
    Ok(())
}
