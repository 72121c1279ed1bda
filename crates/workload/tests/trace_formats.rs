//! Golden samples of every trace format, and what is wrong with bad ones.

use block::BioFlags;
use units::Nanos;
use workload::replay::{BlkAction, IologVersion, ReadOptions, Record, TraceError, TraceFormat, TraceOp, TraceReader};

fn read_with(text: &str, options: &ReadOptions) -> Result<Vec<Record>, TraceError> {
    TraceReader::new("sample", text.as_bytes(), options)?.collect()
}

fn read(text: &str) -> Result<Vec<Record>, TraceError> {
    read_with(text, &ReadOptions::default())
}

fn detected(text: &str) -> TraceFormat {
    TraceReader::new("sample", text.as_bytes(), &ReadOptions::default()).unwrap().format()
}

fn disk(name: &str) -> ReadOptions {
    ReadOptions { disk: Some(name.to_owned()), ..ReadOptions::default() }
}

fn io(line: u64, at_ns: u64, op: TraceOp, offset: u64, bytes: u64) -> Record {
    Record { at: Nanos(at_ns), op, offset, bytes, flags: BioFlags::empty(), cpu: None, line }
}

/// The error's message; the test fails if there is none.
fn message(result: Result<Vec<Record>, TraceError>) -> String {
    result.unwrap_err().to_string()
}

const IOLOG_V2: &str = "\
fio version 2 iolog
/dev/sdb add
/dev/sdb open
/dev/sdb write 4096 8192
/dev/sdb wait 20 0
/dev/sdb read 0 512
/dev/sdb wait 5 0
/dev/sdb datasync 0 0
/dev/sdb trim 65536 4096
/dev/sdb close
";

const IOLOG_V3: &str = "\
fio version 3 iolog
18 /dev/sdb add
127 /dev/sdb open
130 /dev/sdb write 0 4096
154 /dev/sdb trim 20480 4096
169 /dev/sdb sync 12288 0
840 /dev/sdb read 16384 4096
869 /dev/sdb close
";

const BLKPARSE: &str = "\
Input file sdb.blktrace.0 added
  8,16   0        1     0.000000000  3486  Q   R 0 + 8 [a.out]
  8,16   0        2     0.000003446  3486  G   R 0 + 8 [a.out]
  8,16   0        3     0.000004205  3486  P   N [a.out]
  8,16   0        4     0.000004481  3486  U   N [a.out] 1
  8,16   0        5     0.000005128  3486  I   R 0 + 8 [a.out]
  8,16   0        6     0.000009648  3486  D   R 0 + 8 [a.out]
  8,16   3        0     0.000010000     0  m   N cfq3486S / dispatch_insert
  8,16   3        7     0.001027448     0  C   R 0 + 8 [0]
  8,16   3        8     1.500000000   312  Q FWFSM 223490 + 56 [jbd2/sdb1-8]
  8,16   3        9     1.500000100   312  Q FWS [kworker/3:1 H]
  8,16   1       10     1.600000000   312  Q  DS 2048 + 16 [blkdiscard]
  8,16   1       11     1.600000500   312  D  DS 2048 + 16 [blkdiscard]
  8,16   1       12     1.700000000   400  D   R 36 (12 00 00 00 24 00 ..) [smartctl]
CPU0 (sdb):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB

Total (sdb):
 Reads Queued:           1,        4KiB\t Writes Queued:           2,       28KiB
";

const MSR: &str = "\
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372016382155,usr,0,Write,1317441536,8192,1963
128166372010000000,usr,1,Write,512,4096,17
";

const ALIBABA: &str = "\
419,W,8792731648,16384,1577808144360767
725,R,59110326272,360448,1577808144360813
12,R,350868463616,8192,1577808144360852
725,W,0,4096,1577808144361000
";

