//! Which modules of a kernel go into a guest: those of the folders a check may touch, and what they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Folders (ending in `/`) and single modules, below `kernel/` of the module folder. Not every series has all of them.
const WANTED: [&str; 24] = [
    "drivers/nvme/",
    "drivers/block/null_blk/",
    "drivers/block/ublk_drv",
    "drivers/block/nbd",
    "drivers/block/loop",
    "drivers/block/virtio_blk",
    "drivers/virtio/",
    "drivers/md/dm-",
    "drivers/char/hw_random/virtio-rng",
    "block/",
    "crypto/",
    "arch/x86/crypto/",
    "lib/",
    "net/9p/",
    "net/sched/sch_netem",
    "fs/9p/",
    "fs/ext4/",
    "fs/xfs/",
    "fs/btrfs/",
    "fs/f2fs/",
    "fs/zonefs/",
    "fs/fuse/",
    "fs/overlayfs/",
    "fs/configfs/",
];

/// The modules to take of a kernel's folder, as paths below it, and the index files of `depmod`.
pub fn select(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let path = folder.join("modules.dep");
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    let mut chosen: Vec<PathBuf> = closure(&text, |module| {
        module.strip_prefix("kernel/").is_some_and(|rest| WANTED.iter().any(|wanted| rest.starts_with(wanted)))
    })
    .into_iter()
    .map(PathBuf::from)
    .collect();
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    chosen.extend(
        entries
            .flatten()
            .map(|entry| PathBuf::from(entry.file_name()))
            .filter(|name| name.to_string_lossy().starts_with("modules.")),
    );
    Ok(chosen)
}

/// All modules that `wanted` accepts and everything that they need (`modules.dep`: `module: dependency…`, complete).
fn closure(dependencies: &str, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let table: BTreeMap<&str, &str> = dependencies.lines().filter_map(|line| line.split_once(':')).collect();
    let mut chosen = BTreeSet::new();
    for (module, needs) in table {
        if wanted(module) {
            chosen.insert(module.to_owned());
            chosen.extend(needs.split_whitespace().map(str::to_owned));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::closure;

    #[test]
    fn a_module_brings_what_it_needs() {
        let table = "kernel/fs/x.ko: kernel/lib/y.ko kernel/lib/z.ko\nkernel/lib/y.ko: kernel/lib/z.ko\nkernel/lib/z.ko:\nkernel/net/n.ko:\n";
        let chosen: Vec<String> = closure(table, |module| module.starts_with("kernel/fs/")).into_iter().collect();
        assert_eq!(chosen, ["kernel/fs/x.ko", "kernel/lib/y.ko", "kernel/lib/z.ko"]);
    }
}
