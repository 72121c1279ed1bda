//! What a kernel is built from, beside its source.

/// A configuration and patches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Values over `allnoconfig`.
    pub config: &'static str,
    /// Patches, by name, in order.
    pub patches: &'static [(&'static str, &'static str)],
    /// About how many objects it compiles: for the progress bar.
    pub objects: u64,
}

/// Says that how a kernel is built has changed, where configuration and patches have not.
const REVISION: u32 = 1;

macro_rules! patches {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../kernel/", $name)))),*]
    };
}

const PATCHES: &[(&str, &str)] = patches![
    "0001-um-time-travel-free-clock-reads-after-idling.patch",
    "0002-um-time-travel-rdtsc-reads-virtual-time.patch",
    "0003-um-channels-to-descriptors-of-the-host.patch",
    "0004-um-time-travel-stop-the-clock-at-a-console.patch",
    "0005-um-time-travel-random-numbers-without-the-host.patch",
    "0006-um-software-perf-events-and-bpf-on-tracepoints.patch",
];

impl Recipe {
    /// The recipe in the repository, `crates/linux/kernel`.
    pub const fn built_in() -> Self {
        Self { config: include_str!("../../kernel/plumb.config"), patches: PATCHES, objects: 1230 }
    }

    /// Twelve hexadecimal digits that change with it.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&REVISION.to_le_bytes());
        let texts = std::iter::once(("config", self.config)).chain(self.patches.iter().copied());
        for (name, text) in texts {
            for part in [name, text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hasher.finalize().to_hex().chars().take(12).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_every_part() {
        let one = Recipe { config: "A=y\n", patches: &[("a.patch", "b")], objects: 1 };
        let moved = Recipe { config: "A=y\na", patches: &[(".patch", "b")], ..one.clone() };
        let changed = Recipe { patches: &[("a.patch", "c")], ..one.clone() };
        assert_eq!(one.hash().len(), 12);
        assert_eq!(one.hash(), Recipe { objects: 2, ..one.clone() }.hash());
        assert_ne!(one.hash(), moved.hash());
        assert_ne!(one.hash(), changed.hash());
    }
}