#[test]
fn iolog_version_2() {
    assert_eq!(detected(IOLOG_V2), TraceFormat::Iolog(IologVersion::V2));
    // A wait counts from the start of the run, so the second holds nothing back.
    let want = [
        io(4, 0, TraceOp::Write, 4096, 8192),
        io(6, 20_000_000, TraceOp::Read, 0, 512),
        io(8, 20_000_000, TraceOp::DataSync, 0, 0),
        io(9, 20_000_000, TraceOp::Trim, 65536, 4096),
    ];
    assert_eq!(read(IOLOG_V2).unwrap(), want);
}

#[test]
fn iolog_version_3() {
    assert_eq!(detected(IOLOG_V3), TraceFormat::Iolog(IologVersion::V3));
    let want = [
        io(4, 130_000, TraceOp::Write, 0, 4096),
        io(5, 154_000, TraceOp::Trim, 20480, 4096),
        io(6, 169_000, TraceOp::Sync, 0, 0),
        io(7, 840_000, TraceOp::Read, 16384, 4096),
    ];
    assert_eq!(read(IOLOG_V3).unwrap(), want);
}

#[test]
fn iolog_files_are_disks() {
    let two = "fio version 3 iolog\n0 a add\n0 b add\n0 a open\n0 b open\n1 a read 0 512\n2 b read 512 512\n";
    assert_eq!(
        message(read(two)),
        "sample:7:1: this I/O is on disk `b`, those before on `a`; choose one disk to replay"
    );
    assert_eq!(read_with(two, &disk("b")).unwrap(), [io(7, 2_000, TraceOp::Read, 512, 512)]);
    let unopened = "fio version 3 iolog\n0 a add\n1 a read 0 512\n";
    assert!(message(read(unopened)).starts_with("sample:3:3: expected a file that is open"));
    let closed = "fio version 2 iolog\na add\na open\na close\na read 0 512\n";
    assert!(message(read(closed)).starts_with("sample:5:1: expected a file that is open"));
    assert!(message(read("fio version 2 iolog\na open\n")).contains("2:1: expected a file that was added"));
    assert!(message(read("fio version 2 iolog\na add\na close\n")).contains("3:1: expected a file that is open"));
}

#[test]
fn blkparse_as_queued() {
    assert_eq!(detected(BLKPARSE), TraceFormat::Blkparse);
    let on = |cpu, flags, record| Record { cpu: Some(cpu), flags, ..record };
    let journal = BioFlags::PREFLUSH | BioFlags::FUA | BioFlags::SYNC | BioFlags::META;
    let want = [
        on(0, BioFlags::empty(), io(2, 0, TraceOp::Read, 0, 4096)),
        on(3, journal, io(10, 1_500_000_000, TraceOp::Write, 223_490 * 512, 56 * 512)),
        on(3, BioFlags::SYNC, io(11, 1_500_000_100, TraceOp::Sync, 0, 0)),
        on(1, BioFlags::SYNC, io(12, 1_600_000_000, TraceOp::Trim, 2048 * 512, 8192)),
    ];
    assert_eq!(read(BLKPARSE).unwrap(), want);
}

#[test]
fn blkparse_as_dispatched() {
    let options = ReadOptions { action: BlkAction::Dispatched, ..ReadOptions::default() };
    let lines: Vec<_> = read_with(BLKPARSE, &options).unwrap().iter().map(|record| record.line).collect();
    assert_eq!(lines, [7, 13], "the packet command is no block I/O");
    assert_eq!("D".parse(), Ok(BlkAction::Dispatched));
    assert!("C".parse::<BlkAction>().is_err());
}

#[test]
fn msr_cambridge() {
    assert_eq!(detected(MSR), TraceFormat::Msr);
    let want = [
        io(1, 12_816_637_200_306_162_900, TraceOp::Read, 7_014_609_920, 24_576),
        io(2, 12_816_637_201_638_215_500, TraceOp::Write, 1_317_441_536, 8192),
    ];
    for name in ["0", "usr_0"] {
        assert_eq!(read_with(MSR, &disk(name)).unwrap(), want);
    }
    assert_eq!(
        message(read(MSR)),
        "sample:3:1: this I/O is on disk `usr_1`, those before on `usr_0`; choose one disk to replay"
    );
    assert_eq!(message(read_with(MSR, &disk("2"))), "sample: the trace has no I/O on disk `2`; it has some on `usr_0`");
}

