//! Goes through the states of a log.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crash::files::{Call, Rules};
use crash::{Event, LogReader, LoggedWrite, Moments, Rule, State, Timeline};

use crate::disk::{BLOCK_BYTES_MAX, Class, Disk};
use crate::error::{OfflineError, Unreadable};
use crate::journal::{Recovered, Recovery, described};
use crate::layout::{self, Layout, SUPER_BYTES};
use crate::look::{Defect, Look, Shared, Told};
use crate::parts::{Bad, Counts, Judged, Part, Parts};
use crate::scripts::Scripts;

/// Parts of the work, each of which is done once.
const PARTS: usize = 64;
/// States that are looked at to make one small.
const SHRINK_STATES_MAX: usize = 200;
/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Larger file systems are not for this.
const BLOCKS_MAX: u64 = 1 << 22;

/// What is judged, and how.
pub struct Judgement<'a> {
    /// What the device was given, from its first use on.
    pub log: &'a LogReader,
    /// The first entry after which the power may go.
    pub from: usize,
    /// The number of the device under which the command saw its files.
    pub device: u64,
    /// The command's calls, if files are held against what they promised.
    pub calls: Option<&'a [Call]>,
    /// Whether e2fsck looks at each distinct metadata.
    pub fsck: bool,
    /// What the caller's scripts say counts, too.
    pub scripts: Option<&'a Scripts<'a>>,
    /// What the device writes whole or not at all.
    pub atomic_bytes: u32,
    /// How many states are generated, more or less.
    pub states: u64,
    /// The same log, number and seed give the same states.
    pub seed: u64,
    /// Bad states of a kind that are kept for each of 64 parts, the first of them made small.
    pub shown_max: usize,
    /// How many at a time.
    pub threads: usize,
    /// Where what was found goes.
    pub folder: &'a Path,
    /// What tells this run from others, for the folder.
    pub name: &'a str,
    /// For tests.
    pub defect: Option<Defect>,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// States that were generated now.
    pub generated: u64,
    /// Of these, bad or unread.
    pub bad: u64,
}

#[derive(Default)]
struct Work {
    next: AtomicUsize,
    generated: AtomicU64,
    bad: AtomicU64,
    over: AtomicBool,
}

