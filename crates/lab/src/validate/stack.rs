//! What a row says of the software between threads and device: the columns
//! `engine`, `scheduler`, `block_layer` and ZINC's tunables.

use std::fmt;

use block::{SchedulerKind, ZincClassConfig, ZincConfig};
use units::Nanos;
use workload::zoned::BlockLayer;

use super::csv::{CsvError, Sheet, SheetRow};
use super::hosts::Host;

/// Names that say yes and no, in `block_layer`.
const YES: [&str; 4] = ["1", "yes", "true", "on"];
const NO: [&str; 4] = ["0", "no", "false", "off"];

/// The software between threads and device. Nothing is said by default: each kind of
/// table has a usual host then, which passes commands through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stack {
    /// How threads hand their I/O over.
    pub host: Option<Host>,
    /// The I/O scheduler; with one, I/O goes through the block layer.
    pub scheduler: Option<SchedulerKind>,
    /// ZINC's tunables, for resets and finishes alike.
    pub zinc: ZincTunables,
}

/// ZINC's tunables; its defaults where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ZincTunables {
    /// Length of an epoch.
    pub epoch_interval: Option<Nanos>,
    /// Write units after which the next operation may go.
    pub command_tokens: Option<u64>,
    /// Write units in flight below which nothing is held.
    pub minimum_concurrency: Option<u64>,
    /// Epochs that an operation is held at most.
    pub maximum_epoch_holds: Option<u32>,
}

