//! From one moment to the next at which a cut could leave something new.

use crate::log::Log;
use crate::rules::Rule;
use crate::write::LoggedWrite;

/// Walks through a log under a rule. The first moment is before the first entry.
pub struct Moments<'a, R> {
    log: &'a Log,
    rule: R,
    next: usize,
    begun: bool,
    settled: Vec<LoggedWrite>,
}

impl<'a, R: Rule> Moments<'a, R> {
    /// Through all of `log`.
    pub fn new(log: &'a Log, rule: R) -> Self {
        Self { log, rule, next: 0, begun: false, settled: Vec::new() }
    }

    /// Goes on to the next moment; whether there is one.
    pub fn advance(&mut self) -> bool {
        self.settled.clear();
        if !self.begun {
            self.begun = true;
            return true;
        }
        let mut changed = false;
        while !changed {
            let Some(entry) = self.log.entries().get(self.next) else { return false };
            changed = self.rule.step(self.next, &entry.event, &mut self.settled);
            self.next += 1;
        }
        true
    }

    /// How many entries had happened.
    pub fn entries(&self) -> usize {
        self.next
    }

    /// What became durable since the moment before.
    pub fn settled(&self) -> &[LoggedWrite] {
        &self.settled
    }

    /// What may or may not be there, in order of submission.
    pub fn undecided(&self) -> Vec<&LoggedWrite> {
        self.rule.undecided()
    }
}
