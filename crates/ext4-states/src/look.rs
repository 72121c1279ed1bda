//! Looks at one state after the other, and at nothing twice.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crash::files::{Call, Known, Promises, Rules, judge_beside};

use crate::disk::Disk;
use crate::error::{OfflineError, Unreadable};
use crate::fsck::Checker;
use crate::journal::{Recovered, Recovery, Replay};
use crate::layout::Layout;
use crate::parts::Judged;
use crate::scripts::{Bench, Scripts};
use crate::view::{Stamped, Tree};

/// Most entries of what was looked at that are remembered before all is forgotten.
const REMEMBERED_MAX: usize = 1 << 20;
/// States with a journal that cannot be replayed for which e2fsck is asked, too.
const BROKEN_CHECKED_MAX: usize = 50;
/// Violations that are said of one state.
const SAID_MAX: usize = 5;

/// A judge that is broken on purpose, to see that it is found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// The journal is not replayed.
    ReplaySkipped,
    /// What is promised is not looked at, and neither is e2fsck asked: nothing is ever bad but what cannot be read.
    Blind,
}

pub(crate) type Fault = Option<(Judged, Arc<str>)>;

/// What several judges know together: what e2fsck said of metadata.
#[derive(Default)]
pub(crate) struct Shared(Mutex<BTreeMap<u64, Fault>>);

impl Shared {
    fn get(&self, metadata: u64) -> Option<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&metadata).cloned()
    }

    pub(crate) fn put(&self, metadata: u64, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(metadata, fault);
    }
}

/// A hash of the metadata that recovery leaves, and why it refuses.
type Outcome = (u64, Option<Arc<str>>);

/// What is known of a state.
pub(crate) struct Seen {
    /// A hash of the metadata that recovery leaves.
    pub(crate) metadata: u64,
    /// A hash of files and contents that recovery leaves.
    pub(crate) files: u64,
    pub(crate) fault: Fault,
    /// e2fsck was asked just now.
    pub(crate) is_checked: bool,
    /// A hash of what scripts were asked of, if they were.
    pub(crate) scripted: Option<u64>,
}

/// A judge, its promises, and what it remembers.
pub(crate) struct Look<'a> {
    layout: Layout,
    device: u64,
    promises: Option<Promises>,
    /// Positions of the log at which anything is promised or begun.
    steps: Vec<u64>,
    checker: Option<Checker>,
    shared: &'a Shared,
    defect: Option<Defect>,
    recovery: Recovery,
    /// By hashes of metadata and journal before recovery.
    recovered: HashMap<(u64, u64), Outcome>,
    trees: HashMap<u64, Rc<Result<Tree, Unreadable>>>,
    verdicts: HashMap<(u64, u64, usize), Fault>,
    /// Where scripts look, and what they said of files with so many lines acknowledged.
    bench: Option<Bench<'a>>,
    scripted: HashMap<u64, Fault>,
    /// Blocks of files that are as they should be at a step.
    known: (usize, Known),
    broken: usize,
}

/// What a judge is told.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) device: u64,
    pub(crate) promised: Option<(Rules, &'a [Call])>,
    pub(crate) fsck: bool,
    pub(crate) scripts: Option<&'a Scripts<'a>>,
    pub(crate) defect: Option<Defect>,
    pub(crate) shared: &'a Shared,
}

