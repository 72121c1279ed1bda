//! Tables of a victim beside an interferer.

use super::super::case::{Case, Contest, Rate, ResetMode, Stream};
use super::super::csv::{CsvError, Sheet, SheetRow};
use super::super::figure::{Figure, Figures};
use super::super::stack::stack_of;
use super::{Row, TableError, bytes, first, needed, whole};
use crate::interference::{Operation, UnknownOperation};

/// The published interferers (`jobs/job.fio` of each microbenchmark of the
/// artifact): block size and queue depth. One thread each.
pub(super) fn published_interferer(operation: Operation, victim: Operation) -> (u64, u32) {
    match (operation, victim) {
        (Operation::Write, _) => (64 << 10, 1),
        (Operation::Append, Operation::Read) => (4 << 10, 1),
        (Operation::Append, _) => (8 << 10, 8),
        (Operation::Read, _) => (8 << 10, 64),
        (Operation::Reset, _) => (0, 1),
        // One block, after which the zone is finished.
        (Operation::Finish, _) => (4 << 10, 1),
    }
}

/// The interferer's block size as the row has it, or out of its bandwidth and its rate, where the row
/// has both: in whole KiB.
fn interferer_block(sheet: &Sheet, row: &SheetRow) -> Result<Option<u64>, CsvError> {
    if let Some(kib) = sheet.number(row, "interferer_bs_kib")? {
        return Ok(bytes(kib, "interferer_bs_kib").ok());
    }
    let bandwidth = sheet.number(row, "interferer_bw_mib_s")?;
    let rate = sheet.number(row, "interferer_ops_per_s")?;
    Ok(bandwidth.zip(rate).and_then(|(mib_s, rate)| {
        let kib = mib_s * 1024.0 / rate;
        let whole = kib.round();
        ((1.0..=1024.0).contains(&whole) && (kib - whole).abs() < 0.05 * whole).then_some(whole as u64 * 1024)
    }))
}

/// The operation of a name, and whether the host does it itself: `softfinish` is a
/// finish by writes.
pub(super) fn operation_of(name: &str) -> Result<(Operation, bool), String> {
    match name {
        "softfinish" | "soft_finish" => Ok((Operation::Finish, true)),
        _ => name.parse().map(|operation| (operation, false)).map_err(|error: UnknownOperation| error.to_string()),
    }
}

/// Whether the row says beside the operation that finishes are the host's own: `softfinish` in a column of its own.
fn pads(sheet: &Sheet, row: &SheetRow) -> bool {
    let said = ["finish_kind", "finish_method", "method"].map(|column| sheet.text(row, column).to_ascii_lowercase());
    said.iter().any(|text| text.contains("soft"))
}

/// The writes of a softfinish: 1,024 sectors each where nothing is said (the published
/// tool's default).
pub(super) fn padding_bytes(sheet: &Sheet, row: &SheetRow) -> Result<Result<u64, String>, CsvError> {
    for column in ["softfinish_chunk_kib", "chunk_kib"] {
        if let Some(kib) = sheet.number(row, column)? {
            return Ok(bytes(kib, column));
        }
    }
    let sectors = sheet.number(row, "softfinish_chunk")?.unwrap_or(1024.0);
    Ok(bytes(sectors / 2.0, "softfinish_chunk"))
}

/// What `victim_load` counts.
struct Sweep {
    /// Operations in flight of one thread, and not threads.
    depth: bool,
    /// Those of the interferer.
    of_interferer: bool,
}

impl Sweep {
    /// As `victim_load_kind` says: `jobs` or `queue_depth`, with the word for whose they
    /// are where it is not the usual stream: `reset_threads`, `concurrent_resets`,
    /// `interferer_jobs`, `append_queue_depth`.
    fn of(kind: &str, victim: Operation, interferer: Option<Operation>) -> Result<Self, String> {
        let kind = kind.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        let depth = match () {
            // Without a word: writers are jobs, the others one job at a depth.
            () if kind.is_empty() && victim.is_management() => {
                !matches!(interferer, None | Some(Operation::Write | Operation::Reset | Operation::Finish))
            }
            () if kind.is_empty() => victim != Operation::Write,
            () if has(&["depth", "qd"]) => true,
            () if has(&["job", "thread", "concurren", "writer", "reset", "finish"]) => false,
            () => {
                return Err(format!(
                    "victim_load_kind is `{kind}`; known are jobs, threads and queue_depth, with reset_, finish_, \
                     write_, append_, read_, victim_ or interferer_ before it where it is not the usual stream's"
                ));
            }
        };
        let named = [
            (&["reset"][..], Operation::Reset),
            (&["finish"], Operation::Finish),
            (&["append"], Operation::Append),
            (&["writ"], Operation::Write),
            (&["read"], Operation::Read),
        ];
        // `threads` has `read` in it.
        let plain = kind.replace("thread", "");
        let named = named.iter().find(|(words, _)| words.iter().any(|word| plain.contains(word)));
        let disturbs = interferer.is_some_and(|other| !other.is_management());
        let of_interferer = match named {
            _ if has(&["interferer"]) => true,
            _ if has(&["victim"]) => false,
            Some((_, operation)) if victim == *operation => false,
            Some((_, operation)) if interferer == Some(*operation) => true,
            Some((_, operation)) => {
                return Err(format!("victim_load_kind is `{kind}`, and neither stream does {operation}"));
            }
            // Zones are managed by one thread; the load is that of what disturbs it.
            None if has(&["concurren"]) => !victim.is_management(),
            None => victim.is_management() && disturbs,
        };
        Ok(Self { depth, of_interferer })
    }
}

