//! A binary heap with nothing around it: no tasks, no wakers, no cancelling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Delays;

/// The hold model on `std::collections::BinaryHeap`, ordered by (time, sequence).
pub struct Hold {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    delays: Delays,
    sequence: u64,
}

impl Hold {
    pub fn new(pending: usize) -> Self {
        let mut hold = Self { heap: BinaryHeap::with_capacity(pending + 1), delays: Delays::new(), sequence: 0 };
        for id in 0..pending {
            hold.push(0, id as u32);
        }
        hold
    }

    fn push(&mut self, now_ns: u64, id: u32) {
        self.heap.push(Reverse((now_ns + self.delays.next_ns(), self.sequence, id)));
        self.sequence += 1;
    }

    pub fn run(&mut self, events: u64) -> u64 {
        for _ in 0..events {
            if let Some(Reverse((at_ns, _, id))) = self.heap.pop() {
                self.push(at_ns, id);
            }
        }
        events
    }
}
