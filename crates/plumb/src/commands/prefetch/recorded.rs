//! What was recorded of a run: as a trace that can be replayed with each policy, and as a picture.

use std::collections::BTreeMap;

use prefetch::simulate::{Action, Mark, Origin, Pictured, Step, Trace, picture};
use prefetcher::executor::Recording;
use units::Printable;

/// Files that are drawn at most: those with most accesses.
const PICTURES: usize = 8;

/// A read that took longer than this, and than a byte a nanosecond, waited for the device; from memory a page takes less than a
/// microsecond.
const WAITED_NS: u64 = 30_000;

/// The names of its files.
pub fn names(recording: &Recording) -> Vec<String> {
    let name = |path: &std::path::Path| match path.as_os_str().is_empty() {
        true => "a file without a name".to_owned(),
        false => Printable::path(path).to_string(),
    };
    recording.files.iter().map(|file| name(&file.path)).collect()
}

/// Its accesses as steps of its threads: each works between two calls for as long as it did.
pub fn trace(recording: &Recording) -> Trace {
    let mut accesses: Vec<_> = recording.accesses.iter().collect();
    accesses.sort_by_key(|access| access.began_ns);
    let begun_ns = accesses.first().map_or(0, |access| access.began_ns);
    let mut out = Trace { files: recording.files.iter().map(|file| file.bytes).collect(), steps: Vec::new() };
    let mut opened = vec![false; out.files.len()];
    // By thread, when it came back from its last call.
    let mut ended = BTreeMap::new();
    for access in accesses {
        let (file, lane) = (access.file, access.thread);
        let think_ns = access.began_ns.saturating_sub(ended.insert(lane, access.ended_ns).unwrap_or(begun_ns));
        let (offset_bytes, length_bytes) = (access.range.start_bytes, access.range.bytes());
        if !std::mem::replace(&mut opened[file], true) {
            out.steps.push(Step { file, lane, think_ns: 0, action: Action::Open });
        }
        let action = if access.advice {
            Action::Advise { offset_bytes, length_bytes }
        } else {
            Action::Read { offset_bytes, length_bytes }
        };
        out.steps.push(Step { file, lane, think_ns, action });
    }
    out
}

/// The files with most steps.
pub fn most_accessed(trace: &Trace, names: &[String]) -> Vec<Pictured> {
    let mut counts = vec![0_u64; trace.files.len()];
    for step in &trace.steps {
        counts[step.file] += 1;
    }
    let mut files: Vec<usize> = (0..trace.files.len()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(counts[*file]));
    let pictured = |file: usize| Pictured { file, name: names[file].clone(), bytes: trace.files[file] };
    files.into_iter().take(PICTURES).map(pictured).collect()
}

