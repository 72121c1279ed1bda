//! Options of what is read and written: pattern, sizes, region, randomness.

use super::{OptionSpec, bit, flag, name_of, one_of, typed, unless};
use crate::fio::PerDirection;
use crate::fio::parse::options::{BlockSizes, Distribution, Extent, Options, Pattern, Sequencer, Zone};
use crate::fio::parse::value::{Parsed, Value, fail, print_directions};

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
                    let size = print_extent(&zone.extent);
                    format!("{}/{}", zone.access_percent, size.trim_end_matches('%'))
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

/// A size, a percentage, or a whole number of zones.
pub(super) fn extent(value: Value<'_>) -> Parsed<Extent> {
    if let Some(percent) = value.text.strip_suffix('%') {
        return Ok(Extent::Percent(value.with(percent).percent()?));
    }
    match value.text.strip_suffix(['z', 'Z']) {
        Some(zones) => match zones.parse() {
            Ok(zones) => Ok(Extent::Zones(zones)),
            Err(_) => {
                fail(format!("`{}` is not a number of zones; write a whole number and z, such as 3z", value.text))
            }
        },
        None => value.size().map(Extent::Bytes),
    }
}

fn positive_extent(value: Value<'_>) -> Parsed<Extent> {
    match extent(value)? {
        Extent::Bytes(0) | Extent::Percent(0) | Extent::Zones(0) => fail("must be more than 0"),
        extent => Ok(extent),
    }
}

pub(super) fn print_extent(extent: &Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => bytes.to_string(),
        Extent::Percent(percent) => format!("{percent}%"),
        Extent::Zones(zones) => format!("{zones}z"),
    }
}

fn print_some_extent(extent: &Option<Extent>) -> Option<String> {
    extent.as_ref().map(print_extent)
}

fn block_size(value: Value<'_>) -> Parsed<u64> {
    match value.size()? {
        0 => fail("a block size must be more than 0"),
        bytes if bytes > MAX_BLOCK_BYTES => fail("a block size must be at most 64g"),
        bytes => Ok(bytes),
    }
}

/// Room for a trim that resets the largest zone; a bound only keeps arithmetic
/// from overflowing.
const MAX_BLOCK_BYTES: u64 = 64 << 30;

const SEQUENCER: &[(&str, Sequencer)] = &[("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)];

pub(super) static OPTIONS: &[OptionSpec] = &[
    typed(
        "rw",
        &["readwrite"],
        "pattern[:N]",
        "read, write, trim, randread, randwrite, randtrim, rw (readwrite), randrw, trimwrite, randtrimwrite. A sequential pattern with `:288k` skips 288k after each I/O (`:-N` goes down); with holes the job wraps at the region's end until its bytes are moved. A random one with `:8` draws an offset, with replacement, for every 8 I/Os.",
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
        "size|percent%|zonesz",
        "Length of the region the job uses, and the bytes it moves unless io_size says otherwise. Default: the rest of the device. `10z` is ten zones, with zonemode=zbd; so in the next options.",
        |o, v| {
            o.size = Some(positive_extent(v)?);
            Ok(())
        },
        |o| print_some_extent(&o.size),
    ),
    typed(
        "offset",
        &[],
        "size|percent%|zonesz",
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
        "size|percent%|zonesz",
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
        "frag_size",
        &[],
        "size",
        "Not an option of fio: the job's region is a file in pieces of this length, frag_distance apart on the device. An I/O that covers several is one bio for each, behind one plug, each with the costs of an I/O on the processor, and is done with the last. Offsets and size count the file's bytes; 0 is one piece.",
        |o, v| {
            o.frag_size_bytes = v.size()?;
            Ok(())
        },
        |o| unless(&o.frag_size_bytes, &0, u64::to_string),
    ),
    typed(
        "frag_distance",
        &[],
        "size",
        "Not an option of fio: bytes on the device between the end of one piece and the beginning of the next. Default 0, which is one piece.",
        |o, v| {
            o.frag_distance_bytes = v.size()?;
            Ok(())
        },
        |o| unless(&o.frag_distance_bytes, &0, u64::to_string),
    ),
    typed(
        "io_size",
        &["io_limit"],
        "size|percent%|zonesz",
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
];
