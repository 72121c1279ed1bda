//! By whom a write of the device was made: the system call that changed these bytes, or the one in which it was given to the device.

use crash::files::{Action, Call};
use observe::calls::Program;

use crate::crash::task::LostFile;

/// The command's calls, with the programs that made them.
pub(super) struct Writers {
    pub(super) calls: Vec<Call>,
    programs: Vec<Program>,
}

impl Writers {
    pub(super) fn new(calls: Vec<Call>, programs: Vec<Program>) -> Self {
        Self { calls, programs }
    }

    /// The last call before the device's log was `position` bytes long that changed a part of these bytes.
    pub(super) fn of_file(&self, file: &LostFile, position: u64) -> Option<usize> {
        self.calls.iter().rposition(|call| {
            let (number, from, to) = match &call.action {
                Action::Write { file, offset_bytes, data, .. } => {
                    (file.inode, *offset_bytes, offset_bytes.saturating_add(data.len_bytes()))
                }
                Action::Allocate { file, offset_bytes, len_bytes, .. } => {
                    (file.inode, *offset_bytes, offset_bytes.saturating_add(*len_bytes))
                }
                Action::Map { file, offset_bytes, len_bytes } => {
                    (file.inode, *offset_bytes, offset_bytes.saturating_add(*len_bytes))
                }
                Action::Truncate { file, size_bytes } => (file.inode, *size_bytes, u64::MAX),
                _ => return false,
            };
            number == file.inode && from < file.to_bytes && file.from_bytes < to && call.entered.position <= position
        })
    }

    /// The call that was under way then.
    pub(super) fn during(&self, position: u64) -> Option<usize> {
        self.calls.iter().rposition(|call| call.entered.position <= position && position < call.left.position)
    }

    /// The call that began at this moment.
    pub(super) fn at(&self, entered: u64) -> Option<usize> {
        self.calls.iter().position(|call| call.entered.order == entered)
    }

    /// `pwrite64` of sqlite3 (thread 0, call 7).
    pub(super) fn name(&self, number: usize) -> String {
        let Some(call) = self.calls.get(number) else { return format!("call {number}") };
        let runs =
            self.programs.iter().rfind(|runs| runs.thread == call.thread && runs.from_order <= call.entered.order);
        match runs {
            Some(runs) => {
                format!("`{}` by {} (process {}, call {number})", call.name, runs.program, runs.process)
            }
            None => format!("`{}` (thread {}, call {number})", call.name, call.thread),
        }
    }
}
