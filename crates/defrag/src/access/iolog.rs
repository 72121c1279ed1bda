//! fio's iologs of version 2 and 3 (fio's HOWTO, "Trace file format"; `write_iolog=`).
//!
//! A line is `filename action` (`add`, `open`, `close`) or `filename action offset length`
//! (`read`, `write`, `trim`, `sync`, `datasync`, `wait`), in version 3 with a time in
//! milliseconds before it. The log does not say whether the reads and writes were direct.

use std::io::{BufRead, Read};
use std::path::Path;

use super::error::TraceError;
use super::parsed::{Collector, Parsed};
use crate::{ByteRange, IoKind};

const MAX_LINE_BYTES: u64 = 64 << 10;

/// Reads an iolog. `path` is for the messages, relative names are from `folder` on, and
/// `direct` says how the job read and wrote.
///
/// # Errors
/// [`TraceError::Line`] at the first line that is none of an iolog, [`TraceError::File`]
/// if reading fails. Files that are not there are no error: see [`Parsed::missing`].
pub fn parse(mut input: impl BufRead, path: &Path, folder: &Path, direct: bool) -> Result<Parsed, TraceError> {
    let mut collector = Collector::new("iolog");
    let mut text = Vec::new();
    let mut version = None;
    for line in 1_u64.. {
        text.clear();
        let taken = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text);
        if taken.map_err(TraceError::file(path, "reading the iolog"))? == 0 {
            break;
        }
        let at = |why: &str| TraceError::Line { path: path.to_owned(), line, why: why.to_owned() };
        // fio writes names as they are; bytes that are no UTF-8 cannot be in the rest of a line.
        let Ok(text) = std::str::from_utf8(&text) else {
            return Err(at("it is not UTF-8 text"));
        };
        let Some(version) = version else {
            version = Some(version_of(text).ok_or_else(|| at("an iolog begins `fio version 2 iolog` or `… 3 iolog`"))?);
            continue;
        };
        match access(text, version) {
            Ok(Some((name, is_write, range))) => {
                let kind = match (is_write, direct) {
                    (false, false) => IoKind::BufferedRead,
                    (false, true) => IoKind::DirectRead,
                    (true, false) => IoKind::BufferedWrite,
                    (true, true) => IoKind::DirectWrite,
                };
                collector.add(&folder.join(name), kind, range);
            }
            Ok(None) => {}
            Err(why) => return Err(at(why)),
        }
    }
    if version.is_none() {
        return Err(TraceError::Line { path: path.to_owned(), line: 1, why: "the iolog is empty".into() });
    }
    Ok(collector.finish())
}

fn version_of(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace();
    let version = match (words.next(), words.next(), words.next(), words.next(), words.next()) {
        (Some("fio"), Some("version"), Some(version), Some("iolog"), None) => version.parse().ok()?,
        _ => return None,
    };
    matches!(version, 2 | 3).then_some(version)
}

