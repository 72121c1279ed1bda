//! Journals that go on, that are damaged, and that are another run's.

use super::*;
use crate::plan::{FileFacts, Move};
use crate::{ByteRange, FileId};
use proptest::prelude::*;

fn plan(name: &str, moves: u64) -> FilePlan {
    let to_move = |at: u64| Move {
        range: ByteRange { start: at << 17, end: (at + 1) << 17 },
        bytes: 1 << 17,
        pieces: 4,
        requests_before: 4,
        requests_after: 1,
    };
    let file = FileFacts {
        path: name.into(),
        id: FileId { device: 7, inode: 12, generation: Some(3) },
        size_bytes: moves << 17,
        block_bytes: 4096,
    };
    FilePlan::of_moves(file, moves * 4, moves * 4, (0..moves).map(to_move).collect())
}

fn moved(bytes: u64) -> Moved {
    Moved { pieces_before: 4, pieces_after: 1, written_bytes: bytes, left: Vec::new() }
}

fn origin() -> Origin {
    Origin {
        paths: vec!["/srv".into()],
        trace: None,
        mode: crate::plan::Mode::Bypass,
        hotness_percent: 100,
        readahead_bytes: 128 << 10,
        shared: false,
        open_files: false,
    }
}

fn failed() -> FileOutcome {
    FileOutcome::Failed("cannot copy a part of it: Input/output error".to_owned())
}

#[test]
fn a_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let files = [plan("/a", 3), plan("/b", 2)];
    let mut journal = Journal::create(&path, &origin(), &files).unwrap();
    assert!(matches!(Journal::create(&path, &origin(), &files), Err(JournalError::Exists { .. })));
    assert!(matches!(Journal::resume(&path), Err(JournalError::Busy { .. })));
    assert!(matches!(Journal::start(&path, &origin()), Err(JournalError::Busy { .. })));
    journal.note(0, 0, &moved(1)).unwrap();
    journal.note(1, 1, &moved(2)).unwrap();
    drop(journal);
    let (mut journal, again) = Journal::resume(&path).unwrap();
    assert_eq!((&again[..], journal.origin()), (&files[..], &origin()));
    assert_eq!((journal.done(0, 0), journal.done(1, 1), journal.done(0, 1)), (Some(&moved(1)), Some(&moved(2)), None));
    journal.note(0, 1, &moved(3)).unwrap();
    drop(journal);
    let (mut journal, files) = Journal::resume(&path).unwrap();
    assert_eq!(journal.done_count(), 3);
    assert!(!journal.is_finished(&files));
    journal.note(0, 2, &moved(4)).unwrap();
    journal.note(1, 0, &moved(5)).unwrap();
    assert!(journal.is_finished(&files));
    drop(journal);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the journal alone: {left:?}");
}

#[test]
fn a_file_that_failed_is_dealt_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::create(&path, &origin(), &[plan("/a", 3), plan("/b", 1)]).unwrap();
    journal.note(0, 0, &moved(1)).unwrap();
    journal.note_file(0, &failed()).unwrap();
    drop(journal);
    let (mut journal, files) = Journal::resume(&path).unwrap();
    assert!(!journal.is_finished(&files));
    assert_eq!((journal.outcome(0), journal.outcome(1)), (Some(&failed()), None));
    journal.note(1, 0, &moved(1)).unwrap();
    assert!(journal.is_finished(&files));
    drop(journal);
    // The next run with the same of everything has a plan of its own.
    assert!(matches!(Journal::start(&path, &origin()).unwrap(), Start::Begin(Some(note)) if note.contains("finished")));
    assert!(!path.exists());
}

#[test]
fn a_journal_of_something_else_is_never_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let aside = folder.path().join("journal.old");
    let mut other = origin();
    other.paths = vec!["/home".into()];
    for round in 0..3 {
        drop(Journal::create(&path, &origin(), &[plan("/a", 3)]).unwrap());
        assert!(matches!(Journal::start(&path, &origin()).unwrap(), Start::GoOn(..)), "round {round}");
        let Start::Begin(Some(note)) = Journal::start(&path, &other).unwrap() else { panic!("gone on with") };
        assert!(note.contains("journal was of /srv; it is ") && note.contains("journal.old now"), "{note}");
        assert!(!path.exists());
        // It can still be finished by itself.
        assert_eq!(Journal::resume(&aside).unwrap().0.origin(), &origin());
    }
    // What is damaged goes the same way, and what is no journal stays.
    std::fs::write(&path, "{\"plumb_defrag_journal\":1,\"files\":0}\n").unwrap();
    let error = Journal::resume(&path).unwrap_err().to_string();
    assert!(error.contains("line 1: version 1 is not known, 2 is; remove it"), "{error}");
    assert!(matches!(Journal::start(&path, &other).unwrap(), Start::Begin(Some(_))));
    assert!(aside.exists() && !path.exists());
    for foreign in ["my diary\n", "{}", "\0\0\0\0"] {
        std::fs::write(&path, foreign).unwrap();
        assert!(matches!(Journal::start(&path, &other), Err(JournalError::Foreign { .. })), "{foreign:?}");
        assert!(matches!(Journal::resume(&path), Err(JournalError::Foreign { .. })), "{foreign:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
    }
    // An empty file is a name and nothing else.
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Journal::start(&path, &other).unwrap(), Start::Begin(None)));
    drop(Journal::create(&path, &other, &[]).unwrap());
    // What a killed run left of its draft is no obstacle.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(folder.path().join("journal.draft"), "half").unwrap();
    drop(Journal::create(&path, &other, &[plan("/a", 1)]).unwrap());
    assert!(!folder.path().join("journal.draft").exists());
    // A folder is none either.
    assert!(Journal::start(folder.path(), &other).is_err());
}

