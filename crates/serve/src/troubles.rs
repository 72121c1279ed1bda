//! What goes wrong beneath the device: said once for each kind, then counted.

use units::{ByteSize, Nanos};

use crate::backend::Refusals;

/// How long more of the same is only counted.
const QUIET: Nanos = Nanos::from_secs(10);

/// Memory is nearly taken from here on, in percent of the limit.
const NEARLY_PERCENT: u64 = 90;

/// How things stand beneath the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beneath {
    /// What the system has refused the store.
    pub(crate) failures: ssd::StoreFailures,
    /// Requests refused for it, and for want of memory.
    pub(crate) refusals: Refusals,
    /// Whether everything that the device has moved to its media is there.
    pub(crate) is_settled: bool,
    /// Memory taken for contents, and its bound.
    pub(crate) memory_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
}

/// What has been said of it.
pub(crate) struct Troubles<'a> {
    log: &'a dyn Fn(&str),
    reads: Said,
    writes: Said,
    by_image: Said,
    by_memory: Said,
    settled: bool,
    nearly_full: bool,
}

/// What has been said of one kind.
#[derive(Default)]
struct Said {
    count: u64,
    next_at: Nanos,
}

impl Said {
    /// The number that is to be said now, of `count` so far; `true` where it is the first time.
    fn due(&mut self, now: Nanos, count: u64) -> Option<(u64, bool)> {
        let (new, is_first) = (count - self.count.min(count), self.count == 0);
        if new == 0 || now < self.next_at {
            return None;
        }
        self.count = count;
        self.next_at = now + QUIET;
        Some((new, is_first))
    }
}

impl<'a> Troubles<'a> {
    pub(crate) fn new(log: &'a dyn Fn(&str)) -> Self {
        let [reads, writes, by_image, by_memory] = Default::default();
        Self { log, reads, writes, by_image, by_memory, settled: true, nearly_full: false }
    }

    /// Says what is new. At the `end`, also what would have waited.
    pub(crate) fn look(&mut self, now: Nanos, beneath: &Beneath, end: bool) {
        let now = if end { Nanos(u64::MAX - QUIET.0) } else { now };
        let log = self.log;
        let Beneath { failures, refusals, is_settled, memory_bytes, limit_bytes } = beneath;
        for (said, kind, what) in [
            (
                &mut self.writes,
                &failures.writes,
                "flushes fail, and what was written since the last one is not durable, until it can be written",
            ),
            (&mut self.reads, &failures.reads, "reads of it fail"),
        ] {
            let first = kind.first.as_deref().unwrap_or_default();
            match said.due(now, kind.count) {
                Some((1, true)) => log(&format!("error: {first}; {what}")),
                Some((count, true)) => log(&format!("error: {first}; and {} more times; {what}", count - 1)),
                Some((count, false)) => log(&format!("error: {count} more times (the first was: {first})")),
                None => {}
            }
        }
        if let Some((count, _)) = self.by_image.due(now, refusals.by_image) {
            log(&format!("error: {count} writes were refused, as the image does not take what was written before"));
        }
        if let (Some((count, _)), Some(limit)) = (self.by_memory.due(now, refusals.by_memory), limit_bytes) {
            log(&format!(
                "error: no space: {count} writes were refused, as contents may take {} of memory; discard something, or \
                 start with a larger --memory or with --image",
                ByteSize(*limit)
            ));
        }
        if *is_settled && !self.settled {
            log("the image takes writes again; everything up to the last flush is durable");
        }
        self.settled = *is_settled;
        let nearly_full = limit_bytes.is_some_and(|limit| *memory_bytes >= limit / 100 * NEARLY_PERCENT);
        if nearly_full && !self.nearly_full {
            let limit = ByteSize(limit_bytes.unwrap_or_default());
            log(&format!("warning: contents take {NEARLY_PERCENT} % of the memory that they may have ({limit})"));
        }
        self.nearly_full = nearly_full;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_kind_once_and_then_in_numbers() {
        let said = RefCell::new(Vec::new());
        let log = |line: &str| said.borrow_mut().push(line.to_owned());
        let mut troubles = Troubles::new(&log);
        let mut beneath = Beneath { is_settled: true, limit_bytes: Some(1000), ..Beneath::default() };
        troubles.look(Nanos(1), &beneath, false);
        assert!(said.borrow().is_empty());
        beneath.is_settled = false;
        beneath.failures.writes = ssd::FailureCount { count: 1, first: Some("cannot write disk.img".to_owned()) };
        for second in 0..5 {
            beneath.failures.writes.count += 100;
            troubles.look(Nanos::from_secs(second), &beneath, false);
        }
        assert_eq!(said.borrow().len(), 1, "{:?}", said.borrow());
        assert!(said.borrow()[0].contains("cannot write disk.img; and 100 more times"), "{:?}", said.borrow());
        troubles.look(Nanos::from_secs(20), &beneath, false);
        assert!(said.borrow()[1].contains("400 more times"), "{:?}", said.borrow());
        beneath.refusals.by_memory = 7;
        (beneath.is_settled, beneath.memory_bytes) = (true, 950);
        troubles.look(Nanos::from_secs(21), &beneath, false);
        let lines = said.borrow().join("\n");
        for part in ["no space: 7 writes", "takes writes again", "90 %"] {
            assert!(lines.contains(part), "{lines}");
        }
        beneath.refusals.by_memory = 9;
        troubles.look(Nanos::from_secs(22), &beneath, false);
        assert_eq!(said.borrow().len(), 5);
        troubles.look(Nanos::from_secs(22), &beneath, true);
        assert!(said.borrow()[5].contains("no space: 2 writes"));
    }
}
