//! The published way of moving, which must be found out.

use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use plumb_defrag::migrate::{Facts, Files, Migrate, MigrateError, Opening, Pace, Progress, Refusal, Segment};
use rustix::fs::FallocateFlags;

/// Reads, punches a hole, allocates anew, and writes back: a crash in between leaves zeros, and what somebody writes in
/// between is lost.
pub struct PunchAndRewrite;

impl Migrate for PunchAndRewrite {
    fn name(&self) -> &'static str {
        "punch and rewrite"
    }

    fn check(&self, _facts: &Facts) -> Option<Result<(), Refusal>> {
        Some(Ok(()))
    }

    fn opening(&self) -> Opening {
        Opening::Write
    }

    fn migrate(
        &self,
        files: &mut Files<'_>,
        segment: &Segment,
        _pace: &mut dyn Pace,
    ) -> Result<Progress, MigrateError> {
        let file = files.target.file();
        let (start, length) = (segment.range.start, segment.range.len());
        let mut data = vec![0; length as usize];
        file.read_exact_at(&mut data, start).unwrap();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, punch, start, length).unwrap();
        rustix::fs::fallocate(file, FallocateFlags::empty(), start, length).unwrap();
        // Others have their chance, as they had in the tool's loop.
        thread::sleep(Duration::from_millis(5));
        file.write_all_at(&data, start).unwrap();
        Ok(Progress { written_bytes: length, left: None })
    }
}
