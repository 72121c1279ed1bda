//! `plumb control … inject`: a fault in words.

use clap::{Args, Subcommand, ValueEnum};
use nvme::Status;
use ssd::faults::{Effect, Fault, Operation, parse_status, status_text};
use units::Nanos;

/// What is to go wrong.
#[derive(Args)]
#[command(after_help = "Examples (each after `plumb control unix:PATH`):
  inject error write-fault --operation write --nth 100 --times 1
  inject error 0/06h --probability 0.01 --seed 3
  inject media 2048+8 --cleared-by-write
  inject delay 5ms --every 1000
  inject latency 2ms --operation flush
  inject read-only
  inject timeout --times 1
  inject lost-flush

A command matches when --operation, --nsid and --lba do. Matching commands are counted from 1:
hit are number --nth and every --every after it, each with --probability, at most --times.")]
pub struct InjectArguments {
    #[command(subcommand)]
    effect: EffectName,
}

#[derive(Subcommand)]
enum EffectName {
    /// Fail with a status, without executing the command
    Error {
        /// The status: write-fault, unrecovered-read-error, ... or type and code, such as 2/81h
        #[arg(default_value = "internal-error", value_parser = parse_status)]
        status: Status,
        /// How long the command takes
        #[arg(long, value_name = "TIME", default_value = "10us")]
        after: Nanos,
        #[command(flatten)]
        hits: Hits,
    },
    /// Blocks cannot be read (Unrecovered Read Error)
    Media {
        /// The blocks: first, or first and number
        #[arg(value_name = "FIRST[+BLOCKS]", value_parser = parse_blocks)]
        blocks: (u64, u64),
        /// Writing a block makes it readable again
        #[arg(long)]
        cleared_by_write: bool,
        /// How long a read that fails takes
        #[arg(long, value_name = "TIME", default_value = "10us")]
        after: Nanos,
        #[command(flatten)]
        hits: Hits,
    },
    /// Commands take so much longer
    Delay {
        /// What is added
        added: Nanos,
        #[command(flatten)]
        hits: Hits,
    },
    /// Commands take at least so long
    Latency {
        /// The least they take
        at_least: Nanos,
        #[command(flatten)]
        hits: Hits,
    },
    /// Changes are refused (Namespace is Write Protected)
    ReadOnly {
        #[command(flatten)]
        hits: Hits,
    },
    /// Commands never complete, until the fault is cleared
    Timeout {
        #[command(flatten)]
        hits: Hits,
    },
    /// Flushes and FUA commit nothing, and say they did
    LostFlush {
        #[command(flatten)]
        hits: Hits,
    },
}

/// Which commands are hit.
#[derive(Args)]
struct Hits {
    /// Only commands of this kind; may be repeated
    #[arg(long, value_enum, value_name = "KIND")]
    operation: Vec<OperationName>,
    /// Only commands of this namespace
    #[arg(long, value_name = "N")]
    nsid: Option<u32>,
    /// Only commands that touch these blocks: first, or first and number
    #[arg(long, value_name = "FIRST[+BLOCKS]", value_parser = parse_blocks)]
    lba: Option<(u64, u64)>,
    /// The first matching command that is hit
    #[arg(long, value_name = "N", default_value_t = 1)]
    nth: u64,
    /// From there on, every N-th
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: u64,
    /// Most commands that are hit [default: no limit]
    #[arg(long, value_name = "N")]
    times: Option<u64>,
    /// With this probability
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    probability: f64,
    /// Which commands the probability picks
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum OperationName {
    Read,
    Write,
    WriteZeroes,
    Flush,
    Deallocate,
    Append,
    ZoneSend,
    ZoneReceive,
}

impl OperationName {
    fn operation(self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::Write => Operation::Write,
            Self::WriteZeroes => Operation::WriteZeroes,
            Self::Flush => Operation::Flush,
            Self::Deallocate => Operation::Deallocate,
            Self::Append => Operation::Append,
            Self::ZoneSend => Operation::ZoneSend,
            Self::ZoneReceive => Operation::ZoneReceive,
        }
    }
}

/// Why two options do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`inject media` names its blocks itself; leave out --lba")]
pub struct TwoRanges;

