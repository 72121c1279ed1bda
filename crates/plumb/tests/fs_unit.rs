//! The unit of a mounted file system: mount(8) finds the program by its type, as systemd would ask for it.
#![allow(clippy::unwrap_used)]

mod fs_rig;
mod unit_rig;

use std::fs;
use std::process::Command;

use fs_rig::{Rig, done, skipped};

const UNIT: &str = include_str!("../../../packaging/systemd/srv-plumb.mount");

/// In mounts of its own, where `/usr/sbin` has the link that an administrator makes.
const SCRIPT: &str = r#"
set -eu
mkdir upper work where
ln -s "$PLUMB" upper/mount.fuse.plumb
mount -t overlay -o lowerdir=/usr/sbin,upperdir=$PWD/upper,workdir=$PWD/work overlay /usr/sbin
mount -t "$TYPE" -o "$OPTIONS" "$WHAT" "$PWD/where"
grep "$PWD/where" /proc/mounts
echo kept > where/file
umount where
# The server ends by itself, and lets go of the file.
for _ in $(seq 500); do
    "$PLUMB" fs fsck "$WHAT" > /dev/null 2>&1 && break
    sleep 0.02
done
"$PLUMB" fs stat "$WHAT" /file
"#;

fn of(key: &str) -> String {
    unit_rig::value(UNIT, key)
}

#[test]
fn mount_does_what_the_unit_asks_for() {
    if skipped(&["unshare", "mount"]) {
        return;
    }
    assert_eq!(of("Where"), "/srv/plumb", "the unit is named after it");
    let mut rig = Rig::new(64);
    rig.leave();
    let folder = rig.outside("unit");
    fs::create_dir(&folder).unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", SCRIPT]).current_dir(&folder);
    shell.env("PLUMB", env!("CARGO_BIN_EXE_plumb")).env("WHAT", rig.image());
    shell.env("TYPE", of("Type")).env("OPTIONS", of("Options"));
    let said = done(&mut shell);
    let mounted = said.lines().find(|line| line.contains(" fuse.plumb rw,")).unwrap_or_else(|| panic!("{said}"));
    assert!(of("Options").split(',').all(|option| mounted.contains(option)), "{said}");
    assert!(said.lines().any(|line| line.starts_with("path") && line.ends_with("/file")), "{said}");
}
