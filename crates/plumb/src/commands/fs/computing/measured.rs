//! What the server of betrfs computes, measured: a file system in this process and in memory, so that no kernel and no device is
//! in the times. What the storage takes is left out; under `plumb linux` that is system calls and copies, which are charged there.

use std::time::Instant;

use betrfs::{Caller, Cookie, InodeNumber, Moved, Name, Operations, Permissions, Timestamp, Volume, VolumeOptions};
use storage::Memory;
use units::ServerCosts;

use super::apart::{Apart, TimeApart};
use crate::failure::Failure;

/// The middle one of each cost counts.
const ROUNDS: usize = 5;
const CAPACITY_BYTES: u64 = 512 << 20;
const FOLDERS: u32 = 40;
const FOLDER_FILES: u32 = 100;
const SMALL_BYTES: usize = 4 << 10;
/// What the kernel asks for at once, mostly.
const LARGE_BYTES: usize = 128 << 10;
const LARGE_WRITES: u64 = 256;
const SYNCS: u64 = 200;
/// What a name takes in a listing with attributes (`struct fuse_direntplus`), besides its bytes.
const LISTED_BYTES: usize = 152;
const KIB: f64 = 1024.0;

/// Measures.
pub fn measure() -> Result<ServerCosts, Failure> {
    let rounds = (0..ROUNDS).map(|_| Round::default().run()).collect::<betrfs::Result<Vec<_>>>();
    let rounds = rounds.map_err(|error| Failure::Machine(format!("measuring the server of betrfs: {error}")))?;
    let middle = |cost: fn(&Costs) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(cost).collect();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2].max(0.0).round() as u32
    };
    Ok(ServerCosts {
        change_ns: middle(|costs| costs.change),
        lookup_ns: middle(|costs| costs.lookup),
        other_ns: middle(|costs| costs.other),
        read_ns: middle(|costs| costs.read.0),
        read_ns_per_kib: middle(|costs| costs.read.1),
        write_ns: middle(|costs| costs.write.0),
        write_ns_per_kib: middle(|costs| costs.write.1),
        listing_ns_per_kib: middle(|costs| costs.listing_per_kib),
        sync_ns: middle(|costs| costs.sync),
        worked_ns_per_kib: middle(|costs| costs.worked_per_kib),
        loaded_ns_per_kib: middle(|costs| costs.loaded_per_kib),
    })
}

/// Nanoseconds, of one round.
#[derive(Default)]
struct Costs {
    change: f64,
    lookup: f64,
    other: f64,
    /// Of no bytes, and of a KiB.
    read: (f64, f64),
    write: (f64, f64),
    listing_per_kib: f64,
    sync: f64,
    worked_per_kib: f64,
    loaded_per_kib: f64,
}

/// A file system, and how long its storage has taken.
#[derive(Default)]
struct Round {
    apart: TimeApart,
    folders: Vec<InodeNumber>,
    files: Vec<InodeNumber>,
}

fn caller() -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: Timestamp { seconds: 1, nanoseconds: 0 } }
}

fn options() -> VolumeOptions {
    let mut options = VolumeOptions::default();
    options.store.pacing = betree::Pacing::Elsewhere;
    options
}

/// The same bytes each time, which do not repeat.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn file_name(number: u32) -> String {
    format!("file-{number:06}.c")
}

/// A line through two points: at nothing, and for each KiB.
fn line(small_ns: f64, large_ns: f64) -> (f64, f64) {
    let per_kib = (large_ns - small_ns) / ((LARGE_BYTES - SMALL_BYTES) as f64 / KIB);
    (small_ns - per_kib * SMALL_BYTES as f64 / KIB, per_kib)
}

impl Round {
    /// How long `work` takes besides the storage, for each of so many.
    fn each(&self, count: u64, work: impl FnOnce() -> betrfs::Result<()>) -> betrfs::Result<f64> {
        let (begun, apart) = (Instant::now(), self.apart.ns());
        work()?;
        let ns = begun.elapsed().as_nanos() as f64 - (self.apart.ns() - apart) as f64;
        Ok(ns / count as f64)
    }

    fn run(mut self) -> betrfs::Result<Costs> {
        let memory = Memory::new(CAPACITY_BYTES);
        let fs = Volume::create(Apart::new(memory.clone(), &self.apart), options(), 1, Timestamp::default())?;
        let mut costs = Costs::default();
        let created = self.create(&fs)?;
        self.name_costs(&fs, &mut costs)?;
        let large = self.write_costs(&fs, &mut costs)?;
        fs.syncfs()?;
        let before = fs.moved();
        let worked = self.each(1, || Ok(fs.database().quiesce()?))?;
        let owed = since(before, fs.moved());
        drop(fs);
        let fs = Volume::open(Apart::new(memory, &self.apart), options())?;
        self.read_costs(&fs, large, &mut costs)?;
        let loading = costs.loaded_per_kib * owed.loaded_bytes as f64 / KIB;
        costs.worked_per_kib = (worked - loading) / (owed.worked_bytes.max(1) as f64 / KIB);
        costs.change = f64::midpoint(created, self.remove(&fs)?);
        Ok(costs)
    }

    /// Makes all files; what one takes.
    fn create(&mut self, fs: &Volume) -> betrfs::Result<f64> {
        for folder in 0..FOLDERS {
            let (name, permissions) = (format!("folder-{folder}"), Permissions::of_mode(0o755));
            self.folders.push(fs.mkdir(&caller(), InodeNumber::ROOT, Name::new(name.as_bytes())?, permissions)?.inode);
        }
        let mut files = Vec::new();
        let each = self.each(u64::from(FOLDERS * FOLDER_FILES), || {
            for (folder, number) in self.places() {
                let name = file_name(number);
                let made = fs.create(&caller(), folder, Name::new(name.as_bytes())?, Permissions::of_mode(0o644))?;
                files.push(made.inode);
            }
            Ok(())
        })?;
        self.files = files;
        Ok(each)
    }