impl InjectArguments {
    /// The fault in the server's terms, which checks it.
    pub fn fault(&self) -> Result<Fault, TwoRanges> {
        let (effect, blocks, hits) = match &self.effect {
            EffectName::Error { status, after, hits } => (Effect::Error { status: *status, after: *after }, None, hits),
            EffectName::Media { blocks, cleared_by_write, after, hits } => {
                let effect = Effect::Media { cleared_by_write: *cleared_by_write, after: *after };
                (effect, Some(*blocks), hits)
            }
            EffectName::Delay { added, hits } => (Effect::Delay { added: *added }, None, hits),
            EffectName::Latency { at_least, hits } => (Effect::Latency { at_least: *at_least }, None, hits),
            EffectName::ReadOnly { hits } => (Effect::ReadOnly, None, hits),
            EffectName::Timeout { hits } => (Effect::Timeout, None, hits),
            EffectName::LostFlush { hits } => (Effect::LostFlush, None, hits),
        };
        if blocks.is_some() && hits.lba.is_some() {
            return Err(TwoRanges);
        }
        Ok(Fault {
            operations: hits.operation.iter().map(|name| name.operation()).collect(),
            nsid: hits.nsid,
            lbas: blocks.or(hits.lba),
            nth: hits.nth,
            every: hits.every,
            times: hits.times,
            probability: hits.probability,
            seed: hits.seed,
            ..Fault::new(effect)
        })
    }
}

/// Why a text is not a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of blocks; write FIRST or FIRST+BLOCKS, such as 2048+8")]
struct ParseBlocksError(String);

fn parse_blocks(text: &str) -> Result<(u64, u64), ParseBlocksError> {
    let number = |part: &str| part.parse().map_err(|_| ParseBlocksError(text.to_owned()));
    match text.split_once('+') {
        Some((first, blocks)) => Ok((number(first)?, number(blocks)?)),
        None => Ok((number(text)?, 1)),
    }
}

/// A fault on one line.
pub fn describe(fault: &Fault) -> String {
    let mut text = match &fault.effect {
        Effect::Error { status, after } => format!("error {} after {after}", status_text(*status)),
        Effect::Media { cleared_by_write, .. } => {
            format!("media error{}", if *cleared_by_write { " that writes clear" } else { "" })
        }
        Effect::Delay { added } => format!("delay of {added}"),
        Effect::Latency { at_least } => format!("latency of at least {at_least}"),
        Effect::ReadOnly => "read-only".to_owned(),
        Effect::Timeout => "timeout".to_owned(),
        Effect::LostFlush => "lost flush".to_owned(),
    };
    if !fault.operations.is_empty() {
        let name = |operation: &Operation| serde_json::to_value(operation).ok()?.as_str().map(str::to_owned);
        let names: Vec<String> = fault.operations.iter().filter_map(name).collect();
        text.push_str(&format!(", {}", names.join(" and ")));
    }
    if let Some(nsid) = fault.nsid {
        text.push_str(&format!(", namespace {nsid}"));
    }
    if let Some((first, blocks)) = fault.lbas {
        text.push_str(&format!(", blocks {first}+{blocks}"));
    }
    if fault.nth > 1 {
        text.push_str(&format!(", from match {}", fault.nth));
    }
    if fault.every > 1 {
        text.push_str(&format!(", every {}", fault.every));
    }
    if let Some(times) = fault.times {
        text.push_str(&format!(", times {times}"));
    }
    if fault.probability < 1.0 {
        text.push_str(&format!(", probability {} (seed {})", fault.probability, fault.seed));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(parse_blocks("2048+8"), Ok((2048, 8)));
        assert_eq!(parse_blocks("7"), Ok((7, 1)));
        for bad in ["", "+", "1+", "+1", "a", "1-2", "-1"] {
            assert!(parse_blocks(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn faults_in_words() {
        let fault =
            Fault { nth: 3, times: Some(1), operations: vec![Operation::ZoneSend], ..Fault::new(Effect::Timeout) };
        assert_eq!(describe(&fault), "timeout, zone-send, from match 3, times 1");
    }
}
