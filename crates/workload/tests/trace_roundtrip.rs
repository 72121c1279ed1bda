//! Traces of every format, made up, written and read back; and noise.

use block::BioFlags;
use proptest::prelude::*;
use units::Nanos;
use workload::replay::{BlkAction, IologVersion, IologWriter, ReadOptions, Record, TraceFormat, TraceOp, TraceReader};

fn read(text: &[u8], options: &ReadOptions) -> Vec<Record> {
    TraceReader::new("sample", text, options).unwrap().map(Result::unwrap).collect()
}

/// What of a record all formats hold: time since the first, operation, range.
fn essence(records: &[Record]) -> Vec<(u64, TraceOp, u64, u64)> {
    let first = records.first().map_or(Nanos::ZERO, |record| record.at);
    records.iter().map(|record| (record.at.since(first).0, record.op, record.offset, record.bytes)).collect()
}

/// Ascending times in multiples of `tick_ns`, whole sectors.
fn records(tick_ns: u64, ops: &'static [TraceOp]) -> impl Strategy<Value = Vec<Record>> {
    let one = (0_u64..5_000_000, prop::sample::select(ops), 0_u64..1 << 40, 1_u64..4096);
    prop::collection::vec(one, 1..60).prop_map(move |parts| {
        let mut at = Nanos::ZERO;
        let record = |(gap, op, sector, sectors): (u64, TraceOp, u64, u64)| {
            at += Nanos(gap * tick_ns);
            let (offset, bytes) = if op.has_range() { (sector * 512, sectors * 512) } else { (0, 0) };
            Record { at, op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: 0 }
        };
        parts.into_iter().map(record).collect()
    })
}

const ALL: &[TraceOp] = &[TraceOp::Read, TraceOp::Write, TraceOp::Trim, TraceOp::Sync, TraceOp::DataSync];
const READ_WRITE: &[TraceOp] = &[TraceOp::Read, TraceOp::Write];

fn iolog(version: IologVersion, records: &[Record]) -> Vec<u8> {
    let mut writer = IologWriter::new(Vec::new(), version, "/dev/plumb").unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap()
}

proptest! {
    #[test]
    fn iolog_3_to_the_microsecond(records in records(1_000, ALL)) {
        let text = iolog(IologVersion::V3, &records);
        prop_assert_eq!(essence(&read(&text, &ReadOptions::default())), essence(&records));
    }

    #[test]
    fn iolog_2_to_the_millisecond(records in records(1_000_000, ALL)) {
        let text = iolog(IologVersion::V2, &records);
        prop_assert_eq!(essence(&read(&text, &ReadOptions::default())), essence(&records));
    }

    #[test]
    fn msr(records in records(100, READ_WRITE), start in 0_u64..130_000_000_000_000_000) {
        let lines = records.iter().map(|record| {
            let op = if record.op == TraceOp::Read { "Read" } else { "Write" };
            format!("{},src1,2,{op},{},{},99\n", start + record.at.0 / 100, record.offset, record.bytes)
        });
        prop_assert_eq!(essence(&read(lines.collect::<String>().as_bytes(), &ReadOptions::default())), essence(&records));
    }

    #[test]
    fn alibaba(records in records(1_000, READ_WRITE), start in 0_u64..1_600_000_000_000_000) {
        let lines = records.iter().map(|record| {
            let op = if record.op == TraceOp::Read { "R" } else { "W" };
            format!("7,{op},{},{},{}\n", record.offset, record.bytes, start + record.at.0 / 1_000)
        });
        prop_assert_eq!(essence(&read(lines.collect::<String>().as_bytes(), &ReadOptions::default())), essence(&records));
    }

    #[test]
    fn blkparse(records in records(1, &[TraceOp::Read, TraceOp::Write, TraceOp::Trim, TraceOp::Sync]), start in 0_u64..1 << 40) {
        let lines = records.iter().map(|record| {
            let at = start + record.at.0;
            let rest = match record.op {
                TraceOp::Read => "RA ",
                TraceOp::Write => "WS ",
                TraceOp::Trim => "D ",
                _ => "FWS ",
            };
            let range = if record.op.has_range() { format!("{} + {} ", record.offset / 512, record.bytes / 512) } else { String::new() };
            format!("259,0    3      118 {:>5}.{:09}  1234  Q {rest:>4}{range}[some task]\n", at / 1_000_000_000, at % 1_000_000_000)
        });
        prop_assert_eq!(essence(&read(lines.collect::<String>().as_bytes(), &ReadOptions::default())), essence(&records));
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400), format in prop::sample::select(TraceFormat::ALL.to_vec())) {
        let given = ReadOptions { format: Some(format), action: BlkAction::Dispatched, disk: None };
        for options in [given, ReadOptions::default()] {
            if let Ok(reader) = TraceReader::new("noise", &noise[..], &options) {
                reader.for_each(|record| drop(record.map_err(|error| error.to_string())));
            }
        }
    }

    /// A good trace with some bytes changed: much deeper into the parsers.
    #[test]
    fn damage_never_panics(
        records in records(1_000, READ_WRITE),
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"0123456789, \n[]+RWFDN-.\xff".to_vec())), 1..20),
        kind in 0..4,
    ) {
        let lines = |line: &dyn Fn(&Record) -> String| records.iter().map(line).collect::<String>().into_bytes();
        let mut text = match kind {
            0 => iolog(IologVersion::V3, &records),
            1 => lines(&|r| format!("{},h,0,Read,{},{},1\n", r.at.0, r.offset, r.bytes)),
            2 => lines(&|r| format!("1,W,{},{},{}\n", r.offset, r.bytes, r.at.0)),
            _ => lines(&|r| format!("8,0 1 2 {}.000000001 3 Q FWFS {} + {} [x]\n", r.at.0, r.offset, r.bytes)),
        };
        for (index, byte) in damage {
            let length = text.len();
            text[index.index(length)] = byte;
        }
        if let Ok(reader) = TraceReader::new("damaged", &text[..], &ReadOptions::default()) {
            for record in reader.flatten() {
                prop_assert!(record.op.has_range() == (record.bytes > 0));
                prop_assert!(record.offset.checked_add(record.bytes).is_some());
            }
        }
    }
}

#[test]
fn flags_become_datasyncs() {
    let flags = BioFlags::PREFLUSH | BioFlags::FUA;
    let write = Record { at: Nanos(7), op: TraceOp::Write, offset: 512, bytes: 512, flags, cpu: None, line: 1 };
    let flush = Record { at: Nanos(2_500), op: TraceOp::Sync, offset: 0, bytes: 0, ..write };
    let text = String::from_utf8(iolog(IologVersion::V3, &[write, flush])).unwrap();
    let want = "\
fio version 3 iolog
0 /dev/plumb add
0 /dev/plumb open
0 /dev/plumb datasync 0 0
0 /dev/plumb write 512 512
0 /dev/plumb datasync 0 0
2 /dev/plumb sync 0 0
2 /dev/plumb close
";
    assert_eq!(text, want);
}

#[test]
fn file_names_that_fio_would_misread_are_refused() {
    let long = "x".repeat(256);
    for name in ["", "two words", "new\nline", long.as_str()] {
        assert!(IologWriter::new(Vec::new(), IologVersion::V3, name).is_err(), "{name:?}");
    }
}
