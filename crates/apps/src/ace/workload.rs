//! Sequences of operations, with what they need before.

use std::collections::BTreeMap;
use std::fmt;

use rand::RngExt;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::operation::{Operation, Persist};
use super::space::{FOLDERS, parent};

/// What is there before the first operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// Made, and in the kernel's memory.
    Fresh,
    /// Made, and durable.
    Synced,
}

/// One workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its place among all of its length, from 1.
    pub number: usize,
    /// What its preparation left.
    pub prepared: Prepared,
    /// Each with what makes it durable; the last one has something.
    pub steps: Vec<(Operation, Option<Persist>)>,
}

/// Which workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    /// One or two operations.
    pub operations: usize,
    /// So many of them, by lot; all otherwise.
    pub sample: Option<usize>,
    /// Of the lot.
    pub seed: u64,
}

/// The workloads of a selection, in the order of their numbers.
pub fn workloads(selection: Selection) -> Vec<Workload> {
    let operations = Operation::all();
    let mut all = Vec::new();
    let mut add = |steps: &[(Operation, Option<Persist>)]| {
        if needed(steps).is_none() {
            return;
        }
        for prepared in [Prepared::Fresh, Prepared::Synced] {
            all.push(Workload { number: all.len() + 1, prepared, steps: steps.to_vec() });
        }
    };
    for last in &operations {
        for persist in last.persistence_points() {
            let last = (*last, Some(persist));
            if selection.operations < 2 {
                add(&[last]);
                continue;
            }
            for first in &operations {
                add(&[(*first, None), last]);
                for persist in first.persistence_points() {
                    add(&[(*first, Some(persist)), last]);
                }
            }
        }
    }
    let Some(count) = selection.sample.filter(|count| *count < all.len()) else { return all };
    // The first of a shuffle, drawn one by one.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(selection.seed);
    for at in 0..count {
        let other = random.random_range(at..all.len());
        all.swap(at, other);
    }
    all.truncate(count);
    all.sort_by_key(|workload| workload.number);
    all
}

/// What a name is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thing {
    File,
    Folder,
}

