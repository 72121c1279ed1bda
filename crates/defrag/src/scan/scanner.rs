//! Looks at one file after the other and puts the plan together.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use observe::mounts::Mounts;
use serde::Serialize;
use units::Printable;

use super::examine::Opened;
use super::file_system::{FileSystem, Writes};
use super::walk::{Linked, Met, walk};
use crate::analysis::{Hotness, READAHEAD_BYTES, hottest, windows};
use crate::extents::{WriteBack, backing_of};
use crate::migrate::refusal;
use crate::plan::{
    Assumed, FileFacts, FilePlan, Mode, Plan, PlanOptions, Planner, Room, SkipReason, SkippedFile, plan_file,
};
use crate::run::{Attempts, layout_of};
use crate::{Access, FileId, FreeSpace, KeepFree};

/// What to assume and to allow.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions {
    /// How ranges are chosen. A walk without a trace is `bypass` or `whole`.
    pub mode: Mode,
    /// The readahead's window where no trace tells it.
    pub readahead_bytes: u64,
    /// Traced windows to keep.
    pub hotness: Hotness,
    /// Plan shared extents too.
    pub shared: bool,
    /// Plan files that other programs have open, on file systems where these are left alone otherwise.
    pub open: bool,
    /// Free space that the plan leaves.
    pub keep_free: KeepFree,
    /// Whether dirty data is written back before a file is looked at.
    pub write_back: WriteBack,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Bypass,
            readahead_bytes: READAHEAD_BYTES,
            hotness: Hotness::ALL,
            shared: false,
            open: false,
            keep_free: KeepFree::default(),
            write_back: WriteBack::No,
        }
    }
}

/// How far a scan has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Folders entered.
    pub folders: u64,
    /// Regular files met, each once.
    pub files: u64,
    /// Of these, files large enough to be opened.
    pub opened: u64,
    /// Files and folders that could not be looked at.
    pub refused: u64,
}

/// Why a path cannot be scanned at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot look at {path}: {error}", path = Printable::path(path))]
pub struct ScanError {
    /// Which.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

/// A scan under way.
#[derive(Debug)]
pub struct Scanner {
    options: ScanOptions,
    planner: Planner,
    counts: Counts,
    linked: Linked,
    /// By device; the walk meets few of them.
    file_systems: BTreeMap<u64, FileSystem>,
    attempts: Attempts,
}

impl Scanner {
    /// Nothing looked at yet.
    pub fn new(options: ScanOptions) -> Self {
        Self {
            options,
            planner: Planner::new(options.mode),
            counts: Counts::default(),
            linked: Linked::default(),
            file_systems: BTreeMap::new(),
            attempts: Attempts::default(),
        }
    }

    /// Leaves out what earlier runs have tried in vain.
    pub fn knowing(mut self, attempts: Attempts) -> Self {
        self.attempts = attempts;
        self
    }

    /// Everything under `root`, a file or a folder, that lies on its file system.
    ///
    /// `watch` is called with each path and may end the walk. What cannot be looked at
    /// below `root` is counted as left alone, with the reason.
    pub fn walk(
        &mut self,
        root: &Path,
        watch: &mut dyn FnMut(&Counts, &Path) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ScanError> {
        let fail = |error| ScanError { path: root.to_owned(), error };
        let is_link = root.symlink_metadata().map_err(fail)?.is_symlink();
        let root = if is_link { root.canonicalize().map_err(fail)? } else { root.to_owned() };
        let mut linked = std::mem::take(&mut self.linked);
        let mut flow = ControlFlow::Continue(());
        let mounts = Mounts::now().unwrap_or_default();
        for met in walk(&root, points_below(&mounts, &root), &mut linked) {
            let path = match met {
                Met::Folder(path) => {
                    self.counts.folders += 1;
                    path
                }
                Met::Border(path) => {
                    self.skip(&path, beyond(&mounts, &path));
                    path
                }
                Met::Refused(path, why) => {
                    self.refused(&path, why);
                    path
                }
                Met::File(path, metadata) => {
                    self.counts.files += 1;
                    let block = self.file_systems.get(&metadata.dev()).map(|found| found.block_bytes);
                    // One block has no second piece; not opening such files is most of the speed on a tree of small ones.
                    if block.is_some_and(|block| metadata.len() <= block) || metadata.blocks() == 0 {
                        self.planner.add_small(&path, metadata.len(), u64::from(metadata.blocks() > 0));
                    } else {
                        self.file(&path, None);
                    }
                    path
                }
            };
            if watch(&self.counts, &path).is_break() {
                flow = ControlFlow::Break(());
                break;
            }
        }
        self.linked = linked;
        Ok(flow)
    }

    /// The file at `path`, of which a trace has `accesses` in this order; it must still be `id`.
    pub fn traced(&mut self, path: &Path, id: FileId, accesses: &[Access]) {
        self.counts.files += 1;
        self.file(path, Some((id, accesses)));
    }

    /// A file left alone for a reason known without looking at it.
    pub fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.planner.skip(SkippedFile { path: path.to_owned(), reason });
    }

    /// How far it has come.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// File systems met whose device does not say how large a request may be; a loop device's limits are assumed.
    pub fn without_limits(&self) -> usize {
        self.file_systems.values().filter(|found| found.limits.is_none()).count()
    }

    /// The plan, within a budget of bytes to write and to take up for good.
    pub fn finish(self, budget_bytes: Option<u64>) -> Plan {
        self.planner.finish(budget_bytes)
    }

