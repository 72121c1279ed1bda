//! Log lines about clients, a bounded number a second.

use units::Nanos;

/// Lines of one second; more are counted only.
const LINES_PER_SECOND: u32 = 20;

/// Thousands of clients that are turned away shall not fill a disk with the news.
pub(crate) struct Complaints<'a> {
    log: &'a dyn Fn(&str),
    second: u64,
    lines: u32,
    unsaid: u64,
}

impl<'a> Complaints<'a> {
    pub(crate) fn new(log: &'a dyn Fn(&str)) -> Self {
        Self { log, second: 0, lines: 0, unsaid: 0 }
    }

    /// Logs a line at `now`, or counts it.
    pub(crate) fn line(&mut self, now: Nanos, text: impl FnOnce() -> String) {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            self.flush();
            self.second = second;
            self.lines = 0;
        }
        if self.lines < LINES_PER_SECOND {
            self.lines += 1;
            (self.log)(&text());
        } else {
            self.unsaid += 1;
        }
    }

    /// Says how many lines were left out.
    pub(crate) fn flush(&mut self) {
        if self.unsaid > 0 {
            (self.log)(&format!("{} more lines about clients within a second", self.unsaid));
            self.unsaid = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_flood_is_counted() {
        let said = RefCell::new(Vec::new());
        let log = |line: &str| said.borrow_mut().push(line.to_owned());
        let mut complaints = Complaints::new(&log);
        for _ in 0..1000 {
            complaints.line(Nanos::from_millis(10), || "refused".to_owned());
        }
        complaints.line(Nanos::from_secs(3), || "last".to_owned());
        let said = said.into_inner();
        assert_eq!(said.len(), LINES_PER_SECOND as usize + 2);
        assert_eq!(said[LINES_PER_SECOND as usize], "980 more lines about clients within a second");
        assert_eq!(said.last().unwrap(), "last");
    }
}
