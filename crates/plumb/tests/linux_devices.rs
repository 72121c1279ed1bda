//! The devices of a guest: contents that are larger than its memory, a host without room for them, and several at once.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::Command;

use linux::{Device, FileSystem};
use linux_rig::{PLUMB, has, kernel, on};

const SSD: &str = "samsung-980pro-1tb";

#[test]
fn contents_are_larger_than_the_guests_memory() {
    let Some(kernel) = kernel() else { return };
    if !has("fio") {
        return;
    }
    let mut run = on(SSD);
    run.memory_bytes = 256 << 20;
    let job = "fio --name=a --filename=/dev/plumb --rw=write --bs=1M --size=640M --direct=1 --verify=crc32c \
               --do_verify=1 --output=/dev/stdout; grep MemTotal /proc/meminfo";
    let outcome = run.script(job).run(&kernel).unwrap();
    let text = outcome.text();
    assert!(outcome.ended.success(), "{text}\n{}", outcome.log);
    assert!(text.contains("err= 0") && text.contains("MemTotal"), "{text}");
}

/// Trimmed space goes back to the host, though its file has no name.
#[test]
fn what_is_trimmed_takes_no_room_on_the_host() {
    if kernel().is_none() {
        return;
    }
    // A file system of its own: what others do to the host's disk is not counted.
    let Some(small) = Small::new(256 << 20) else { return };
    let script = "used() { df --output=used -B1 $1 | tail -1; }
        folder=$(findmnt -n -t hostfs -o TARGET | grep plumb-contents-)
        start=$(used $folder)
        dd if=/dev/urandom of=/dev/plumb bs=1M count=64 oflag=direct 2>&1; sync; sleep 5; full=$(used $folder)
        blkdiscard /dev/plumb; sync; sleep 5; empty=$(used $folder)
        echo $((full - start)) $((empty - start)); findmnt -n -o OPTIONS $folder";
    let done = Command::new(PLUMB)
        .args(["linux", "--device", SSD, "--set", "namespaces=[\"16GiB\"]", "--", "sh", "-c", script])
        .env("PLUMB_CONTENTS", small.0.path())
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{text}\n{}", String::from_utf8_lossy(&done.stderr));
    let line = text.lines().find(|line| line.split(' ').all(|word| word.parse::<i64>().is_ok())).unwrap();
    let [full, empty] =
        line.split_once(' ').map(|(full, empty)| [full, empty].map(|n| n.parse::<i64>().unwrap())).unwrap();
    assert!(text.contains("direct"), "{text}");
    assert!(full >= 64 << 20 && empty < 1 << 20, "{full} and then {empty} bytes more than at the start");
}

/// A folder for contents that is as small as a test wants it; nothing where only root may make one.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder.path()).status().unwrap();
        if !mounted.success() {
            println!("skipped: a small file system cannot be mounted here");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_host_without_room_is_named() {
    if kernel().is_none() {
        return;
    }
    let Some(small) = Small::new(24 << 20) else { return };
    let script = "dd if=/dev/urandom of=/dev/plumb bs=1M count=64 oflag=direct conv=fsync";
    let done = Command::new(PLUMB)
        .args(["linux", "--device", SSD, "--", "sh", "-c", script])
        .env("PLUMB_CONTENTS", small.0.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("PLUMB_CONTENTS"), "{said}");
    assert_eq!(std::fs::read_dir(small.0.path()).unwrap().count(), 0, "the run leaves nothing");

    let done = Command::new(PLUMB)
        .args(["linux", "--device", SSD, "--", "true"])
        .env("PLUMB_CONTENTS", "/no/such/folder")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("/no/such/folder") && said.contains("PLUMB_CONTENTS"), "{said}");
}

#[test]
fn several_devices_are_seen_in_their_order() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") || !has("mkfs.btrfs") {
        return;
    }
    let images = tempfile::tempdir().unwrap();
    let mut run = on(SSD);
    run.file_system = FileSystem::Ext4;
    let second = Device {
        profile: "optane-905p-960gb".to_owned(),
        settings: vec!["namespaces=[\"64GiB\"]".to_owned()],
        image: Some(images.path().join("second")),
    };
    let third = Device { profile: "hdd-7200-1tb".to_owned(), ..Device::default() };
    run.more_devices = vec![second, third];
    let script = "echo $PLUMB_DEVICES; lsblk -bno SIZE $PLUMB_DEVICES
        mkfs.btrfs -q -m raid1 -d raid1 /dev/plumb1 /dev/plumb2; mkdir /tmp/both; mount /dev/plumb1 /tmp/both
        cp /bin/sh /tmp/both/; umount /tmp/both; echo seen | dd of=/dev/plumb1 conv=fsync 2>/dev/null";
    let outcome = run.script(script).run(&kernel).unwrap();
    let text = outcome.text();
    assert!(outcome.ended.success(), "{text}{}\n{}", String::from_utf8_lossy(&outcome.stderr), outcome.log);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "/dev/ublkb0 /dev/ublkb1 /dev/ublkb2");
    assert_eq!(lines[2], (64_u64 << 30).to_string(), "the setting is of the second alone: {lines:?}");
    let more: Vec<(&str, &str)> = outcome.more_devices.iter().map(|more| (&*more.profile, &*more.node)).collect();
    assert_eq!(more, [("optane-905p-960gb", "/dev/ublkb1"), ("hdd-7200-1tb", "/dev/ublkb2")]);
    let written =
        |report: &Option<serde_json::Value>| report.as_ref().unwrap()["counters"]["host_written_bytes"].as_u64();
    let both: Vec<_> = outcome.more_devices.iter().map(|more| written(&more.report)).collect();
    assert!(both.iter().all(|bytes| bytes.unwrap() > 100_000), "each had a copy: {both:?}");
    assert_eq!(first_bytes(&images.path().join("second")), *b"seen");
}

fn first_bytes(path: &Path) -> [u8; 4] {
    use std::io::Read;
    let mut bytes = [0; 4];
    std::fs::File::open(path).unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_does_not_go_together_is_named() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let done = Command::new(PLUMB).arg("linux").args(arguments).args(["--", "true"]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    };
    refused(&["--device", SSD, "--image", "a", "--image", "b"], &["2 images for 1 devices"]);
    refused(&["--device", SSD, "--set", "2:buffer.size=1"], &["2:buffer.size=1", "1 devices"]);
    if kernel().is_some() {
        refused(&["--device", SSD, "--device", SSD, "--trace", "x"], &["one device"]);
    }
}
