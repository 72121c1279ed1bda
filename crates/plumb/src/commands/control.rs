//! `plumb control`: what to do with a device that is being served.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use serve::Survival;
use serve::control::{Client, ClientError, Request, Status, ZoneEventKind, ZonePage};
use ssd::faults::{FaultId, FaultReport};
use units::Nanos;

use super::Done;
use super::control_inject::{InjectArguments, describe};
use crate::failure::Failure;
use crate::terminal::print_table;
use crate::watch::bytes;

/// Where the control socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlAddress(pub PathBuf);

/// Why a text is no address of a control socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a control socket's address; write unix:PATH")]
pub struct ParseControlAddressError(String);

impl FromStr for ControlAddress {
    type Err = ParseControlAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self(path.into())),
            _ => Err(ParseControlAddressError(text.to_owned())),
        }
    }
}

/// Which device and what to do.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb serve --device samsung-980pro-1tb --nbd unix:/tmp/plumb.sock --control unix:/tmp/plumb.control
  plumb control unix:/tmp/plumb.control status
  plumb control unix:/tmp/plumb.control watch
  plumb control unix:/tmp/plumb.control power-cut --survive random --seed 7 --off
  plumb control unix:/tmp/plumb.control power-on
  plumb control unix:/tmp/plumb.control inject error write-fault --operation write --nth 100 --times 1
  plumb control unix:/tmp/plumb.control inject media 2048+8 --cleared-by-write
  plumb control unix:/tmp/plumb.control clear
  plumb control unix:/tmp/plumb.control zone-event 5 offline

docs/control.md has the requests and replies for programs.")]
pub struct ControlArguments {
    /// The address given to `plumb serve --control`
    #[arg(value_name = "unix:PATH")]
    address: ControlAddress,
    /// Print the server's reply as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Show how things stand: requests, latencies, cache, garbage collection, zones
    Status,
    /// Show the same on a screen that refreshes (q quits)
    Watch(WatchArguments),
    /// Cut the device's power
    PowerCut(PowerCutArguments),
    /// Give the device its power back
    PowerOn,
    /// Have commands fail, wait or lie
    Inject(InjectArguments),
    /// List the faults in force
    Faults,
    /// Take back a fault, or all of them
    Clear {
        /// Its number in `faults`
        id: Option<u32>,
    },
    /// List zones
    Zones {
        /// First zone
        #[arg(default_value_t = 0)]
        from: u32,
        /// Most zones
        #[arg(default_value_t = 64)]
        count: u32,
        /// Namespace
        #[arg(long, default_value_t = 1)]
        nsid: u32,
    },
    /// Have the controller change a zone; hosts that asked for it are told
    ZoneEvent {
        /// The zone's number
        zone: u32,
        /// What happens to it
        event: ZoneEventName,
        /// Namespace
        #[arg(long, default_value_t = 1)]
        nsid: u32,
    },
    /// End serving, as Ctrl-C does
    Stop,
}

/// How often to look.
#[derive(Args)]
pub struct WatchArguments {
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub interval: Nanos,
}

