//! Goes through this guest's share of the states.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;

use crash::{LogReader, LoggedWrite, Moments, PartOrder, Rule, State, StatePlan, Survivors};

use super::examine::{Examiner, Finding, Found};
use super::places::Places;
use super::state_device::StateDevices;
use crate::crash::{
    Acknowledgement, Answer, Fault, Judge, Judged, Lost, Needs, Recorded, Smallest, Survival, Verdict, signature,
};
use crate::guest::error::{GuestError, attempt};

/// States that are looked at to make one bad state small.
const SHRINK_STATES_MAX: usize = 60;
/// Bad states of which a judge says the same that are made small; there may be thousands.
const SHRUNK_MAX: usize = 2;
/// And of all.
const SHRUNK_ALL_MAX: usize = 24;
/// Verdicts between two times that they are put on the host's disk, where its progress can be seen.
const SYNC_EVERY: usize = 16;

/// Everything that was recorded.
pub(super) struct Recording {
    pub(super) log: LogReader,
    pub(super) recorded: Recorded,
}

impl Recording {
    pub(super) fn read(task: &Judge) -> Result<Self, GuestError> {
        let damaged = |path: &std::path::Path, why: String| GuestError::new(format!("{}: {why}", path.display()));
        // Contents stay there: a log is as large as what was written, and the guest's memory is not.
        let log = LogReader::open(&task.log).map_err(|error| damaged(&task.log, error.to_string()))?;
        let text = attempt(fs::read(&task.recorded), || format!("cannot read {}", task.recorded.display()))?;
        let recorded = serde_json::from_slice(&text).map_err(|error| damaged(&task.recorded, error.to_string()))?;
        Ok(Self { log, recorded })
    }

    /// What had been acknowledged before this entry.
    pub(super) fn promised_until(&self, entry: usize) -> &[Acknowledgement] {
        self.recorded.promised_until(&self.log, entry)
    }

    /// How long the log's file was before this entry.
    fn position_bytes(&self, entry: usize) -> u64 {
        self.log.positions_bytes.get(entry).copied().unwrap_or(u64::MAX)
    }

    /// The first entry after what was set up.
    pub(super) fn first(&self) -> usize {
        self.log.entries_at(self.recorded.began_bytes)
    }

    /// The states of all guests.
    pub(super) fn plan<R: Rule>(&self, rule: &R, task: &Judge) -> StatePlan {
        let judging = &task.judging;
        let mut plan = StatePlan::new(&self.log.log, rule, self.first(), judging.atomic_bytes, judging.amount);
        plan.add(&judging.brought);
        plan
    }
}

/// Calls `with` with the rule of this name.
macro_rules! with_rule {
    ($survival:expr, $recording:expr, $with:expr) => {
        match $survival {
            Survival::Streams => $with(::crash::Streams::new($recording.log.log.unit_bytes())),
            Survival::ProtectedCache => $with(::crash::ProtectedCache::default()),
            Survival::LyingCache => $with(::crash::LyingCache::of_a_cheap_drive($recording.first())),
            Survival::Auto | Survival::VolatileCache => $with(::crash::VolatileCache::default()),
        }
    };
}
pub(super) use with_rule;

/// Looks at every state of this guest's share and writes what it found.
pub(super) fn judge(task: &Judge) -> Result<(), GuestError> {
    let recording = Recording::read(task)?;
    with_rule!(task.judging.survival, recording, |rule| walk(task, &recording, rule))
}

