//! Traces of several sittings as one.

use std::collections::{BTreeMap, HashMap};

use super::model::Trace;
use crate::{ByteRange, FileId, IoKind};

impl Trace {
    /// Adds `other` to it: counts of equal accesses are added, what is new follows in
    /// its order. A file whose generation only one of them knows is the same file.
    pub fn merge(&mut self, other: &Self) {
        let mut sources: Vec<&str> = self.source.split('+').chain(other.source.split('+')).collect();
        sources.retain(|name| !name.is_empty());
        sources.sort_unstable();
        sources.dedup();
        self.source = sources.join("+");
        self.lost = self.lost.saturating_add(other.lost);
        self.unresolved = self.unresolved.saturating_add(other.unresolved);

        let accesses = std::mem::take(&mut self.accesses);
        let files = std::mem::take(&mut self.files);
        let same = Same::of(files.keys().chain(other.files.keys()).copied());
        for (file, path) in files.into_iter().chain(other.files.iter().map(|(file, path)| (*file, path.clone()))) {
            let entry = self.files.entry(same.file(file)).or_default();
            // The later trace knows better where the file is.
            *entry = path.or(entry.take());
        }
        let mut known: HashMap<(FileId, IoKind, ByteRange), usize> = HashMap::with_capacity(accesses.len());
        for mut access in accesses.into_iter().chain(other.accesses.iter().copied()) {
            access.file = same.file(access.file);
            let next = self.accesses.len();
            let at = *known.entry((access.file, access.kind, access.range)).or_insert(next);
            match self.accesses.get_mut(at) {
                Some(earlier) => earlier.count = earlier.count.saturating_add(access.count),
                None => self.accesses.push(access),
            }
        }
    }
}

/// Which files are the same but for what is known of the generation.
struct Same(BTreeMap<(u64, u64), Option<u32>>);

impl Same {
    fn of(files: impl Iterator<Item = FileId>) -> Self {
        let mut generations: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        for file in files {
            let known = generations.entry((file.device, file.inode)).or_default();
            known.extend(file.generation.filter(|generation| !known.contains(generation)));
        }
        // Of two known generations an unknown one may be either: it stays apart.
        let single = generations.into_iter().map(|(key, known)| match known[..] {
            [only] => (key, Some(only)),
            _ => (key, None),
        });
        Self(single.collect())
    }

    fn file(&self, file: FileId) -> FileId {
        let known = self.0.get(&(file.device, file.inode)).copied().flatten();
        FileId { generation: file.generation.or(known), ..file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use proptest::prelude::*;

    fn access(inode: u64, generation: Option<u32>, start: u64, count: u64) -> Access {
        Access {
            file: FileId { device: 1, inode, generation },
            range: ByteRange { start, end: start + 4096 },
            kind: IoKind::BufferedRead,
            count,
        }
    }

    fn trace(source: &str, accesses: Vec<Access>) -> Trace {
        let files = accesses.iter().map(|access| (access.file, None)).collect();
        Trace { source: source.into(), files, accesses, ..Trace::default() }
    }

    #[test]
    fn counts_add_up_and_order_stays() {
        let mut first = trace("bpf", vec![access(5, Some(1), 8192, 2), access(5, Some(1), 0, 1)]);
        let second = trace("strace", vec![access(5, Some(1), 0, 4), access(6, None, 0, 1), access(5, None, 8192, 1)]);
        first.merge(&second);
        assert_eq!(first.source, "bpf+strace");
        assert_eq!(first.accesses, [access(5, Some(1), 8192, 3), access(5, Some(1), 0, 5), access(6, None, 0, 1)]);
        assert_eq!(first.files.len(), 2);
    }

    #[test]
    fn an_inode_used_again_stays_apart() {
        let mut first = trace("bpf", vec![access(5, Some(1), 0, 1)]);
        first.merge(&trace("bpf", vec![access(5, Some(2), 0, 1), access(5, None, 0, 1)]));
        assert_eq!(first.source, "bpf");
        assert_eq!(first.files.len(), 3);
        assert_eq!(first.accesses.len(), 3);
    }

    proptest! {
        #[test]
        fn no_access_is_lost_or_invented(
            first in prop::collection::vec((0u64..3, prop::option::of(0u32..2), 0u64..4, 1u64..9), 0..30),
            second in prop::collection::vec((0u64..3, prop::option::of(0u32..2), 0u64..4, 1u64..9), 0..30),
        ) {
            let of = |list: Vec<(u64, Option<u32>, u64, u64)>| {
                let mut whole = Trace::default();
                whole.merge(&trace("bpf", list.into_iter().map(|(i, g, s, c)| access(i, g, s * 4096, c)).collect()));
                whole
            };
            let (first, second) = (of(first), of(second));
            let mut both = first.clone();
            both.merge(&second);
            prop_assert_eq!(both.events(), first.events() + second.events());
            let mut keys: Vec<_> = both.accesses.iter().map(|a| (a.file, a.kind, a.range)).collect();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), both.accesses.len(), "distinct");
            prop_assert!(both.accesses.iter().all(|a| both.files.contains_key(&a.file)));
            let again = { let mut again = both.clone(); again.merge(&Trace::default()); again };
            prop_assert_eq!(again, both);
        }
    }
}
