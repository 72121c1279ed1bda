//! The table of supported options: the one place where an option is named.
//!
//! The parser, the printer and `docs/fio-options.md` are all made from it.

use units::Nanos;

use super::options::{
    BlockSizes, Distribution, Engine, Extent, Options, Pattern, RateProcess, Sequencer, SubmitMode, SyncWrites,
    Unified, Verify, Zone,
};
use super::value::{Parsed, Value, fail, print_directions, print_pattern, print_time};
use crate::fio::PerDirection;

/// An option of the job file.
pub struct OptionSpec {
    /// fio's name, the one printed.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What a value looks like.
    pub form: &'static str,
    /// What it does here, and where that differs from fio.
    pub help: &'static str,
    /// Whether the bare name means 1.
    pub flag: bool,
    pub(super) action: Action,
}

/// How much of an option is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has its effect.
    Modelled,
    /// It is taken, and has nothing to act on in the model.
    WithoutEffect,
}

pub(super) enum Action {
    Typed { set: fn(&mut Options, Value<'_>) -> Parsed<()>, print: fn(&Options) -> Option<String> },
    WithoutEffect,
}

impl OptionSpec {
    /// How much of it is modelled.
    pub fn support(&self) -> Support {
        match self.action {
            Action::Typed { .. } => Support::Modelled,
            Action::WithoutEffect => Support::WithoutEffect,
        }
    }
}

/// Every supported option, in the order in which they are printed.
pub fn option_specs() -> &'static [OptionSpec] {
    OPTIONS
}

pub(super) fn find(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

const fn typed(
    name: &'static str,
    aliases: &'static [&'static str],
    form: &'static str,
    help: &'static str,
    set: fn(&mut Options, Value<'_>) -> Parsed<()>,
    print: fn(&Options) -> Option<String>,
) -> OptionSpec {
    OptionSpec { name, aliases, form, help, flag: false, action: Action::Typed { set, print } }
}

const fn flag(
    name: &'static str,
    aliases: &'static [&'static str],
    help: &'static str,
    set: fn(&mut Options, Value<'_>) -> Parsed<()>,
    print: fn(&Options) -> Option<String>,
) -> OptionSpec {
    OptionSpec { name, aliases, form: "0|1", help, flag: true, action: Action::Typed { set, print } }
}

const fn without_effect(name: &'static str, aliases: &'static [&'static str], help: &'static str) -> OptionSpec {
    OptionSpec { name, aliases, form: "any", help, flag: true, action: Action::WithoutEffect }
}

/// `Some(text)` where the value differs from the default.
fn unless<T: PartialEq>(value: &T, default: &T, text: impl Fn(&T) -> String) -> Option<String> {
    (value != default).then(|| text(value))
}

fn bit(on: bool) -> Option<String> {
    on.then(|| "1".to_owned())
}

fn one_of<T: Copy>(value: Value<'_>, table: &[(&str, T)]) -> Parsed<T> {
    match table.iter().find(|(name, _)| *name == value.text) {
        Some((_, chosen)) => Ok(*chosen),
        None => {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            fail(format!("`{}` is not one of {}", value.text, names.join(", ")))
        }
    }
}

fn name_of<T: PartialEq>(value: T, table: &[(&str, T)]) -> String {
    table.iter().find(|(_, known)| *known == value).map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}

const VERIFY: &[(&str, Verify)] = &[
    ("0", Verify::None),
    ("crc32c", Verify::Crc32c),
    ("crc32c-intel", Verify::Crc32c),
    ("crc64", Verify::Crc64),
    ("meta", Verify::Meta),
    ("pattern", Verify::Pattern),
    ("null", Verify::Null),
];
const SYNC: &[(&str, SyncWrites)] = &[
    ("none", SyncWrites::None),
    ("0", SyncWrites::None),
    ("sync", SyncWrites::Sync),
    ("1", SyncWrites::Sync),
    ("dsync", SyncWrites::Dsync),
];
const UNIFIED: &[(&str, Unified)] = &[
    ("none", Unified::None),
    ("0", Unified::None),
    ("mixed", Unified::Mixed),
    ("1", Unified::Mixed),
    ("both", Unified::Both),
    ("2", Unified::Both),
];
const SEQUENCER: &[(&str, Sequencer)] = &[("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)];
const RATE_PROCESS: &[(&str, RateProcess)] = &[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)];
const SUBMIT_MODE: &[(&str, SubmitMode)] = &[("inline", SubmitMode::Inline), ("offload", SubmitMode::Offload)];

/// Deepest queue taken.
const MAX_DEPTH: u32 = 65_536;

/// Where a bound only keeps arithmetic from overflowing.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

fn block_size(value: Value<'_>) -> Parsed<u64> {
    match value.size()? {
        0 => fail("a block size must be more than 0"),
        bytes if bytes > MAX_BLOCK_BYTES => fail("a block size must be at most 1g"),
        bytes => Ok(bytes),
    }
}

fn extent(value: Value<'_>) -> Parsed<Extent> {
    match value.text.strip_suffix('%') {
        Some(percent) => Ok(Extent::Percent(value.with(percent).percent()?)),
        None => value.size().map(Extent::Bytes),
    }
}

fn positive_extent(value: Value<'_>) -> Parsed<Extent> {
    match extent(value)? {
        Extent::Bytes(0) | Extent::Percent(0) => fail("must be more than 0"),
        extent => Ok(extent),
    }
}

fn print_extent(extent: &Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => bytes.to_string(),
        Extent::Percent(percent) => format!("{percent}%"),
    }
}

/// `bytes/percent:bytes/percent:...`; blank percents share what is left.
fn split(value: Value<'_>) -> Parsed<BlockSizes> {
    let mut parts: Vec<(u64, Option<u8>)> = Vec::new();
    for part in value.text.split(':').filter(|part| !part.trim().is_empty()) {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let bytes = block_size(value.with(bytes))?;
        let percent = if percent.trim().is_empty() { None } else { Some(value.with(percent).percent()?) };
        parts.push((bytes, percent));
    }
    if parts.is_empty() || parts.len() > 64 {
        return fail("takes from 1 to 64 parts such as 4k/60:64k/40");
    }
    let given: u32 = parts.iter().filter_map(|part| part.1).map(u32::from).sum();
    let blanks = parts.iter().filter(|part| part.1.is_none()).count() as u32;
    if given > 100 || (blanks == 0 && given != 100) {
        return fail(format!("the percentages add up to {given}; they must add up to 100"));
    }
    let (mut left, mut blanks) = (100 - given, blanks);
    if let [(bytes, _)] = parts.as_slice() {
        return Ok(BlockSizes::Fixed(*bytes));
    }
    let parts = parts.into_iter().map(|(bytes, percent)| {
        let percent = percent.unwrap_or_else(|| {
            let share = left / blanks.max(1);
            left -= share;
            blanks -= 1;
            share as u8
        });
        (bytes, percent)
    });
    Ok(BlockSizes::Split(parts.collect()))
}

fn print_split(parts: &[(u64, u8)]) -> String {
    parts.iter().map(|(bytes, percent)| format!("{bytes}/{percent}")).collect::<Vec<_>>().join(":")
}

fn zones(value: Value<'_>, absolute: bool) -> Parsed<Distribution> {
    let mut zones = Vec::new();
    for part in value.text.split(':') {
        let Some((access, size)) = part.split_once('/') else {
            return fail(format!("`{part}` is not a zone; write share/size, such as zoned:60/10:40/90"));
        };
        let access_percent = value.with(access).percent()?;
        let size = value.with(size.trim());
        let extent = if absolute { Extent::Bytes(size.positive_size()?) } else { Extent::Percent(size.percent()?) };
        zones.push(Zone { access_percent, extent });
    }
    let shares: u32 = zones.iter().map(|zone| u32::from(zone.access_percent)).sum();
    if zones.len() > 256 || shares != 100 {
        return fail(format!(
            "{} zones take {shares} % of the accesses; at most 256 zones must take 100 %",
            zones.len()
        ));
    }
    let percents: u32 =
        zones.iter().map(|zone| if let Extent::Percent(p) = zone.extent { u32::from(p) } else { 0 }).sum();
    if !absolute && percents != 100 {
        return fail(format!("the zones cover {percents} % of the region; they must cover 100 %"));
    }
    Ok(Distribution::Zoned(zones))
}

fn distribution(value: Value<'_>) -> Parsed<Distribution> {
    let (name, rest) = value.text.split_once([':', '=']).unwrap_or((value.text, ""));
    if let "zoned" | "zoned_abs" = name {
        return zones(value.with(rest), name == "zoned_abs");
    }
    let (number, center) = match rest.split_once(':') {
        Some((number, center)) => (number, Some(value.with(center).float()?)),
        None => (rest, None),
    };
    if center.is_some_and(|center| !(0.0..=1.0).contains(&center)) {
        return fail("the center must be from 0 to 1");
    }
    let number = |default: f64| if number.is_empty() { Ok(default) } else { value.with(number).float() };
    match name {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match number(1.1)? {
            theta if theta > 0.0 && theta != 1.0 && theta <= 100.0 => Ok(Distribution::Zipf { theta, center }),
            _ => fail("zipf's theta must be more than 0, at most 100 and not 1"),
        },
        "pareto" => match number(0.2)? {
            h if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto { h, center }),
            _ => fail("pareto's power must be more than 0 and less than 1"),
        },
        "normal" => match number(0.0)? {
            deviation_percent if (0.0..=100.0).contains(&deviation_percent) && deviation_percent > 0.0 => {
                Ok(Distribution::Normal { deviation_percent, center: center.unwrap_or(0.5) })
            }
            _ => fail("normal's deviation must be more than 0 and at most 100 percent: write normal:20"),
        },
        _ => fail(format!("`{name}` is not one of random, zipf, pareto, normal, zoned, zoned_abs")),
    }
}

fn print_distribution(distribution: &Distribution) -> String {
    let at = |center: &Option<f64>| center.map(|center| format!(":{center}")).unwrap_or_default();
    match distribution {
        Distribution::Uniform => "random".to_owned(),
        Distribution::Zipf { theta, center } => format!("zipf:{theta}{}", at(center)),
        Distribution::Pareto { h, center } => format!("pareto:{h}{}", at(center)),
        Distribution::Normal { deviation_percent, center } => format!("normal:{deviation_percent}:{center}"),
        Distribution::Zoned(zones) => {
            let absolute = zones.iter().any(|zone| matches!(zone.extent, Extent::Bytes(_)));
            let parts: Vec<String> = zones
                .iter()
                .map(|zone| {
                    let size = match zone.extent {
                        Extent::Bytes(size) => size,
                        Extent::Percent(percent) => u64::from(percent),
                    };
                    format!("{}/{size}", zone.access_percent)
                })
                .collect();
            format!("{}:{}", if absolute { "zoned_abs" } else { "zoned" }, parts.join(":"))
        }
    }
}

fn set_pattern(options: &mut Options, value: Value<'_>) -> Parsed<()> {
    let (name, modifier) = match value.text.split_once(':') {
        Some((name, modifier)) => (name, Some(modifier)),
        None => (value.text, None),
    };
    let name = if name == "readwrite" { "rw" } else { name };
    let Some(pattern) = Pattern::ALL.into_iter().find(|pattern| pattern.name == name) else {
        let names: Vec<&str> = Pattern::ALL.iter().map(|pattern| pattern.name).collect();
        return fail(format!("`{name}` is not one of {}", names.join(", ")));
    };
    options.modifier = match modifier {
        None => None,
        Some(modifier) => {
            let negative = modifier.starts_with('-');
            let size = value.with(modifier.strip_prefix('-').unwrap_or(modifier)).count(0..=1 << 60)? as i64;
            if pattern.random && (negative || size == 0) {
                return fail("after the colon of a random pattern stands how many I/Os share an offset: 1 or more");
            }
            Some(if negative { -size } else { size })
        }
    };
    options.pattern = pattern;
    Ok(())
}

fn print_rw(options: &Options) -> Option<String> {
    let name = options.pattern.name;
    match options.modifier {
        Some(modifier) => Some(format!("{name}:{modifier}")),
        None => (options.pattern != Pattern::ALL[0]).then(|| name.to_owned()),
    }
}

/// Prints the directions whose sizes are of one kind (0 `bs`, 1 `bsrange`, 2
/// `bssplit`); the places of the others stay empty, which keeps what they have.
fn print_blocks(options: &Options, kind: u8) -> Option<String> {
    let blocks = &options.blocks;
    let text = print_directions(blocks, |sizes| match (kind, sizes) {
        (0, BlockSizes::Fixed(bytes)) => bytes.to_string(),
        (1, BlockSizes::Range(low, high)) => format!("{low}-{high}"),
        (2, BlockSizes::Split(parts)) => print_split(parts),
        _ => String::new(),
    });
    let says_something = text.chars().any(|c| c != ',');
    (says_something && *blocks != Options::default().blocks).then_some(text)
}

fn counts(value: Value<'_>, old: &PerDirection<u64>) -> Parsed<PerDirection<u64>> {
    value.per_direction(old, &[','], Value::size)
}

fn print_counts(values: &PerDirection<u64>) -> Option<String> {
    unless(values, &PerDirection::default(), |values| print_directions(values, u64::to_string))
}

fn print_some_extent(extent: &Option<Extent>) -> Option<String> {
    extent.as_ref().map(print_extent)
}

fn print_nonzero(time: Nanos) -> Option<String> {
    unless(&time, &Nanos::ZERO, |time| print_time(*time))
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

static OPTIONS: &[OptionSpec] = &[
    typed(
        "kb_base",
        &[],
        "1024|1000",
        "Whether `k` is 1024 (and `ki` 1000, for old scripts) or `k` is 1000 and `ki` 1024. Applies to the whole section, wherever it stands.",
        |o, v| {
            o.kb_base = one_of(v, &[("1024", 1024), ("1000", 1000)])?;
            Ok(())
        },
        |o| unless(&o.kb_base, &1024, u64::to_string),
    ),
    typed(
        "description",
        &[],
        "text",
        "Text for the report.",
        |o, v| {
            o.description = Some(v.text.to_owned());
            Ok(())
        },
        |o| o.description.clone(),
    ),
    typed(
        "ioengine",
        &[],
        "name",
        "psync, sync, vsync, pvsync and pvsync2 make one system call per I/O and force iodepth 1; libaio and io_uring submit batches; posixaio submits one by one. Default psync.",
        |o, v| {
            let names = Engine::ALL.map(|engine| (engine.name, engine));
            o.engine = one_of(v, &names)?;
            Ok(())
        },
        |o| unless(&o.engine, &Engine::ALL[0], |engine| engine.name.to_owned()),
    ),
    typed(
        "filename",
        &[],
        "name",
        "Kept for the report; every name means the modelled device. Several names separated by `:` are not supported.",
        |o, v| {
            if v.text.replace("\\:", "").contains(':') {
                return fail("several files are not supported; write one job per region, with offset and size");
            }
            o.filename = Some(v.text.to_owned());
            Ok(())
        },
        |o| o.filename.clone(),
    ),
    typed(
        "direct",
        &[],
        "0|1",
        "Must be 1: there is no page cache in this stack. Where neither direct nor buffered is given, the job runs as with direct=1 and says so.",
        |o, v| {
            if !v.boolean()? {
                return fail(
                    "buffered I/O is not modelled: write direct=1 (an fsync after buffered writes is best shown by direct=1 with fsync=N)",
                );
            }
            o.direct = Some(true);
            Ok(())
        },
        |o| o.direct.and_then(bit),
    ),
    typed(
        "buffered",
        &[],
        "0|1",
        "Must be 0: see direct.",
        |o, v| {
            if v.boolean()? {
                return fail("buffered I/O is not modelled: write direct=1");
            }
            o.direct = Some(true);
            Ok(())
        },
        |_| None,
    ),
    typed(
        "rw",
        &["readwrite"],
        "pattern[:N]",
        "read, write, trim, randread, randwrite, randtrim, rw (readwrite), randrw, trimwrite, randtrimwrite. A sequential pattern with `:288k` skips 288k after each I/O (`:-N` goes down); a random one with `:8` draws an offset for every 8 I/Os.",
        set_pattern,
        print_rw,
    ),
    typed(
        "rw_sequencer",
        &[],
        "sequential|identical",
        "What follows the random offset of `randread:N`: the next blocks, or the same one.",
        |o, v| {
            o.sequencer = one_of(v, SEQUENCER)?;
            Ok(())
        },
        |o| unless(&o.sequencer, &Sequencer::Sequential, |s| name_of(*s, SEQUENCER)),
    ),
    typed(
        "bs",
        &["blocksize"],
        "size[,size][,size]",
        "Bytes per I/O for reads, writes, trims. Default 4k.",
        |o, v| {
            o.blocks = v.per_direction(&o.blocks, &[','], |v| block_size(v).map(BlockSizes::Fixed))?;
            Ok(())
        },
        |o| print_blocks(o, 0),
    ),
    typed(
        "bsrange",
        &["blocksize_range"],
        "low-high[,low-high][,low-high]",
        "Evenly likely multiples of the lower size up to the higher.",
        |o, v| {
            o.blocks =
                v.per_direction(&o.blocks, &[',', '/'], |v| {
                    v.range(block_size).map(|(low, high)| {
                        if low == high { BlockSizes::Fixed(low) } else { BlockSizes::Range(low, high) }
                    })
                })?;
            Ok(())
        },
        |o| print_blocks(o, 1),
    ),
    typed(
        "bssplit",
        &[],
        "size/percent:size/percent...[,...][,...]",
        "Weighted sizes; blank percents share what is left.",
        |o, v| {
            o.blocks = v.per_direction(&o.blocks, &[','], split)?;
            Ok(())
        },
        |o| print_blocks(o, 2),
    ),
    typed(
        "blockalign",
        &["ba"],
        "size[,size][,size]",
        "Alignment of random offsets; turns the random map off, as in fio. Default: the smallest block size.",
        |o, v| {
            o.align_bytes = v.per_direction(&o.align_bytes, &[','], |v| block_size(v).map(Some))?;
            Ok(())
        },
        |o| {
            let print = |align: &Option<u64>| align.map(|align| align.to_string()).unwrap_or_default();
            unless(&o.align_bytes, &PerDirection::default(), |align| print_directions(align, print))
        },
    ),
    typed(
        "size",
        &[],
        "size|percent%",
        "Length of the region the job uses, and the bytes it moves unless io_size says otherwise. Default: the rest of the device.",
        |o, v| {
            o.size = Some(positive_extent(v)?);
            Ok(())
        },
        |o| print_some_extent(&o.size),
    ),
    typed(
        "offset",
        &[],
        "size|percent%",
        "Where the region begins. A percentage is of the device, aligned up to offset_align.",
        |o, v| {
            o.offset = extent(v)?;
            Ok(())
        },
        |o| unless(&o.offset, &Extent::Bytes(0), print_extent),
    ),
    typed(
        "offset_increment",
        &[],
        "size|percent%",
        "Added to offset once for each earlier thread of the same numjobs.",
        |o, v| {
            o.offset_increment = extent(v)?;
            Ok(())
        },
        |o| unless(&o.offset_increment, &Extent::Bytes(0), print_extent),
    ),
    typed(
        "offset_align",
        &[],
        "size",
        "Alignment of percentage offsets; 0 is the smallest block size.",
        |o, v| {
            o.offset_align_bytes = v.size()?;
            Ok(())
        },
        |o| unless(&o.offset_align_bytes, &0, u64::to_string),
    ),
    typed(
        "io_size",
        &["io_limit"],
        "size|percent%",
        "Bytes the job moves, going over the region again or stopping short of its end. Default: size.",
        |o, v| {
            o.io_size = Some(positive_extent(v)?);
            Ok(())
        },
        |o| print_some_extent(&o.io_size),
    ),
    typed(
        "number_ios",
        &[],
        "count",
        "Stops the job after so many I/Os, if nothing else stops it before.",
        |o, v| {
            o.number_ios = Some(v.positive_size()?);
            Ok(())
        },
        |o| o.number_ios.map(|n| n.to_string()),
    ),
    typed(
        "loops",
        &[],
        "count",
        "Goes through the job's I/O so many times.",
        |o, v| {
            o.loops = v.small(1..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.loops, &1, u32::to_string),
    ),
    typed(
        "iodepth",
        &[],
        "count",
        "I/Os in flight; 1 for synchronous engines.",
        |o, v| {
            o.iodepth = v.small(1..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.iodepth, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch",
        &["iodepth_batch_submit"],
        "count",
        "I/Os per submission (one system call and one plug); 0 is iodepth. Default 1.",
        |o, v| {
            o.iodepth_batch = v.small(0..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.iodepth_batch, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch_complete_min",
        &["iodepth_batch_complete"],
        "count",
        "Fewest I/Os to wait for when the queue is full; 0 looks without waiting before each new I/O.",
        |o, v| {
            o.complete_min = v.small(0..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.complete_min, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch_complete_max",
        &[],
        "count",
        "Most I/Os reaped at once. Default: iodepth_batch_complete_min.",
        |o, v| {
            o.complete_max = Some(v.small(1..=MAX_DEPTH)?);
            Ok(())
        },
        |o| o.complete_max.map(|n| n.to_string()),
    ),
    typed(
        "iodepth_low",
        &[],
        "count",
        "Once full, the queue drains to this depth before it is filled again. Default: iodepth.",
        |o, v| {
            o.iodepth_low = Some(v.small(1..=MAX_DEPTH)?);
            Ok(())
        },
        |o| o.iodepth_low.map(|n| n.to_string()),
    ),
    typed(
        "io_submit_mode",
        &[],
        "inline|offload",
        "With inline a rated job waits for its I/Os in flight before it sleeps, as fio does; offload makes a true open loop up to iodepth.",
        |o, v| {
            o.submit_mode = one_of(v, SUBMIT_MODE)?;
            Ok(())
        },
        |o| unless(&o.submit_mode, &SubmitMode::Inline, |m| name_of(*m, SUBMIT_MODE)),
    ),
    typed(
        "numjobs",
        &[],
        "count",
        "Threads that run this job, each with its own random numbers.",
        |o, v| {
            o.numjobs = v.small(1..=super::JobFile::MAX_THREADS)?;
            Ok(())
        },
        |o| unless(&o.numjobs, &1, u32::to_string),
    ),
    typed(
        "rwmixread",
        &[],
        "percent",
        "Share of reads in a mixed pattern. Default 50.",
        |o, v| {
            o.read_percent = v.percent()?;
            Ok(())
        },
        |o| unless(&o.read_percent, &50, u8::to_string),
    ),
    typed(
        "rwmixwrite",
        &[],
        "percent",
        "Share of writes in a mixed pattern; the later of the two options holds.",
        |o, v| {
            o.read_percent = 100 - v.percent()?;
            Ok(())
        },
        |_| None,
    ),
    typed(
        "random_distribution",
        &[],
        "random | zipf:theta[:center] | pareto:h[:center] | normal:dev[:center] | zoned:share/size:... | zoned_abs:...",
        "Where random I/Os fall; per direction as a comma list. Any but random turns the random map off, as in fio.",
        |o, v| {
            o.distribution = v.per_direction(&o.distribution, &[','], distribution)?;
            Ok(())
        },
        |o| unless(&o.distribution, &Options::default().distribution, |d| print_directions(d, print_distribution)),
    ),
    typed(
        "percentage_random",
        &[],
        "percent[,percent][,percent]",
        "Share of a random pattern's I/Os that are random; the others follow the one before. Below 100 the random map is off.",
        |o, v| {
            o.random_percent = v.per_direction(&o.random_percent, &[','], Value::percent)?;
            Ok(())
        },
        |o| unless(&o.random_percent, &Options::default().random_percent, |p| print_directions(p, u8::to_string)),
    ),
    flag(
        "norandommap",
        &[],
        "Draws random offsets with replacement. Without it each block is used once per pass.",
        |o, v| {
            o.no_random_map = v.boolean()?;
            Ok(())
        },
        |o| bit(o.no_random_map),
    ),
    typed(
        "rate",
        &[],
        "bytes[,bytes][,bytes]",
        "Bandwidth limit in bytes per second.",
        |o, v| {
            o.rate_bytes_per_s = counts(v, &o.rate_bytes_per_s)?;
            Ok(())
        },
        |o| print_counts(&o.rate_bytes_per_s),
    ),
    typed(
        "rate_iops",
        &[],
        "count[,count][,count]",
        "IOPS limit; counted in the smallest block size where sizes vary.",
        |o, v| {
            o.rate_iops = counts(v, &o.rate_iops)?;
            Ok(())
        },
        |o| print_counts(&o.rate_iops),
    ),
    typed(
        "rate_process",
        &[],
        "linear|poisson",
        "Spacing of rated I/Os: even, or exponential gaps.",
        |o, v| {
            o.rate_process = one_of(v, RATE_PROCESS)?;
            Ok(())
        },
        |o| unless(&o.rate_process, &RateProcess::Linear, |r| name_of(*r, RATE_PROCESS)),
    ),
    typed(
        "thinktime",
        &[],
        "time (us)",
        "Pause after thinktime_blocks I/Os, once those in flight are done.",
        |o, v| {
            o.thinktime = v.time(MICROSECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.thinktime),
    ),
    typed(
        "thinktime_spin",
        &[],
        "time (us)",
        "Part of thinktime spent computing.",
        |o, v| {
            o.thinktime_spin = v.time(MICROSECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.thinktime_spin),
    ),
    typed(
        "thinktime_blocks",
        &[],
        "count",
        "I/Os between two pauses. Default 1.",
        |o, v| {
            o.thinktime_blocks = v.small(1..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.thinktime_blocks, &1, u32::to_string),
    ),
    typed(
        "fsync",
        &[],
        "count",
        "An fsync after so many writes. On a block device it is a flush (block/fops.c, blkdev_fsync).",
        |o, v| {
            o.fsync = v.small(0..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.fsync, &0, u32::to_string),
    ),
    typed(
        "fdatasync",
        &[],
        "count",
        "As fsync, which it equals on a block device.",
        |o, v| {
            o.fdatasync = v.small(0..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.fdatasync, &0, u32::to_string),
    ),
    flag(
        "end_fsync",
        &[],
        "An fsync when the job has written its last.",
        |o, v| {
            o.end_fsync = v.boolean()?;
            Ok(())
        },
        |o| bit(o.end_fsync),
    ),
    flag(
        "fsync_on_close",
        &[],
        "An fsync when the job closes the device at its end.",
        |o, v| {
            o.fsync_on_close = v.boolean()?;
            Ok(())
        },
        |o| bit(o.fsync_on_close),
    ),
    typed(
        "sync",
        &[],
        "none|sync|dsync|0|1",
        "O_SYNC or O_DSYNC: direct writes carry REQ_FUA (block/fops.c, dio_bio_write_op); a synchronous engine's write is followed by a flush as well (generic_write_sync).",
        |o, v| {
            o.sync = one_of(v, SYNC)?;
            Ok(())
        },
        |o| unless(&o.sync, &SyncWrites::None, |s| name_of(*s, SYNC)),
    ),
    typed(
        "runtime",
        &["timeout"],
        "time (s)",
        "No I/O is issued after this much time, the ramp not counted.",
        |o, v| {
            o.runtime = unless_zero(v.time(SECOND)?);
            Ok(())
        },
        |o| o.runtime.map(print_time),
    ),
    flag(
        "time_based",
        &[],
        "Runs for the whole runtime, going over the region again as needed.",
        |o, v| {
            o.time_based = v.boolean()?;
            Ok(())
        },
        |o| bit(o.time_based),
    ),
    typed(
        "ramp_time",
        &[],
        "time (s)",
        "Runs for this long before anything is counted.",
        |o, v| {
            o.ramp_time = v.time(SECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.ramp_time),
    ),
    typed(
        "startdelay",
        &["start_delay"],
        "time (s)[-time]",
        "Waits before the job starts; of a range, a random part.",
        |o, v| {
            o.start_delay = v.range(|v| v.time(SECOND))?;
            Ok(())
        },
        |o| {
            unless(&o.start_delay, &(Nanos::ZERO, Nanos::ZERO), |(low, high)| {
                format!("{}-{}", print_time(*low), print_time(*high))
            })
        },
    ),
    flag(
        "stonewall",
        &["wait_for_previous"],
        "Starts when every job above has ended, and opens a new group.",
        |o, v| {
            o.stonewall = v.boolean()?;
            Ok(())
        },
        |o| bit(o.stonewall),
    ),
    flag(
        "new_group",
        &[],
        "Opens a new group for the report.",
        |o, v| {
            o.new_group = v.boolean()?;
            Ok(())
        },
        |o| bit(o.new_group),
    ),
    flag(
        "group_reporting",
        &[],
        "Sums the group's threads in the report.",
        |o, v| {
            o.group_reporting = v.boolean()?;
            Ok(())
        },
        |o| bit(o.group_reporting),
    ),
    typed(
        "randseed",
        &[],
        "number",
        "Replaces the run's seed for this job.",
        |o, v| {
            o.randseed = Some(v.size()?);
            Ok(())
        },
        |o| o.randseed.map(|seed| seed.to_string()),
    ),
    typed(
        "verify",
        &[],
        "crc32c|crc32c-intel|crc64|meta|pattern|null|0",
        "Writes carry a header (offset, length, sequence, checksum) and are read back and checked after the write phase; reads of a reading job are checked as they complete. Needs a device that keeps contents, except null. fio's other checksums are not supported.",
        |o, v| {
            o.verify = one_of(v, VERIFY)?;
            Ok(())
        },
        |o| unless(&o.verify, &Verify::None, |verify| name_of(*verify, VERIFY)),
    ),
    typed(
        "verify_pattern",
        &[],
        "0xHEX | decimal | \"text\"",
        "The bytes verify=pattern writes and expects, and what fills a checksummed block.",
        |o, v| {
            o.verify_pattern = v.pattern()?;
            Ok(())
        },
        |o| (!o.verify_pattern.is_empty()).then(|| print_pattern(&o.verify_pattern)),
    ),
    flag(
        "do_verify",
        &[],
        "Whether the write phase is followed by the read-back. Default 1.",
        |o, v| {
            o.do_verify = v.boolean()?;
            Ok(())
        },
        |o| (!o.do_verify).then(|| "0".to_owned()),
    ),
    flag(
        "verify_fatal",
        &[],
        "Stops the job at the first mismatch.",
        |o, v| {
            o.verify_fatal = v.boolean()?;
            Ok(())
        },
        |o| bit(o.verify_fatal),
    ),
    flag(
        "zero_buffers",
        &[],
        "Writes carry zeroes. This and the next options matter where the device keeps contents.",
        |o, v| {
            o.contents.zero = v.boolean()?;
            Ok(())
        },
        |o| bit(o.contents.zero),
    ),
    flag(
        "refill_buffers",
        &[],
        "New random bytes for every write, instead of one buffer stamped anew.",
        |o, v| {
            o.contents.refill = v.boolean()?;
            Ok(())
        },
        |o| bit(o.contents.refill),
    ),
    flag(
        "scramble_buffers",
        &[],
        "Stamps offset and sequence into each 512 bytes so that no two writes are alike. Default 1.",
        |o, v| {
            o.contents.scramble = v.boolean()?;
            Ok(())
        },
        |o| (!o.contents.scramble).then(|| "0".to_owned()),
    ),
    typed(
        "buffer_pattern",
        &[],
        "0xHEX | decimal | \"text\"",
        "Writes carry this pattern, repeated.",
        |o, v| {
            o.contents.pattern = v.pattern()?;
            Ok(())
        },
        |o| (!o.contents.pattern.is_empty()).then(|| print_pattern(&o.contents.pattern)),
    ),
    typed(
        "buffer_compress_percentage",
        &[],
        "percent",
        "This much of each chunk is pattern (or zero), the rest random.",
        |o, v| {
            o.contents.compress_percent = Some(v.percent()?);
            Ok(())
        },
        |o| o.contents.compress_percent.map(|p| p.to_string()),
    ),
    typed(
        "buffer_compress_chunk",
        &[],
        "size",
        "The chunk of buffer_compress_percentage; 0 is the whole block. Default 512.",
        |o, v| {
            o.contents.compress_chunk_bytes = v.small(0..=1 << 30)?;
            Ok(())
        },
        |o| unless(&o.contents.compress_chunk_bytes, &512, u32::to_string),
    ),
    typed(
        "log_avg_msec",
        &[],
        "ms",
        "First interval of the bandwidth, IOPS and latency series, which are always kept; it doubles as the run outgrows 4096 intervals. Default 1.",
        |o, v| {
            o.log_interval = unless_zero(v.time(MILLISECOND)?);
            Ok(())
        },
        |o| o.log_interval.map(print_time),
    ),
    typed(
        "slat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the submission latency.",
        |o, v| {
            o.slat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| bit(o.slat_percentiles),
    ),
    typed(
        "clat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the completion latency. Default 1.",
        |o, v| {
            o.clat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| (!o.clat_percentiles).then(|| "0".to_owned()),
    ),
    typed(
        "lat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the total latency.",
        |o, v| {
            o.lat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| bit(o.lat_percentiles),
    ),
    typed(
        "percentile_list",
        &[],
        "number:number:...",
        "Percentiles to print, at most 20, more than 0 and at most 100.",
        |o, v| {
            let mut list = v.text.split(':').map(|part| v.with(part).float()).collect::<Parsed<Vec<f64>>>()?;
            if list.is_empty() || list.len() > 20 || !list.iter().all(|p| *p > 0.0 && *p <= 100.0) {
                return fail("takes from 1 to 20 numbers, each more than 0 and at most 100");
            }
            list.sort_unstable_by(f64::total_cmp);
            o.percentiles = list;
            Ok(())
        },
        |o| {
            unless(&o.percentiles, &Options::default().percentiles, |list| {
                list.iter().map(f64::to_string).collect::<Vec<_>>().join(":")
            })
        },
    ),
    typed(
        "unified_rw_reporting",
        &[],
        "none|mixed|both|0|1|2",
        "Directions apart, summed, or both.",
        |o, v| {
            o.unified = one_of(v, UNIFIED)?;
            Ok(())
        },
        |o| unless(&o.unified, &Unified::None, |u| name_of(*u, UNIFIED)),
    ),
    typed(
        "cpus_allowed",
        &[],
        "list such as 0-3,8",
        "CPUs of the modelled host the job may use.",
        |o, v| {
            o.cpus_allowed = v.cpu_list()?;
            Ok(())
        },
        |o| {
            let list: Vec<String> = o.cpus_allowed.iter().map(u32::to_string).collect();
            (!list.is_empty()).then(|| list.join(","))
        },
    ),
    typed(
        "cpus_allowed_policy",
        &[],
        "shared|split",
        "Whether threads share the list or each gets one CPU of it.",
        |o, v| {
            o.cpus_split = one_of(v, &[("shared", false), ("split", true)])?;
            Ok(())
        },
        |o| o.cpus_split.then(|| "split".to_owned()),
    ),
    typed(
        "nrfiles",
        &[],
        "1",
        "Only 1.",
        |_, v| match v.size()? {
            1 => Ok(()),
            _ => fail("several files are not supported; write one job per region, with offset and size"),
        },
        |_| None,
    ),
    without_effect("name", &[], "A job is named by its section."),
    without_effect("directory", &[], "The modelled device is always meant."),
    without_effect("thread", &[], "Threads and processes cost the same here."),
    without_effect("randrepeat", &[], "The run's seed decides: the same seed gives the same pattern."),
    without_effect("allrandrepeat", &[], "As randrepeat."),
    without_effect("softrandommap", &[], "The map takes no memory that could be lacking."),
    without_effect(
        "random_generator",
        &[],
        "Offsets without repeats come from a keyed permutation, whichever is named.",
    ),
    without_effect("invalidate", &[], "There is no page cache to invalidate."),
    without_effect("mem", &["iomem"], "Buffers are not modelled."),
    without_effect("fallocate", &[], "There is no file to allocate."),
    without_effect("overwrite", &[], "There is no file to lay out."),
    without_effect("allow_file_create", &[], "There is no file to create."),
    without_effect("allow_mounted_write", &[], "The modelled device is not mounted."),
    without_effect("create_serialize", &[], "There is no file to create."),
    without_effect("create_on_open", &[], "There is no file to create."),
    without_effect("unlink", &[], "There is no file to unlink."),
    without_effect("fadvise_hint", &[], "Direct I/O takes no hints."),
    without_effect("gtod_reduce", &[], "Taking the time costs nothing here; everything is measured."),
    without_effect("disable_lat", &[], "As gtod_reduce."),
    without_effect("disable_clat", &[], "As gtod_reduce."),
    without_effect("disable_slat", &[], "As gtod_reduce."),
    without_effect("disable_bw_measurement", &["disable_bw"], "As gtod_reduce."),
    without_effect("clocksource", &[], "There is one clock."),
    without_effect("bwavgtime", &[], "The series' interval is log_avg_msec's."),
    without_effect("iopsavgtime", &[], "The series' interval is log_avg_msec's."),
    without_effect("write_bw_log", &[], "The series is always kept, in the results."),
    without_effect("write_iops_log", &[], "The series is always kept, in the results."),
    without_effect("write_lat_log", &[], "The series is always kept, in the results."),
    without_effect("disk_util", &[], "Utilisation is always kept, in the results."),
    without_effect("significant_figures", &[], "Figures are printed with four."),
    without_effect("unit_base", &[], "Bandwidth is printed in bytes."),
];

fn unless_zero(time: Nanos) -> Option<Nanos> {
    (time != Nanos::ZERO).then_some(time)
}
