//! Where keys begin with paths: whether entries lie where their directory says, and who is listed as one that is to be moved.

use std::collections::BTreeSet;

use super::{Check, Finding};
use crate::operations::{InodeNumber, Result};
use crate::schema::{self, Schema};

impl Check<'_> {
    pub(super) fn places(&mut self) -> Result<()> {
        if self.store.schema == Schema::Inode {
            return Ok(());
        }
        self.scan(&self.store.entries.clone(), schema::ENTRIES, |check, key, _| {
            // What is no key is a finding already, and so is what lies beside no entry.
            let Ok((parent, cookie, name)) = schema::parse_entry_key(Schema::Path, key) else { return Ok(()) };
            let says = check.known.get(&parent).and_then(|known| known.says.as_ref());
            let is_there = says.is_none_or(|says| says.locality.has_entry(key, cookie, name));
            if !is_there && !schema::is_beside(Schema::Path, key) {
                check.find(Finding::Elsewhere { inode: parent, tree: schema::ENTRIES, key: key.to_vec() });
            }
            Ok(())
        })?;
        let mut listed = BTreeSet::new();
        for found in self.at.range(&self.store.system, schema::debts()) {
            let (key, _) = found?;
            match schema::parse_debt_key(&key) {
                Ok(inode) => drop(listed.insert(inode)),
                Err(error) => {
                    let what = error.to_string();
                    self.find(Finding::Malformed { tree: schema::SYSTEM, key, what });
                }
            }
        }
        let owes = self.known.iter().filter(|(_, known)| known.says.as_ref().is_some_and(|says| says.owes));
        let owes: BTreeSet<InodeNumber> = owes.map(|(inode, _)| *inode).collect();
        self.findings.extend(owes.difference(&listed).map(|inode| Finding::NotListed { inode: *inode }));
        self.findings.extend(listed.difference(&owes).map(|inode| Finding::ListedForNothing { inode: *inode }));
        Ok(())
    }
}
