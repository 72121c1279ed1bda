//! Runs that were recorded under a real kernel, judged without one.
//!
//! Each folder of `tests/recorded` is of `plumb crash --size 16MiB --mkfs-options '-b 4096' -- sh -c COMMAND`, where three tasks
//! append six times, fsync, acknowledge and rename: `kept` and `ignoring` with `--ordering streams:task,counted --migrate-every 3` on
//! a device that keeps the order and on one that ignores it, `flushed` without order.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crash::files::Call;
use crash::{LogReader, Rule, Streams, VolatileCache};
use ext4_states::{Bad, Counts, Defect, Judged, Judgement, OfflineError, judge};
use flate2::read::GzDecoder;
use observe::calls::Followed;

/// A recorded run.
struct Recorded {
    log: LogReader,
    calls: Vec<Call>,
    from: usize,
    device: u64,
}

fn unpacked(path: PathBuf) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn recorded(name: &str) -> Option<Recorded> {
    if std::process::Command::new("e2fsck").arg("-V").output().is_err() {
        println!("skipped: there is no e2fsck");
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let log = LogReader::read(&*unpacked(folder.join("writes.log.gz"))).unwrap();
    let calls = Followed::read(BufReader::new(&*unpacked(folder.join("calls.jsonl.gz")))).unwrap().calls;
    let about: serde_json::Value = serde_json::from_reader(File::open(folder.join("recorded.json")).unwrap()).unwrap();
    let from = log.entries_at(about["began_bytes"].as_u64().unwrap());
    Some(Recorded { log, calls, from, device: about["device"].as_u64().unwrap() })
}

impl Recorded {
    fn judgement<'a>(&'a self, folder: &'a Path, states: u64) -> Judgement<'a> {
        Judgement {
            log: &self.log,
            from: self.from,
            device: self.device,
            calls: Some(&self.calls),
            fsck: true,
            scripts: None,
            atomic_bytes: 4096,
            states,
            seed: 1,
            shown_max: 3,
            threads: 2,
            folder,
            name: "test",
            defect: None,
        }
    }

    fn streams(&self) -> Streams {
        Streams::new(self.log.log.unit_bytes())
    }

    fn judged<R: Rule + Sync>(&self, rule: &R, states: u64, defect: Option<Defect>) -> (Counts, Vec<Bad>) {
        let folder = tempfile::tempdir().unwrap();
        judge(&Judgement { defect, ..self.judgement(folder.path(), states) }, rule, &|| false, &mut |_| {}).unwrap()
    }
}

#[test]
fn order_that_is_kept_and_flushes_leave_nothing_bad() {
    let Some(kept) = recorded("kept") else { return };
    let (counts, shown) = kept.judged(&kept.streams(), 5000, None);
    assert_eq!((counts.bad, counts.unread), (0, 0), "{shown:?}");
    assert!(counts.generated > 4000 && counts.distinct > 300 && counts.recovered >= 10, "{counts:?}");
    assert_eq!(counts.checked, counts.recovered);
    let flushed = recorded("flushed").unwrap();
    let (counts, shown) = flushed.judged(&VolatileCache::default(), 5000, None);
    assert_eq!((counts.bad, counts.unread), (0, 0), "{shown:?}");
    assert!(counts.distinct > 100 && counts.recovered >= 10, "{counts:?}");
}

#[test]
fn order_that_is_ignored_is_found_out_and_made_small() {
    for name in ["kept", "ignoring"] {
        let Some(recorded) = recorded(name) else { return };
        let (counts, shown) = recorded.judged(&VolatileCache::default(), 5000, None);
        assert!(counts.bad > 0 && counts.unread == 0, "{name}: {counts:?}");
        let first = shown.iter().find(|bad| bad.by == Judged::Journal && bad.smallest.is_some()).unwrap();
        assert!(first.smallest.as_ref().unwrap().len() < first.state.survivors.lost().max(2), "{name}: {first:?}");
        assert!(shown.iter().all(|bad| bad.by != Judged::Recovery), "{name}: {shown:?}");
    }
}

#[test]
fn a_reader_that_does_not_replay_is_found_out_by_e2fsck() {
    let Some(kept) = recorded("kept") else { return };
    let (counts, shown) = kept.judged(&kept.streams(), 1000, Some(Defect::ReplaySkipped));
    assert!(counts.bad > 0 && shown.iter().any(|bad| bad.by == Judged::Recovery), "{counts:?}");
}

#[test]
fn promises_are_what_finds_lost_files() {
    let Some(mut kept) = recorded("kept") else { return };
    // The run of a host that says before what is only true later: each call over as soon as it had begun.
    for call in &mut kept.calls {
        call.left.position = call.entered.position;
    }
    let (counts, shown) = kept.judged(&kept.streams(), 3000, None);
    assert!(counts.bad > 0 && shown.iter().all(|bad| bad.by == Judged::Files), "{shown:?}");
    let (counts, _) = kept.judged(&kept.streams(), 3000, Some(Defect::Blind));
    assert_eq!(counts.bad, 0);
}

#[test]
fn what_was_stopped_goes_on_and_comes_to_the_same() {
    let Some(kept) = recorded("kept") else { return };
    let whole = kept.judged(&kept.streams(), 3000, None);
    let folder = tempfile::tempdir().unwrap();
    let judgement = kept.judgement(folder.path(), 3000);
    let asked = AtomicU64::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 20;
    let stopped = judge(&judgement, &kept.streams(), &stop, &mut |_| {});
    assert!(matches!(stopped, Err(OfflineError::Stopped)), "{stopped:?}");
    let (counts, shown) = judge(&judgement, &kept.streams(), &|| false, &mut |_| {}).unwrap();
    assert_eq!((counts, shown), whole);
    let other = Judgement { seed: 2, ..judgement };
    let refused = judge(&other, &kept.streams(), &|| false, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("holds other states"), "{refused}");
}
