//! `plumb validate --data`: tables recognised by their columns, every kind of
//! row simulated on a small device.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::Quiet;
use lab::device::{Described, describe};
use lab::validate::{
    Case, Figure, Host, JudgeOptions, Kind, Occupancy, Rate, Sheet, Table, TableError, Verdict, errors_table, judge,
    page, read_tables, recognise,
};
use proptest::prelude::*;

/// Zones of 4 MiB on four dies, quick enough for a test.
const TINY: &str = r#"
name = "tiny"
kind = "zoned"
model = "Tiny"
lba = "4KiB"
max_transfer = "256KiB"
namespaces = [32]

[zone]
size = "4MiB"
capacity = "3MiB"
max_open = 6
max_active = 6
append_limit = "128KiB"

[geometry]
channels = 4
ways = 1
planes = 1
page = "16KiB"
pages_per_block = 48

[stripe]
channels = 4
ways = 1
unit = "16KiB"
order = "channel-first"

[cell]
read = "60us"
program = "700us"
erase = "3500us"

[channel]
bandwidth = "655360000"
whole_pages = true
booking = "at-command"

[controller]
processors = 1

[link]
bandwidth = "1TB"
queues = 64
queue_depth = 1023

[management]
reset = "partial"
mapping = "static"
finish = "chunked"
finish_chunk = "256KiB"
append = "at-write-pointer"
"#;

fn tiny() -> Described {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.toml"), TINY).unwrap();
    describe("tiny.toml", folder.path(), &[]).unwrap()
}

fn table(text: &str) -> Table {
    recognise(&Sheet::parse("some.csv", text.as_bytes()).unwrap()).unwrap()
}

fn judged(tables: &[Table]) -> Verdict {
    let stop = AtomicBool::new(false);
    judge(&tiny(), tables, &JudgeOptions { host: Some(Host::None), threads: 2, observer: &Quiet, stop: &stop }).unwrap()
}

/// Figure of a row, modelled.
fn modelled(verdict: &Verdict, table: usize, row: usize, figure: Figure) -> f64 {
    let row = &verdict.tables[table].rows[row];
    let found = row.figures.iter().find(|verdict| verdict.figure == figure);
    found.unwrap_or_else(|| panic!("{}: no {figure}: {:?}", row.label, row.not_simulated)).modelled
}

fn near(value: f64, wanted: f64, part: f64) {
    assert!((value - wanted).abs() <= part * wanted, "{value} is not within {part} of {wanted}");
}

const OPERATIONS: &str = "run,pass,op,zone_index,occupancy_lba,occupancy_fraction,latency_us
r,1,reset,0,768,1,3500
r,1,finish,1,0,0,25
r,1,reset,1,768,1,3700
r,1,finish,1,1,0.00130208,33000
r,1,reset_after_finish,1,1,0.00130208,3500
";
const STATES: &str = "latency_us,op,zone_index
11,close_after_implicit_open,0
11,close_after_explicit_open,0
735,write_after_close_implicit_open,0
735,write_after_close_explicit_open,0
9,explicit_open,0
5,levitate,0
";
const SUMMARY: &str = "n,latency_mean_us,op,occupancy_lba\n20,3500,reset,768\n20,3500,reset,769\n";
const LOAD: &str = "op,block_size_kib,concurrent_zones,queue_depth,iops,lat_mean_us,clat_p95_us
write,16,1,1,1379,725,725
append,16,2,2,5000,800,
randread,16,1,1,11765,85,85
randread,16,1,1,11765,85,85
write,16,7,1,5000,1225,1225
write,3,1,1,5000,1225,1225
scribble,16,1,1,1,1,1
";
const CONTEST: &str = "victim,interferer,victim_load_kind,victim_load,interferer_rate_pct,victim_bs_kib,victim_iops,victim_lat_p95_us,interferer_ops_per_s
write,reset,jobs,2,0,16,2758,725,
write,reset,jobs,2,50,16,2500,725,100
write,finish,jobs,2,50,16,2500,725,1
append,finish,queue_depth,2,100,16,2500,725,1
read,reset,queue_depth,4,50,16,20000,85,1
read,append,queue_depth,4,25,16,20000,85,1
reset,write,jobs,2,100,16,100,9000,1
finish,read,queue_depth,2,100,16,10,9000,1
write,write,jobs,9,50,16,2500,725,1
";
const ALONE: &str = "op,condition,ops_per_s\nreset,full zones,270\nfinish,one block,30\n";
const TERMS: &str = include_str!("data/zn540/z_inter_worked_example.csv");

