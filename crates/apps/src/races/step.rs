//! What each task does.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Blocks of the common file that belong to a task.
pub const PART_BLOCKS: u64 = 192;
/// Blocks that a task's own file has at most.
pub const OWN_BLOCKS_MAX: u64 = 64;

/// How many tasks, and what they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    /// Tasks at once.
    pub tasks: u32,
    /// Steps of each.
    pub steps: u32,
    /// The same seed has the same steps.
    pub seed: u64,
}

/// Which file a step is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// That of all tasks.
    Common,
    /// The task's own.
    Own,
}

/// What becomes of a range of a file without a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Blocks are allocated, and the file is longer if they are behind it.
    Allocate,
    /// Blocks are allocated.
    AllocateBehind,
    /// It becomes a hole.
    Punch,
    /// It reads as zeroes.
    Zero,
    /// It is taken out, and what is behind it comes to its place.
    Collapse,
}

/// Blocks of a file, of 4 KiB; those of the common one are counted from the task's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Of which file.
    pub file: File,
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// One step of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Writes through the page cache.
    Write(Blocks),
    /// Writes past it.
    WriteDirect(Blocks),
    /// Writes through a shared mapping, and waits for that.
    Store(Blocks),
    /// Begins to write what is dirty, without waiting (`sync_file_range`).
    StartWriteback(File),
    /// fsync.
    Sync(File),
    /// fdatasync.
    SyncData(File),
    /// The own file has so many blocks from now on.
    Resize(u64),
    /// Something else becomes of blocks of the own file.
    Change(Change, Blocks),
    /// The own file gets another name and its name back.
    Rename,
    /// A file comes and goes, and the folder is synced.
    MakeAndRemove,
}

/// The steps of a task, counted from 0.
pub fn steps(race: Race, task: u32) -> Vec<Step> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(race.seed.wrapping_mul(0x1_0001).wrapping_add(task.into()));
    (0..race.steps).map(|_| step(&mut random)).collect()
}

fn step(random: &mut Xoshiro256PlusPlus) -> Step {
    let file = if random.random_range(0..3) < 2 { File::Common } else { File::Own };
    let most = if file == File::Common { PART_BLOCKS } else { OWN_BLOCKS_MAX };
    // Few blocks, or many: a bio takes at most 256.
    let count = if random.random_range(0..3) == 0 { random.random_range(1..=most) } else { random.random_range(1..=4) };
    let blocks = Blocks { file, first: random.random_range(0..=most - count), count };
    match random.random_range(0..24) {
        0..=6 => Step::Write(blocks),
        7 => Step::WriteDirect(blocks),
        8 => Step::Store(Blocks { count: count.min(4), ..blocks }),
        9..=11 => Step::StartWriteback(file),
        12..=15 => Step::Sync(file),
        16 => Step::SyncData(file),
        17 => Step::Resize(random.random_range(0..=OWN_BLOCKS_MAX)),
        18..=21 => {
            let changes = [Change::Allocate, Change::AllocateBehind, Change::Punch, Change::Zero, Change::Collapse];
            let change = changes[random.random_range(0..changes.len())];
            let count = random.random_range(1..=16);
            let first = random.random_range(0..OWN_BLOCKS_MAX - count);
            Step::Change(change, Blocks { file: File::Own, first, count })
        }
        22 => Step::Rename,
        _ => Step::MakeAndRemove,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_steps_and_some_seed_has_every_kind() {
        let race = Race { tasks: 2, steps: 400, seed: 1 };
        assert_eq!(steps(race, 0), steps(race, 0));
        assert_ne!(steps(race, 0), steps(race, 1));
        assert_ne!(steps(race, 0), steps(Race { seed: 2, ..race }, 0));
        let all = steps(race, 0);
        let kinds = all.iter().map(std::mem::discriminant).collect::<std::collections::HashSet<_>>();
        assert_eq!(kinds.len(), 10);
        for step in all {
            if let Step::Write(Blocks { file, first, count }) | Step::WriteDirect(Blocks { file, first, count }) = step
            {
                assert!(count > 0 && first + count <= if file == File::Common { PART_BLOCKS } else { OWN_BLOCKS_MAX });
            }
        }
    }
}