fn walk<R: Rule>(task: &Judge, recording: &Recording, rule: R) -> Result<(), GuestError> {
    let log = &recording.log.log;
    let plan = recording.plan(&rule, task);
    let mut answers = Answers::create(task)?;
    answers.add(&Answer::StatePlan {
        states: plan.states.len(),
        generated: plan.generated,
        moments: plan.moments,
        sampled_moments: plan.sampled_moments,
        subsets: plan.subsets,
    })?;
    let known: BTreeSet<&str> = task.known.iter().map(String::as_str).collect();
    let mut mine = plan
        .states
        .iter()
        .enumerate()
        .filter(|(number, _)| number % task.step.max(1) == task.first)
        .map(|(_, state)| state)
        .filter(|state| !known.contains(state.name().as_str()))
        .peekable();
    let mut devices = StateDevices::new(log.capacity_bytes(), log.unit_bytes())?;
    let mut examiner = Examiner::new(task)?;
    let mut shrunk: BTreeMap<(Judged, String), usize> = BTreeMap::new();
    let mut shrunk_all = 0;
    // Bad states that are made small at the last moment at which they are possible: what came after theirs is lost in them, too.
    let mut waiting: Vec<(&State, Fault)> = Vec::new();
    let mut undecided: Vec<LoggedWrite> = Vec::new();
    let mut order: Option<PartOrder> = None;
    let mut moments = Moments::new(log, rule);
    let mut moment = 0;
    let mut entries = 0;
    let mut has_begun = false;
    loop {
        let is_moment = moments.advance();
        if !is_moment || moments.has_narrowed() {
            for (state, mut fault) in waiting.drain(..) {
                let undecided: Vec<&LoggedWrite> = undecided.iter().collect();
                let survivors = state.survivors.extended(&undecided, task.judging.atomic_bytes);
                let (examiner, order) = (&mut examiner, order.as_ref());
                let mut look = Look { task, recording, devices: &devices, examiner, undecided: &undecided, order };
                // That of the last turn.
                let at = At { moment: moment - 1, entries, until: state.until };
                fault.smallest = Some(look.smallest(&survivors, at, &fault)?);
                answers.add(&verdict(state, Some(fault)))?;
            }
        }
        if !is_moment || mine.peek().is_none() && waiting.is_empty() {
            break;
        }
        devices.settle(moments.settled())?;
        if !has_begun && moments.entries() >= recording.first() {
            has_begun = true;
            let device = devices.make(&[])?;
            let learnt = examiner.learn(device.node(), recording.recorded.device);
            devices.remove(device)?;
            learnt?;
        }
        let now = moments.undecided();
        while let Some(state) = mine.next_if(|state| state.moment == moment) {
            let (examiner, undecided) = (&mut examiner, &now[..]);
            let mut look = Look { task, recording, devices: &devices, examiner, undecided, order: None };
            match look.at(&state.survivors, state.until)? {
                None => answers.add(&verdict(state, None))?,
                Some(Finding { by, what, .. }) => {
                    let count = shrunk.entry((by, signature(&what))).or_default();
                    *count += 1;
                    let fault = Fault { by, what, smallest: None };
                    if *count <= SHRUNK_MAX && shrunk_all < SHRUNK_ALL_MAX {
                        shrunk_all += 1;
                        waiting.push((state, fault));
                    } else {
                        answers.add(&verdict(state, Some(fault)))?;
                    }
                }
            }
        }
        if !waiting.is_empty() {
            undecided = now.into_iter().cloned().collect();
            order = moments.part_order(task.judging.atomic_bytes);
            entries = moments.entries();
        }
        moment += 1;
    }
    answers.add(&Answer::Done)?;
    answers.sync()
}

fn verdict(state: &State, fault: Option<Fault>) -> Answer {
    Answer::Verdict(Box::new(Verdict {
        state: state.name(),
        entries: state.entries,
        until: state.until,
        parts: state.survivors.parts(),
        lost: state.survivors.lost(),
        fault,
    }))
}

/// Where in the log a state is.
#[derive(Clone, Copy)]
struct At {
    moment: usize,
    entries: usize,
    until: usize,
}

/// Looking at one moment.
struct Look<'a, 'e, 't> {
    task: &'a Judge,
    recording: &'a Recording,
    devices: &'a StateDevices,
    examiner: &'e mut Examiner<'t>,
    undecided: &'a [&'a LoggedWrite],
    /// Which parts can be there together, where not any can.
    order: Option<&'a PartOrder>,
}

