//! Entries, the inodes they lead to, counts of both, and the way to the root.

use std::collections::BTreeSet;

use super::{Check, Finding, Home, Says};
use crate::operations::{InodeNumber, Kind, Name, Result};
use crate::schema::{self, Entry};

impl Check<'_> {
    pub(super) fn names(&mut self) -> Result<()> {
        self.scan(&self.store.entries.clone(), schema::ENTRIES, Self::entry)?;
        self.scan(&self.store.orphans.clone(), schema::ORPHANS, |check, key, _| {
            let (inode, _) = schema::key_number(key)?;
            match check.known.get_mut(&inode) {
                Some(known) => known.is_orphan = true,
                None => check.find(Finding::NotOrphaned { inode }),
            }
            Ok(())
        })?;
        self.counts();
        self.ways();
        Ok(())
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if schema::is_beside(self.store.schema, key) {
            return self.start(key, value);
        }
        let (parent, cookie, name) = schema::parse_entry_key(self.store.schema, key)?;
        if Name::new(name).is_err() || matches!(name, b"." | b"..") {
            self.find(Finding::BadName { parent, name: name.to_vec() });
        }
        if schema::cookie(self.store.seed, name) != cookie {
            self.find(Finding::Misplaced { parent, name: name.to_vec(), key: key.to_vec() });
        }
        let entry = Entry::decode(self.store.schema, key, value)?;
        let number = entry.inode();
        let known = self.known.entry(number).or_default();
        known.names += 1;
        let kind = match &entry {
            Entry::Embedded(inode) => {
                let says = Says::of(inode);
                let lies_here = known.home == Home::Entry(parent, cookie);
                if lies_here {
                    known.says = Some(says.clone());
                } else {
                    self.find(Finding::Dangling { parent, name: name.to_vec(), inode: number });
                }
                says.kind
            }
            Entry::Link { kind, .. } => {
                if *kind == Kind::Directory {
                    return Err(schema::damaged("a directory by number: it has one name, and lies there"));
                }
                match (known.home, known.says.clone()) {
                    (Home::Side, Some(says)) if says.kind == *kind => {}
                    (Home::Side, Some(says)) => {
                        self.find(Finding::OtherKind { inode: number, entry: *kind, is: says.kind, key: key.to_vec() })
                    }
                    _ => self.find(Finding::Dangling { parent, name: name.to_vec(), inode: number }),
                }
                *kind
            }
        };
        let above = self.known.entry(parent).or_default();
        above.entries += 1;
        above.directories += u32::from(kind == Kind::Directory);
        Ok(())
    }

    /// Holds what inodes count against what was counted.
    fn counts(&mut self) {
        let mut findings = Vec::new();
        for (inode, known) in &self.known {
            let inode = *inode;
            let Some(says) = &known.says else {
                match known.home {
                    // Its entries were findings already.
                    Home::Nowhere if known.entries == 0 => {}
                    Home::Nowhere => findings.push(Finding::NoDirectory { parent: inode, entries: known.entries }),
                    _ => findings.push(Finding::Lost { inode }),
                }
                continue;
            };
            let is_directory = says.kind == Kind::Directory;
            if known.entries > 0 && !is_directory {
                findings.push(Finding::NoDirectory { parent: inode, entries: known.entries });
            }
            // A directory has one name; the root has none and is never removed.
            let names = if inode == InodeNumber::ROOT { known.names + 1 } else { known.names };
            let has = match is_directory {
                true if names == 1 => 2 + known.directories,
                _ => names,
            };
            if says.links != has {
                findings.push(Finding::Links { inode, counted: says.links, has });
            }
            if is_directory && says.entries != known.entries {
                findings.push(Finding::Entries { inode, counted: says.entries, has: known.entries });
            }
            match (says.links == 0, known.is_orphan) {
                (true, false) => findings.push(Finding::NoOrphan { inode }),
                (false, true) => findings.push(Finding::NotOrphaned { inode }),
                _ => {}
            }
        }
        self.findings.extend(findings);
        let root = self.known.get(&InodeNumber::ROOT);
        if !root.is_some_and(|root| {
            root.home == Home::Side && root.says.as_ref().is_some_and(|says| says.kind == Kind::Directory)
        }) {
            self.find(Finding::NoRoot);
        }
    }

    /// From every directory a way leads up to the root; an orphan is the end of one, too.
    fn ways(&mut self) {
        let mut reached = BTreeSet::from([InodeNumber::ROOT]);
        let mut findings = Vec::new();
        for (number, known) in &self.known {
            if known.says.as_ref().is_none_or(|says| says.kind != Kind::Directory) || known.is_orphan {
                continue;
            }
            let (mut way, mut inode) = (BTreeSet::new(), *number);
            let leads_up = loop {
                if reached.contains(&inode) {
                    break true;
                }
                // Round in a circle, or to where nothing is.
                if !way.insert(inode) {
                    break false;
                }
                // What is below a removed directory waits to be removed with it.
                if self.known.get(&inode).is_some_and(|known| known.is_orphan) {
                    break true;
                }
                match self.known.get(&inode).map(|known| known.home) {
                    Some(Home::Entry(parent, _)) => inode = parent,
                    _ => break false,
                }
            };
            if leads_up {
                reached.append(&mut way);
            } else {
                findings.push(Finding::Unreachable { inode: *number });
            }
        }
        self.findings.extend(findings);
    }
}