/// An HTML page with what was read, asked for and in memory over time.
pub fn page(title: &str, recording: &Recording) -> String {
    let times = recording.accesses.iter().flat_map(|access| [access.began_ns, access.ended_ns]);
    let times = times.chain(recording.loads.iter().map(|load| load.at_ns));
    let (begun_ns, ended_ns) = times.fold((u64::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
    let end_ns = ended_ns.saturating_sub(begun_ns);
    // What was seen before the first access was so at its beginning; what was seen after the last, at the end.
    let since = |at_ns: u64| at_ns.clamp(begun_ns.min(ended_ns), ended_ns) - begun_ns.min(ended_ns);
    let mut marks = residency(recording, end_ns, since);
    marks.extend(recording.loads.iter().map(|load| Mark::Load {
        file: load.file,
        from_ns: since(load.at_ns),
        to_ns: since(load.at_ns),
        start_bytes: load.range.start_bytes,
        end_bytes: load.range.end_bytes,
        origin: Origin::Prefetch,
    }));
    marks.extend(recording.accesses.iter().filter(|access| !access.advice).map(|access| Mark::Read {
        file: access.file,
        from_ns: since(access.began_ns),
        to_ns: since(access.ended_ns),
        start_bytes: access.range.start_bytes,
        end_bytes: access.range.end_bytes,
        hit: access.ended_ns - access.began_ns <= WAITED_NS.max(access.range.bytes()),
    }));
    let mut about = String::from(
        "Measured while the command ran: a read that took longer than 30 us, and than 1 ns a byte, is taken for one that waited; \
         what was in memory was looked at every few milliseconds, in parts of the file, of which one counts when any of it is there.",
    );
    if recording.changes.is_empty() {
        about += " Nobody says what of these files was in memory, or none of it was seen to be.";
    }
    if recording.lost > 0 {
        about += &format!(" {} accesses are not in it.", recording.lost);
    }
    picture(title, &about, &marks, &most_accessed(&trace(recording), &names(recording)), end_ns)
}

/// From when to when parts of files were in memory.
fn residency(recording: &Recording, end_ns: u64, since: impl Fn(u64) -> u64) -> Vec<Mark> {
    let mut there = BTreeMap::new();
    let mut marks = Vec::new();
    let mut mark = |file: usize, (start_bytes, end_bytes): (u64, u64), from_ns: u64, to_ns: u64| {
        // Parts of short files are empty.
        if start_bytes < end_bytes {
            marks.push(Mark::There { file, from_ns, to_ns, start_bytes, end_bytes });
        }
    };
    for change in &recording.changes {
        let part = (change.range.start_bytes, change.range.end_bytes);
        let at_ns = since(change.at_ns);
        if change.is_there {
            there.entry((change.file, part)).or_insert(at_ns);
        } else if let Some(from_ns) = there.remove(&(change.file, part)) {
            mark(change.file, part, from_ns, at_ns);
        }
    }
    for ((file, part), from_ns) in there {
        mark(file, part, from_ns, end_ns);
    }
    marks
}

#[cfg(test)]
mod tests {
    use prefetch::Range;
    use prefetcher::executor::{Accessed, Asked, Change, Seen};

    use super::*;

    fn recording() -> Recording {
        let range = |start_bytes: u64| Range { start_bytes, end_bytes: start_bytes + 4096 };
        let access = |thread: u32, start: u64, began_ns: u64, ended_ns: u64, advice: bool| Accessed {
            file: 0,
            advice,
            thread,
            range: range(start),
            began_ns,
            ended_ns,
        };
        Recording {
            files: vec![Seen::new("/srv/a".into(), 1 << 20)],
            accesses: vec![
                access(8, 4096, 1_000_200, 1_000_300, false),
                access(7, 0, 1_000_000, 1_100_000, false),
                access(7, 8192, 1_100_050, 1_100_060, true),
            ],
            loads: vec![Asked { file: 0, range: range(65536), at_ns: 1_000_500 }],
            changes: vec![
                Change { file: 0, range: range(0), is_there: true, at_ns: 900_000 },
                Change { file: 0, range: range(0), is_there: false, at_ns: 1_050_000 },
                Change { file: 0, range: range(4096), is_there: true, at_ns: 1_060_000 },
            ],
            lost: 3,
        }
    }

    #[test]
    fn threads_work_between_calls_as_they_did() {
        let trace = trace(&recording());
        let steps: Vec<_> = trace.steps.iter().map(|step| (step.lane, step.think_ns, step.action)).collect();
        let read = |offset_bytes| Action::Read { offset_bytes, length_bytes: 4096 };
        let advised = Action::Advise { offset_bytes: 8192, length_bytes: 4096 };
        assert_eq!(steps, [(7, 0, Action::Open), (7, 0, read(0)), (8, 200, read(4096)), (7, 50, advised)]);
        assert_eq!(trace.files, [1 << 20]);
    }

    #[test]
    fn a_picture_has_what_was_read_loaded_and_there() {
        let recording = recording();
        let marks = residency(&recording, 100_060, |at_ns| at_ns.saturating_sub(1_000_000));
        let of = |mark: &Mark| match *mark {
            Mark::There { from_ns, to_ns, start_bytes, .. } => (from_ns, to_ns, start_bytes),
            _ => (0, 0, 0),
        };
        assert_eq!(marks.iter().map(of).collect::<Vec<_>>(), [(0, 50_000, 0), (60_000, 100_060, 4096)]);
        let page = page("x", &recording);
        for class in ["resident", "prefetch", "hit", "wait"] {
            assert!(page.contains(&format!("<path style=\"stroke: var(--{class})\"")), "{class}: {page}");
        }
        assert!(page.contains("/srv/a") && page.contains("3 accesses are not in it"), "{page}");
        assert!(super::page("x", &Recording::default()).contains("Nobody says"));
    }
}
