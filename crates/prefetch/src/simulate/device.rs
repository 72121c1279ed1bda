//! A device that works on several requests at once, whose bytes share one path.

use std::collections::VecDeque;

use super::machine::Machine;
use super::outcome::Origin;

/// Pages to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) file: usize,
    pub(super) first_page: u64,
    pub(super) pages: u64,
    pub(super) origin: Origin,
    pub(super) submitted_ns: u64,
}

/// Requests wait in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Device {
    waiting: VecDeque<(u64, Request)>,
    busy: usize,
    path_free_ns: u64,
}

impl Device {
    pub(super) fn submit(&mut self, id: u64, request: Request) {
        self.waiting.push_back((id, request));
    }

    /// The next request that begins now, and when it is done.
    pub(super) fn start(&mut self, now_ns: u64, machine: &Machine) -> Option<(u64, Request, u64)> {
        if self.busy >= machine.queue_depth.max(1) {
            return None;
        }
        let (id, request) = self.waiting.pop_front()?;
        self.busy += 1;
        let begin_ns = (now_ns + machine.latency_ns).max(self.path_free_ns);
        self.path_free_ns = begin_ns + machine.transfer_ns(request.pages);
        Some((id, request, self.path_free_ns))
    }

    pub(super) fn finish(&mut self) {
        self.busy -= 1;
    }
}