/// What must be there before the first operation: names, outer ones first. `None` where an operation cannot follow.
pub(super) fn needed(steps: &[(Operation, Option<Persist>)]) -> Option<Vec<(&'static str, bool)>> {
    let mut names = Names::default();
    for (operation, persist) in steps {
        names.apply(*operation)?;
        if let Some(Persist::Fsync(name) | Persist::Fdatasync(name)) = persist
            && !name.is_empty()
            && !names.now.contains_key(name)
        {
            return None;
        }
    }
    let mut needed: Vec<(&'static str, bool)> =
        names.before.iter().map(|(name, thing)| (*name, *thing == Thing::Folder)).collect();
    needed.sort_by_key(|(name, _)| (name.matches('/').count(), *name));
    Some(needed)
}

/// What is there as operations go, and what has to have been there for that.
#[derive(Default)]
struct Names {
    before: BTreeMap<&'static str, Thing>,
    now: BTreeMap<&'static str, Thing>,
    /// Names that are gone, or were made here: nothing can be asked of the preparation for them.
    settled: Vec<&'static str>,
}

impl Names {
    /// `name` has to be a thing of this kind: it is, or it was made before the first operation.
    fn require(&mut self, name: &'static str, thing: Thing) -> Option<()> {
        if let Some(known) = self.now.get(name) {
            return (*known == thing).then_some(());
        }
        if self.settled.contains(&name) {
            return None;
        }
        let folder = parent(name);
        if !folder.is_empty() {
            self.require(folder, Thing::Folder)?;
            // In a folder that was made, or came here, after the preparation nothing can have been prepared.
            if !self.before.contains_key(folder) || self.settled.contains(&folder) {
                return None;
            }
        }
        self.before.insert(name, thing);
        self.now.insert(name, thing);
        Some(())
    }

    /// `name` must not be there, and its folder must.
    fn vacant(&mut self, name: &'static str) -> Option<()> {
        let folder = parent(name);
        if !folder.is_empty() {
            self.require(folder, Thing::Folder)?;
        }
        (!self.now.contains_key(name)).then(|| self.settled.push(name))
    }

    fn is_empty(&self, folder: &str) -> bool {
        !self.now.keys().any(|name| parent(name) == folder)
    }

    fn apply(&mut self, operation: Operation) -> Option<()> {
        match operation {
            Operation::Create(name) => {
                self.vacant(name)?;
                self.now.insert(name, Thing::File);
            }
            Operation::MakeFolder(name) => {
                self.vacant(name)?;
                self.now.insert(name, Thing::Folder);
            }
            Operation::Write(name, ..)
            | Operation::Allocate(name, ..)
            | Operation::Truncate(name, _)
            | Operation::SetAttribute(name)
            | Operation::RemoveAttribute(name) => self.require(name, Thing::File)?,
            Operation::Link(from, to) | Operation::Symlink(from, to) => {
                self.require(from, Thing::File)?;
                self.vacant(to)?;
                self.now.insert(to, Thing::File);
            }
            Operation::Rename(from, to) => self.rename(from, to)?,
            Operation::Unlink(name) => {
                self.require(name, Thing::File)?;
                self.now.remove(name);
                self.settled.push(name);
            }
            Operation::RemoveFolder(name) => {
                self.require(name, Thing::Folder)?;
                if !self.is_empty(name) {
                    return None;
                }
                self.now.remove(name);
                self.settled.push(name);
            }
        }
        Some(())
    }

    fn rename(&mut self, from: &'static str, to: &'static str) -> Option<()> {
        let thing = if FOLDERS.contains(&from) { Thing::Folder } else { Thing::File };
        self.require(from, thing)?;
        let folder = parent(to);
        if !folder.is_empty() {
            self.require(folder, Thing::Folder)?;
        }
        if thing == Thing::Folder {
            // Into itself, or over one that has something in it; what is in it would get names that are not known here.
            if to.starts_with(from) || !self.is_empty(from) || !self.is_empty(to) {
                return None;
            }
            self.require(to, Thing::Folder)?;
        } else if self.now.get(to).is_some_and(|known| *known != Thing::File) {
            return None;
        }
        self.now.remove(from);
        self.now.insert(to, thing);
        self.settled.extend([from, to]);
        Some(())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.number)?;
        for (name, is_folder) in needed(&self.steps).unwrap_or_default() {
            write!(f, " {name}{}", if is_folder { "/" } else { "" })?;
        }
        f.write_str(if self.prepared == Prepared::Synced { " synced" } else { " fresh" })?;
        for (operation, persist) in &self.steps {
            write!(f, "; {operation}")?;
            if let Some(persist) = persist {
                write!(f, "; {persist}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_named_and_what_cannot_be_is_left_out() {
        let needs = |steps: &[Operation]| {
            let steps: Vec<_> = steps.iter().map(|operation| (*operation, Some(Persist::Sync))).collect();
            needed(&steps).map(|names| names.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(needs(&[Operation::Rename("A/foo", "B/foo")]), Some(vec!["A", "B", "A/foo"]));
        assert_eq!(needs(&[Operation::MakeFolder("A"), Operation::Create("A/foo")]), Some(vec![]));
        assert_eq!(needs(&[Operation::Unlink("foo"), Operation::Truncate("foo", 0)]), None);
        assert_eq!(needs(&[Operation::Create("foo"), Operation::Create("foo")]), None);
        assert_eq!(needs(&[Operation::Create("A/foo"), Operation::Rename("A", "B")]), None);
        assert_eq!(needs(&[Operation::MakeFolder("A"), Operation::Truncate("A/foo", 0)]), None);
        assert_eq!(needs(&[Operation::Rename("B", "A/C")]), Some(vec!["A", "B", "A/C"]));
    }

    #[test]
    fn numbers_name_the_same_workload_in_all_and_in_a_sample() {
        let whole = Selection { operations: 2, sample: None, seed: 1 };
        let all = workloads(whole);
        let some = workloads(Selection { sample: Some(100), ..whole });
        assert_eq!(some.len(), 100);
        assert!(some.iter().all(|workload| all[workload.number - 1] == *workload));
        assert_ne!(some, workloads(Selection { sample: Some(100), seed: 2, ..whole }));
    }

    #[test]
    fn every_operation_is_among_the_single_ones() {
        let all = workloads(Selection { operations: 1, sample: None, seed: 1 });
        for operation in Operation::all() {
            assert!(all.iter().any(|workload| workload.steps[0].0 == operation), "{operation}");
        }
        let mut lines: Vec<String> = all.iter().map(|workload| workload.to_string()).collect();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), all.len());
    }
}
