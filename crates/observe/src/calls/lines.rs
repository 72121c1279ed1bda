//! The list as a file: JSON, a line each.

use std::io::{self, BufRead, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crash::files::Call;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Acknowledgement, Followed, Program};

/// Of the form below.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one.
    Calls {
        version: u32,
    },
    Call(Call),
    Acknowledgement(Acknowledgement),
    Unfollowed(String),
    Program(Program),
    /// The last one, so that a file that was cut off is noticed; as `waitpid` has it.
    Ended {
        status: i32,
    },
}

/// Why a file is not a list of calls.
#[derive(Debug, Error)]
pub enum LinesError {
    /// It cannot be read.
    #[error("cannot read the list of calls: {0}")]
    Read(#[from] io::Error),
    /// A line says nothing.
    #[error("line {line} of the list of calls: {source}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It is something else.
    #[error("this is no list of calls of version {VERSION}")]
    Version,
    /// The last line is missing.
    #[error("the list of calls was cut off")]
    CutOff,
}

impl Followed {
    /// Writes the list.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut put = |line: &Line| -> io::Result<()> {
            serde_json::to_writer(&mut *to, line)?;
            to.write_all(b"\n")
        };
        put(&Line::Calls { version: VERSION })?;
        for call in &self.calls {
            put(&Line::Call(call.clone()))?;
        }
        for acknowledgement in &self.acknowledgements {
            put(&Line::Acknowledgement(acknowledgement.clone()))?;
        }
        for way in &self.unfollowed {
            put(&Line::Unfollowed(way.clone()))?;
        }
        for program in &self.programs {
            put(&Line::Program(program.clone()))?;
        }
        put(&Line::Ended { status: self.status.into_raw() })
    }

    /// Reads a list that was written.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not whole.
    pub fn read(from: impl BufRead) -> Result<Self, LinesError> {
        let mut followed = Self {
            calls: Vec::new(),
            acknowledgements: Vec::new(),
            unfollowed: Vec::new(),
            programs: Vec::new(),
            status: ExitStatus::default(),
        };
        for (number, line) in from.lines().enumerate() {
            let line = serde_json::from_str(&line?);
            let line = line.map_err(|source| LinesError::Line { line: number + 1, source })?;
            match line {
                Line::Calls { version: VERSION } if number == 0 => {}
                Line::Calls { .. } => return Err(LinesError::Version),
                _ if number == 0 => return Err(LinesError::Version),
                Line::Call(call) => followed.calls.push(call),
                Line::Acknowledgement(acknowledgement) => followed.acknowledgements.push(acknowledgement),
                Line::Unfollowed(way) => followed.unfollowed.push(way),
                Line::Program(program) => followed.programs.push(program),
                Line::Ended { status } => {
                    followed.status = ExitStatus::from_raw(status);
                    return Ok(followed);
                }
            }
        }
        Err(LinesError::CutOff)
    }
}

#[cfg(test)]
mod tests {
    use crash::files::{Action, Data, Durability, FileId, FilePath, Moment};

    use super::*;

    fn list() -> Followed {
        let file = FileId { device: 7, inode: 12 };
        let call = |action| Call {
            thread: 1,
            name: "some".to_owned(),
            entered: Moment { order: 4, position: 10 },
            left: Moment { order: 5, position: 12 },
            result: Some(-5),
            action,
        };
        let data = Data::Bytes(vec![0, 255, 10, 34]);
        Followed {
            calls: vec![
                call(Action::Create { path: Some(FilePath::new(*b"a/\xff\n")), file }),
                call(Action::Write { file, offset_bytes: 3, data, durability: Some(Durability::Data) }),
                call(Action::Write { file, offset_bytes: 3, data: Data::Unknown(9), durability: None }),
                call(Action::SyncAll),
            ],
            acknowledgements: vec![Acknowledgement { line: "said".to_owned(), at: Moment { order: 9, position: 12 } }],
            unfollowed: vec!["a way".to_owned()],
            programs: vec![Program { thread: 1, process: 77, from_order: 4, program: "sh".to_owned() }],
            status: ExitStatus::from_raw(256),
        }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let mut text = Vec::new();
        list().write(&mut text).unwrap();
        assert_eq!(Followed::read(text.as_slice()).unwrap(), list());
    }

    #[test]
    fn a_list_that_is_not_whole_is_refused() {
        let mut text = Vec::new();
        list().write(&mut text).unwrap();
        for end in 0..text.len() - 1 {
            assert!(Followed::read(&text[..end]).is_err(), "cut at {end}");
        }
        assert!(matches!(Followed::read(&b"{\"calls\":{\"version\":2}}\n"[..]), Err(LinesError::Version)));
    }
}