    fn refused(&mut self, path: &Path, why: String) {
        self.counts.refused += 1;
        self.skip(path, SkipReason::Unreadable(why));
    }

    fn file(&mut self, path: &Path, traced: Option<(FileId, &[Access])>) {
        self.counts.opened += 1;
        match self.examine(path, traced) {
            Ok(Ok(plan)) => self.planner.add(plan),
            Ok(Err(reason)) => self.skip(path, reason),
            Err(why) => self.refused(path, why),
        }
    }

    /// Its plan, the reason to leave it alone, or why it cannot be looked at.
    fn examine(
        &mut self,
        path: &Path,
        traced: Option<(FileId, &[Access])>,
    ) -> Result<Result<FilePlan, SkipReason>, String> {
        let opened = Opened::open(path).map_err(|error| error.to_string())?;
        let mut id = opened.id();
        if let Some((expected, _)) = traced {
            if (id.device, id.inode) != (expected.device, expected.inode) {
                return Err("another file has the name by now".to_owned());
            }
            id.generation = expected.generation;
        }
        let found = match self.file_systems.get(&id.device) {
            Some(found) => *found,
            None => {
                let found = FileSystem::of(&opened.file, path).map_err(|error| error.to_string())?;
                let space = FreeSpace::of(&opened.file).map_err(|error| error.to_string())?;
                let keep_free_bytes = self.options.keep_free.bytes(space.size_bytes);
                let room = Room { free_bytes: space.free_bytes, keep_free_bytes, reuse: found.reuse() };
                self.planner.set_room(id.device, room);
                self.file_systems.insert(id.device, found);
                found
            }
        };
        let size_bytes = opened.metadata.len();
        let windows = match traced {
            None => None,
            Some((_, accesses)) => {
                // No move can change what these writes cost, so that they must not draw windows together either.
                let direct_only = (found.writes == Writes::DirectInPlace).then(|| found.writes.counted(accesses));
                let accesses = direct_only.as_deref().unwrap_or(accesses);
                let all = windows(accesses, size_bytes, self.options.readahead_bytes);
                let any = !all.is_empty();
                let kept = hottest(all, self.options.hotness);
                if kept.is_empty() {
                    return Ok(Err(if any { SkipReason::Cold } else { SkipReason::NotTraced }));
                }
                Some(kept)
            }
        };
        let map = opened.map(self.options.write_back).map_err(|error| error.to_string())?;
        let window_bytes = self.options.readahead_bytes;
        let assumed = match (self.options.mode, &windows) {
            (Mode::Traced, Some(windows)) => Assumed::Traced(windows),
            (Mode::Traced, None) => return Ok(Err(SkipReason::NotTraced)),
            (Mode::Bypass, _) => Assumed::Bypass { window_bytes },
            (Mode::Whole, _) => Assumed::Whole { window_bytes },
        };
        let options = PlanOptions {
            limits: found.limits.unwrap_or_default(),
            shared: self.options.shared,
            writes_in_place: found.writes != Writes::Elsewhere,
            metadata: found.metadata,
        };
        let facts = FileFacts { path: path.to_owned(), id, size_bytes, block_bytes: found.block_bytes };
        // Reading all of a file's items only where there is something to move.
        let mut plan = plan_file(facts, &map, None, assumed, &options);
        if found.frees_whole_extents && !plan.moves.is_empty() {
            plan = plan_file(plan.file, &map, Some(&backing_of(&opened.file, &map)), assumed, &options);
        }
        // A plan may be carried out, or gone on with, when the inode's number is another file's.
        if !plan.moves.is_empty() && plan.file.id.generation.is_none() {
            plan.file.id.generation = opened.generation();
        }
        if !plan.moves.is_empty() && !self.attempts.is_empty() {
            let free_bytes = FreeSpace::of(&opened.file).map_or(u64::MAX, |space| space.free_bytes);
            plan.retain(SkipReason::TriedBefore, |id, to_move| {
                !self.attempts.is_vain(id, to_move.range, layout_of(&map, to_move.range), free_bytes)
            });
        }
        // A file that will be refused must not use up a budget. For the lease of it, nobody may have it open.
        drop(opened);
        if !plan.moves.is_empty()
            && let Ok(Some(refusal)) = refusal(path, Some(&plan.file.id), self.options.open)
        {
            return Ok(Err(SkipReason::Refused(refusal.to_string())));
        }
        Ok(Ok(plan))
    }
}

/// Where something is mounted below `root`, in the words of a walk from there.
fn points_below(mounts: &Mounts, root: &Path) -> BTreeSet<PathBuf> {
    let Ok(real) = root.canonicalize() else { return BTreeSet::new() };
    let below = mounts.iter().filter_map(|mount| mount.point.strip_prefix(&real).ok());
    below.filter(|below| !below.as_os_str().is_empty()).map(|below| root.join(below)).collect()
}

/// Why something is not entered: it is on another device than the folder above it, or mounted there.
fn beyond(mounts: &Mounts, path: &Path) -> SkipReason {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match mounts.of(&real) {
        Some(mount) if mount.point == real && mount.is_on_disk() => SkipReason::OtherMount(mount.file_system.clone()),
        Some(mount) if mount.point == real => SkipReason::NoDisk(mount.file_system.clone()),
        _ => SkipReason::Subvolume,
    }
}