/// Name, whether it is a write, and range of a line that is a read or write.
fn access(line: &str, version: u32) -> Result<Option<(&str, bool, ByteRange)>, &'static str> {
    let mut rest = line.trim_end_matches(['\n', '\r']);
    if rest.is_empty() {
        return Ok(None);
    }
    if version == 3 {
        let (time, after) = rest.split_once(' ').ok_or("version 3 has a time, a name and an action in each line")?;
        time.parse::<u64>().map_err(|_| "version 3 has a time in milliseconds first in each line")?;
        rest = after;
    }
    // Names may have spaces: actions are taken from the end.
    let mut words = rest.rsplitn(4, ' ');
    let (last, second, third, name) = (words.next(), words.next(), words.next(), words.next());
    if let (Some(length), Some(offset), Some(action), Some(name)) = (last, second, third, name)
        && let (Ok(length), Ok(offset)) = (length.parse::<u64>(), offset.parse::<u64>())
    {
        return match action {
            "read" | "write" => {
                let range = ByteRange::new(offset, length).ok_or("the range ends beyond 64 bits")?;
                Ok(Some((name, action == "write", range)))
            }
            "trim" | "sync" | "datasync" | "wait" => Ok(None),
            _ => Err("the action is none of read, write, trim, sync, datasync and wait"),
        };
    }
    // fio's wait lines have a time only; those of add, open and close have a name only.
    match rest.rsplit_once(' ').map(|(_, action)| action) {
        Some("add" | "open" | "close") => Ok(None),
        _ if second == Some("wait") && last.is_some_and(|time| time.parse::<u64>().is_ok()) => Ok(None),
        _ => Err("it is neither `name action` (add, open, close) nor `name action offset length`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn parsed(text: &str, folder: &Path) -> Result<Parsed, TraceError> {
        parse(text.as_bytes(), Path::new("log"), folder, true)
    }

    #[test]
    fn both_versions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a b"), "x").unwrap();
        let two = "fio version 2 iolog\na b add\na b open\na b read 4096 8192\na b write 0 4096\na b read 4096 8192\na b close\ngone read 0 1\n";
        let three = "fio version 3 iolog\n0 a b add\n1 a b open\n2 a b read 4096 8192\n2 a b write 0 4096\n5 a b read 4096 8192\n6 a b close\n7 gone read 0 1\n";
        let found = parsed(two, folder.path()).unwrap();
        assert_eq!(found, parsed(three, folder.path()).unwrap());
        let list: Vec<_> = found.trace.accesses.iter().map(|a| (a.kind, a.range.start, a.range.end, a.count)).collect();
        assert_eq!(list, [(IoKind::DirectRead, 4096, 12_288, 2), (IoKind::DirectWrite, 0, 4096, 1)]);
        assert_eq!(found.missing, [(folder.path().join("gone"), 1)].into());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, expected) in [
            ("", "line 1: the iolog is empty"),
            ("fio version 1 iolog\n", "line 1: an iolog begins"),
            ("fio version 2 iolog\na read 1\n", "line 2: it is neither"),
            ("fio version 2 iolog\na erase 1 1\n", "line 2: the action is none of"),
            ("fio version 3 iolog\na read 1 1\n", "line 2: version 3 has a time"),
            ("fio version 2 iolog\na read 18446744073709551615 1\n", "line 2: the range ends"),
        ] {
            let message = parsed(text, Path::new("/")).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    /// The log of fio itself: its random offsets are those that it says it read.
    #[test]
    fn what_fio_writes_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let job = ["--name=a", "--filename=data", "--size=1m", "--bs=16k", "--rw=randrw", "--write_iolog=log"];
        let Ok(output) = Command::new("fio").current_dir(folder.path()).args(job).arg("--output-format=json").output()
        else {
            println!("skipped: fio is not installed");
            return;
        };
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = fs::read(folder.path().join("log")).unwrap();
        let found = parse(&text[..], Path::new("log"), folder.path(), false).unwrap();
        let sum =
            |kind| found.trace.accesses.iter().filter(|a| a.kind == kind).map(|a| a.range.len() * a.count).sum::<u64>();
        let job = &report["jobs"][0];
        assert_eq!(Some(sum(IoKind::BufferedRead)), job["read"]["io_bytes"].as_u64());
        assert_eq!(Some(sum(IoKind::BufferedWrite)), job["write"]["io_bytes"].as_u64());
        assert_eq!(found.trace.events(), 64);
        assert_eq!(found.trace.files.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn any_lines_are_taken(lines in "(fio version [23] iolog\n)?([0-9]{0,3} ?[a-z ]{0,4} (read|write|trim|add|wait)( [0-9]{1,21}){0,2}\n){0,5}.{0,20}") {
            let _ = parsed(&lines, Path::new("/nonexistent"));
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let _ = parse(&bytes[..], Path::new("log"), Path::new("/nonexistent"), true);
        }
    }
}
