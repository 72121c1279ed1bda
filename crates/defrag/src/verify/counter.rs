//! Counts the requests that this thread causes, at the disks of one file.

use std::collections::BTreeMap;
use std::path::Path;

use observe::tracefs::{Instance, Record, device_to_kernel};

use super::VerifyError;
use super::devices::Disks;
use super::report::VerifiedFile;

/// `RWBS` of the kernel's block events: read, and metadata.
const READ: char = 'R';
const METADATA: char = 'M';
/// Most requests that are waited for at once; a plug holds 64 at most, and a read is waited for.
const MAX_WAITING: usize = 1 << 16;

/// Counts from `start` to `finish`.
pub(super) struct Counter {
    instance: Instance,
    requests: Requests,
}

impl Counter {
    pub fn start(path: &Path, disks: &Disks) -> Result<Self, VerifyError> {
        let instance = Instance::create()?;
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let filter = disks.numbers.iter().map(|&device| format!("dev=={}", device_to_kernel(device)));
        let of_disks = filter.collect::<Vec<_>>().join("||");
        // The device of the first may be a partition.
        instance.enable("block", "block_getrq", &format!("common_pid=={thread}"))?;
        if !instance.enable("block", "block_rq_issue", &of_disks)? {
            return Err(VerifyError::NoDevice { path: path.to_owned() });
        }
        instance.switch(true)?;
        Ok(Self { instance, requests: Requests { thread, ..Requests::default() } })
    }

    /// Takes what has come, so that the kernel's buffers do not run over.
    pub fn collect(&mut self) -> Result<(), VerifyError> {
        let requests = &mut self.requests;
        while self.instance.read(&mut |record| requests.event(record))? {}
        Ok(())
    }

    /// The counts, put into a file's.
    pub fn finish(mut self, into: &mut VerifiedFile) -> Result<(), VerifyError> {
        self.instance.switch(false)?;
        self.collect()?;
        into.issued = self.requests.issued;
        into.by_others = self.requests.by_others;
        into.lost = self.instance.lost()?;
        Ok(())
    }
}

/// Which requests are this thread's: those that it issues, and those that it made (`block_getrq`) and another thread
/// issues for it, as the kernel's workers do when this one is preempted with requests in its plug.
#[derive(Default)]
struct Requests {
    thread: u32,
    issued: u64,
    by_others: u64,
    /// Made and not issued yet: first sector, and the one behind the last. It may grow at either end by merges.
    waiting: BTreeMap<u64, u64>,
}

impl Requests {
    fn event(&mut self, record: &Record<'_>) {
        let is = |letter| record.text("rwbs").is_some_and(|text| text.contains(letter));
        let (Some(first), Some(sectors)) = (record.field("sector"), record.field("nr_sector")) else { return };
        if !is(READ) || is(METADATA) {
            return;
        }
        let end = first.saturating_add(sectors);
        match record.name {
            "block_getrq" if record.thread == self.thread && self.waiting.len() < MAX_WAITING => {
                self.waiting.insert(first, end);
            }
            "block_rq_issue" => {
                let within = |(&start, &stop): (&u64, &u64)| (stop <= end).then_some(start);
                let made: Vec<u64> = self.waiting.range(first..end).filter_map(within).collect();
                for start in &made {
                    self.waiting.remove(start);
                }
                let is_own = record.thread == self.thread || !made.is_empty();
                *if is_own { &mut self.issued } else { &mut self.by_others } += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lines: &[String]) -> (u64, u64, usize) {
        let mut requests = Requests { thread: 7, ..Requests::default() };
        lines.iter().for_each(|line| requests.event(&Record::parse(line.as_bytes()).unwrap()));
        (requests.issued, requests.by_others, requests.waiting.len())
    }

    fn line(thread: u32, event: &str, rwbs: &str, sector: u64, sectors: u64) -> String {
        format!(
            "            name-{thread:<7} [001] ..... 1.0: {event}: dev=0x700001 (1) sector={sector:#x} ({sector}) nr_sector={sectors:#x} ({sectors}) rwbs={rwbs} comm=name"
        )
    }

    #[test]
    fn what_a_worker_issues_for_this_thread_is_its_own() {
        let lines = [
            line(7, "block_getrq", "RS", 100, 8),
            line(7, "block_getrq", "RS", 200, 8),
            line(7, "block_getrq", "RS", 300, 8),
            line(7, "block_rq_issue", "RS", 100, 8),
            // Merged at its front and at its back since it was made.
            line(9, "block_rq_issue", "RS", 192, 24),
            line(9, "block_rq_issue", "RS", 300, 8),
            // Somebody else's, next to them and at a place that was read before.
            line(9, "block_rq_issue", "RS", 308, 8),
            line(9, "block_rq_issue", "RS", 300, 8),
        ];
        assert_eq!(counted(&lines), (3, 2, 0));
    }

    #[test]
    fn writes_and_metadata_are_not_counted() {
        let lines = [line(7, "block_rq_issue", "RSM", 1, 8), line(7, "block_rq_issue", "WS", 9, 8)];
        assert_eq!(counted(&lines), (0, 0, 0));
    }
}