#[test]
fn tables_are_known_by_their_columns_alone() {
    let kinds = [OPERATIONS, STATES, SUMMARY, LOAD, CONTEST, ALONE, TERMS].map(|text| table(text).kind);
    use Kind::{Alone, Contest, Load, OperationSummary, Operations, ZTerms};
    assert_eq!(kinds, [Operations, Operations, OperationSummary, Load, Contest, Alone, ZTerms]);

    // Columns in another order, in capitals, and further ones change nothing.
    let shuffled = |text: &str| -> String {
        let turned = text.lines().enumerate().map(|(line, row)| {
            let mut cells: Vec<&str> = row.split(',').collect();
            cells.reverse();
            let extra = if line == 0 { "Remark" } else { "\"a, b\"" };
            format!("{extra},{}", cells.join(","))
        });
        let mut lines: Vec<String> = turned.collect();
        lines[0] = lines[0].to_uppercase();
        lines.join("\r\n")
    };
    for text in [OPERATIONS, STATES, SUMMARY, LOAD, CONTEST, ALONE, TERMS] {
        assert_eq!(table(&shuffled(text)), table(text));
    }

    let error = recognise(&Sheet::parse("odd.csv", b"op,colour\nwrite,red\n").unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("odd.csv") && error.contains("the columns op, colour") && error.contains("queue_depth"));
    let error = recognise(&Sheet::parse("t.csv", b"op,latency_us\nreset,\n").unwrap()).unwrap_err();
    assert!(matches!(error, TableError::Missing { line: 2, column: "latency_us", .. }), "{error}");
}

#[test]
fn rows_say_what_they_mean() {
    let operations = table(OPERATIONS);
    assert_eq!(operations.rows.len(), 4, "equal conditions are one row");
    let Ok(Case::Timed(reset)) = operations.rows[0].case else { panic!("{:?}", operations.rows[0]) };
    assert_eq!((reset.occupancy, reset.times), (Occupancy::Fraction(1.0), 2));
    assert_eq!(operations.rows[0].measured.get(Figure::Mean), Some(3600.0));

    let contests = table(CONTEST);
    let contest = |row: usize| match &contests.rows[row].case {
        Ok(Case::Contest(contest)) => *contest,
        other => panic!("{other:?}"),
    };
    assert!(contest(0).interferer.is_none(), "at 0 % nothing runs beside it");
    assert_eq!(contest(1).interferer.unwrap().rate, Rate::PercentOfPeak(50.0));
    assert_eq!(contest(3).interferer.unwrap().rate, Rate::Unlimited);
    assert_eq!((contest(3).victim.threads, contest(3).victim.queue_depth), (1, 2));
    // Where zone management is the victim, the load is what disturbs it.
    let managed = contest(6);
    assert_eq!((managed.victim.threads, managed.interferer.unwrap().threads), (1, 2));
}

/// Loads of the interferer in columns of their own; finishes by the host; management that is alone and limited.
const MANAGEMENT: &str = "victim,interferer,interferer_load_kind,interferer_load,interferer_rate_pct,interferer_bs_kib,victim_ops_per_s,finish_kind,chunk_kib
reset,none,,,0,,270,,
reset,write,jobs,2,100,16,200,,
reset,read,queue_depth,4,100,16,200,,
reset,write,jobs,0,100,16,270,,
reset,none,,,50,,135,,
finish,none,,,0,,1,softfinish,16
write,finish,jobs,1,,16,2500,softfinish,16
reset,write,colours,2,100,16,200,,
";

#[test]
fn management_beside_loads_of_others_and_alone_at_a_limit() {
    let management = table(MANAGEMENT);
    assert_eq!(management.kind, Kind::Contest);
    let contest = |row: usize| match &management.rows[row].case {
        Ok(Case::Contest(contest)) => *contest,
        other => panic!("{row}: {other:?}"),
    };
    let load =
        |row: usize| contest(row).interferer.map(|stream| (stream.threads, stream.queue_depth, stream.block_bytes));
    let loads: Vec<_> = (0..5).map(load).collect();
    assert_eq!(loads, [None, Some((2, 1, 16 << 10)), Some((1, 4, 16 << 10)), None, None]);
    assert_eq!(contest(4).victim.rate, Rate::PercentOfPeak(50.0));
    assert_eq!(contest(5).victim.padding_bytes, Some(16 << 10));
    let disturbs = contest(6).interferer.unwrap();
    assert_eq!((disturbs.padding_bytes, disturbs.rate), (Some(16 << 10), Rate::Unlimited), "nothing said is no limit");
    assert!(management.rows[7].case.as_ref().unwrap_err().contains("interferer_load_kind is `colours`"));

    let verdict = judged(&[management]);
    let rate = |row| modelled(&verdict, 0, row, Figure::Iops);
    // A whole zone is erased in 3.5 ms; at 50 % of what this table has without a limit there are half as many.
    near(rate(0), 1e6 / 3500.0, 0.05);
    near(rate(4), 135.0, 0.05);
    assert!(rate(1) < rate(0) && rate(5) > 0.0);
    assert_eq!(table("op,ops_per_s\nsoftfinish,1\n").kind, Kind::Alone);
}

