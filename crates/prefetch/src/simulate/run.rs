//! A simulation: lanes take their steps, requests are answered, and a policy or the oracle loads ahead of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::cache::{Cache, State};
use super::device::{Device, Request};
use super::machine::Machine;
use super::outcome::{Mark, Origin, Outcome};
use super::readahead::{Readahead, Window};
use super::trace::{Action, Step, Trace};
use crate::access::{Access, PAGE_BYTES};
use crate::plan::Range;
use crate::policy::{Advice, Event, Mapping, Policy};

mod executor;
use executor::Executor;

/// What a policy makes of a trace.
pub fn simulate(trace: &Trace, machine: &Machine, policy: &dyn Policy) -> Outcome {
    Run::new(trace, machine, Driver::Policy(policy)).finish().0
}

/// The same, and what happened to each range.
pub fn timeline(trace: &Trace, machine: &Machine, policy: &dyn Policy) -> (Outcome, Vec<Mark>) {
    let mut run = Run::new(trace, machine, Driver::Policy(policy));
    run.marks = Some(Vec::new());
    run.finish()
}

/// Who loads ahead.
#[derive(Clone, Copy)]
pub(super) enum Driver<'a> {
    Policy(&'a dyn Policy),
    /// So many steps together; so many pages that nobody needs are loaded between two that are needed.
    Oracle {
        batch: usize,
        gap_pages: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Lane(usize),
    Done(u64),
    /// The oldest plan that nobody has looked at.
    Plan,
}

/// A thread of the program.
struct Lane {
    steps: Vec<usize>,
    next: usize,
    /// Of the read under way: the next page and the one behind the last; when it began, and whether it has waited.
    reading: Option<(u64, u64)>,
    began_ns: u64,
    waited: bool,
}

pub(super) struct Run<'a> {
    trace: &'a Trace,
    machine: &'a Machine,
    driver: Driver<'a>,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Wake)>>,
    scheduled: u64,
    lanes: Vec<Lane>,
    taken: Vec<bool>,
    cache: Cache,
    device: Device,
    requests: BTreeMap<u64, Request>,
    submitted: u64,
    waiting: BTreeMap<u64, Vec<usize>>,
    kernel: BTreeMap<(usize, u32), Readahead>,
    executor: Executor,
    outcome: Outcome,
    marks: Option<Vec<Mark>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(trace: &'a Trace, machine: &'a Machine, driver: Driver<'a>) -> Self {
        let mut lanes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, step) in trace.steps.iter().enumerate().filter(|(_, step)| step.file < trace.files.len()) {
            lanes.entry(step.lane).or_default().push(index);
        }
        let lane = |steps| Lane { steps, next: 0, reading: None, began_ns: 0, waited: false };
        let mut run = Self {
            trace,
            machine,
            driver,
            now_ns: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            lanes: lanes.into_values().map(lane).collect(),
            taken: vec![false; trace.steps.len()],
            cache: Cache::new(&trace.files, machine.memory_bytes),
            device: Device::default(),
            requests: BTreeMap::new(),
            submitted: 0,
            waiting: BTreeMap::new(),
            kernel: BTreeMap::new(),
            executor: Executor::new(trace.files.len(), machine.budget_bytes),
            outcome: Outcome::default(),
            marks: None,
        };
        for lane in 0..run.lanes.len() {
            run.rest(lane, 0);
        }
        run
    }

    pub(super) fn finish(mut self) -> (Outcome, Vec<Mark>) {
        self.look_ahead();
        while let Some(Reverse((at_ns, _, wake))) = self.events.pop() {
            self.now_ns = at_ns;
            match wake {
                Wake::Lane(lane) => self.proceed(lane),
                Wake::Done(request) => self.arrived(request),
                Wake::Plan => self.carry_out(),
            }
            self.look_ahead();
        }
        (self.outcome, self.marks.unwrap_or_default())
    }

    fn schedule(&mut self, at_ns: u64, wake: Wake) {
        self.scheduled += 1;
        self.events.push(Reverse((at_ns, self.scheduled, wake)));
    }

    /// The lane's next step comes after its work.
    fn rest(&mut self, lane: usize, cost_ns: u64) {
        let Some(step) = self.lanes[lane].steps.get(self.lanes[lane].next) else { return };
        let at_ns = self.now_ns + cost_ns + self.trace.steps[*step].think_ns;
        self.schedule(at_ns, Wake::Lane(lane));
    }

    fn proceed(&mut self, lane: usize) {
        let Some(index) = self.lanes[lane].steps.get(self.lanes[lane].next).copied() else { return };
        let step = self.trace.steps[index];
        match step.action {
            Action::Open => self.tell(&step, &Event::Opened),
            Action::Map => {
                let length_bytes = self.trace.files[step.file];
                let mapping = Mapping { offset_bytes: 0, length_bytes, resident_bytes: 0, writable: false };
                self.tell(&step, &Event::Mapped(mapping));
            }
            Action::Advise { offset_bytes, length_bytes } => {
                let kept = match self.driver {
                    Driver::Policy(policy) => policy.advice() == Advice::Kept,
                    Driver::Oracle { .. } => true,
                };
                if kept {
                    // One request loads no more than the kernel's window.
                    let pages = length_bytes.div_ceil(PAGE_BYTES).min(self.machine.readahead_pages());
                    self.submit(step.file, offset_bytes / PAGE_BYTES, pages, Origin::Program);
                }
            }
            Action::Read { offset_bytes, length_bytes } | Action::Touch { offset_bytes, length_bytes } => {
                if self.lanes[lane].reading.is_none() {
                    let end_bytes = offset_bytes.saturating_add(length_bytes).min(self.trace.files[step.file]);
                    let reading = (offset_bytes / PAGE_BYTES, end_bytes.div_ceil(PAGE_BYTES));
                    let now_ns = self.now_ns;
                    let of = &mut self.lanes[lane];
                    (of.reading, of.began_ns, of.waited) = (Some(reading), now_ns, false);
                    self.taken[index] = true;
                    if matches!(step.action, Action::Read { .. }) {
                        let access = Access { offset_bytes, length_bytes, lane: step.lane };
                        self.tell(&step, &Event::Read(access));
                    }
                }
                if !self.read(lane, &step) {
                    return;
                }
            }
        }
        self.taken[index] = true;
        self.lanes[lane].next += 1;
        self.outcome.time_ns = self.outcome.time_ns.max(self.now_ns + self.machine.read_ns);
        self.rest(lane, self.machine.read_ns);
    }

    /// Goes on with a read; whether it has all of its pages.
    fn read(&mut self, lane: usize, step: &Step) -> bool {
        let touched = matches!(step.action, Action::Touch { .. });
        let file = step.file;
        while let Some((page, end)) = self.lanes[lane].reading
            && page < end
        {
            let Some(found) = self.cache.page(file, page).copied() else { break };
            match found.state {
                State::Absent => {
                    self.outcome.missed_pages += 1;
                    self.miss(step, page, end - page, touched);
                }
                State::Loading(request) => {
                    if found.origin == Origin::Prefetch && !found.read {
                        self.outcome.late_pages += 1;
                        self.first_read(file, page);
                    }
                    self.lanes[lane].waited = true;
                    self.waiting.entry(request).or_default().push(lane);
                    return false;
                }
                State::Resident => {
                    self.first_read(file, page);
                    self.cache.touch(file, page);
                    self.passed(step, page, found.marked, touched);
                    self.lanes[lane].reading = Some((page + 1, end));
                }
            }
        }
        let of = &mut self.lanes[lane];
        of.reading = None;
        self.outcome.reads += 1;
        self.outcome.hits += u64::from(!of.waited);
        if let Action::Read { offset_bytes, length_bytes } | Action::Touch { offset_bytes, length_bytes } = step.action
        {
            let mark = Mark::Read {
                file,
                from_ns: of.began_ns,
                to_ns: self.now_ns,
                start_bytes: offset_bytes,
                end_bytes: offset_bytes.saturating_add(length_bytes).min(self.trace.files[file]),
                hit: !of.waited,
            };
            self.mark(mark);
        }
        true
    }

    fn first_read(&mut self, file: usize, page: u64) {
        let Some(found) = self.cache.page(file, page) else { return };
        let first = !std::mem::replace(&mut found.read, true);
        if first {
            self.outcome.used_pages += u64::from(found.origin == Origin::Prefetch);
            self.executor.ledger.remove(file as u64, of_pages(page, 1));
        }
    }

    /// The kernel loads an absent page, and what it thinks will follow.
    fn miss(&mut self, step: &Step, page: u64, wanted: u64, touched: bool) {
        let most = self.machine.readahead_pages();
        let before = (1..=most.min(page)).take_while(|back| !self.cache.is_absent(step.file, page - back)).count();
        let file = self.kernel.entry((step.file, step.lane)).or_default();
        let window = if touched { file.fault(page, most) } else { file.miss(page, wanted, before as u64, most) };
        self.window(step.file, window);
    }

    /// A page was there, and the kernel takes note.
    fn passed(&mut self, step: &Step, page: u64, marked: bool, touched: bool) {
        let most = self.machine.readahead_pages();
        let file = self.kernel.entry((step.file, step.lane)).or_default();
        if touched {
            file.fault_found();
        } else {
            file.passed(page);
        }
        if !marked {
            return;
        }
        if let Some(found) = self.cache.page(step.file, page) {
            found.marked = false;
        }
        let Some(absent) = (page + 1..=page + most).find(|page| self.cache.is_absent(step.file, *page)) else { return };
        let file = self.kernel.entry((step.file, step.lane)).or_default();
        let window = file.marked(page, absent, most);
        self.window(step.file, window);
    }

    fn window(&mut self, file: usize, window: Window) {
        self.submit(file, window.first_page, window.pages, Origin::Demand);
        if let Some(found) = window.mark.and_then(|page| self.cache.page(file, page)) {
            found.marked = true;
        }
    }

    /// Asks the device for the absent of these pages.
    fn submit(&mut self, file: usize, first_page: u64, pages: u64, origin: Origin) {
        let end = first_page.saturating_add(pages).min(self.cache.pages(file));
        let most = self.machine.readahead_pages();
        let mut page = first_page;
        while page < end {
            let run =
                (page..end).take(most as usize).take_while(|page| self.cache.is_absent(file, *page)).count() as u64;
            if run == 0 {
                page += 1;
                continue;
            }
            self.submitted += 1;
            let request = Request { file, first_page: page, pages: run, origin, submitted_ns: self.now_ns };
            (page..page + run).for_each(|page| self.cache.load(file, page, self.submitted, origin));
            self.requests.insert(self.submitted, request);
            self.device.submit(self.submitted, request);
            self.outcome.device_bytes += run * PAGE_BYTES;
            self.outcome.requests += 1;
            if origin == Origin::Prefetch {
                self.outcome.prefetched_pages += run;
                self.executor.under_way += 1;
                self.executor.under_way_pages += run;
            }
            page += run;
        }
        self.start();
    }

    fn start(&mut self) {
        while let Some((id, _, done_ns)) = self.device.start(self.now_ns, self.machine) {
            self.schedule(done_ns, Wake::Done(id));
        }
    }

    fn arrived(&mut self, id: u64) {
        self.device.finish();
        self.start();
        let Some(request) = self.requests.remove(&id) else { return };
        if request.origin == Origin::Prefetch {
            self.executor.under_way -= 1;
            self.executor.under_way_pages -= request.pages;
        }
        let bytes = of_pages(request.first_page, request.pages);
        let Range { start_bytes, end_bytes } = bytes;
        let (file, origin) = (request.file, request.origin);
        self.mark(Mark::Load {
            file,
            from_ns: request.submitted_ns,
            to_ns: self.now_ns,
            start_bytes,
            end_bytes,
            origin,
        });
        for page in request.first_page..request.first_page + request.pages {
            if let Some((file, page, left)) = self.cache.arrive(request.file, page) {
                self.left(file, page, left.origin == Origin::Prefetch && !left.read);
            }
        }
        for lane in self.waiting.remove(&id).unwrap_or_default() {
            self.proceed(lane);
        }
    }

    /// A page has left memory.
    fn left(&mut self, file: usize, page: u64, in_vain: bool) {
        let Range { start_bytes, end_bytes } = of_pages(page, 1);
        self.mark(Mark::Leave { file, at_ns: self.now_ns, start_bytes, end_bytes });
        self.executor.ledger.remove(file as u64, of_pages(page, 1));
        if in_vain {
            self.outcome.evicted_pages += 1;
            self.executor.files[file].wasted(PAGE_BYTES);
        }
    }

    fn mark(&mut self, mark: Mark) {
        if let Some(marks) = &mut self.marks {
            marks.push(mark);
        }
    }
}

/// Bytes of pages.
fn of_pages(first_page: u64, pages: u64) -> Range {
    Range { start_bytes: first_page * PAGE_BYTES, end_bytes: (first_page + pages) * PAGE_BYTES }
}