/// Generates states under a rule and judges them; what was found, and some of what is bad. `stop` is asked many times a second.
///
/// # Errors
/// Where the file system is none that can be read here, e2fsck is missing, or the folder holds another run.
pub fn judge<R: Rule + Sync>(
    judgement: &Judgement<'_>,
    rule: &R,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(Progress),
) -> Result<(Counts, Vec<Bad>), OfflineError> {
    let name = format!(
        "{}\nstates {} seed {} atomic {} shown {}\n",
        judgement.name, judgement.states, judgement.seed, judgement.atomic_bytes, judgement.shown_max
    );
    let parts = Parts::open(judgement.folder, &name)?;
    let log = &judgement.log.log;
    let timeline = Timeline::new(log, rule.clone(), judgement.from, judgement.atomic_bytes);
    let share = timeline.share(judgement.states);
    let shared = Shared::default();
    let done: BTreeSet<usize> = (0..PARTS)
        .filter(|number| {
            let part = parts.read(*number);
            for metadata in part.iter().flat_map(|part| part.checked.difference(&part.bad)) {
                shared.put(*metadata, None);
            }
            part.is_some()
        })
        .collect();
    let work = Work::default();
    let results: Vec<Result<(), OfflineError>> = std::thread::scope(|scope| {
        let (work, timeline, parts, done, shared) = (&work, &timeline, &parts, &done, &shared);
        let one = move || {
            let walker = Walker { judgement, timeline, share, parts, done, shared, work, stop };
            let result = walker.walk(rule);
            work.over.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        let threads: Vec<_> = (0..judgement.threads.max(1)).map(|_| scope.spawn(one)).collect();
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(LOOK_EVERY);
            let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
            progress(Progress { generated: count(&work.generated), bad: count(&work.bad) });
        }
        let lost = |_| Err(OfflineError::Damaged("a thread failed".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
    });
    let mut stopped = false;
    for result in results {
        match result {
            Err(OfflineError::Stopped) => stopped = true,
            other => other?,
        }
    }
    if stopped {
        return Err(OfflineError::Stopped);
    }
    let mut all = Part::default();
    for number in 0..PARTS {
        all.join(parts.read(number).ok_or_else(|| OfflineError::Damaged(format!("part {number} is missing")))?);
    }
    State::put_hashes(all.shown.iter_mut().map(|bad| &mut bad.state), log, rule, judgement.atomic_bytes);
    Ok((all.counts(), all.shown))
}

/// The part of the moments that has this number.
fn part_of(moments: &Range<usize>, number: usize) -> Range<usize> {
    let border = |number: usize| moments.start + moments.len() * number / PARTS;
    border(number)..border(number + 1)
}

/// One thread's work.
struct Walker<'a> {
    judgement: &'a Judgement<'a>,
    timeline: &'a Timeline,
    share: u64,
    parts: &'a Parts,
    done: &'a BTreeSet<usize>,
    shared: &'a Shared,
    work: &'a Work,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Walker<'_> {
    /// The next part that is not done.
    fn next(&self) -> Option<usize> {
        loop {
            let number = self.work.next.fetch_add(1, Ordering::Relaxed);
            if number >= PARTS {
                return None;
            }
            if !self.done.contains(&number) {
                return Some(number);
            }
        }
    }

    fn walk<R: Rule>(&self, rule: &R) -> Result<(), OfflineError> {
        let Some(mut number) = self.next() else { return Ok(()) };
        let log = &self.judgement.log.log;
        let (blocks, block_bytes) = size_of(log)?;
        let mut disk = Disk::new(blocks, block_bytes);
        let mut look: Option<Look<'_>> = None;
        let mut part = Part::default();
        let mut walk = Moments::new(log, rule.clone());
        let mut moment = 0;
        while walk.advance() {
            settle(&mut disk, walk.settled());
            if look.is_none() && walk.entries() >= self.judgement.from {
                let layout = Layout::read(&disk)?;
                classify(&mut disk, &layout, log)?;
                look = Some(self.look(layout, &mut disk)?);
            }
            while moment >= part_of(&self.timeline.moments(), number).end {
                self.parts.write(number, &std::mem::take(&mut part))?;
                match self.next() {
                    Some(next) => number = next,
                    None => return Ok(()),
                }
            }
            if let (Some(look), Some(until)) = (&mut look, self.timeline.until(moment))
                && part_of(&self.timeline.moments(), number).contains(&moment)
            {
                let at = Moment { moment, until, entries: walk.entries() };
                self.moment(&walk, at, &mut disk, look, &mut part)?;
            }
            moment += 1;
        }
        // The last part that holds moments, and those behind it that hold none.
        loop {
            self.parts.write(number, &std::mem::take(&mut part))?;
            match self.next() {
                Some(next) => number = next,
                None => return Ok(()),
            }
        }
    }

    fn look(&self, layout: Layout, disk: &mut Disk) -> Result<Look<'_>, OfflineError> {
        let Judgement { device, calls, fsck, scripts, defect, .. } = *self.judgement;
        let promised = calls.map(|calls| (Rules::of("ext4"), calls));
        Look::new(Told { device, promised, fsck, scripts, defect, shared: self.shared }, layout, disk)
    }

    fn moment<R: Rule>(
        &self,
        walk: &Moments<'_, R>,
        at: Moment,
        disk: &mut Disk,
        look: &mut Look<'_>,
        part: &mut Part,
    ) -> Result<(), OfflineError> {
        let Judgement { atomic_bytes, seed, log, scripts, shown_max, .. } = *self.judgement;
        let undecided = walk.undecided();
        let position_bytes = log.positions_bytes.get(at.until).copied().unwrap_or(u64::MAX);
        let mut known = HashSet::new();
        let mut bad: Vec<Bad> = Vec::new();
        let mut result = Ok(());
        let mut shown: BTreeMap<Judged, usize> = BTreeMap::new();
        for one in &part.shown {
            *shown.entry(one.by).or_default() += 1;
        }
        walk.draw(at.moment, atomic_bytes, self.share, seed, |survivors| {
            if result.is_err() {
                return;
            }
            part.generated += 1;
            // A look takes microseconds, one with scripts a second.
            let generated = self.work.generated.fetch_add(1, Ordering::Relaxed);
            if (scripts.is_some() || generated.is_multiple_of(64))
                && (self.work.over.load(Ordering::Relaxed) || (self.stop)())
            {
                result = Err(OfflineError::Stopped);
                return;
            }
            for piece in &survivors.pieces(&undecided, atomic_bytes) {
                disk.put(piece);
            }
            let state = disk.sums().all;
            if known.insert(state) {
                part.states.insert(state);
                match look.at(disk, position_bytes) {
                    Ok(seen) => {
                        part.metadata.insert(seen.metadata);
                        part.files.insert(seen.files);
                        if seen.is_checked {
                            part.checked.insert(seen.metadata);
                        }
                        part.scripted.extend(seen.scripted);
                        if let Some((by, what)) = seen.fault {
                            self.work.bad.fetch_add(1, Ordering::Relaxed);
                            let set = if by == Judged::Unread { &mut part.unread } else { &mut part.bad };
                            set.insert(state);
                            let count = shown.entry(by).or_default();
                            *count += 1;
                            if *count <= shown_max {
                                let Moment { moment, until, entries } = at;
                                // Its hash as others know it is for those that are kept.
                                let state = State { moment, entries, until, survivors: survivors.clone(), hash: state };
                                bad.push(Bad { state, by, what: what.to_string(), smallest: None });
                            }
                        }
                    }
                    Err(error) => result = Err(error),
                }
            }
            disk.undo();
        });
        result?;
        let order = walk.part_order(atomic_bytes);
        for mut one in bad {
            let is_first = part.shown.iter().all(|other| other.by != one.by);
            if is_first && one.by != Judged::Unread {
                let mut failed = None;
                let groups = crash::parts_by_write(&undecided, atomic_bytes);
                let shrunk = crash::shrink(&one.state.survivors, &groups, SHRINK_STATES_MAX, |survivors| {
                    if failed.is_some() || order.as_ref().is_some_and(|order| !order.allows(survivors)) {
                        return false;
                    }
                    for piece in &survivors.pieces(&undecided, atomic_bytes) {
                        disk.put(piece);
                    }
                    let seen = look.at(disk, position_bytes);
                    disk.undo();
                    match seen {
                        Ok(seen) => seen.fault.is_some_and(|(by, _)| by == one.by),
                        Err(error) => {
                            failed = Some(error);
                            false
                        }
                    }
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                let is_lost = |group: Range<usize>| group.into_iter().any(|part| !shrunk.survivors.has(part));
                let lost = undecided.iter().zip(groups).filter(|(_, group)| is_lost(group.clone()));
                one.smallest = Some(lost.map(|(write, _)| write.entry).collect());
            }
            part.shown.push(one);
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Moment {
    moment: usize,
    until: usize,
    entries: usize,
}

fn settle(disk: &mut Disk, writes: &[LoggedWrite]) {
    for piece in writes.iter().flat_map(LoggedWrite::whole) {
        disk.put(&piece);
    }
    disk.keep();
}

/// Blocks up to the last that was written or that the super block knows, and the size of one.
fn size_of(log: &crash::Log) -> Result<(u32, usize), Unreadable> {
    let mut end_bytes = 0;
    // The super block says how large the file system is, and may say more than was ever written.
    let mut said = None;
    for entry in log.entries() {
        let Event::Write { offset_bytes, content: crash::Content::Bytes(bytes), .. } = &entry.event else { continue };
        end_bytes = end_bytes.max(offset_bytes + bytes.len() as u64);
        let at = (SUPER_BYTES as u64).checked_sub(*offset_bytes).and_then(|at| usize::try_from(at).ok());
        let found = at.and_then(|at| bytes.get(at..at + SUPER_BYTES)).and_then(layout::size_of);
        said = said.max(found);
    }
    let (blocks, block_bytes) = said.ok_or_else(|| Unreadable("there is no ext4".to_owned()))?;
    if block_bytes > BLOCK_BYTES_MAX {
        return Err(Unreadable(format!(
            "its blocks have more than {BLOCK_BYTES_MAX} bytes (--mkfs-options '-b 4096')"
        )));
    }
    let blocks = end_bytes.div_ceil(block_bytes as u64).max(u64::from(blocks));
    if blocks > BLOCKS_MAX {
        return Err(Unreadable(format!("it has {blocks} blocks; at most {BLOCKS_MAX} are looked at")));
    }
    Ok((blocks as u32, block_bytes))
}

/// Metadata is what has a fixed place, folders of mkfs, and whatever was ever to go through the journal.
fn classify(disk: &mut Disk, layout: &Layout, log: &crash::Log) -> Result<(), Unreadable> {
    let mut metadata: BTreeSet<u32> = layout.fixed().collect();
    let replay = Recovery::default().replay(disk, layout)?;
    metadata.extend(layout.folders(&Recovered { disk, replay: &replay })?);
    for entry in log.entries() {
        if let Event::Write { content: crash::Content::Bytes(bytes), .. } = &entry.event {
            for block in bytes.chunks_exact(disk.block_bytes()) {
                metadata.extend(described(block));
            }
        }
    }
    disk.classify(Class::Metadata, metadata.into_iter());
    disk.classify(Class::Journal, layout.journal.iter().copied());
    Ok(())
}
