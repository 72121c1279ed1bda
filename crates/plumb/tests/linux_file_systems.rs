//! File systems of a real kernel on modelled devices: what was synced is there after another mount.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use file_systems::Tools;
use linux::{Ended, FileSystem, FrontEnd, Linux, Outcome};
use linux_rig::{has, kernel, on};

/// Writes files, syncs them, mounts the device again, and compares.
const WRITE_AND_VERIFY: &str = r#"
    seq 1 20000 | sha256sum > /dev/shm/expected
    for n in 1 2 3 4 5 6 7 8; do
        seq 1 20000 > file$n
        dd if=file$n of=direct$n bs=64k oflag=dsync 2>/dev/null
    done
    mkdir -p a/b/c && ln file1 a/b/c/link && mv file2 a/moved
    python3 - <<'PY' || true
import os
f = os.open("fsynced", os.O_CREAT | os.O_WRONLY)
os.write(f, b"x" * 12345)
os.fsync(f)
PY
    sync
    source=$(findmnt -n -o SOURCE "$PLUMB_MOUNT"); kind=$(findmnt -n -o FSTYPE "$PLUMB_MOUNT")
    cd / && umount "$PLUMB_MOUNT" && mount -t $kind $source "$PLUMB_MOUNT" && cd "$PLUMB_MOUNT"
    for file in file1 a/moved file3 direct8 a/b/c/link; do
        sha256sum < $file | cmp - /dev/shm/expected || exit 9
    done
    ls | wc -l
    dmesg 2>/dev/null | grep -ciE "corrupt|I/O error" || true
"#;

fn verified(mut run: Linux, file_system: FileSystem) -> Option<Outcome> {
    let kernel = kernel()?;
    if !has(Tools::of(file_system).unwrap().make.program) {
        return None;
    }
    run.file_system = file_system;
    let outcome = run.script(WRITE_AND_VERIFY).run(&kernel).unwrap_or_else(|error| panic!("{file_system}: {error}"));
    assert_eq!(
        outcome.ended,
        Ended::Exited(0),
        "{file_system}: {}\n{}",
        String::from_utf8_lossy(&outcome.stderr),
        outcome.log
    );
    assert!(outcome.text().ends_with("\n0\n"), "{file_system}: {}\n{}", outcome.text(), outcome.log);
    Some(outcome)
}

#[test]
fn conventional_file_systems_keep_what_was_synced() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
        let Some(outcome) = verified(on("samsung-980pro-1tb"), file_system) else { continue };
        let device = outcome.device.unwrap();
        assert!(device.is_object(), "{device}");
        println!(
            "{file_system}: {} of virtual time, {:?} on the clock",
            outcome.done.since(outcome.began),
            outcome.wall
        );
    }
}

#[test]
fn the_loop_front_end_carries_a_file_system() {
    let mut run = on("samsung-980pro-1tb");
    run.front_end = FrontEnd::Loop;
    verified(run, FileSystem::Ext4);
}

#[test]
fn zoned_file_systems_keep_what_was_synced() {
    for front_end in [FrontEnd::NvmeTcp, FrontEnd::Ublk] {
        for file_system in [FileSystem::Btrfs, FileSystem::F2fs] {
            let mut run = on("wd-zn540");
            run.front_end = front_end;
            verified(run, file_system);
        }
    }
}

#[test]
fn zonefs_shows_zones_as_files() {
    let Some(kernel) = kernel() else { return };
    let mut run = on("wd-zn540");
    run.file_system = FileSystem::Zonefs;
    let script = "ls seq | wc -l; head -c 1M /dev/urandom > /dev/shm/data
        dd if=/dev/shm/data of=seq/3 bs=64k oflag=direct,append conv=notrunc 2>/dev/null
        stat -c %s seq/3; cmp /dev/shm/data seq/3 && echo same";
    let outcome = run.script(script).run(&kernel).unwrap();
    let expected = "903\n1048576\nsame\n";
    assert_eq!(outcome.text(), expected, "{}\n{}", String::from_utf8_lossy(&outcome.stderr), outcome.log);
}

#[test]
fn two_runs_on_a_model_print_the_same_digits() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let mut run = on("samsung-980pro-1tb");
    run.file_system = FileSystem::Ext4;
    let script = "for n in 1 2 3 4; do dd if=/dev/zero of=f bs=4k count=50 oflag=dsync conv=notrunc 2>&1; done";
    let [first, second] = [(); 2].map(|()| run.script(script).run(&kernel).unwrap());
    assert_eq!(first.text(), second.text());
    assert_eq!((first.began, first.done, first.device), (second.began, second.done, second.device));
}
