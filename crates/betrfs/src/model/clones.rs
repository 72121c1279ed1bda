//! Copies of whole trees.

use std::collections::BTreeMap;

use super::{Body, Directory, Node, State};
use crate::acl;
use crate::operations::{Attributes, Caller, Cookie, Error, InodeNumber, Kind, Name, Result};
use crate::rules;

impl State {
    pub(super) fn clone_tree(
        &mut self,
        caller: &Caller<'_>,
        (parent, name): (InodeNumber, Name<'_>),
        (new_parent, new_name): (InodeNumber, Name<'_>),
    ) -> Result<Attributes> {
        if name.is_dots() || new_name.is_dots() {
            return Err(Error::Invalid);
        }
        let original = self.find(parent, name)?;
        self.may_reach(caller, parent)?;
        self.directory(new_parent)?;
        let above = self.node(new_parent)?;
        rules::may_add(caller, &above.attributes, above.xattrs.contains_key(acl::ACCESS))?;
        self.may_add(new_parent, new_name)?;
        let mut copies = BTreeMap::new();
        let mut last = self.last_inode;
        let copy = self.copy(caller, original, new_parent, &mut last, &mut copies)?;
        self.last_inode = last;
        self.nodes.extend(copies.into_values().map(|node: Node| (node.attributes.inode, node)));
        self.put(caller, new_parent, new_name, copy)?;
        Ok(self.node(copy)?.attributes)
    }

    /// Whether a caller finds what is in a directory by its path.
    fn may_reach(&self, caller: &Caller<'_>, mut inode: InodeNumber) -> Result<()> {
        loop {
            let node = self.node(inode)?;
            rules::may_search(caller, &node.attributes, node.xattrs.contains_key(acl::ACCESS))?;
            let parent = self.directory(inode)?.parent;
            // One that was removed is in no other.
            if parent == inode || node.attributes.links == 0 {
                return Ok(());
            }
            inode = parent;
        }
    }

    /// Copies an inode and what is below it; `copies` are by the numbers of their originals.
    fn copy(
        &self,
        caller: &Caller<'_>,
        original: InodeNumber,
        parent: InodeNumber,
        last: &mut InodeNumber,
        copies: &mut BTreeMap<InodeNumber, Node>,
    ) -> Result<InodeNumber> {
        if let Some(copy) = copies.get_mut(&original) {
            copy.attributes.links += 1;
            return Ok(copy.attributes.inode);
        }
        let node = self.node(original)?;
        last.0 += 1;
        let number = *last;
        let mut attributes = rules::cloned_attributes(caller, &node.attributes, number)?;
        let mut xattrs = node.xattrs.clone();
        xattrs.retain(|name, _| rules::clones_xattr(caller, name));
        let body = match &node.body {
            Body::Directory(directory) => {
                let mut entries = BTreeMap::new();
                for (name, (below, cookie)) in &directory.entries {
                    let is_directory = self.node(*below)?.attributes.kind == Kind::Directory;
                    attributes.links += u32::from(is_directory);
                    entries.insert(name.clone(), (self.copy(caller, *below, number, last, copies)?, *cookie));
                }
                Body::Directory(Directory { parent, entries, last_cookie: Cookie(directory.last_cookie.0) })
            }
            other => other.clone(),
        };
        copies.insert(original, Node { attributes, body, xattrs, opened: 0 });
        Ok(number)
    }
}
