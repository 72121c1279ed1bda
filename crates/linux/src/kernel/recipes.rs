//! The recipes of the repository: a folder of `crates/linux/kernel` each, and one line here.

use std::borrow::Cow;

use super::recipe::{Patch, Recipe};
use super::target::Target;
use crate::error::LinuxError;

/// A configuration and patches that are part of this program.
struct BuiltIn {
    name: &'static str,
    /// Values on top of those of [`BASE`].
    config: &'static str,
    /// Names and texts, applied in order after those of [`BASE`].
    patches: &'static [(&'static str, &'static str)],
}

/// `recipe!(FOLDER: PATCH, ...)`: a folder holds `plumb.config` and these patches.
macro_rules! recipe {
    ($folder:literal: $($patch:literal),* $(,)?) => {
        BuiltIn {
            name: $folder,
            config: include_str!(concat!("../../kernel/", $folder, "/plumb.config")),
            patches: &[$(($patch, include_str!(concat!("../../kernel/", $folder, "/", $patch)))),*],
        }
    };
}

/// User-Mode Linux whose clock Plumb's devices drive. The other recipes come on top of it.
const BASE: BuiltIn = recipe!("time-travel":
    "0001-um-time-travel-free-clock-reads-after-idling.patch",
    "0002-um-time-travel-rdtsc-reads-virtual-time.patch",
    "0003-um-channels-to-descriptors-of-the-host.patch",
    "0004-um-time-travel-stop-the-clock-at-a-console.patch",
    "0005-um-time-travel-random-numbers-without-the-host.patch",
    "0006-um-software-perf-events-and-bpf-on-tracepoints.patch",
    "0007-um-time-travel-loops-on-coarse-clocks-end.patch",
    "0008-um-time-travel-charged-processor-time.patch",
    "0009-hostfs-direct-mounts-and-holes.patch",
    "0010-um-time-travel-charged-paths-and-file-writes.patch",
    "0011-um-time-travel-charged-opens-and-names.patch",
    "0012-um-hosts-with-more-register-state-than-fits.patch",
    "0013-um-time-travel-who-faults-does-not-spin.patch",
);

/// What `--kernel` can name, beside the base.
const ON_TOP: &[BuiltIn] = &[ORDER, CACHEMAP, REPAIRED];

/// Writes that the device keeps in order, and tasks that submit as if from several processors.
const ORDER: BuiltIn = recipe!("order":
    "0001-blk-mq-virtual-submission-CPUs.patch",
    "0002-block-nvme-as-many-queues-as-submission-CPUs.patch",
    "0003-block-order-preserving-writes.patch",
    "0004-block-KUnit-tests-of-order-preserving-writes.patch",
    "0005-blk-mq-pin-epochs-that-are-closed-by-arrival.patch",
    "0006-nvme-streams-of-ordered-writes.patch",
    "0007-fs-F_BARRIERFSYNC-and-F_BARRIERFDATASYNC.patch",
    "0008-buffer-submit_bh_ordered.patch",
    "0009-jbd2-commits-that-the-device-keeps-in-order.patch",
    "0010-ext4-mount-option-order.patch",
    "0011-Documentation-order-preserving-writes.patch",
    "0012-sched-sleeps-at-scheduling-points-for-tests.patch",
    "0013-ext4-mount-option-order_fsync.patch",
);

/// Which pages of a file are in the page cache, from the cache itself and from the published record of readahead.
const CACHEMAP: BuiltIn = recipe!("cachemap":
    "0001-mm-cachemap-which-pages-of-a-file-are-cached.patch",
    "0002-mm-readahead-CACHEMAP_PREFETCH.patch",
    "0003-Documentation-cachemap.patch",
    "0004-mm-CACHEMAP_SHADOW-for-comparison.patch",
);

/// File systems without the faults of docs/crash.md that have a repair.
const REPAIRED: BuiltIn = recipe!("repaired":
    "0001-f2fs-wait-for-the-first-node-of-an-fsync.patch",
    "0002-f2fs-sync-flushes-the-drive-without-a-checkpoint.patch",
    "0003-f2fs-no-block-behind-the-end-for-a-hole.patch",
    "0004-xfs-sync-flushes-the-drive.patch",
    "0005-btrfs-files-that-were-synchronised-without-a-name.patch",
    "0006-f2fs-the-size-on-disk-is-the-file-s.patch",
);

/// The recipe that is taken where none is named.
pub(super) fn base() -> Recipe {
    let mut recipe = Recipe::default();
    add(&mut recipe, &BASE);
    recipe
}

/// The recipe of a folder, on top of the base.
pub(super) fn named(name: &str) -> Result<Recipe, LinuxError> {
    let mut recipe = base();
    if name == BASE.name {
        return Ok(recipe);
    }
    let found = ON_TOP.iter().find(|known| known.name == name).ok_or_else(|| LinuxError::Invalid {
        message: format!("there is no kernel {name:?}; there is {}", names().collect::<Vec<_>>().join(", ")),
    })?;
    add(&mut recipe, found);
    Ok(recipe)
}

/// A configuration for a PC, in place of the base's.
const PC: &str = include_str!("../../kernel/pc/plumb.config");

/// The patches of a recipe and its own configuration, for a PC.
pub(super) fn for_pc(name: &str) -> Result<Recipe, LinuxError> {
    let named = named(name)?;
    let own = named.config.strip_prefix(BASE.config).unwrap_or_default();
    Ok(Recipe { config: format!("{PC}{own}"), target: Target::Pc, ..named })
}

/// The names of all recipes, the base first.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(&BASE).chain(ON_TOP).map(|known| known.name)
}

fn add(recipe: &mut Recipe, known: &BuiltIn) {
    recipe.config.push_str(known.config);
    let patch =
        |(name, text): &(&str, &'static str)| Patch { name: (*name).to_owned(), text: Cow::Borrowed(text.as_bytes()) };
    recipe.patches.extend(known.patches.iter().map(patch));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_recipe_on_top_of_the_base() {
        for name in names() {
            let recipe = named(name).unwrap();
            assert!(recipe.config.starts_with(&base().config), "{name}");
            assert_eq!(recipe.patches[..base().patches.len()], base().patches[..], "{name}");
        }
        let pc = for_pc(ORDER.name).unwrap();
        assert_eq!((pc.config, pc.patches), (format!("{PC}{}", ORDER.config), named(ORDER.name).unwrap().patches));
        let error = named("no-such").unwrap_err().to_string();
        assert!(error.contains("no-such") && error.contains("time-travel"), "{error}");
    }
}
