//! Everything that can be seen of two file systems.

use std::collections::BTreeMap;

use super::side::{Seen, entries, seen};
use crate::operations::{Caller, InodeNumber, Kind, Operations, Result, Timestamp, XattrName};

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Thing {
    pub seen: Seen,
    /// Contents or target.
    pub bytes: Vec<u8>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Other names of the same inode lead to the first path.
    pub same_as: Option<Vec<u8>>,
}

/// All paths of a file system.
pub(super) type Tree = BTreeMap<Vec<u8>, Thing>;

/// A time before all others, so that reads are not noted.
pub(super) fn reader() -> Caller<'static> {
    let now = Timestamp { seconds: i64::MIN, nanoseconds: 0 };
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now }
}

/// Looks at everything.
pub(super) fn tree(fs: &impl Operations) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut first: BTreeMap<InodeNumber, Vec<u8>> = BTreeMap::new();
    let mut rest = vec![(Vec::new(), fs.getattr(InodeNumber::ROOT)?)];
    while let Some((path, attributes)) = rest.pop() {
        let inode = attributes.inode;
        let mut bytes = Vec::new();
        match attributes.kind {
            Kind::Directory => {
                for (name, attributes) in entries(fs, inode, 5)? {
                    rest.push(([&path[..], b"/", &name].concat(), attributes));
                }
            }
            Kind::Symlink => bytes = fs.readlink(inode)?,
            Kind::File => {
                // Of a file that damage made huge only the beginning.
                bytes.resize(attributes.size_bytes.min(1 << 24) as usize + 1, 1);
                let length = fs.read(&reader(), inode, 0, &mut bytes)?;
                bytes.truncate(length);
            }
            _ => {}
        }
        let mut xattrs = Vec::new();
        for name in fs.listxattr(inode)? {
            let value = fs.getxattr(inode, XattrName::new(&name)?)?;
            xattrs.push((name, value));
        }
        let seen = seen(&attributes);
        let same_as = first.get(&inode).cloned();
        first.entry(inode).or_insert_with(|| path.clone());
        tree.insert(path, Thing { seen, bytes, xattrs, same_as });
    }
    Ok(tree)
}

/// The first difference of two trees, as words.
pub(super) fn difference(model: &Tree, real: &Tree) -> Option<String> {
    let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    for (name, thing) in model {
        let Some(other) = real.get(name) else { return Some(format!("{} is not there", path(name))) };
        if thing.seen != other.seen {
            return Some(format!("{}: {:?}, and {:?} is right", path(name), other.seen, thing.seen));
        }
        if thing.bytes != other.bytes {
            let at = thing.bytes.iter().zip(&other.bytes).position(|(one, other)| one != other);
            let (wrong, right) = (other.bytes.len(), thing.bytes.len());
            return Some(format!("{}: differs at {at:?}; {wrong} bytes, and {right} is right", path(name)));
        }
        if thing != other {
            return Some(format!("{}: other attributes or links", path(name)));
        }
    }
    real.keys().find(|name| !model.contains_key(*name)).map(|name| format!("{} should not be there", path(name)))
}