#[test]
fn alibaba() {
    assert_eq!(detected(ALIBABA), TraceFormat::Alibaba);
    let want = [
        io(2, 1_577_808_144_360_813_000, TraceOp::Read, 59_110_326_272, 360_448),
        io(4, 1_577_808_144_361_000_000, TraceOp::Write, 0, 4096),
    ];
    assert_eq!(read_with(ALIBABA, &disk("725")).unwrap(), want);
}

#[test]
fn column_names_and_windows_newlines_are_taken() {
    let named = format!("device_id,opcode,offset,length,timestamp\r\n{}", ALIBABA.replace('\n', "\r\n"));
    assert_eq!(detected(&named), TraceFormat::Alibaba);
    assert_eq!(read_with(&named, &disk("725")).unwrap().len(), 2);
    let named = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
    assert_eq!(read_with(&named, &disk("usr_0")).unwrap().len(), 2);
}

#[test]
fn formats_by_name() {
    for format in TraceFormat::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "csv".parse::<TraceFormat>().unwrap_err().to_string();
    assert_eq!(error, "`csv` is not a trace format; known are iolog2, iolog3, blkparse, msr, alibaba");
    let unknown = message(read("\nhello there\n"));
    assert!(unknown.starts_with("sample:2:1: no known trace format begins with `hello there`; name the format: "));
    let forced = ReadOptions { format: Some(TraceFormat::Msr), ..ReadOptions::default() };
    assert!(message(read_with(ALIBABA, &forced)).starts_with("sample:1:18: expected Read or Write"));
    let forced = ReadOptions { format: Some(TraceFormat::Iolog(IologVersion::V3)), ..ReadOptions::default() };
    assert_eq!(
        message(read_with(IOLOG_V2, &forced)),
        "sample:1:1: expected `fio version 3 iolog`, found `fio version 2 iolog`"
    );
    // The iologs of fio before 1.17, and of a future one.
    assert!(message(read("fio version 4 iolog\n")).contains("no known trace format"));
}

#[test]
fn errors_name_line_column_and_what_was_expected() {
    let iolog = |line: &str| format!("fio version 3 iolog\n0 f add\n0 f open\n{line}\n");
    for (text, want) in [
        (
            iolog("fio version 3 iolog"),
            "sample:4:1: expected one log (fio appends to a log that is there: split this file here), found",
        ),
        (iolog("1 f read x 512"), "sample:4:10: expected an offset in bytes, found `x`"),
        (iolog("1 f read 0 0"), "sample:4:12: expected a length of at least 1 that ends below 2^64, found `0`"),
        (iolog("1 f read 0"), "sample:4:11: expected a length, found the end of the line"),
        (iolog("1 f read 0 512 9"), "sample:4:16: expected the end of the line, found `9`"),
        (
            iolog("1 f wait 5 0"),
            "sample:4:5: expected one of add, open, close, read, write, trim, sync, datasync \
             (version 3 has no wait), found `wait`",
        ),
        ("1,usr,0,Read,5,6,7\n2,usr,0,Flush,5,6,7\n".to_owned(), "sample:2:9: expected Read or Write, found `Flush`"),
        (
            "1,usr,0,Read,5,6,7\n999999999999999999999,usr,0,Read,5,6,7\n".to_owned(),
            "sample:2:1: expected a timestamp in Windows filetime (100 ns), found `999999999999999999999`",
        ),
        (
            "1,usr,0,Read,5,6,7\n2,usr,0,Read,5,6\n".to_owned(),
            "sample:2:17: expected a response time, found the end of the line",
        ),
        (
            "1,R,18446744073709551615,512,3\n".to_owned(),
            "sample:1:26: expected a length of at least 1 that ends below 2^64, found `512`",
        ),
        ("1,R,0,512,3,4\n".to_owned(), "sample:1:1: no known trace format"),
        (
            "1,R,0,512,3\n1,R,0,512,3,4\n".to_owned(),
            "sample:2:13: expected the end of the line after 5 fields, found `4`",
        ),
        ("8,0 1 1 0.1 5 Q R 0 + 8 [a]\n".to_owned(), "sample:1:9: expected seconds with 9 decimals, found `0.1`"),
        ("8,0 1 1 0.100000000 5 Q X 0 + 8 [a]\n".to_owned(), "sample:1:25: expected RWBS flags"),
        ("8,0 1 1 0.100000000 5 Q R 0 - 8 [a]\n".to_owned(), "sample:1:29: expected `+`, found `-`"),
        ("8,0 1 1 0.100000000 5 Q R 0 + 8 [a\n".to_owned(), "sample:1:35: expected `]` after the command"),
        ("8,0 1 1 0.100000000 5 Q R 36028797018963968 + 8 [a]\n".to_owned(), "sample:1:27: expected a sector"),
    ] {
        let message = message(read(&text));
        assert!(message.starts_with(want), "{message}\nwanted {want}");
    }
}