/// The interferer's threads and operations in flight, by `interferer_load` and its kind, where a row has them.
fn interferer_load(load: Option<f64>, kind: &str, interferer: Option<Operation>) -> Result<Option<(u32, u32)>, String> {
    let (Some(load), Some(operation)) = (load, interferer) else { return Ok(None) };
    let load = whole(load, 0.0, "interferer_load")?;
    let kind = kind.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    let is_depth = match () {
        () if kind.is_empty() => !(operation == Operation::Write || operation.is_management()),
        () if has(&["depth", "qd"]) => true,
        () if has(&["job", "thread", "concurren", "writer", "reset", "finish"]) => false,
        () => return Err(format!("interferer_load_kind is `{kind}`; known are jobs, threads and queue_depth")),
    };
    Ok(Some(if is_depth { (1, load) } else { (load, load.min(1)) }))
}

/// I/Os up to which a run is simulated whole.
const WHOLE_RUN_IOS: f64 = 2e6;

/// A row.
pub(super) fn contest(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let (victim, interferer) = (sheet.text(row, "victim"), sheet.text(row, "interferer"));
    // Without a word an interferer has no limit.
    let is_alone = matches!(interferer, "" | "none");
    let rate_pct = sheet.number(row, "interferer_rate_pct")?.unwrap_or(if is_alone { 0.0 } else { 100.0 });
    let disturbing_load = sheet.number(row, "interferer_load")?;
    let load = match disturbing_load.or(sheet.has(&["interferer_load"]).then_some(0.0)) {
        Some(_) => sheet.number(row, "victim_load")?.unwrap_or(1.0),
        None => needed(sheet, row, "victim_load")?,
    };
    let disturbing_kind = sheet.text(row, "interferer_load_kind");
    let (own_limit, pads) = (sheet.number(row, "victim_rate_pct")?, pads(sheet, row));
    let kib = sheet.number(row, "victim_bs_kib")?;
    let chunk_kib = sheet.number(row, "finish_chunk_kib")?;
    let own_rate = |column: &str| sheet.number(row, column);
    let (while_running, over_all) = (own_rate("interferer_iops_mean")?, first(sheet, row, &["interferer_ops_per_s"])?);
    let active = active_part(while_running, over_all);
    let own_block = interferer_block(sheet, row)?;
    let runtime_s = sheet.number(row, "victim_runtime_s")?.filter(|runtime| *runtime > 0.0);
    let rate_of_victim = first(sheet, row, &["victim_iops", "victim_ops_per_s", "victim_iops_mean"])?;
    let stack = stack_of(sheet, row)?;
    let load_kind = sheet.text(row, "victim_load_kind");
    let interferer_threads = first(sheet, row, &["interferer_threads", "interferer_jobs", "concurrent_resets"])?;
    let interferer_depth = first(sheet, row, &["interferer_queue_depth", "interferer_iodepth"])?;
    let padding = padding_bytes(sheet, row)?;
    let streams = || -> Result<Case, String> {
        let (victim, victim_pads) = operation_of(victim).map_err(|error| format!("victim: {error}"))?;
        let victim_pads = victim_pads || pads && victim == Operation::Finish;
        let interferer = match interferer {
            "" | "none" => None,
            name => Some(operation_of(name).map_err(|error| format!("interferer: {error}"))?),
        };
        let interferer =
            interferer.map(|(operation, soft)| (operation, soft || pads && operation == Operation::Finish));
        for (column, percent) in [("interferer_rate_pct", Some(rate_pct)), ("victim_rate_pct", own_limit)] {
            if let Some(percent) = percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
                return Err(format!("{column} is {percent}, not between 0 and 100"));
            }
        }
        let operation = interferer.map(|(operation, _)| operation);
        let disturbing = interferer_load(disturbing_load, disturbing_kind, operation)?;
        let mut sweep = Sweep::of(load_kind, victim, operation)?;
        // Its load is in a column of its own.
        sweep.of_interferer &= disturbing.is_none();
        // No load of the interferer is the victim alone.
        let absent =
            rate_pct == 0.0 || sweep.of_interferer && load == 0.0 || matches!(disturbing, Some((0, _) | (_, 0)));
        // Management that is alone and has a rate is limited itself: what an interferer does at that rate is measured so.
        let own_limit =
            own_limit.or((interferer.is_none() && victim.is_management() && rate_pct > 0.0).then_some(rate_pct));
        let load = whole(load, if sweep.of_interferer { 0.0 } else { 1.0 }, "victim_load")?;
        let (threads, queue_depth) = if sweep.depth { (1, load) } else { (load, 1) };
        let block_bytes = kib.map_or(Ok(8 << 10), |kib| bytes(kib, "victim_bs_kib"))?;
        let padding = padding?;
        let own = if sweep.of_interferer { (1, 1) } else { (threads, queue_depth) };
        let victim_stream = Stream {
            operation: victim,
            block_bytes: if victim.is_management() { published_interferer(victim, victim).0 } else { block_bytes },
            threads: own.0,
            queue_depth: own.1,
            rate: limit(own_limit.unwrap_or(100.0)),
            padding_bytes: victim_pads.then_some(padding),
        };
        let interferer = interferer.filter(|_| !absent).map(|(operation, pads)| -> Result<Stream, String> {
            let (published, published_depth) = published_interferer(operation, victim);
            let managed = operation.is_management();
            // What disturbs zone management has the block size of the row.
            let usual = if victim.is_management() && !managed { block_bytes } else { published };
            let (threads, queue_depth) = match (disturbing, sweep.of_interferer) {
                (Some(disturbing), _) => disturbing,
                (None, true) => (threads, queue_depth),
                (None, false) => (1, if victim.is_management() && !managed { 1 } else { published_depth }),
            };
            Ok(Stream {
                operation,
                block_bytes: own_block.filter(|_| !managed).unwrap_or(usual),
                threads: interferer_threads.map_or(Ok(threads), |threads| whole(threads, 1.0, "interferer_threads"))?,
                queue_depth: interferer_depth
                    .map_or(Ok(queue_depth), |depth| whole(depth, 1.0, "interferer_queue_depth"))?,
                rate: limit(rate_pct),
                padding_bytes: pads.then_some(padding),
            })
        });
        let (victim, interferer) = (victim_stream, interferer.transpose()?);
        let reset = match sheet.text(row, "reset_mode") {
            "" => None,
            "sync" => Some(ResetMode::Sync),
            "lazy" => Some(ResetMode::Lazy),
            other => return Err(format!("reset_mode is `{other}`; known are sync and lazy")),
        };
        let finish_chunk_bytes = chunk_kib.map(|kib| bytes(kib, "finish_chunk_kib")).transpose()?;
        let managed = interferer.is_some_and(|stream| stream.operation.is_management());
        let runtime_s = runtime_s.filter(|_| managed && active >= 1.0);
        let ios = runtime_s.zip(rate_of_victim).map(|(runtime_s, rate)| runtime_s * rate);
        let short = ios.is_some_and(|ios| ios <= WHOLE_RUN_IOS);
        let emulated = sheet.has(&["reset_mode"]) || sheet.has(&["finish_chunk_kib"]);
        let stack = stack?;
        Ok(Case::Contest(Contest {
            victim,
            interferer,
            active,
            runtime_s,
            short,
            emulated,
            reset,
            finish_chunk_bytes,
            stack,
        }))
    };
    let case = streams();
    let mut measured = Figures::default();
    measured.put(Figure::Iops, rate_of_victim);
    for (figure, name) in [
        (Figure::Mean, "victim_lat_mean_us"),
        (Figure::P50, "victim_lat_p50_us"),
        (Figure::P95, "victim_lat_p95_us"),
        (Figure::P99, "victim_lat_p99_us"),
        (Figure::P999, "victim_lat_p999_us"),
        (Figure::InterfererMean, "interferer_lat_mean_us"),
        (Figure::InterfererP95, "interferer_lat_p95_us"),
    ] {
        measured.put(figure, sheet.number(row, name)?);
    }
    measured.put(Figure::InterfererPerS, over_all.map(|rate| rate / active));
    let label = match &case {
        Ok(Case::Contest(contest)) => contest.to_string(),
        _ => format!("{victim} beside {interferer} at {rate_pct} %, load {load}"),
    };
    Ok(Row {
        against: operation_of(interferer).ok().map(|(operation, _)| operation),
        ..Row::new(row.line, label, case, measured)
    })
}

/// A limit in per cent of the peak.
fn limit(percent: f64) -> Rate {
    if percent >= 100.0 { Rate::Unlimited } else { Rate::PercentOfPeak(percent) }
}

/// The part of the time that an interferer ran: its rate over the whole run by
/// its rate while it ran. fio skips half seconds without an operation in the
/// latter, so that it tells nothing of streams below four operations a second.
fn active_part(while_running: Option<f64>, over_all: Option<f64>) -> f64 {
    match (while_running, over_all) {
        (Some(running), Some(over_all)) if running >= 4.0 && over_all > 0.0 && over_all < 0.9 * running => {
            over_all / running
        }
        _ => 1.0,
    }
}