#[test]
fn every_kind_of_row_is_simulated() {
    let tables = [OPERATIONS, STATES, SUMMARY, LOAD, CONTEST, ALONE, TERMS].map(table);
    let verdict = judged(&tables);
    let of = |table, row, figure| modelled(&verdict, table, row, figure);
    // One block a die is a whole zone: 3.5 ms. A finish of an empty zone is one transfer.
    near(of(0, 0, Figure::Mean), 3500.0, 0.01);
    near(of(0, 1, Figure::Mean), 25.0, 0.05);
    // 192 pages on four dies, all but the first: 47 or 48 programs each, and transfers.
    near(of(0, 2, Figure::Mean), 48.0 * 700.0, 0.05);
    // 16 KiB: transfer and program; reads: sense and transfer.
    near(of(3, 0, Figure::Iops), 1e6 / 725.0, 0.01);
    near(of(3, 0, Figure::Mean), 725.0, 0.01);
    near(of(3, 1, Figure::Iops), 4.0 / 725e-6, 0.05);
    near(of(3, 2, Figure::Iops), 1e6 / 85.0, 0.01);
    // Without resets, and with: 25 % of the time at 50 % of a reset's 270/s is lost.
    near(of(4, 0, Figure::Iops), 2.0 / 725e-6, 0.02);
    assert!(of(4, 1, Figure::Iops) < 0.8 * of(4, 0, Figure::Iops));
    near(of(4, 1, Figure::InterfererPerS), 135.0, 0.1);
    for row in 2..8 {
        assert!(of(4, row, Figure::Iops) > 0.0);
    }
    near(of(5, 0, Figure::Iops), 1e6 / 3500.0, 0.05);

    // What cannot be simulated is named, with the reason.
    let reason = |table: usize, row: usize| verdict.tables[table].rows[row].not_simulated.clone().unwrap();
    assert!(reason(1, 5).contains("`levitate` is no operation"));
    assert!(reason(2, 1).contains("769 blocks are more than a zone's capacity"));
    assert!(reason(3, 4).contains("the device lets 6 be open"));
    assert!(reason(3, 5).contains("no multiple of the logical block"));
    assert!(reason(3, 6).contains("`scribble`"));
    assert!(reason(4, 8).contains("10 zones are written at once"));

    // Summaries: over both sides' figures of the rows of a part.
    let summary = verdict.tables[3].summary.iter().find(|summary| summary.figure == Figure::Iops).unwrap();
    assert!(summary.judged && summary.rows == 4 && summary.median <= summary.p90 && summary.p90 <= summary.worst);
    // Z of the terms is that of their inputs.
    let terms = &verdict.tables[6].z;
    assert_eq!(terms.len(), 7);
    assert!(terms.iter().all(|z| (z.measured - z.modelled).abs() < 1e-6));
    // The table of contests has one baseline and its disturbed row.
    assert_eq!(verdict.tables[4].z.len(), 1);
    assert_eq!(verdict.tables[4].z[0].loads, [2]);

    let html = page(&verdict, &tiny());
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    assert!(roxmltree::Document::parse_with_options(&html, options).is_ok(), "the page is well-formed");
    assert!(html.contains("levitate") && html.contains("Finish by occupancy: mean latency"));
    // What the user measured is nobody's publication.
    assert!(html.contains("<i></i>measured</span>") && !html.contains("<i></i>published</span>"));
    let kept = errors_table(&verdict);
    assert!(kept.rows.len() > 20 && kept.columns.len() == 11);
}

