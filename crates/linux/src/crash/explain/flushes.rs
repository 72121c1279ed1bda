//! Why a write that a promise needs was not durable when the promise was made, by the device's log.

use crash::{Event, Log, WriteId};

/// What is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gap {
    /// Nothing that the device had been given is lost.
    NothingLost,
    /// This write was given to the device later.
    GivenAfter(usize),
    /// This write had not completed.
    UnderWay(usize),
    /// The flush was submitted before the write had completed, which it therefore does not cover.
    FlushedTooEarly { write: usize, flush: usize },
    /// It had completed, and no flush came after that.
    NoFlush(usize),
    /// A flush covers it: what is lost is not what was promised.
    Covered(usize),
}

impl Gap {
    /// Of the writes at the entries `lost`, for a promise that was made before the entry `at`. The first write with a gap counts.
    pub(super) fn of(log: &Log, lost: &[usize], at: usize) -> Self {
        let gaps = lost.iter().map(|write| of_one(log, *write, at));
        let rank = |gap: &Self| match gap {
            Self::FlushedTooEarly { .. } => 0,
            Self::NoFlush(_) => 1,
            Self::UnderWay(_) => 2,
            Self::GivenAfter(_) => 3,
            Self::Covered(_) | Self::NothingLost => 4,
        };
        gaps.min_by_key(rank).unwrap_or(Self::NothingLost)
    }

    /// Its name in groups and in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NothingLost => "nothing-lost",
            Self::GivenAfter(_) => "given-after",
            Self::UnderWay(_) => "under-way",
            Self::FlushedTooEarly { .. } => "flushed-too-early",
            Self::NoFlush(_) => "no-flush",
            Self::Covered(_) => "covered",
        }
    }

    /// In words, behind what was promised.
    pub(super) fn words(self) -> String {
        match self {
            Self::NothingLost => {
                "every write that the device had been given is there, so it is in what was written for it, or in \
                                  recovery"
                    .to_owned()
            }
            Self::GivenAfter(write) => format!("#{write} was given to the device only after that"),
            Self::UnderWay(write) => format!("#{write} was still under way then"),
            Self::FlushedTooEarly { write, flush } => {
                format!("the flush #{flush} was submitted before #{write} had completed, so it does not cover it")
            }
            Self::NoFlush(write) => format!("no flush came between the end of #{write} and that"),
            Self::Covered(write) => format!("a flush had covered #{write}"),
        }
    }
}

fn of_one(log: &Log, write: usize, at: usize) -> Gap {
    let entries = log.entries();
    if write >= at {
        return Gap::GivenAfter(write);
    }
    let Some(Event::Write { id, .. }) = entries.get(write).map(|entry| &entry.event) else {
        return Gap::Covered(write);
    };
    let done = completed(log, write, *id).filter(|done| *done < at);
    let mut early = None;
    for (flush, entry) in entries.iter().enumerate().take(at).skip(write) {
        let Event::FlushSubmitted(flush_id) = entry.event else { continue };
        let is_over = entries.iter().take(at).skip(flush).any(|entry| entry.event == Event::FlushCompleted(flush_id));
        match done {
            Some(done) if flush > done && is_over => return Gap::Covered(write),
            Some(done) if flush > done => {}
            _ if is_over => early = Some(flush),
            _ => {}
        }
    }
    match (early, done) {
        (Some(flush), _) => Gap::FlushedTooEarly { write, flush },
        (None, Some(_)) => Gap::NoFlush(write),
        (None, None) => Gap::UnderWay(write),
    }
}

/// The entry at which a write completed.
pub(super) fn completed(log: &Log, write: usize, id: WriteId) -> Option<usize> {
    let is_end = |event: &Event| matches!(event, Event::Completed(done) if *done == id);
    log.entries().iter().skip(write).position(|entry| is_end(&entry.event)).map(|after| write + after)
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    /// `w` submits the next write, `0` to `9` complete that one, `f` submits a flush, `F` completes the oldest.
    fn log(events: &str) -> Log {
        let mut log = Log::new(1 << 20, 512).unwrap();
        let (mut writes, mut flushes) = (Vec::new(), std::collections::VecDeque::new());
        for event in events.chars() {
            let event = match event {
                'w' => {
                    writes.push(log.next_write());
                    Event::write(writes[writes.len() - 1], 512 * writes.len() as u64, &[1; 512])
                }
                'f' => {
                    flushes.push_back(log.next_flush());
                    Event::FlushSubmitted(flushes[flushes.len() - 1])
                }
                'F' => Event::FlushCompleted(flushes.pop_front().unwrap()),
                number => Event::Completed(writes[number.to_digit(10).unwrap() as usize]),
            };
            log.push(Nanos(0), event).unwrap();
        }
        log
    }

    #[test]
    fn each_gap_is_told_from_the_others() {
        let of = |events: &str, at: usize| Gap::of(&log(events), &[0], at);
        assert_eq!(of("w0fF", 4), Gap::Covered(0));
        assert_eq!(of("w0", 2), Gap::NoFlush(0));
        assert_eq!(of("w0f", 3), Gap::NoFlush(0), "it is not over");
        assert_eq!(of("w0fF", 3), Gap::NoFlush(0), "it is over after the promise");
        assert_eq!(of("wf0F", 4), Gap::FlushedTooEarly { write: 0, flush: 1 });
        assert_eq!(of("wfF0", 3), Gap::FlushedTooEarly { write: 0, flush: 1 });
        assert_eq!(of("wf0FfF", 6), Gap::Covered(0), "the second one covers it");
        assert_eq!(of("w", 1), Gap::UnderWay(0));
        assert_eq!(of("w0", 0), Gap::GivenAfter(0));
        assert_eq!(Gap::of(&log("w"), &[], 1), Gap::NothingLost);
        assert_eq!(Gap::of(&log("w0fFw1"), &[0, 4], 6), Gap::NoFlush(4), "the one that says something");
    }
}
