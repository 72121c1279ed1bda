//! The trace file against itself, against a text written by hand, and against nonsense.

use super::*;
use proptest::prelude::*;

const BY_HAND: &str = r#"{"header":{"version":1,"source":"bpf"}}
{"file":{"device":"7:0","inode":12,"generation":5,"path":"/mnt/a b"}}
{"access":{"file":0,"kind":"direct-read","start":8192,"length":4096,"count":3}}
{"file":{"device":"0:41","inode":257,"path_hex":"2fff"}}
{"access":{"file":1,"kind":"readahead","start":0,"length":131072,"count":1}}
{"end":{"files":2,"accesses":2,"lost":7,"unresolved":1}}
"#;

fn parse(text: &str) -> Result<Trace, TraceError> {
    Trace::parse(text.as_bytes(), Path::new("t"))
}

#[test]
fn the_format_of_the_documentation_is_read() {
    let trace = parse(BY_HAND).unwrap();
    let a = FileId { device: rustix::fs::makedev(7, 0), inode: 12, generation: Some(5) };
    let b = FileId { device: rustix::fs::makedev(0, 41), inode: 257, generation: None };
    assert_eq!(trace.source, "bpf");
    assert_eq!((trace.lost, trace.unresolved), (7, 1));
    assert_eq!(trace.files[&a], Some("/mnt/a b".into()));
    assert_eq!(trace.files[&b], Some(OsString::from_vec(vec![b'/', 0xff]).into()));
    let range = ByteRange { start: 8192, end: 12288 };
    assert_eq!(trace.accesses[0], Access { file: a, range, kind: IoKind::DirectRead, count: 3 });
    let range = ByteRange { start: 0, end: 131_072 };
    assert_eq!(trace.accesses[1], Access { file: b, range, kind: IoKind::Readahead, count: 1 });
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let replace = |from: &str, to: &str| parse(&BY_HAND.replacen(from, to, 1)).unwrap_err().to_string();
    for (from, to, expected) in [
        (r#""version":1"#, r#""version":2"#, "line 1: version 2 is not version 1"),
        (r#""inode":12"#, r#""inode":12,"size":4"#, "line 2: unknown field `size`"),
        (r#""file":0,"#, r#""file":4,"#, "line 3: there is no file 4: 1 are described above"),
        (r#""length":4096"#, r#""length":0"#, "line 3: an access has at least one byte"),
        (r#""start":8192"#, r#""start":18446744073709551615"#, "line 3: the range ends beyond 64 bits"),
        (r#""path_hex":"2fff""#, r#""path_hex":"2ffg""#, "line 4: `2ffg` is no path in hexadecimal digits"),
        (r#""device":"0:41""#, r#""device":"loop""#, "line 4: `loop` is no device: write 8:1"),
        (r#""accesses":2"#, r#""accesses":3"#, "line 7: the `end` counts other lines than there are"),
        (
            r#""device":"0:41","inode":257"#,
            r#""device":"7:0","inode":12,"generation":5"#,
            "line 4: inode 12 of device 7:0 is described twice",
        ),
    ] {
        let message = replace(from, to);
        assert!(message.contains(expected), "{to}: {message}");
    }
    let twice = BY_HAND.replace(
        r#""file":1,"kind":"readahead","start":0,"length":131072"#,
        r#""file":0,"kind":"direct-read","start":8192,"length":4096"#,
    );
    assert!(parse(&twice).unwrap_err().to_string().contains("line 5: an access with this file, kind and range"));
    let no_header = BY_HAND.split_once('\n').unwrap().1;
    assert!(parse("pread64(3, 0, 4096, 0) = 4096\n").unwrap_err().to_string().contains("line 1: this is no trace"));
    assert!(parse(no_header).unwrap_err().to_string().contains("line 1: a trace has one `header`"));
}

#[test]
fn a_file_cut_short_is_refused_wherever_it_is_cut() {
    for length in 0..BY_HAND.len() {
        assert!(parse(&BY_HAND[..length]).is_err(), "cut after {length} bytes");
    }
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let endless = io::repeat(b'x');
    let error = Trace::parse(BufReader::new(endless), Path::new("t")).unwrap_err().to_string();
    assert!(error.contains("line 1: it has no end"), "{error}");
}

#[test]
fn saving_keeps_the_old_file_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let trace = parse(BY_HAND).unwrap();
    trace.save(&path).unwrap();
    assert_eq!(Trace::load(&path).unwrap(), trace);
    assert!(trace.write(&mut File::options().write(true).open("/dev/full").unwrap()).is_err());
    // A folder in the way of the rename.
    std::fs::create_dir_all(folder.path().join("d/full")).unwrap();
    let error = trace.save(&folder.path().join("d")).unwrap_err().to_string();
    assert!(error.contains("writing the trace"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no partial file stays");
}

fn kinds() -> impl Strategy<Value = IoKind> {
    use IoKind::{BufferedRead, BufferedWrite, DirectRead, DirectWrite, Mapped, Readahead};
    prop::sample::select(vec![BufferedRead, BufferedWrite, DirectRead, DirectWrite, Mapped, Readahead])
}

prop_compose! {
    fn traces()(
        files in prop::collection::vec(
            (any::<u32>(), any::<u64>(), any::<Option<u32>>(), prop::option::of(prop::collection::vec(1u8.., 0..20))), 1..5),
        accesses in prop::collection::vec((any::<prop::sample::Index>(), kinds(), 0..u64::MAX - 9, 1u64..9, 1u64..), 0..20),
        lost: u64,
    ) -> Trace {
        let ids: Vec<(FileId, Option<PathBuf>)> = files.into_iter().map(|(device, inode, generation, path)| {
            let device = rustix::fs::makedev(device & 0xfff, device >> 12);
            (FileId { device, inode, generation }, path.map(|bytes| OsString::from_vec(bytes).into()))
        }).collect();
        let mut trace = Trace { source: "bpf".into(), files: ids.iter().cloned().collect(), lost, ..Trace::default() };
        for (at, kind, start, length, count) in accesses {
            let range = ByteRange { start, end: start + length };
            let access = Access { file: at.get(&ids).0, range, kind, count };
            let known = trace.accesses.iter().any(|a| (a.file, a.kind, a.range) == (access.file, kind, range));
            if !known { trace.accesses.push(access); }
        }
        trace
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(trace in traces()) {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        prop_assert_eq!(Trace::parse(&bytes[..], Path::new("t")).unwrap(), trace);
    }

    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>) {
        let _ = Trace::parse(&bytes[..], Path::new("t"));
    }

    #[test]
    fn a_changed_byte_is_an_error_or_another_trace(trace in traces(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(changed) = Trace::parse(&bytes[..], Path::new("t")) {
            let mut again = Vec::new();
            changed.write(&mut again).unwrap();
            prop_assert_eq!(Trace::parse(&again[..], Path::new("t")).unwrap(), changed);
        }
    }
}