#[derive(Args)]
struct PowerCutArguments {
    /// Which writes survive of those that may or may not
    #[arg(long, value_enum, default_value = "none")]
    survive: SurvivalName,
    /// For random: which choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// For prefix: how many of the oldest writes survive
    #[arg(long, value_name = "N", default_value_t = 0)]
    writes: u64,
    /// Leave the power off until `power-on`
    #[arg(long)]
    off: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SurvivalName {
    /// The cache is lost
    None,
    /// Everything reached the media
    All,
    /// Each write or not, by --seed
    Random,
    /// The oldest --writes
    Prefix,
}

#[derive(Clone, Copy, ValueEnum)]
enum ZoneEventName {
    /// It can only be read from now on
    ReadOnly,
    /// It is lost
    Offline,
    /// The controller finishes it
    Finished,
    /// Finish Zone Recommended
    FinishRecommended,
    /// Reset Zone Recommended
    ResetRecommended,
}

impl Word {
    /// What it asks of the server; `None` for the screen, which asks again and again.
    fn request(&self) -> Result<Option<Request>, Failure> {
        Ok(Some(match self {
            Self::Watch(_) => return Ok(None),
            Self::Status => Request::Status,
            Self::PowerCut(PowerCutArguments { survive, seed, writes, off }) => {
                let survive = match survive {
                    SurvivalName::None => Survival::None,
                    SurvivalName::All => Survival::All,
                    SurvivalName::Random => Survival::Random { seed: *seed },
                    SurvivalName::Prefix => Survival::Prefix { writes: *writes },
                };
                Request::PowerCut { survive, off: *off }
            }
            Self::PowerOn => Request::PowerOn,
            Self::Inject(arguments) => Request::Inject { fault: arguments.fault().map_err(Failure::input)? },
            Self::Faults => Request::Faults,
            Self::Clear { id } => Request::Clear { id: id.map(FaultId) },
            Self::Zones { from, count, nsid } => Request::Zones { nsid: *nsid, from: *from, count: *count },
            Self::ZoneEvent { zone, event, nsid } => {
                let event = match event {
                    ZoneEventName::ReadOnly => ZoneEventKind::ReadOnly,
                    ZoneEventName::Offline => ZoneEventKind::Offline,
                    ZoneEventName::Finished => ZoneEventKind::Finished,
                    ZoneEventName::FinishRecommended => ZoneEventKind::FinishRecommended,
                    ZoneEventName::ResetRecommended => ZoneEventKind::ResetRecommended,
                };
                Request::ZoneEvent { nsid: *nsid, zone: *zone, event }
            }
            Self::Stop => Request::Stop,
        }))
    }
}

/// Asks the server, and shows its answer.
pub fn control(arguments: &ControlArguments) -> Done {
    let failed = |error: ClientError| Failure::Machine(error.to_string());
    let request = arguments.word.request()?;
    let mut client = Client::connect(&arguments.address.0).map_err(failed)?;
    let Some(request) = request else {
        let Word::Watch(watch) = &arguments.word else { return Ok(ExitCode::SUCCESS) };
        return crate::watch::watch(client, watch.interval);
    };
    let result: Value = client.ask(&request).map_err(failed)?;
    if arguments.json {
        println!("{result}");
        return Ok(ExitCode::SUCCESS);
    }
    show(&request, result).map_err(|error| failed(ClientError::Reply(error)))?;
    Ok(ExitCode::SUCCESS)
}

fn show(request: &Request, result: Value) -> serde_json::Result<()> {
    match request {
        Request::Status => show_status(&serde_json::from_value(result)?),
        Request::Faults => show_faults(&serde_json::from_value::<Vec<FaultReport>>(result)?),
        Request::Zones { .. } => {
            let page: ZonePage = serde_json::from_value(result)?;
            let row = |zone: &serve::control::ZoneEntry| {
                let written = format!("{:.1}%", share(zone.written_blocks, page.capacity_blocks));
                vec![zone.zone.to_string(), zone.state.clone(), zone.written_blocks.to_string(), written]
            };
            print_table(&["zone", "state", "blocks", "written"], &page.zones.iter().map(row).collect::<Vec<_>>());
            println!("{} of {} zones", page.zones.len(), page.total);
        }
        Request::PowerCut { off, .. } => {
            let loss: serve::PowerLoss = serde_json::from_value(result)?;
            println!(
                "power cut: {} requests orphaned, {} of {} undecided writes survived; power is {}",
                loss.orphans,
                loss.survived,
                loss.undecided,
                if *off { "off" } else { "back" }
            );
        }
        Request::Inject { fault } => {
            println!("fault {}: {}", result.get("id").unwrap_or(&json!(null)), describe(fault));
        }
        Request::Clear { .. } => println!("faults cleared: {}", result.get("cleared").unwrap_or(&json!(0))),
        Request::PowerOn => println!("the power is on"),
        Request::ZoneEvent { zone, .. } => println!("zone {zone} changed"),
        Request::Stop => println!("the server stops"),
    }
    Ok(())
}

fn show_faults(faults: &[FaultReport]) {
    if faults.is_empty() {
        println!("no fault is in force");
        return;
    }
    let row = |fault: &FaultReport| {
        let bad = fault.bad_blocks.map_or(String::new(), |blocks| format!("; {blocks} blocks left"));
        let what = format!("{}{bad}", describe(&fault.fault));
        vec![fault.id.0.to_string(), fault.matched.to_string(), fault.hits.to_string(), what]
    };
    print_table(&["id", "matched", "hits", "fault"], &faults.iter().map(row).collect::<Vec<_>>());
}

/// `part` of `whole` in percent.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// A latency as people read it.
pub fn time(ns: i64) -> String {
    Nanos(u64::try_from(ns).unwrap_or(0)).to_string().replace("us", "µs")
}

fn show_status(status: &Status) {
    let line = |name: &str, text: String| println!("{name:<20}{text}");
    let power = if status.powered { "on" } else { "OFF" };
    line("device", format!("{}, power {power}, served for {:.1} s", status.model, status.elapsed_ns as f64 / 1e9));
    for namespace in &status.namespaces {
        let zones = if namespace.zones > 0 { format!(", {} zones", namespace.zones) } else { String::new() };
        let size = bytes(namespace.bytes as f64);
        line("namespace", format!("{}: {size}, blocks of {} bytes{zones}", namespace.nsid, namespace.lba_bytes));
    }
    let clients = status.clients;
    line("clients", format!("{} now, {} so far, {} dropped", clients.connected, clients.accepted, clients.dropped));
    line(
        "requests",
        format!(
            "{} ({} reads of {}, {} writes of {}), {} outstanding, {} errors",
            status.requests,
            status.reads,
            bytes(status.read_bytes as f64),
            status.writes,
            bytes(status.written_bytes as f64),
            status.outstanding,
            status.errors
        ),
    );
    for queue in &status.queues {
        line("queue", format!("{}: {} commands, {} waiting", queue.queue, queue.outstanding, queue.waiting));
    }
    let served = status.recent.served_ns;
    line(
        "last second",
        format!(
            "{} requests, latency p50 {}, p99 {}, p99.9 {}",
            status.recent.requests,
            time(served.p50),
            time(served.p99),
            time(served.p999)
        ),
    );
    if let Some(cache) = status.live.write_cache {
        let kept = if cache.power_loss_protected { ", power-loss protected" } else { "" };
        let percent = share(cache.dirty_bytes, cache.capacity_bytes);
        let (dirty, capacity) = (bytes(cache.dirty_bytes as f64), bytes(cache.capacity_bytes as f64));
        line("write cache", format!("{dirty} of {capacity} dirty ({percent:.1}%){kept}"));
    }
    if let Some(gc) = status.live.garbage_collection {
        let state = if gc.collecting_dies == 0 {
            "not running".to_owned()
        } else {
            format!("running on {} of {} dies", gc.collecting_dies, gc.total_dies)
        };
        let (free, all, moved) = (gc.free_blocks, gc.total_blocks, bytes(gc.moved_bytes as f64));
        line("garbage collection", format!("{state}; {free} of {all} blocks free, {moved} moved"));
    }
    for zones in &status.live.zones {
        let limit = |limit: Option<u32>| limit.map_or("no limit".to_owned(), |limit| limit.to_string());
        line(
            "zones",
            format!(
                "namespace {}: {} empty, {} open (of {}), {} active (of {}), {} full, {} read-only, {} offline",
                zones.nsid,
                zones.empty,
                zones.open(),
                limit(zones.max_open),
                zones.active(),
                limit(zones.max_active),
                zones.full,
                zones.read_only,
                zones.offline
            ),
        );
    }
    if status.memory_bytes > 0 {
        let limit = status.memory_limit_bytes.map_or("no limit".to_owned(), |limit| bytes(limit as f64));
        line("memory", format!("{} for contents (of {limit})", bytes(status.memory_bytes as f64)));
    }
    if status.faults > 0 {
        line("faults", format!("{} in force, {} commands hit", status.faults, status.fault_hits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("unix:/a:b".parse(), Ok(ControlAddress("/a:b".into())));
        for bad in ["", "unix:", "/a", "tcp:1"] {
            assert!(bad.parse::<ControlAddress>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn shares_of_nothing() {
        assert_eq!(share(0, 0), 0.0);
        assert_eq!(share(1, 4), 25.0);
        assert_eq!(time(-5), "0ns");
    }
}
