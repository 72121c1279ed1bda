//! Who carries plans out: queues in front of the device, what is loaded and unread, and the steps that the oracle looks ahead to.

use std::collections::{BTreeMap, VecDeque};

use super::super::cache::State;
use super::super::outcome::Origin;
use super::super::trace::{Action, Step};
use super::{Driver, Run, Wake, of_pages};
use crate::access::PAGE_BYTES;
use crate::ledger::Ledger;
use crate::plan::{Plan, Range};
use crate::policy::{Event, FileState};
use crate::whole::Whole;

/// Loaded and unread ranges that are known at once.
const MOST_RANGES: usize = 65_536;

pub(super) struct Executor {
    pub(super) files: Vec<FileState>,
    pub(super) ledger: Ledger,
    whole: Whole,
    /// Plans that are not looked at yet, by file.
    asked: VecDeque<(usize, Plan)>,
    /// Windows, and behind them passes over whole files: what somebody waits for comes first.
    windows: VecDeque<(usize, Range)>,
    passes: VecDeque<(usize, Range)>,
    /// Requests at the device.
    pub(super) under_way: usize,
    pub(super) under_way_pages: u64,
    /// The oracle's next step.
    ahead: usize,
}

impl Executor {
    pub(super) fn new(files: usize, budget_bytes: u64) -> Self {
        Self {
            files: vec![FileState::NEW; files],
            ledger: Ledger::new(budget_bytes, MOST_RANGES),
            whole: Whole::default(),
            asked: VecDeque::new(),
            windows: VecDeque::new(),
            passes: VecDeque::new(),
            under_way: 0,
            under_way_pages: 0,
            ahead: 0,
        }
    }
}

