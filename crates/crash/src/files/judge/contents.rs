//! A file's size and bytes.

use super::super::calls::FilePath;
use super::super::found::{BLOCK_SECTORS, Contents, FILE_BLOCK_BYTES};
use super::super::history::{History, Promise};
use super::super::tree::{Inode, Number, SECTOR_BYTES, Sector};
use super::super::violation::{Fault, Instead, Violation};
use super::Judge;

impl Judge<'_> {
    pub(super) fn contents(
        &self,
        number: Number,
        inode: &Inode,
        path: &FilePath,
        found: &Contents,
        violations: &mut Vec<Violation>,
    ) {
        let also = self.of_data(inode);
        let found_bytes = found.size_bytes();
        let sizes = inode.size.allowed(self.until, also);
        let (mut least_bytes, mut most_bytes) = (u64::MAX, 0);
        for version in sizes.versions() {
            least_bytes = least_bytes.min(version.value);
            most_bytes = most_bytes.max(version.value);
        }
        // A file may grow or shrink in steps.
        if !(least_bytes..=most_bytes).contains(&found_bytes) {
            let fault = Fault::WrongSize { least_bytes, most_bytes, found_bytes };
            violations.push(self.violation(path, fault, sizes.promise));
        }
        // What lies behind has been said.
        let end_bytes = found_bytes.min(most_bytes);
        let mut ranges = Ranges::default();
        let mut named = found.blocks().peekable();
        let mut written = inode.sectors.iter().peekable();
        // Block by block, of what was written and of what is there.
        loop {
            let next_written = written.peek().map(|(sector, _)| **sector / BLOCK_SECTORS as u64);
            let next_there = named.peek().map(|(block, _)| *block);
            let Some(block) = next_written.into_iter().chain(next_there).min() else { break };
            let name = named.next_if(|(there, _)| *there == block).and_then(|(_, name)| name);
            let sectors = block * BLOCK_SECTORS as u64..(block + 1) * BLOCK_SECTORS as u64;
            let end = end_bytes.saturating_sub(block * FILE_BLOCK_BYTES).min(FILE_BLOCK_BYTES);
            let key = name.map(|name| (number, block, name, end));
            let is_known = key.is_some_and(|key| self.known.has(key));
            let before = ranges.0.len();
            for sector in sectors {
                let history = written.next_if(|(written, _)| **written == sector).map(|(_, history)| history);
                if !is_known && (history.is_some() || next_there == Some(block)) {
                    self.sector(inode, sector, history, (found, end_bytes), also, &mut ranges);
                }
            }
            if let Some(key) = key.filter(|_| !is_known && ranges.0.len() == before) {
                self.known.put(key);
            }
        }
        for (first, Wrong { len_bytes, instead, by }) in ranges.merged() {
            let fault = Fault::WrongBytes { offset_bytes: first, len_bytes, instead };
            violations.push(self.violation(path, fault, by));
        }
    }

    /// One sector; `None` if it was never written.
    fn sector(
        &self,
        inode: &Inode,
        number: u64,
        history: Option<&History<Sector>>,
        (found, end_bytes): (&Contents, u64),
        also: Option<Promise>,
        ranges: &mut Ranges,
    ) {
        let first = number * SECTOR_BYTES;
        let len_bytes = end_bytes.saturating_sub(first).min(SECTOR_BYTES);
        if len_bytes == 0 || inode.is_unknown(number, self.until) {
            return;
        }
        let len = len_bytes as usize;
        let bytes = found.sector(number);
        let allowed = history.map(|history| history.allowed(self.until, also));
        let versions: Vec<&Sector> = match &allowed {
            Some(allowed) => allowed.versions().map(|version| &version.value).collect(),
            None => vec![&Sector::Zeroes],
        };
        if versions.iter().any(|version| version.begins_with(bytes, len)) {
            return;
        }
        let by = allowed.as_ref().map_or(also, |allowed| allowed.promise);
        let is_older = allowed.is_some_and(|allowed| {
            let mut older = allowed.superseded();
            older.any(|version| version.value != Sector::Zeroes && version.value.begins_with(bytes, len))
        });
        if !is_older && Sector::is_mixed_of(&versions, bytes, len) {
            return;
        }
        let instead = if Sector::Zeroes.begins_with(bytes, len) {
            Instead::Zeroes
        } else if is_older {
            Instead::Older
        } else {
            Instead::Foreign
        };
        // Of what was not promised, only what other files had there is wrong, and only where it is hidden.
        if instead == Instead::Foreign && by.is_none() && !self.promises.rules.hides_stale_bytes {
            return;
        }
        ranges.0.push((first, Wrong { len_bytes, instead, by }));
    }
}

/// What is wrong with a range.
#[derive(Clone, Copy)]
struct Wrong {
    len_bytes: u64,
    instead: Instead,
    by: Option<Promise>,
}

/// Wrong sectors.
#[derive(Default)]
struct Ranges(Vec<(u64, Wrong)>);

impl Ranges {
    /// Neighbours that are wrong in the same way, as one.
    fn merged(mut self) -> Vec<(u64, Wrong)> {
        self.0.sort_by_key(|(first, _)| *first);
        let mut merged: Vec<(u64, Wrong)> = Vec::new();
        for (first, wrong) in self.0 {
            match merged.last_mut() {
                Some((start, last))
                    if *start + last.len_bytes == first && last.instead == wrong.instead && last.by == wrong.by =>
                {
                    last.len_bytes += wrong.len_bytes;
                }
                _ => merged.push((first, wrong)),
            }
        }
        merged
    }
}