#[test]
fn equal_runs_are_equal() {
    let tables = [table(LOAD), table(CONTEST)];
    let stop = AtomicBool::new(false);
    let device = tiny();
    let run = |threads| {
        let options = JudgeOptions { host: None, threads, observer: &Quiet, stop: &stop };
        judge(&device, &tables, &options).unwrap()
    };
    assert_eq!(run(1), run(3));
    // A set flag ends it without a result.
    let stop = AtomicBool::new(true);
    assert!(judge(&device, &tables, &JudgeOptions { host: None, threads: 2, observer: &Quiet, stop: &stop }).is_none());
}

#[test]
fn folders_of_tables() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().to_owned()];
    assert!(read_tables(&paths).unwrap_err().to_string().contains("holds no .csv"));
    fs::write(folder.path().join("b.csv"), LOAD).unwrap();
    fs::write(folder.path().join("a.CSV"), ALONE).unwrap();
    fs::write(folder.path().join("README.md"), "not a table").unwrap();
    let kinds: Vec<Kind> = read_tables(&paths).unwrap().iter().map(|table| table.kind).collect();
    assert_eq!(kinds, [Kind::Alone, Kind::Load]);
    fs::write(folder.path().join("c.csv"), "x,y\n1,2\n").unwrap();
    assert!(read_tables(&paths).unwrap_err().to_string().contains("c.csv"));
    assert!(read_tables(&[Path::new("/no/such.csv").to_owned()]).unwrap_err().to_string().contains("/no/such.csv"));
}

proptest! {
    /// Whatever the bytes, there is a table or an error that names the file,
    /// and each row has a case or a reason.
    #[test]
    fn any_table(
        from in 0usize..600, to in 0usize..600, junk in "[ -~\n\",é]{0,40}",
        which in 0usize..7,
    ) {
        let text = [OPERATIONS, STATES, SUMMARY, LOAD, CONTEST, ALONE, TERMS][which];
        let mut bytes = text.as_bytes().to_vec();
        let (from, to) = (from.min(bytes.len()), to.min(bytes.len()));
        bytes.splice(from.min(to)..from.max(to), junk.bytes());
        let table = Sheet::parse("some.csv", &bytes).map_err(TableError::from).and_then(|sheet| recognise(&sheet));
        match table {
            Ok(table) => prop_assert!(table.rows.iter().all(|row| row.case.as_ref().err().is_none_or(|why| !why.is_empty()))),
            Err(error) => prop_assert!(error.to_string().starts_with("some.csv"), "{}", error),
        }
    }
}

/// What 100 % of an interferer means is said by a table's own campaign, whatever lies beside it.
#[test]
fn campaigns_side_by_side_leave_each_other_alone() {
    let campaign = |resets_per_s: u32| {
        let columns = "victim,interferer,victim_load_kind,victim_load,interferer_rate_pct,victim_bs_kib,victim_iops,\
                       victim_lat_p95_us,interferer_ops_per_s";
        table(&format!("{columns}\nwrite,reset,jobs,4,50,16,5000,725,{resets_per_s}\n"))
    };
    let (slow, fast) = (campaign(10), campaign(40));
    let both = judged(&[slow.clone(), fast.clone()]);
    assert_eq!(both.tables[0], judged(&[slow]).tables[0]);
    assert_eq!(both.tables[1], judged(&[fast]).tables[0]);
    let resets = [0, 1].map(|index| modelled(&both, index, 0, Figure::InterfererPerS));
    assert!(resets[0] * 2.0 < resets[1], "{resets:?}");
}

const SOFTWARE: &str = "victim,interferer,victim_load_kind,victim_load,interferer_rate_pct,victim_bs_kib,engine,io_scheduler,block_layer,epoch_interval_ms,command_tokens,victim_iops,victim_lat_p95_us,interferer_ops_per_s
write,reset,jobs,4,0,16,io_uring,mq-deadline,,,,5000,725,
write,reset,jobs,4,100,16,io_uring,mq-deadline,,,,5000,725,10
write,reset,jobs,4,100,16,io_uring,zinc,,64,20000,5000,725,10
write,reset,jobs,4,100,16,,zinc,,64,20000,5000,725,10
write,reset,jobs,4,100,16,io_uring_cmd,none,,,,5000,725,10
write,reset,jobs,4,0,16,,,yes,,,5000,725,
write,reset,jobs,4,100,16,io_uring_cmd,zinc,,,,5000,725,10
write,reset,jobs,4,100,16,libaio,,,,,5000,725,10
write,reset,jobs,4,100,16,,bfq,,,,5000,725,10
write,reset,jobs,4,100,16,spdk,,yes,,,5000,725,10
write,reset,jobs,4,100,16,io_uring,zinc,,0,,5000,725,10
";

