//! What is to be done and what has been, in a file that outlives the run.
//!
//! Text, a JSON value a line. The first is `{"plumb_defrag_journal":1,"files":N}`; then come N plans of files, as
//! [`FilePlan`] serialises; then one line for each range that was dealt with: `{"file":I,"move":J,"moved":{…}}`,
//! both counted from zero. The head is written under another name and renamed when it is whole. What the last write
//! left of a line, if the run was killed within it, is cut off.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::migrate::Moved;
use crate::plan::FilePlan;

const VERSION: u32 = 1;
/// Longest line: the plan of a file with a million moves has less.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("journal {path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// It is not one.
    #[error("journal {path}, line {line}: {why}; remove it to begin anew")]
    Form {
        /// Which.
        path: PathBuf,
        /// Counted from one.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// Another run has it.
    #[error("journal {path}: another run uses it; wait for its end, or name another one")]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// It is there already.
    #[error("journal {path}: already there; resume it, remove it, or name another one")]
    Exists {
        /// Which.
        path: PathBuf,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    plumb_defrag_journal: u32,
    files: u64,
}

#[derive(Serialize, Deserialize)]
struct Done {
    file: u64,
    r#move: u64,
    moved: Moved,
}

/// An open journal. It is locked as long as it is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    done: BTreeMap<(u64, u64), Moved>,
}