impl Look<'_, '_, '_> {
    fn at(&mut self, survivors: &Survivors, until: usize) -> Result<Found, GuestError> {
        self.with_promises(survivors, until, usize::MAX)
    }

    /// As if the command had promised no more than this number.
    fn with_promises(&mut self, survivors: &Survivors, until: usize, most: usize) -> Result<Found, GuestError> {
        let atomic_bytes = self.task.judging.atomic_bytes;
        let device = self.devices.make(&survivors.pieces(self.undecided, atomic_bytes))?;
        beat(self.task)?;
        let promises = self.recording.promised_until(until);
        let promises = promises.get(..most).unwrap_or(promises);
        let found = self.examiner.examine(device.node(), promises, self.recording.position_bytes(until));
        self.devices.remove(device)?;
        found
    }

    /// What lies where at this moment when nothing of it is lost.
    fn places(&mut self, parts: usize) -> Result<Option<Places>, GuestError> {
        let everything = Survivors::choose(parts, |_| true);
        let device = self.devices.make(&everything.pieces(self.undecided, self.task.judging.atomic_bytes))?;
        let places = self.examiner.places(device.node());
        self.devices.remove(device)?;
        places
    }

    /// The first promise with which the same judge finds fault: it finds it with all of them.
    fn needs(&mut self, survivors: &Survivors, until: usize, by: Judged) -> Result<Needs, GuestError> {
        if !matches!(by, Judged::Check | Judged::Recover) {
            return Ok(Needs::NotTried);
        }
        let fails = |look: &mut Self, most: usize| {
            Ok::<_, GuestError>(look.with_promises(survivors, until, most)?.is_some_and(|found| found.by == by))
        };
        if fails(self, 0)? {
            return Ok(Needs::Nothing);
        }
        // Less than `high` are not enough, `high` are.
        let (mut low, mut high) = (0, self.recording.promised_until(until).len());
        while high > low + 1 {
            let middle = low + (high - low) / 2;
            if fails(self, middle)? { high = middle } else { low = middle }
        }
        let Some(acknowledgement) = high.checked_sub(1) else { return Ok(Needs::Nothing) };
        let made = self.recording.recorded.acknowledgements.get(acknowledgement);
        let unsynced = made.and_then(|made| self.examiner.unsynced(acknowledgement, made.position_bytes));
        Ok(Needs::Promise { acknowledgement, unsynced })
    }

    /// Gives lost writes back as long as the same judge finds a fault.
    fn smallest(&mut self, bad: &Survivors, at: At, fault: &Fault) -> Result<Smallest, GuestError> {
        let At { moment, entries, until } = at;
        let by = fault.by;
        let atomic_bytes = self.task.judging.atomic_bytes;
        let groups = crash::parts_by_write(self.undecided, atomic_bytes);
        // A script may find fault with the smaller state for another reason, which is another fault.
        let is_script = matches!(by, Judged::Check | Judged::Recover);
        let said = signature(&fault.what);
        let is_it = |found: &Finding| found.by == by && (!is_script || signature(&found.what) == said);
        let mut failed = None;
        let mut last: Option<Finding> = None;
        let shrunk = crash::shrink(bad, &groups, SHRINK_STATES_MAX, |survivors| {
            if failed.is_some() || self.order.is_some_and(|order| !order.allows(survivors)) {
                return false;
            }
            match self.at(survivors, until) {
                Ok(found) => match found.filter(is_it) {
                    Some(found) => {
                        last = Some(found);
                        true
                    }
                    None => false,
                },
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if last.is_none() {
            // Nothing could be given back, or it is another moment's than that at which it was found.
            last = self.at(&shrunk.survivors, until)?.filter(is_it);
        }
        let (what, promised_by) = last.map_or((fault.what.clone(), None), |found| (found.what, found.promised_by));
        let needs = self.needs(&shrunk.survivors, until, by)?;
        let parts = shrunk.survivors.parts();
        let lost_parts = (0..parts).filter(|part| !shrunk.survivors.has(*part)).collect();
        let places = self.places(parts)?;
        let lost = self.undecided.iter().zip(&groups).filter_map(|(write, group)| {
            let lost_parts = group.clone().filter(|part| !shrunk.survivors.has(*part)).count();
            let where_they = |are_there: bool| {
                write.covered(atomic_bytes, |part| shrunk.survivors.has(group.start + part) == are_there)
            };
            let file_of = |range: Option<Range<u64>>| places.as_ref().and_then(|places| places.file(&range?));
            let file = file_of(where_they(false));
            let other =
                file_of(where_they(true)).filter(|other| file.as_ref().is_some_and(|file| file.inode != other.inode));
            let place = if other.is_some() { where_they(false) } else { Some(write.range()) };
            (lost_parts > 0).then(|| Lost {
                entry: write.entry,
                offset_bytes: write.offset_bytes,
                len_bytes: write.content.len_bytes(),
                place: places.as_ref().and_then(|places| places.name(&place?)),
                file,
                beside: other.map(|other| other.path),
                lost_parts,
                parts: group.len(),
            })
        });
        let lost = lost.collect();
        let (minimal, judged) = (shrunk.minimal, shrunk.judged);
        Ok(Smallest { what, moment, entries, until, parts, lost_parts, needs, promised_by, lost, minimal, judged })
    }
}

/// Tells the outside that it goes on. The time is the host's: the file is written there.
fn beat(task: &Judge) -> Result<(), GuestError> {
    let written = File::create(&task.beat).and_then(|mut file| {
        file.write_all(b"1")?;
        file.sync_data()
    });
    attempt(written, || format!("cannot write {}", task.beat.display()))
}

/// The guest's answers, one a line.
struct Answers {
    file: File,
    since_sync: usize,
}

impl Answers {
    fn create(task: &Judge) -> Result<Self, GuestError> {
        let created = File::create(&task.verdicts);
        let file = attempt(created, || format!("cannot write {}", task.verdicts.display()))?;
        Ok(Self { file, since_sync: 0 })
    }

    fn add(&mut self, answer: &Answer) -> Result<(), GuestError> {
        let mut line = serde_json::to_vec(answer).map_err(|error| GuestError::new(error.to_string()))?;
        line.push(b'\n');
        attempt(self.file.write_all(&line), || "cannot write a verdict".to_owned())?;
        self.since_sync += 1;
        if self.since_sync >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), GuestError> {
        self.since_sync = 0;
        attempt(self.file.sync_data(), || "cannot write a verdict".to_owned())
    }
}
