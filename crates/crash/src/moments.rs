//! From one moment to the next at which a cut could leave something new.

use crate::log::Log;
use crate::rules::Rule;
use crate::states::part_order::PartOrder;
use crate::write::LoggedWrite;

/// Walks through a log under a rule. The first moment is before the first entry.
pub struct Moments<'a, R> {
    log: &'a Log,
    rule: R,
    next: usize,
    begun: bool,
    settled: Vec<LoggedWrite>,
    has_narrowed: bool,
}

impl<'a, R: Rule> Moments<'a, R> {
    /// Through all of `log`.
    pub fn new(log: &'a Log, rule: R) -> Self {
        Self { log, rule, next: 0, begun: false, settled: Vec::new(), has_narrowed: false }
    }

    /// Goes on to the next moment; whether there is one.
    pub fn advance(&mut self) -> bool {
        self.settled.clear();
        self.has_narrowed = false;
        if !self.begun {
            self.begun = true;
            return true;
        }
        let mut changed = false;
        while !changed {
            let Some(entry) = self.log.entries().get(self.next) else { return false };
            changed = self.rule.step(self.next, &entry.event, &mut self.settled);
            self.has_narrowed |= self.rule.has_narrowed();
            self.next += 1;
        }
        self.has_narrowed |= !self.settled.is_empty();
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

    /// Whether states that were possible at the moment before no longer are: something became durable.
    pub fn has_narrowed(&self) -> bool {
        self.has_narrowed
    }

    /// Which of the undecided parts can be there together; `None` where any can.
    pub fn part_order(&self, atomic_bytes: u32) -> Option<PartOrder> {
        let ordered = self.rule.order()?;
        Some(PartOrder::new(&self.undecided(), &ordered, atomic_bytes.max(self.log.unit_bytes())))
    }

    /// What may or may not be there, in order of submission.
    pub fn undecided(&self) -> Vec<&LoggedWrite> {
        self.rule.undecided()
    }
}