impl Journal {
    /// Begins one for a plan. There must be no file of that name.
    pub fn create(path: &Path, files: &[FilePlan]) -> Result<Self, JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        if path.symlink_metadata().is_ok() {
            return Err(JournalError::Exists { path: path.to_owned() });
        }
        let mut draft_name = path.file_name().unwrap_or_default().to_owned();
        draft_name.push(format!(".{}.draft", std::process::id()));
        let draft = path.with_file_name(draft_name);
        let write = || -> io::Result<File> {
            let file = OpenOptions::new().read(true).append(true).create_new(true).open(&draft)?;
            let mut writer = BufWriter::new(&file);
            let line = |writer: &mut BufWriter<&File>, value: &dyn erased::Line| -> io::Result<()> {
                value.write(writer)?;
                writer.write_all(b"\n")
            };
            line(&mut writer, &Head { plumb_defrag_journal: VERSION, files: files.len() as u64 })?;
            for plan in files {
                line(&mut writer, plan)?;
            }
            writer.flush()?;
            drop(writer);
            file.sync_all()?;
            // Fails if somebody else was faster, unlike a rename.
            std::fs::hard_link(&draft, path)?;
            Ok(file)
        };
        let written = write();
        let _ = std::fs::remove_file(&draft);
        let file = match written {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(JournalError::Exists { path: path.to_owned() });
            }
            Err(error) => return Err(io(error)),
        };
        lock(&file, path)?;
        Ok(Self { path: path.to_owned(), file, done: BTreeMap::new() })
    }

    /// Opens one that an earlier run left, with that run's plan.
    pub fn resume(path: &Path) -> Result<(Self, Vec<FilePlan>), JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(io)?;
        lock(&file, path)?;
        let (files, done, good_bytes) = read(&mut BufReader::new(&file), path)?;
        file.set_len(good_bytes).map_err(io)?;
        (&file).seek(SeekFrom::End(0)).map_err(io)?;
        Ok((Self { path: path.to_owned(), file, done }, files))
    }

    /// What became of a range, if it has been dealt with.
    pub fn done(&self, file: usize, number: usize) -> Option<&Moved> {
        self.done.get(&(file as u64, number as u64))
    }

    /// Ranges dealt with.
    pub fn done_count(&self) -> usize {
        self.done.len()
    }

    /// Whether every range of `files`, its plan, has been dealt with.
    pub fn is_finished(&self, files: &[FilePlan]) -> bool {
        self.done.len() == files.iter().map(|plan| plan.moves.len()).sum::<usize>()
    }

    /// Notes what became of a range.
    pub(super) fn note(&mut self, file: usize, number: usize, moved: &Moved) -> Result<(), JournalError> {
        let done = Done { file: file as u64, r#move: number as u64, moved: moved.clone() };
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(&done)?;
            line.push(b'\n');
            // In one write, so that a kill leaves a part only where the disk is full.
            (&self.file).write_all(&line)
        };
        write().map_err(|error| JournalError::Io { path: self.path.clone(), error })?;
        self.done.insert((done.file, done.r#move), done.moved);
        Ok(())
    }
}

/// Lines of several types by one function.
mod erased {
    use super::{Serialize, Write, io};

    pub trait Line {
        fn write(&self, writer: &mut dyn Write) -> io::Result<()>;
    }

    impl<T: Serialize> Line for T {
        fn write(&self, writer: &mut dyn Write) -> io::Result<()> {
            serde_json::to_writer(writer, self).map_err(io::Error::from)
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    // A process that is just being started holds copies of its parent's files until it becomes another program.
    const ATTEMPTS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            done => return done.map_err(|errno| JournalError::Io { path: path.to_owned(), error: errno.into() }),
        }
    }
    Err(JournalError::Busy { path: path.to_owned() })
}

type Contents = (Vec<FilePlan>, BTreeMap<(u64, u64), Moved>, u64);

/// Reads a journal; with the bytes of it that are whole lines.
fn read(reader: &mut dyn BufRead, path: &Path) -> Result<Contents, JournalError> {
    let mut number = 0;
    let mut good_bytes = 0;
    let mut next = || -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let mut line = Vec::new();
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        let read = io::Read::take(&mut *reader, MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(io)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        number += 1;
        good_bytes += read as u64;
        Ok(Some((number, line)))
    };
    let form = |line: u64, why: &dyn std::fmt::Display| JournalError::Form {
        path: path.to_owned(),
        line,
        why: why.to_string(),
    };
    let Some((line, text)) = next()? else { return Err(form(1, &"it is empty or cut off")) };
    let head: Head = serde_json::from_slice(&text).map_err(|error| form(line, &error))?;
    if head.plumb_defrag_journal != VERSION {
        return Err(form(line, &format!("version {} is not known, {VERSION} is", head.plumb_defrag_journal)));
    }
    let mut files = Vec::new();
    for _ in 0..head.files {
        let Some((line, text)) = next()? else { return Err(form(line, &"the plan is cut off")) };
        let plan: FilePlan = serde_json::from_slice(&text).map_err(|error| form(line, &error))?;
        files.push(plan);
    }
    let mut done = BTreeMap::new();
    while let Some((line, text)) = next()? {
        let entry: Done = serde_json::from_slice(&text).map_err(|error| form(line, &error))?;
        let of_plan = usize::try_from(entry.file).ok().and_then(|file| files.get(file));
        if of_plan.is_none_or(|plan| entry.r#move >= plan.moves.len() as u64) {
            return Err(form(line, &"there is no such move in its plan"));
        }
        done.insert((entry.file, entry.r#move), entry.moved);
    }
    Ok((files, done, good_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{FileFacts, Move};
    use crate::{ByteRange, FileId};
    use proptest::prelude::*;

    fn plan(name: &str, moves: u64) -> FilePlan {
        let to_move = |at: u64| Move {
            range: ByteRange { start: at << 17, end: (at + 1) << 17 },
            pieces: 4,
            requests_before: 4,
            requests_after: 1,
        };
        FilePlan {
            file: FileFacts {
                path: name.into(),
                id: FileId { device: 7, inode: 12, generation: Some(3) },
                size_bytes: moves << 17,
                block_bytes: 4096,
            },
            pieces: moves * 4,
            requests_before: moves * 4,
            requests_after: moves,
            moves: (0..moves).map(to_move).collect(),
            left_alone: Vec::new(),
        }
    }

    fn moved(bytes: u64) -> Moved {
        Moved { pieces_before: 4, pieces_after: 1, written_bytes: bytes, left: Vec::new() }
    }

    #[test]
    fn a_run_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let files = [plan("/a", 3), plan("/b", 2)];
        let mut journal = Journal::create(&path, &files).unwrap();
        assert!(matches!(Journal::create(&path, &files), Err(JournalError::Exists { .. })));
        assert!(matches!(Journal::resume(&path), Err(JournalError::Busy { .. })));
        journal.note(0, 0, &moved(1)).unwrap();
        journal.note(1, 1, &moved(2)).unwrap();
        drop(journal);
        let (mut journal, again) = Journal::resume(&path).unwrap();
        assert_eq!(again, files);
        assert_eq!(
            (journal.done(0, 0), journal.done(1, 1), journal.done(0, 1)),
            (Some(&moved(1)), Some(&moved(2)), None)
        );
        journal.note(0, 1, &moved(3)).unwrap();
        drop(journal);
        let (mut journal, files) = Journal::resume(&path).unwrap();
        assert_eq!(journal.done_count(), 3);
        assert!(!journal.is_finished(&files));
        journal.note(0, 2, &moved(4)).unwrap();
        journal.note(1, 0, &moved(5)).unwrap();
        assert!(journal.is_finished(&files));
    }

    proptest! {
        /// Wherever the last write ended: what was whole is there, and the journal can be written on.
        #[test]
        fn a_torn_end_is_cut_off(cut in 0_usize..1000) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("journal");
            let mut journal = Journal::create(&path, &[plan("/a", 9)]).unwrap();
            let head = std::fs::metadata(&path).unwrap().len() as usize;
            for number in 0..5 {
                journal.note(0, number, &moved(number as u64)).unwrap();
            }
            drop(journal);
            let bytes = std::fs::read(&path).unwrap();
            let kept = head + cut % (bytes.len() - head + 1);
            let lines = bytes[head..kept].iter().filter(|&&byte| byte == b'\n').count();
            std::fs::write(&path, &bytes[..kept]).unwrap();
            let (mut journal, _) = Journal::resume(&path).unwrap();
            prop_assert_eq!(journal.done_count(), lines);
            journal.note(0, 8, &moved(8)).unwrap();
            drop(journal);
            prop_assert_eq!(Journal::resume(&path).unwrap().0.done_count(), lines + 1);
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), head: bool, changed in 0_usize..400, to: u8) {
            let mut text = Vec::new();
            if head {
                text.extend_from_slice(b"{\"plumb_defrag_journal\":1,\"files\":1}\n");
                text.extend_from_slice(&serde_json::to_vec(&plan("/a", 1)).unwrap());
                text.extend_from_slice(b"\n{\"file\":0,\"move\":0,\"moved\":{\"pieces_before\":1,\"pieces_after\":1,\"written_bytes\":0,\"left\":[]}}\n");
                let length = text.len();
                text[changed % length] = to;
            }
            text.extend_from_slice(&bytes);
            let _ = read(&mut &text[..], "x".as_ref());
        }
    }

    #[test]
    fn a_move_that_is_not_in_the_plan_is_refused() {
        let text = b"{\"plumb_defrag_journal\":1,\"files\":0}\n{\"file\":0,\"move\":0,\"moved\":{\"pieces_before\":1,\"pieces_after\":1,\"written_bytes\":0,\"left\":[]}}\n";
        let error = read(&mut &text[..], "x".as_ref()).unwrap_err();
        assert_eq!(error.to_string(), "journal x, line 2: there is no such move in its plan; remove it to begin anew");
    }
}
