//! Firmware processors that several commands share.

use std::collections::VecDeque;

use units::Nanos;

/// Most commands in service at once.
pub(super) const SLOTS_MAX: u32 = 16;

/// Parts of a nanosecond that virtual time counts: every number of sharers up to
/// [`SLOTS_MAX`] divides it, so the clock is exact.
const PARTS: u64 = 720_720;

/// Processors that serve up to `slots` commands at the same time, each at an equal
/// share of their speed and none faster than one processor; further commands wait in
/// order of arrival.
///
/// This is processor sharing with a limited multiprogramming level: firmware that
/// advances every open command by one step in turn. With as many slots as
/// processors it is a queue with several servers. While n commands are served,
/// virtual time advances at 1/n of real time, so that a command's end is fixed in
/// virtual time when it enters.
#[derive(Debug)]
pub(super) struct Sharing<T> {
    processors: u64,
    slots: usize,
    /// In order of entry.
    served: Vec<Served<T>>,
    waiting: VecDeque<(Nanos, T)>,
    /// Virtual time, in parts, at `at`.
    virtual_parts: u64,
    at: Nanos,
}

#[derive(Debug)]
struct Served<T> {
    end_parts: u64,
    command: T,
}

impl<T> Sharing<T> {
    /// Idle processors with up to [`SLOTS_MAX`] slots, at least one for each.
    pub fn new(processors: u32, slots: u32) -> Self {
        debug_assert!(1 <= processors && processors <= slots && slots <= SLOTS_MAX);
        Self {
            processors: processors.into(),
            slots: slots as usize,
            served: Vec::with_capacity(slots as usize),
            waiting: VecDeque::new(),
            virtual_parts: 0,
            at: Nanos::ZERO,
        }
    }

    /// Takes in a command at `now` that needs `service` of one processor.
    pub fn enter(&mut self, now: Nanos, service: Nanos, command: T) {
        self.pass(now);
        if self.served.len() < self.slots {
            self.serve(service, command);
        } else {
            self.waiting.push_back((service, command));
        }
    }

    /// When a command is next done if none enters before.
    pub fn next(&self) -> Option<Nanos> {
        let first = self.served.iter().map(|served| served.end_parts).min()?;
        let left = first.saturating_sub(self.virtual_parts);
        Some(self.at + Nanos(left.div_ceil(self.parts_per_ns())))
    }

    /// A command that is done at `now`; call until there is none. Of the commands
    /// in service that `in_order` says must not be overtaken by the one done, the
    /// first to enter leaves in its stead; they exchange their ends.
    pub fn take(&mut self, now: Nanos, in_order: impl Fn(&T, &T) -> bool) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.pass(now);
        let done = (0..self.served.len()).min_by_key(|index| self.served[*index].end_parts)?;
        let elder = (0..done).find(|elder| in_order(&self.served[*elder].command, &self.served[done].command));
        if let Some(elder) = elder {
            self.served[done].end_parts = self.served[elder].end_parts;
        }
        let command = self.served.remove(elder.unwrap_or(done)).command;
        if let Some((service, command)) = self.waiting.pop_front() {
            self.serve(service, command);
        }
        Some(command)
    }

    /// Forgets every command (a power cut).
    pub fn clear(&mut self) {
        self.served.clear();
        self.waiting.clear();
    }

    fn serve(&mut self, service: Nanos, command: T) {
        let end_parts = self.virtual_parts + service.0 * PARTS;
        self.served.push(Served { end_parts, command });
    }

    /// How far virtual time goes in a nanosecond.
    fn parts_per_ns(&self) -> u64 {
        let sharers = self.served.len().max(1) as u64;
        PARTS / sharers * self.processors.min(sharers)
    }

    /// Lets virtual time run to `now`; no command is done on the way.
    fn pass(&mut self, now: Nanos) {
        debug_assert!(now >= self.at);
        if self.served.is_empty() {
            // Idle processors start afresh, so virtual time stays small.
            self.virtual_parts = 0;
        } else {
            self.virtual_parts += now.since(self.at).0 * self.parts_per_ns();
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(processor: &mut Sharing<u32>) -> Vec<(u64, u32)> {
        let mut ends = Vec::new();
        while let Some(now) = processor.next() {
            while let Some(command) = processor.take(now, |_, _| false) {
                ends.push((now.0, command));
            }
        }
        ends
    }

    #[test]
    fn one_slot_is_a_queue_and_two_processors_serve_two() {
        for (processors, expected) in [(1, [(110, 0), (210, 1), (310, 2)]), (2, [(110, 0), (110, 1), (210, 2)])] {
            let mut processor = Sharing::new(processors, processors);
            for command in 0..3 {
                processor.enter(Nanos(10), Nanos(100), command);
            }
            assert_eq!(ends(&mut processor), expected);
        }
    }

    #[test]
    fn commands_in_service_share_the_speed() {
        let mut processor = Sharing::new(1, 2);
        processor.enter(Nanos(0), Nanos(100), 0);
        processor.enter(Nanos(60), Nanos(100), 1);
        // 40 left of the first at half speed: it ends at 140, when the second has 60 left.
        assert_eq!(ends(&mut processor), [(140, 0), (200, 1)]);
    }

    #[test]
    fn a_short_command_overtakes_one_in_service_but_not_one_that_waits() {
        let mut processor = Sharing::new(1, 2);
        processor.enter(Nanos(0), Nanos(1000), 0);
        processor.enter(Nanos(0), Nanos(10), 1);
        processor.enter(Nanos(0), Nanos(10), 2);
        assert_eq!(ends(&mut processor), [(20, 1), (40, 2), (1020, 0)]);
    }

    #[test]
    fn commands_that_keep_their_order_exchange_their_times() {
        let mut processor = Sharing::new(1, 8);
        // Even commands keep their order among themselves.
        for (command, service) in [(0, 500), (1, 300), (2, 400), (4, 100), (3, 50)] {
            processor.enter(Nanos(0), Nanos(service), command);
        }
        let mut order = Vec::new();
        while let Some(now) = processor.next() {
            while let Some(command) = processor.take(now, |a, b| a % 2 == 0 && b % 2 == 0) {
                order.push(command);
            }
        }
        assert_eq!(order, [3, 0, 1, 2, 4]);
    }

    #[test]
    fn no_work_is_lost_with_any_number_of_sharers() {
        for slots in 1..=SLOTS_MAX {
            let mut processor = Sharing::new(1, slots);
            for command in 0..50 {
                processor.enter(Nanos(0), Nanos(997 + u64::from(command)), command);
            }
            let total: u64 = (0..50).map(|command| 997 + command).sum();
            let last = ends(&mut processor).last().map(|(at, _)| *at);
            // The clock is whole nanoseconds: at most one is lost at each end.
            assert!(last.is_some_and(|last| (total..=total + 50).contains(&last)), "{slots}: {last:?}");
        }
    }
}