impl<'a> Look<'a> {
    /// Of what was promised by calls that began on the files that are on `disk`.
    pub(crate) fn new(told: Told<'a>, layout: Layout, disk: &mut Disk) -> Result<Self, OfflineError> {
        let mut look = Self {
            layout,
            device: told.device,
            promises: None,
            steps: Vec::new(),
            checker: told.fsck.then(Checker::new).transpose()?,
            shared: told.shared,
            defect: told.defect,
            recovery: Recovery::default(),
            recovered: HashMap::new(),
            trees: HashMap::new(),
            verdicts: HashMap::new(),
            bench: told.scripts.map(Bench::new).transpose()?,
            scripted: HashMap::new(),
            known: (0, Known::default()),
            broken: 0,
        };
        if look.bench.is_none() && told.promised.is_none() {
            return Ok(look);
        }
        let replay = look.recovery.replay(disk, &look.layout)?;
        let tree = look.read(disk, &replay)?;
        if let Some(bench) = &mut look.bench
            && let Some((_, why)) = bench.look(&tree, disk, 0)?
        {
            let message =
                format!("scripts fail on this machine where no power was lost, before the command ran: {why}");
            return Err(OfflineError::Scripts(message));
        }
        if let Some((rules, calls)) = told.promised {
            look.promises = Some(Promises::new(rules, &tree.found(disk, told.device), calls));
            look.steps = calls.iter().flat_map(|call| [call.entered.position, call.left.position]).collect();
            look.steps.sort_unstable();
            look.steps.dedup();
        }
        Ok(look)
    }

    fn read(&self, disk: &Disk, replay: &Replay) -> Result<Tree, Unreadable> {
        let recovered = Recovered { disk, replay };
        Tree::read(Stamped::new(&recovered, disk, &self.layout), &self.layout)
    }

    fn replay(&mut self, disk: &mut Disk) -> Result<Replay, Unreadable> {
        match self.defect {
            Some(Defect::ReplaySkipped) => Ok(Replay::default()),
            _ => self.recovery.replay(disk, &self.layout),
        }
    }

    /// What is wrong with the state on `disk`, which a cut at this position of the log at the latest may leave.
    pub(crate) fn at(&mut self, disk: &mut Disk, position_bytes: u64) -> Result<Seen, OfflineError> {
        let sums = disk.sums();
        let key = (sums.metadata, sums.journal);
        let mut replay = None;
        let (metadata, broken) = match self.recovered.get(&key) {
            Some(known) => known.clone(),
            None => {
                let made = match self.replay(disk) {
                    Ok(made) => made,
                    Err(why) => return Ok(unread(sums.metadata, &why)),
                };
                let metadata = Recovered { disk, replay: &made }.metadata();
                let broken = made.broken.clone().map(Arc::from);
                remember(&mut self.recovered, key, (metadata, broken.clone()));
                replay = Some(made);
                (metadata, broken)
            }
        };
        if let Some(what) = broken {
            return self.broken(disk, metadata ^ sums.journal, what);
        }
        let tree = match self.trees.get(&metadata) {
            Some(tree) => Rc::clone(tree),
            None => {
                let replay = match replay {
                    Some(replay) => replay,
                    None => self.replay(disk)?,
                };
                let tree = Rc::new(self.read(disk, &replay));
                remember(&mut self.trees, metadata, Rc::clone(&tree));
                tree
            }
        };
        let tree = match &*tree {
            Ok(tree) => tree,
            Err(why) => return Ok(unread(metadata, why)),
        };
        let mut is_checked = false;
        let checked = match self.shared.get(metadata) {
            Some(known) => known,
            None => {
                let fault = self.check(disk, tree)?;
                is_checked = self.checker.is_some();
                self.shared.put(metadata, fault.clone());
                fault
            }
        };
        let data = tree.data_of(disk);
        let files = metadata.rotate_left(23) ^ data;
        if checked.is_some() {
            return Ok(Seen { metadata, files, fault: checked, is_checked, scripted: None });
        }
        let step = self.steps.partition_point(|step| *step <= position_bytes);
        let key = (metadata, data, step);
        let fault = match self.verdicts.get(&key) {
            Some(known) => known.clone(),
            None => {
                if self.known.0 != step {
                    self.known = (step, Known::default());
                }
                let fault = self.violations(disk, tree, position_bytes);
                remember(&mut self.verdicts, key, fault.clone());
                fault
            }
        };
        if fault.is_some() {
            return Ok(Seen { metadata, files, fault, is_checked, scripted: None });
        }
        let (fault, scripted) = self.ask(disk, tree, files, position_bytes)?;
        Ok(Seen { metadata, files, fault, is_checked, scripted })
    }