/// A row that names a scheduler or an engine is simulated with it, or says why not.
#[test]
fn software_that_a_row_names_is_there() {
    let table = table(SOFTWARE);
    let verdict = judged(std::slice::from_ref(&table));
    let at = |row: usize, figure| modelled(&verdict, 0, row, figure);
    // ZINC holds resets back, which mq-deadline and passthrough do not.
    let resets = [1, 2, 3, 4].map(|row| at(row, Figure::InterfererPerS));
    assert!(resets[1] < resets[0] / 2.0 && resets[2] == resets[1] && resets[3] > resets[1] * 2.0, "{resets:?}");
    assert!(at(2, Figure::Iops) > at(1, Figure::Iops));
    near(at(5, Figure::Iops), at(0, Figure::Iops), 0.02);
    let reasons: Vec<&str> = verdict.tables[0].rows.iter().filter_map(|row| row.not_simulated.as_deref()).collect();
    for (reason, words) in
        reasons.iter().zip(["passes every scheduler by", "`libaio`", "`bfq`", "block layer by", "0 ms"])
    {
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(reasons.len(), 5);
    let label = &table.rows[2].label;
    assert!(label.ends_with(", io_uring, zinc epoch 64ms tokens 20000"), "{label}");
}

const LOADS: &str = "victim,interferer,victim_load_kind,victim_load,interferer_rate_pct,victim_bs_kib,softfinish_chunk_kib,victim_iops,victim_lat_p95_us,interferer_ops_per_s
write,reset,concurrent_resets,3,100,16,,2500,725,10
reset,write,reset_threads,3,100,16,,100,9000,1
reset,write,concurrent_resets,2,0,16,,100,9000,
reset,read,queue_depth,0,100,16,,100,9000,
reset,append,append_queue_depth,2,100,16,,100,9000,1
write,softfinish,jobs,2,100,16,256,2500,725,1
softfinish,none,jobs,1,0,16,128,3,300000,
finish,softfinish,jobs,1,50,16,128,3,300000,1
write,reset,finish_threads,2,100,16,,2500,725,10
write,reset,moons,2,100,16,,2500,725,10
";

/// Loads of several resets at once, management as the victim, and finishes by writes.
#[test]
fn every_kind_of_load_is_simulated() {
    let table = table(LOADS);
    let contest = |row: usize| match &table.rows[row].case {
        Ok(Case::Contest(contest)) => *contest,
        other => panic!("{other:?}"),
    };
    let threads = |row: usize| (contest(row).victim.threads, contest(row).interferer.map(|stream| stream.threads));
    assert_eq!([0, 1, 2, 3, 4].map(threads), [(1, Some(3)), (3, Some(1)), (2, None), (1, None), (1, Some(1))]);
    assert_eq!(contest(4).interferer.unwrap().queue_depth, 2);
    assert_eq!(contest(5).interferer.unwrap().padding_bytes, Some(256 << 10));
    let verdict = judged(std::slice::from_ref(&table));
    for row in 0..8 {
        assert!(modelled(&verdict, 0, row, Figure::Iops) > 0.0);
    }
    // A zone of 3 MiB in writes of 128 KiB, one after another: behind the first block of 4 KiB each touches nine
    // pages, so one of the four dies programs three times, 2.1 ms; a transfer, and the rest after it.
    let softfinishes_per_s = modelled(&verdict, 0, 6, Figure::Iops);
    near(softfinishes_per_s, 1.0 / (24.0 * 2.175e-3), 0.05);
    let reasons: Vec<&str> = verdict.tables[0].rows.iter().filter_map(|row| row.not_simulated.as_deref()).collect();
    assert_eq!(reasons.len(), 2);
    assert!(reasons[0].contains("neither stream does finish") && reasons[1].contains("`moons`"), "{reasons:?}");
}

/// What an interferer was limited to follows from the rows in which it kept up.
#[test]
fn limits_that_no_table_tells_follow_from_the_rows() {
    let rows = "victim,interferer,victim_load_kind,victim_load,interferer_rate_pct,victim_bs_kib,victim_iops,victim_lat_p95_us,interferer_ops_per_s
read,append,queue_depth,1,10,16,10000,85,120
read,append,queue_depth,1,50,16,10000,85,600
";
    let verdict = judged(&[table(rows)]);
    near(modelled(&verdict, 0, 0, Figure::InterfererPerS), 120.0, 0.05);
    near(modelled(&verdict, 0, 1, Figure::InterfererPerS), 600.0, 0.05);
}