#[test]
fn a_trace_cut_anywhere_in_its_last_line_is_an_error() {
    for text in [IOLOG_V2, IOLOG_V3, MSR, ALIBABA] {
        let choice = match detected(text) {
            TraceFormat::Msr => disk("usr_0"),
            TraceFormat::Alibaba => disk("725"),
            _ => ReadOptions::default(),
        };
        assert!(read_with(text, &choice).is_ok());
        let last_line = text.trim_end().rfind('\n').unwrap() + 1;
        for cut in last_line + 1..text.len() {
            let message = message(read_with(&text[..cut], &choice));
            assert!(message.contains("the file ends inside this line, its last"), "{message}");
        }
    }
    let events = &BLKPARSE[..BLKPARSE.find("CPU0").unwrap()];
    for cut in events.trim_end().rfind('\n').unwrap() + 4..events.len() {
        assert!(message(read(&events[..cut])).contains("the file ends inside this line"), "{cut}");
    }
}

#[test]
fn a_line_cut_in_the_middle_of_the_trace_is_an_error() {
    let cut = BLKPARSE.replace("Q FWFSM 223490 + 56 [jbd2/sdb1-8]", "Q FWFSM 2234");
    let message = message(read(&cut));
    assert_eq!(message, "sample:10:56: expected `+`, found the end of the line");
}

#[test]
fn traces_without_io() {
    for text in ["", "\n\n", "fio version 3 iolog\n", "fio version 3 iolog\n0 a add\n", "Input file a added\n"] {
        assert_eq!(message(read(text)), "sample: the trace has no I/O", "{text:?}");
    }
    assert_eq!(
        message(read_with("fio version 3 iolog\n", &disk("a"))),
        "sample: the trace has no I/O on disk `a`; it has no I/O at all"
    );
}

#[test]
fn a_compressed_trace_says_so() {
    for packed in [b"\x1f\x8b\x08\x00\n".to_vec(), [b"\x1f\x8b", &[7; 10_000][..]].concat()] {
        let error = TraceReader::new("usr_0.csv.gz", &packed[..], &ReadOptions::default()).err().unwrap();
        assert_eq!(
            error.to_string(),
            "usr_0.csv.gz: the trace is compressed with gzip; unpack it first: gunzip usr_0.csv.gz"
        );
    }
}

#[test]
fn the_reader_stops_after_an_error() {
    let text = "1,R,0,512,3\n1,R,x,512,3\n1,R,0,512,3\n";
    let mut reader = TraceReader::new("sample", text.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}