impl Run<'_> {
    /// Tells the policy what was done; its plan will be carried out.
    pub(super) fn tell(&mut self, step: &Step, event: &Event) {
        let Driver::Policy(policy) = self.driver else { return };
        let unread_bytes = self.executor.ledger.free_bytes();
        let whole_bytes = self.executor.whole.free_bytes(self.machine.budget_bytes);
        let host = self.machine.host(unread_bytes, whole_bytes.min(unread_bytes), policy.evicts());
        let file_bytes = self.trace.files[step.file];
        let file = &mut self.executor.files[step.file];
        let plan = policy.observe(file, event, file_bytes, &host);
        if file.bulk.is_random() {
            self.executor.whole.admits(step.file as u64, file_bytes, self.machine.budget_bytes);
        }
        if let Some(plan) = plan {
            self.executor.asked.push_back((step.file, plan));
            self.schedule(self.now_ns + self.machine.executor_ns, Wake::Plan);
        }
    }

    /// Carries out the oldest plan, as far as there is a reason.
    pub(super) fn carry_out(&mut self) {
        let Driver::Policy(policy) = self.driver else { return };
        let Some((file, plan)) = self.executor.asked.pop_front() else { return };
        let file_bytes = self.trace.files[file];
        let absent = plan.ranges().map(|range| self.absent_pages(file, range)).sum::<u64>();
        // A reader that somebody is ahead of already needs nothing; a pass goes over what is left.
        if absent == 0 || (plan.is_window() && absent * 10 <= plan.pages()) {
            let kernels = plan.is_forward() && plan.bytes() <= self.machine.readahead_bytes;
            let state = &mut self.executor.files[file];
            if kernels && policy.lifts_limits() {
                state.reached(&plan)
            } else {
                state.resident(&plan)
            }
            return;
        }
        let budget_bytes = self.machine.budget_bytes;
        if !plan.is_window() && !self.executor.whole.admits(file as u64, file_bytes, budget_bytes) {
            self.executor.files[file].dropped(&plan, file_bytes);
            return;
        }
        let bytes = absent * PAGE_BYTES;
        if bytes > self.executor.ledger.free_bytes() {
            if !policy.evicts() {
                self.executor.files[file].dropped(&plan, file_bytes);
                return;
            }
            for (file, range) in self.executor.ledger.make_room(bytes) {
                self.give_up(file as usize, range);
            }
        }
        self.queue(file, &plan);
    }

    fn absent_pages(&self, file: usize, range: Range) -> u64 {
        let pages = range.start_bytes / PAGE_BYTES..range.end_bytes.div_ceil(PAGE_BYTES);
        pages.filter(|page| self.cache.is_absent(file, *page)).count() as u64
    }

    fn queue(&mut self, file: usize, plan: &Plan) {
        let chunks = plan.chunks(self.machine.readahead_bytes);
        for chunk in chunks {
            self.note(file, chunk);
            if plan.is_window() {
                self.executor.windows.push_back((file, chunk));
            } else {
                self.executor.passes.push_back((file, chunk));
            }
        }
    }

    /// The absent pages of a range will be loaded.
    fn note(&mut self, file: usize, range: Range) {
        let (mut page, end) = (range.start_bytes / PAGE_BYTES, range.end_bytes.div_ceil(PAGE_BYTES));
        while page < end {
            let run = (page..end).take_while(|page| self.cache.is_absent(file, *page)).count() as u64;
            if run > 0 {
                self.executor.ledger.load(file as u64, of_pages(page, run));
            }
            page += run + 1;
        }
    }

    /// Takes what was loaded and not read from memory.
    fn give_up(&mut self, file: usize, range: Range) {
        for page in range.start_bytes / PAGE_BYTES..range.end_bytes / PAGE_BYTES {
            let ours = |page: &super::super::cache::Page| {
                page.state == State::Resident && page.origin == Origin::Prefetch && !page.read
            };
            if self.cache.page(file, page).is_some_and(|page| ours(page)) && self.cache.leave(file, page).is_some() {
                self.left(file, page, true);
            }
        }
    }

    /// Fills the device's share for prefetching.
    pub(super) fn look_ahead(&mut self) {
        loop {
            while !self.is_busy() {
                let next = self.executor.windows.pop_front().or_else(|| self.next_pass());
                let Some((file, range)) = next else { break };
                let pages = range.end_bytes.div_ceil(PAGE_BYTES) - range.start_bytes / PAGE_BYTES;
                // What was read in the meantime is not loaded any more, and is nobody's.
                self.submit(file, range.start_bytes / PAGE_BYTES, pages, Origin::Prefetch);
            }
            let Driver::Oracle { batch, gap_pages } = self.driver else { return };
            if self.is_busy() || !self.foresee(batch, gap_pages) {
                return;
            }
        }
    }

    /// The next piece of a pass, unless readers would wait too long behind it.
    fn next_pass(&mut self) -> Option<(usize, Range)> {
        let (file, _) = *self.executor.passes.front()?;
        let state = &self.executor.files[file];
        let most = if state.bulk.is_random() {
            state.bulk.under_way_bytes(self.machine.readahead_bytes, self.trace.files[file])
        } else {
            u64::MAX
        };
        if self.executor.under_way_pages * PAGE_BYTES < most { self.executor.passes.pop_front() } else { None }
    }

    /// Whether the device has its share of prefetching.
    fn is_busy(&self) -> bool {
        self.executor.under_way >= self.machine.prefetch_depth
            || self.executor.under_way_pages >= self.machine.prefetch_pages()
    }

    /// Queues what the next steps will read; whether there was something.
    fn foresee(&mut self, batch: usize, gap_pages: u64) -> bool {
        let mut room = self.executor.ledger.free_bytes() / PAGE_BYTES;
        // Absent pages, and the step that needs each first.
        let mut pages: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        let mut steps = 0;
        while steps < batch
            && room > 0
            && let Some(step) = self.trace.steps.get(self.executor.ahead)
        {
            let taken = self.taken[self.executor.ahead];
            self.executor.ahead += 1;
            let (Action::Read { offset_bytes, length_bytes } | Action::Touch { offset_bytes, length_bytes }) =
                step.action
            else {
                continue;
            };
            if taken || step.file >= self.trace.files.len() {
                continue;
            }
            steps += 1;
            let end_bytes = offset_bytes.saturating_add(length_bytes).min(self.trace.files[step.file]);
            for page in offset_bytes / PAGE_BYTES..end_bytes.div_ceil(PAGE_BYTES) {
                if self.cache.is_absent(step.file, page) && !pages.contains_key(&(step.file, page)) {
                    pages.insert((step.file, page), steps);
                    room = room.saturating_sub(1);
                }
            }
        }
        let most = self.machine.readahead_pages();
        let mut runs: Vec<(usize, u64, u64, usize)> = Vec::new();
        for ((file, page), needed) in pages {
            match runs.last_mut() {
                Some((of, first, count, first_needed))
                    if *of == file && page - (*first + *count) <= gap_pages && page - *first < most =>
                {
                    *count = page - *first + 1;
                    *first_needed = needed.min(*first_needed);
                }
                _ => runs.push((file, page, 1, needed)),
            }
        }
        runs.sort_by_key(|(.., needed)| *needed);
        for (file, first, count, _) in &runs {
            self.note(*file, of_pages(*first, *count));
            self.executor.windows.push_back((*file, of_pages(*first, *count)));
        }
        !runs.is_empty()
    }
}
