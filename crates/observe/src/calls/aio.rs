//! Linux AIO (linux/aio_abi.h): what `io_submit` takes, and what `io_getevents` gives back.

use std::collections::BTreeMap;

use crash::files::{Action, Moment};

use super::decode::{At, CallPlan};
use super::process::Process;

/// `struct iocb` and `struct io_event`.
const IOCB_BYTES: usize = 64;
const EVENT_BYTES: usize = 32;
/// Most that one call takes or gives of each.
const COUNT_MAX: u64 = 1 << 16;
/// Requests that are under way at a time; more are not followed to their ends.
const UNDER_WAY_MAX: usize = 1 << 20;

/// Operations of `aio_lio_opcode`.
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PWRITEV: u16 = 8;

/// A request about a file that is looked at.
pub(super) struct Submission {
    /// Where its `iocb` is, by which its end is told.
    iocb: u64,
    /// Its place among those of the call.
    number: u64,
    name: &'static str,
    plan: CallPlan,
}

/// A request that is over.
pub(super) struct Over {
    pub(super) thread: u32,
    pub(super) name: &'static str,
    pub(super) entered: Moment,
    pub(super) plan: CallPlan,
    /// Nothing where nobody saw its end.
    pub(super) result: Option<i64>,
}

struct UnderWay {
    thread: u32,
    name: &'static str,
    entered: Moment,
    plan: CallPlan,
}

/// Requests that were submitted, by process and place.
#[derive(Default)]
pub(super) struct Requests(BTreeMap<(i32, u64), UnderWay>);

impl At<'_> {
    /// The requests of an `io_submit`, those about files that are looked at.
    pub(super) fn submissions(&self, count: u64, iocbs: u64) -> Option<CallPlan> {
        let count = count.min(COUNT_MAX);
        let addresses = self.process.memory(iocbs, count as usize * 8);
        let found: Vec<Submission> = (0..)
            .zip(addresses.as_chunks().0)
            .filter_map(|(number, address)| self.submission(number, u64::from_ne_bytes(*address)))
            .collect();
        (!found.is_empty()).then_some(CallPlan::Submit(found))
    }

    fn submission(&self, number: u64, iocb: u64) -> Option<Submission> {
        let bytes = self.process.memory(iocb, IOCB_BYTES);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let opcode = (word(16)? & 0xffff) as u16;
        let descriptor = u64::from(word(20)?);
        let (buffer, length, offset, flags) = (long(24)?, long(32)?, long(40)?, word(12)? as i32);
        let sync = |data_only| self.file(descriptor).map(|file| CallPlan::Known(Action::Sync { file, data_only }));
        let (name, plan) = match opcode {
            PWRITE => ("io_submit (pwrite)", self.write(descriptor, &[(buffer, length)], Some(offset), flags)?),
            PWRITEV => {
                ("io_submit (pwritev)", self.write(descriptor, &self.pieces(buffer, length), Some(offset), flags)?)
            }
            FSYNC => ("io_submit (fsync)", sync(false)?),
            FDSYNC => ("io_submit (fdatasync)", sync(true)?),
            _ => return None,
        };
        Some(Submission { iocb, number, name, plan })
    }
}

impl Requests {
    /// The first `accepted` of these are under way now. Of one whose place is taken by another the end was not seen: it is given
    /// back, too.
    pub(super) fn submitted(
        &mut self,
        process: Process,
        (thread, entered): (u32, Moment),
        submissions: Vec<Submission>,
        accepted: u64,
    ) -> Vec<Over> {
        let group = process.group();
        let mut lost = Vec::new();
        for Submission { iocb, number, name, plan } in submissions {
            if number >= accepted {
                continue;
            }
            let request = UnderWay { thread, name, entered, plan };
            if self.0.len() >= UNDER_WAY_MAX {
                lost.push(request.over(None));
            } else if let Some(before) = self.0.insert((group, iocb), request) {
                lost.push(before.over(None));
            }
        }
        lost
    }

    /// Those whose ends are told at `events`.
    pub(super) fn reaped(&mut self, process: Process, events: u64, count: u64) -> Vec<Over> {
        let group = process.group();
        let bytes = process.memory(events, count.min(COUNT_MAX) as usize * EVENT_BYTES);
        let numbers = |event: &[u8; EVENT_BYTES]| {
            let number = |at: usize| event.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
            Some((number(8)?, number(16)? as i64))
        };
        let told = bytes.as_chunks().0.iter().filter_map(numbers);
        told.filter_map(|(iocb, result)| Some(self.0.remove(&(group, iocb))?.over(Some(result)))).collect()
    }

    /// All that are left when the command has ended.
    pub(super) fn rest(&mut self) -> Vec<Over> {
        std::mem::take(&mut self.0).into_values().map(|request| request.over(None)).collect()
    }
}

impl UnderWay {
    fn over(self, result: Option<i64>) -> Over {
        let Self { thread, name, entered, plan } = self;
        Over { thread, name, entered, plan, result }
    }
}