#[test]
fn of_two_that_begin_at_once_one_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for round in 0..20 {
        let begin = || match Journal::start(&path, &origin()) {
            Ok(Start::Begin(_)) => Journal::create(&path, &origin(), &[plan("/a", 1)]).ok(),
            Ok(Start::GoOn(journal, _)) => Some(journal),
            Err(_) => None,
        };
        let both: Vec<Option<Journal>> = std::thread::scope(|scope| {
            let threads = [scope.spawn(begin), scope.spawn(begin)];
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(both.iter().flatten().count(), 1, "round {round}");
        let Some(mut journal) = both.into_iter().flatten().next() else { continue };
        assert!(Locked { path: path.clone(), file: journal.file.try_clone().unwrap() }.has_name());
        if round % 2 == 0 {
            journal.note(0, 0, &moved(1)).unwrap();
        }
    }
}

fn written() -> (Vec<u8>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::create(&path, &origin(), &[plan("/a", 9), plan("/b", 1)]).unwrap();
    let head = std::fs::metadata(&path).unwrap().len() as usize;
    for number in 0..5 {
        journal.note(0, number, &moved(number as u64)).unwrap();
    }
    journal.note_file(1, &failed()).unwrap();
    drop(journal);
    (std::fs::read(&path).unwrap(), head)
}

/// Cut off at any byte: what was whole is there and the journal can be written on, or it is said to be damaged.
#[test]
fn cut_off_at_any_byte() {
    let (bytes, head) = written();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for kept in 1..bytes.len() {
        std::fs::write(&path, &bytes[..kept]).unwrap();
        match Journal::resume(&path) {
            Ok((mut journal, files)) => {
                assert!(kept >= head, "{kept} bytes of a plan of {head}");
                let lines = bytes[head..kept].iter().filter(|&&byte| byte == b'\n').count();
                assert_eq!((journal.done_count(), files.len()), (lines, 2));
                journal.note(0, 8, &moved(8)).unwrap();
                drop(journal);
                assert_eq!(Journal::resume(&path).unwrap().0.done_count(), lines + 1);
            }
            Err(JournalError::Damaged { .. } | JournalError::Foreign { .. }) => assert!(kept < head),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Changed at any byte: nothing is taken as done that is not, and no plan is carried out that was not made.
#[test]
fn changed_at_any_byte() {
    let (bytes, head) = written();
    let good = lines::read(&mut &bytes[..]).unwrap();
    for at in 0..bytes.len() {
        for change in [1_u8, 0x80, b'\n' ^ bytes[at]] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(read) = lines::read(&mut &changed[..]) {
                assert!(change == 0 || at >= head, "byte {at} of the plan");
                assert_eq!((&read.files, &read.origin), (&good.files, &good.origin));
                assert!(read.done.iter().all(|(key, moved)| good.done.get(key) == Some(moved)), "byte {at}");
                assert!(read.outcomes.len() <= 1);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), head: bool) {
        let mut text = if head { written().0 } else { Vec::new() };
        text.extend_from_slice(&bytes);
        let _ = lines::read(&mut &text[..]);
    }
}

#[test]
fn a_move_that_is_not_in_the_plan_is_refused() {
    let head = Head { plumb_defrag_journal: VERSION, files: 0, origin: origin() };
    let note = Note::Range { file: 0, r#move: 0, moved: moved(1) };
    let text = [lines::line(&head).unwrap(), lines::line(&note).unwrap()].concat();
    let unread = lines::read(&mut &text[..]).unwrap_err();
    assert!(
        matches!(&unread, Unread::Damaged { line: 2, why } if why == "there is no such file in its plan"),
        "{unread:?}"
    );
}