impl Stack {
    /// The block layer, where I/O goes through one and is not passed through.
    pub fn block_layer(&self) -> Option<BlockLayer> {
        let usual = ZincClassConfig::default();
        let class = ZincClassConfig {
            epoch_interval: self.zinc.epoch_interval.unwrap_or(usual.epoch_interval),
            command_tokens: self.zinc.command_tokens.unwrap_or(usual.command_tokens),
            minimum_concurrency: self.zinc.minimum_concurrency.unwrap_or(usual.minimum_concurrency),
            maximum_epoch_holds: self.zinc.maximum_epoch_holds.unwrap_or(usual.maximum_epoch_holds),
        };
        let zinc = ZincConfig { reset: class.clone(), finish: class, ..ZincConfig::default() };
        self.scheduler.map(|scheduler| BlockLayer { scheduler, zinc })
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = self.host {
            write!(f, ", {host}")?;
        }
        match self.scheduler {
            None => return Ok(()),
            Some(SchedulerKind::None) => f.write_str(", no scheduler")?,
            Some(scheduler) => write!(f, ", {}", scheduler.name())?,
        }
        let zinc = &self.zinc;
        for (name, value) in [
            ("epoch", zinc.epoch_interval.map(|interval| interval.to_string())),
            ("tokens", zinc.command_tokens.map(|tokens| tokens.to_string())),
            ("concurrency", zinc.minimum_concurrency.map(|concurrency| concurrency.to_string())),
            ("holds", zinc.maximum_epoch_holds.map(|holds| holds.to_string())),
        ] {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        Ok(())
    }
}

/// The text of the first column whose name has one of `words` in it.
fn said<'a>(sheet: &'a Sheet, row: &'a SheetRow, words: &[&str]) -> &'a str {
    let named = sheet.columns.iter().filter(|column| words.iter().any(|word| column.contains(word)));
    named.map(|column| sheet.text(row, column)).find(|text| !text.is_empty()).unwrap_or("")
}

/// The number in the first of these columns that has one, in any row a whole one.
fn tunable(sheet: &Sheet, row: &SheetRow, columns: &[&str]) -> Result<Option<Result<u64, String>>, CsvError> {
    for column in columns {
        if let Some(value) = sheet.number(row, column)? {
            let whole = value.fract() == 0.0 && (0.0..=1e12).contains(&value);
            return Ok(Some(if whole {
                Ok(value as u64)
            } else {
                Err(format!("{column} is {value}, no whole number"))
            }));
        }
    }
    Ok(None)
}

/// What a row says; the inner error is why it cannot be simulated.
pub(super) fn stack_of(sheet: &Sheet, row: &SheetRow) -> Result<Result<Stack, String>, CsvError> {
    let tunables = [
        tunable(sheet, row, &["epoch_interval_ms", "reset_epoch_interval_ms", "epoch_ms"])?,
        tunable(sheet, row, &["command_tokens", "reset_command_tokens", "tokens"])?,
        tunable(sheet, row, &["minimum_concurrency", "minimum_concurrency_treshold", "minimum_concurrency_threshold"])?,
        tunable(sheet, row, &["maximum_epoch_holds", "reset_maximum_epoch_holds", "max_holds", "holds"])?,
    ];
    let (engine, scheduler) = (said(sheet, row, &["engine"]), said(sheet, row, &["sched"]));
    let block_layer = said(sheet, row, &["block_layer", "blk_mq"]);
    Ok(understood(engine, scheduler, block_layer, tunables))
}

fn understood(
    engine: &str,
    scheduler: &str,
    block_layer: &str,
    tunables: [Option<Result<u64, String>>; 4],
) -> Result<Stack, String> {
    let host = match engine.to_ascii_lowercase().as_str() {
        "" => None,
        "spdk" => Some(Host::Spdk),
        "io_uring_cmd" => Some(Host::IoUringCmd),
        "io_uring" => Some(Host::IoUring),
        _ => return Err(format!("the engine is `{engine}`; spdk, io_uring_cmd and io_uring are modelled")),
    };
    let scheduler = match scheduler.to_ascii_lowercase().replace('_', "-").as_str() {
        "" => None,
        name => {
            let known = SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name);
            let all = || SchedulerKind::ALL.map(SchedulerKind::name).join(", ");
            Some(known.ok_or_else(|| format!("the scheduler is `{scheduler}`; {} are modelled", all()))?)
        }
    };
    let through = match block_layer.to_ascii_lowercase().as_str() {
        "" => None,
        word if YES.contains(&word) => Some(true),
        word if NO.contains(&word) => Some(false),
        _ => return Err(format!("block_layer is `{block_layer}`; write yes or no")),
    };
    let passes_by = matches!(host, Some(Host::Spdk | Host::IoUringCmd));
    let (host, scheduler) = match (passes_by, scheduler, through) {
        (true, Some(kind), _) if kind != SchedulerKind::None => {
            return Err(format!("{engine} passes every scheduler by, and the row names {}", kind.name()));
        }
        (true, _, Some(true)) => return Err(format!("{engine} passes the block layer by, and the row names it")),
        (true, ..) => (host, None),
        (false, Some(kind), Some(false)) if kind != SchedulerKind::None => {
            return Err(format!("there is no {} without the block layer", kind.name()));
        }
        (false, _, Some(false)) if host.is_some() => {
            return Err("io_uring goes through the block layer, and the row names none".to_owned());
        }
        // Without a word on either the table's usual host passes commands through.
        (false, None, None | Some(false)) if host.is_none() => (None, None),
        (false, Some(_), Some(false)) => (None, None),
        (false, kind, _) => (Some(Host::IoUring), Some(kind.unwrap_or(SchedulerKind::None))),
    };
    let [epoch_ms, tokens, concurrency, holds] = tunables;
    let whole = |tunable: Option<Result<u64, String>>| tunable.transpose();
    let zinc = ZincTunables {
        epoch_interval: whole(epoch_ms)?.map(Nanos::from_millis),
        command_tokens: whole(tokens)?,
        minimum_concurrency: whole(concurrency)?,
        maximum_epoch_holds: whole(holds)?.map(|holds| u32::try_from(holds).unwrap_or(u32::MAX)),
    };
    if zinc.epoch_interval == Some(Nanos::ZERO) {
        return Err("an epoch of 0 ms never ends".to_owned());
    }
    let holds_back = matches!(scheduler, Some(SchedulerKind::Zinc | SchedulerKind::ZincLifo));
    if zinc != ZincTunables::default() && !holds_back {
        // A baseline beside rows of ZINC has the columns, too.
        return Ok(Stack { host, scheduler, zinc: ZincTunables::default() });
    }
    Ok(Stack { host, scheduler, zinc })
}
