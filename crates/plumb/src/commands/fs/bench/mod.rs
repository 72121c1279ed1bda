//! The file system on this machine beside the kernel's, in one run.

mod rows;
mod systems;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use units::ByteSize;

use super::super::Done;
use crate::terminal::print_table;
use rows::{Row, Scale};
use systems::System;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs bench --dir /var/tmp
  plumb fs bench --dir /var/tmp --size 1GiB --rounds 5 --json > figures.json
  plumb fs bench --dir /var/tmp --systems plumb,plumb-device,memory,ext4,xfs

Each round makes every file system anew on a file in DIR (the kernel's through a loop device with direct I/O), and runs
the rows in turn, cold where it says so: caches dropped and mounted again. `memory` is plumb's server with
everything in memory: about what FUSE costs without a file system. Shown are medians, and how many times
faster than the last system of the list. It must be run by root, on a machine that does nothing else.")]
pub struct BenchArguments {
    /// A folder on the disk to be used, with room for one file system
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// File systems, one after the other: plumb, plumb-device, memory, ext4, xfs, btrfs, f2fs
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "plumb,memory,ext4")]
    systems: Vec<System>,
    /// Rows, all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rows: Vec<Row>,
    /// Of the file that is written and read
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: ByteSize,
    /// Files that are made in one folder; and in a tree
    #[arg(long, value_name = "N", default_value_t = 5000)]
    files: u32,
    /// Small writes at random
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    writes: u32,
    /// Times that everything is done
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Print every figure as an object
    #[arg(long)]
    json: bool,
}

/// Figures of one row by one system, a round each.
type Figures = BTreeMap<(Row, usize), Vec<f64>>;

/// Measures and prints.
pub fn bench(arguments: &BenchArguments) -> Done {
    let scale = Scale { file_bytes: arguments.size.0, files: arguments.files, writes: arguments.writes };
    let wanted: Vec<Row> = match arguments.rows.as_slice() {
        [] => Row::ALL.to_vec(),
        some => Row::ALL.into_iter().filter(|row| some.contains(row)).collect(),
    };
    let mut figures = Figures::new();
    for round in 1..=arguments.rounds {
        for (number, system) in arguments.systems.iter().enumerate() {
            if !arguments.json {
                eprintln!("round {round} of {}: {}", arguments.rounds, system.name());
            }
            let mut on = systems::Made::new(*system, &arguments.dir, &scale)?;
            for row in &wanted {
                let figure = row.measure(&mut on, &scale)?;
                figures.entry((*row, number)).or_default().push(figure);
            }
            on.end()?;
        }
    }
    if arguments.json {
        println!("{}", object(arguments, &wanted, &figures));
    } else {
        table(arguments, &wanted, &figures);
    }
    Ok(ExitCode::SUCCESS)
}

/// The middle one, of an even number the mean of the two in the middle.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2)) / 2.0
}

/// By how many times a figure is better than another.
fn times(row: Row, figure: f64, than: f64) -> f64 {
    if row.less_is_better() { than / figure } else { figure / than }
}

fn table(arguments: &BenchArguments, rows: &[Row], figures: &Figures) {
    let last = arguments.systems.len().saturating_sub(1);
    let mut header = vec!["row", "unit"];
    for system in &arguments.systems {
        header.push(system.name());
    }
    let beside: Vec<String> =
        arguments.systems.iter().take(last).map(|system| format!("{} x", system.name())).collect();
    header.extend(beside.iter().map(String::as_str));
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let all = |number: usize| figures.get(&(*row, number)).map_or(&[][..], Vec::as_slice);
            let mut line = vec![row.name().to_owned(), row.unit().to_owned()];
            line.extend((0..=last).map(|number| Short(median(all(number))).to_string()));
            let than = median(all(last));
            line.extend((0..last).map(|number| format!("{:.2}", times(*row, median(all(number)), than))));
            line
        })
        .collect();
    print_table(&header, &lines);
}

fn object(arguments: &BenchArguments, rows: &[Row], figures: &Figures) -> Value {
    let of = |row: Row| {
        let systems: serde_json::Map<String, Value> = arguments
            .systems
            .iter()
            .enumerate()
            .map(|(number, system)| {
                let all = figures.get(&(row, number)).map_or(&[][..], Vec::as_slice);
                (system.name().to_owned(), json!({ "median": median(all), "rounds": all }))
            })
            .collect();
        json!({ "row": row.name(), "unit": row.unit(), "less_is_better": row.less_is_better(), "systems": systems })
    };
    json!({
        "file_bytes": arguments.size.0, "files": arguments.files, "writes": arguments.writes, "rounds": arguments.rounds,
        "rows": rows.iter().map(|row| of(*row)).collect::<Vec<_>>(),
    })
}

/// A number with as many digits as mean something.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            large if large >= 100.0 => write!(f, "{large:.0}"),
            medium if medium >= 10.0 => write!(f, "{medium:.1}"),
            small => write!(f, "{small:.3}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_times_are_what_they_say() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 2.5));
        assert_eq!(times(Row::Write4B, 20.0, 100.0), 5.0);
        assert_eq!(times(Row::SequentialWrite, 20.0, 100.0), 0.2);
        assert_eq!(format!("{} {} {}", Short(123.4), Short(12.34), Short(0.5)), "123 12.3 0.500");
    }
}