    /// The folder and the number of each file.
    fn places(&self) -> impl Iterator<Item = (InodeNumber, u32)> + '_ {
        (0..FOLDER_FILES).flat_map(|number| self.folders.iter().map(move |folder| (*folder, number)))
    }

    fn name_costs(&self, fs: &Volume, costs: &mut Costs) -> betrfs::Result<()> {
        let count = self.files.len() as u64;
        costs.other = self.each(2 * count, || {
            self.files.iter().try_for_each(|file| fs.release(*file))?;
            self.files.iter().try_for_each(|file| fs.open(*file))
        })?;
        self.files.iter().try_for_each(|file| fs.release(*file))?;
        costs.lookup = self.each(2 * count, || {
            for (folder, number) in self.places() {
                let found = fs.lookup(folder, Name::new(file_name(number).as_bytes())?)?;
                fs.getattr(found.inode)?;
            }
            Ok(())
        })?;
        let mut listed = 0;
        let listing = self.each(1, || {
            for folder in &self.folders {
                fs.readdir(*folder, Cookie::default(), &mut |entry| {
                    listed += LISTED_BYTES + entry.name.len().next_multiple_of(8);
                    true
                })?;
            }
            Ok(())
        })?;
        costs.listing_per_kib = listing / (listed as f64 / KIB);
        Ok(())
    }

    /// Writes to all files and to one that is large, which is told.
    fn write_costs(&self, fs: &Volume, costs: &mut Costs) -> betrfs::Result<InodeNumber> {
        let (small, large) = (bytes(SMALL_BYTES), bytes(LARGE_BYTES));
        let each_small = self.each(self.files.len() as u64, || {
            for file in &self.files {
                fs.write(&caller(), *file, 0, &small, false)?;
            }
            fs.settle()
        })?;
        let made = fs.create(&caller(), InodeNumber::ROOT, Name::new(b"large")?, Permissions::of_mode(0o644))?.inode;
        let each_large = self.each(LARGE_WRITES, || {
            for number in 0..LARGE_WRITES {
                fs.write(&caller(), made, number * LARGE_BYTES as u64, &large, false)?;
            }
            fs.settle()
        })?;
        costs.write = line(each_small, each_large);
        let each_synced = self.each(SYNCS, || {
            for file in self.files.iter().take(SYNCS as usize) {
                fs.write(&caller(), *file, SMALL_BYTES as u64, &small, false)?;
                fs.fsync(*file)?;
            }
            Ok(())
        })?;
        costs.sync = each_synced - each_small;
        Ok(made)
    }

    /// Reads from cold caches and from warm ones.
    fn read_costs(&self, fs: &Volume, large: InodeNumber, costs: &mut Costs) -> betrfs::Result<()> {
        let mut buffer = vec![0; LARGE_BYTES];
        let before = fs.moved();
        let cold = self.each(LARGE_WRITES, || {
            for number in 0..LARGE_WRITES {
                fs.read(&caller(), large, number * LARGE_BYTES as u64, &mut buffer)?;
            }
            Ok(())
        })?;
        let loaded = since(before, fs.moved()).loaded_bytes as f64 / LARGE_WRITES as f64 / KIB;
        let before = fs.moved();
        let warm = self.each(LARGE_WRITES, || {
            for _ in 0..LARGE_WRITES {
                fs.read(&caller(), large, 0, &mut buffer)?;
            }
            Ok(())
        })?;
        let loaded_warm = since(before, fs.moved()).loaded_bytes as f64 / LARGE_WRITES as f64 / KIB;
        buffer.truncate(SMALL_BYTES);
        let first = &self.files[..FOLDERS as usize];
        first.iter().try_for_each(|file| fs.read(&caller(), *file, 0, &mut buffer).map(|_| ()))?;
        let small = self.each(LARGE_WRITES * first.len() as u64, || {
            for _ in 0..LARGE_WRITES {
                for file in first {
                    fs.read(&caller(), *file, 0, &mut buffer)?;
                }
            }
            Ok(())
        })?;
        // Where the store keeps no large values in memory, what is read is what is loaded.
        if loaded - loaded_warm > loaded / 2.0 {
            costs.read = line(small, warm);
            costs.loaded_per_kib = (cold - warm) / (loaded - loaded_warm);
        } else {
            costs.read = (small, 0.0);
            costs.loaded_per_kib = (cold - small) / loaded.max(1.0);
        }
        Ok(())
    }

    /// Removes all files; what one takes.
    fn remove(&self, fs: &Volume) -> betrfs::Result<f64> {
        self.each(self.files.len() as u64, || {
            for (folder, number) in self.places() {
                fs.unlink(&caller(), folder, Name::new(file_name(number).as_bytes())?)?;
            }
            Ok(())
        })
    }
}

fn since(before: Moved, now: Moved) -> Moved {
    Moved { worked_bytes: now.worked_bytes - before.worked_bytes, loaded_bytes: now.loaded_bytes - before.loaded_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_something() {
        let costs = measure().unwrap();
        for (name, ns) in costs.entries() {
            let may_be_nothing = ["read_ns_per_kib", "write_ns_per_kib", "sync_ns"].contains(&name);
            // No processor takes as long as a millisecond.
            assert!((may_be_nothing || ns > 0) && ns < 1_000_000, "{name} {costs:?}");
        }
    }
}
