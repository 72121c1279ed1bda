//! What calls come to is what they come to on ext4, the mode, owner, times, holes, locks, lists of access and places of listings among it.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use fs_rig::{Rig, done, skipped};

/// What the kernel does not hand to a file system in user space: `fuse_file_fallocate` of fs/fuse/file.c refuses them by itself.
const REFUSED_BY_FUSE: [&str; 5] =
    ["taken out", "put in", "taken out at an odd place", "taken out to its end", "put in past its end"];

/// The lines that the calls print there, for other users too.
fn lines(place: &Path) -> Vec<String> {
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let mut python = Command::new("python3");
    let output = python.args(["-c", include_str!("fs_rig/calls.py")]).current_dir(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn calls_come_to_what_they_come_to_on_ext4() {
    if skipped(&["python3", "mkfs.ext4"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (image, place) = (folder.path().join("image"), folder.path().join("ext4"));
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(&place).unwrap();
    done(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096"]).arg(&image));
    done(Command::new("mount").args(["-o", "loop"]).args([&image, &place]));
    let expected = lines(&place);
    done(Command::new("umount").arg(&place));
    assert!(expected.len() > 160, "{expected:#?}");

    let mut rig = Rig::new(256);
    let found = lines(&rig.place());
    rig.unmount();
    assert_eq!(found.len(), expected.len());
    let mut other = Vec::new();
    for (found, expected) in found.iter().zip(&expected) {
        let name = expected.split(':').next().unwrap();
        if REFUSED_BY_FUSE.contains(&name) {
            assert_eq!(*found, format!("{name}: ENOTSUP"));
        } else if found != expected {
            other.push(format!("{found}\n  ext4: {expected}"));
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}