    /// What scripts say of these files, by their hash, and a hash of what they were asked of.
    fn ask(
        &mut self,
        disk: &Disk,
        tree: &Tree,
        files: u64,
        position_bytes: u64,
    ) -> Result<(Fault, Option<u64>), OfflineError> {
        let Some(bench) = self.bench.as_mut().filter(|_| self.defect != Some(Defect::Blind)) else {
            return Ok((None, None));
        };
        let told = bench.told(position_bytes);
        let asked = files ^ (told as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fault = match self.scripted.get(&asked) {
            Some(known) => known.clone(),
            None => {
                let fault = bench.look(tree, disk, told)?;
                remember(&mut self.scripted, asked, fault.clone());
                fault
            }
        };
        Ok((fault, Some(asked)))
    }

    /// A committed transaction cannot be replayed. What follows from it is for e2fsck to say, as long as there are few.
    fn broken(&mut self, disk: &Disk, state: u64, what: Arc<str>) -> Result<Seen, OfflineError> {
        let mut fault = Some((Judged::Journal, what));
        let mut is_checked = false;
        if let Some(checker) = self.checker.as_ref().filter(|_| self.broken < BROKEN_CHECKED_MAX) {
            self.broken += 1;
            is_checked = true;
            if checker.check(disk)?.fault.is_none() {
                fault = Some((Judged::Recovery, Arc::from("e2fsck replays a journal that looks broken here")));
            }
        }
        Ok(Seen { metadata: state, files: state, fault, is_checked, scripted: None })
    }

    /// e2fsck's say, and whether it leaves the same files.
    fn check(&self, disk: &Disk, tree: &Tree) -> Result<Fault, OfflineError> {
        let Some(checker) = self.checker.as_ref().filter(|_| self.defect != Some(Defect::Blind)) else {
            return Ok(None);
        };
        let checked = checker.check(disk)?;
        if let Some(fault) = checked.fault {
            return Ok(Some((Judged::Fsck, Arc::from(fault))));
        }
        let failed = crate::error::system("cannot read an image");
        let stamped = Stamped::of_image(&checked.image, disk, &self.layout).map_err(failed)?;
        Ok(match Tree::read(stamped, &self.layout) {
            Ok(other) if other == *tree => None,
            Ok(other) => Some((Judged::Recovery, Arc::from(tree.difference(&other)))),
            Err(why) => Some((Judged::Recovery, Arc::from(format!("after e2fsck: {why}")))),
        })
    }

    fn violations(&self, disk: &Disk, tree: &Tree, position_bytes: u64) -> Fault {
        let promises = self.promises.as_ref().filter(|_| self.defect != Some(Defect::Blind))?;
        let found = tree.found(disk, self.device);
        let violations = judge_beside(&promises.promised(position_bytes), &found, &self.known.1);
        let mut lines: Vec<String> = violations.iter().take(SAID_MAX).map(ToString::to_string).collect();
        if violations.len() > SAID_MAX {
            lines.push(format!("and {} more", violations.len() - SAID_MAX));
        }
        (!lines.is_empty()).then(|| (Judged::Files, Arc::from(lines.join("\n"))))
    }
}

/// Keeps what is known; a map that is full begins again.
fn remember<K: Eq + Hash, V>(known: &mut HashMap<K, V>, key: K, value: V) {
    if known.len() >= REMEMBERED_MAX {
        known.clear();
    }
    known.insert(key, value);
}

fn unread(metadata: u64, why: &Unreadable) -> Seen {
    let fault = Some((Judged::Unread, Arc::from(why.to_string())));
    Seen { metadata, files: metadata, fault, is_checked: false, scripted: None }
}
