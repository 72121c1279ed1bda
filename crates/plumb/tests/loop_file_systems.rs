//! File systems and fio on a served loop device: what they write comes back, and
//! their flushes and discards arrive at the device.
#![allow(clippy::unwrap_used)]

mod loop_rig;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use loop_rig::{FileSystem, PATIENCE, Rig, SMALL_DRIVE, Tried, finish, skipped};
use serve::control::Request;
use ssd::faults::{Effect, Fault, FaultReport, Operation};
use units::Nanos;

/// Bytes that can be told apart, block by block.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let words = (0..length as u64 / 8).map(|word| (seed << 40 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Has the device's commands of these classes counted, by faults without effect.
fn count(rig: &Rig, operations: &[Operation]) {
    for operation in operations {
        let fault = Fault { operations: vec![*operation], ..Fault::new(Effect::Latency { at_least: Nanos::ZERO }) };
        rig.control().ask::<serde_json::Value>(&Request::Inject { fault }).unwrap();
    }
}

/// Commands of one class that the device has had since they are counted.
fn commands(rig: &Rig, operation: Operation) -> u64 {
    let reports: Vec<FaultReport> = rig.control().ask(&Request::Faults).unwrap();
    reports.iter().find(|report| report.fault.operations == [operation]).expect("it is counted").matched
}

fn keeps_files(system: FileSystem) {
    if skipped(&system.programs()) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    count(&rig, &[Operation::Flush, Operation::Deallocate]);
    rig.mkfs(system);
    let discarded_by_mkfs = commands(&rig, Operation::Deallocate);
    assert!(discarded_by_mkfs > 0, "mkfs discards the whole device");

    let place = rig.mount(system);
    for file in 0..20 {
        fs::write(place.join(format!("file-{file}")), pattern(file, 1 << 20)).unwrap();
    }
    // Each fsync of new data reaches the device as at least one flush.
    let flushes = commands(&rig, Operation::Flush);
    let mut synced = File::create(place.join("synced")).unwrap();
    for block in 0..50 {
        synced.write_all(&pattern(100 + block, 4096)).unwrap();
        synced.sync_all().unwrap();
    }
    drop(synced);
    let flushes = commands(&rig, Operation::Flush) - flushes;
    assert!(flushes >= 50, "{flushes} flushes for 50 fsyncs");
    rig.unmount();
    system.check(&rig.device).unwrap();

    let place = rig.mount(system);
    for file in 0..20 {
        assert!(fs::read(place.join(format!("file-{file}"))).unwrap() == pattern(file, 1 << 20), "file {file}");
    }
    let synced = fs::read(place.join("synced")).unwrap();
    assert!(
        (0..50).all(|block| synced
            .chunks(4096)
            .nth(block)
            .is_some_and(|bytes| bytes == pattern(100 + block as u64, 4096)))
    );

    for file in 0..20 {
        fs::remove_file(place.join(format!("file-{file}"))).unwrap();
    }
    finish(Command::new("sync").arg("-f").arg(&place), PATIENCE).ok();
    let discards = commands(&rig, Operation::Deallocate);
    finish(Command::new("fstrim").arg("-v").arg(&place), PATIENCE).ok();
    assert!(commands(&rig, Operation::Deallocate) > discards, "fstrim deallocates");
    rig.unmount();
    system.check(&rig.device).unwrap();
    rig.stop();
    assert!(!rig.is_attached());
}

#[test]
fn ext4_keeps_files() {
    keeps_files(FileSystem::Ext4);
}

#[test]
fn xfs_keeps_files() {
    keeps_files(FileSystem::Xfs);
}

#[test]
fn btrfs_keeps_files() {
    keeps_files(FileSystem::Btrfs);
}

/// mkfs.btrfs goes by the path of the file behind a loop device.
#[test]
fn two_devices_of_a_profile_are_told_apart() {
    if skipped(&["mkfs.btrfs"]) {
        return;
    }
    let mut first = Rig::start(SMALL_DRIVE);
    first.mkfs(FileSystem::Btrfs);
    first.mount(FileSystem::Btrfs);
    let second = Rig::start(SMALL_DRIVE);
    second.mkfs(FileSystem::Btrfs);
}

fn direct(device: &Path) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(0o40000).open(device).unwrap()
}

/// Bytes at an address that direct I/O takes.
struct Aligned(Vec<u8>, usize, usize);

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut room = vec![0; bytes.len() + 4096];
        let start = room.as_ptr().align_offset(4096);
        room[start..start + bytes.len()].copy_from_slice(bytes);
        Self(room, start, bytes.len())
    }

    fn bytes(&self) -> &[u8] {
        &self.0[self.1..self.1 + self.2]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0[self.1..self.1 + self.2]
    }
}

/// The block device itself: its geometry, and that discards and zeroes read as zeroes.
#[test]
fn the_block_device_is_the_devices() {
    if skipped(&["blkdiscard", "blockdev"]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    let asked = |what: &str| finish(Command::new("blockdev").arg(what).arg(&rig.device), PATIENCE).ok().stdout;
    assert_eq!(asked("--getsize64").trim(), (2_u64 << 30).to_string());
    assert_eq!(asked("--getss").trim(), "512");
    let name = rig.device.file_name().unwrap().to_str().unwrap().to_owned();
    let attribute = |name_in_disk: &str| fs::read_to_string(format!("/sys/block/{name}/{name_in_disk}")).unwrap();
    let backing = attribute("loop/backing_file");
    assert!(backing.contains("samsung-980pro-1tb"), "{backing}");
    // Requests are completed where they are answered.
    assert_eq!(attribute("queue/rq_affinity").trim(), "0");

    let file = direct(&rig.device);
    let data = Aligned::new(&pattern(7, 1 << 20));
    for megabyte in 0..4 {
        file.write_all_at(data.bytes(), megabyte << 20).unwrap();
    }
    let range = |offset: u64| ["--offset".to_owned(), offset.to_string(), "--length".to_owned(), (1 << 20).to_string()];
    finish(Command::new("blkdiscard").args(range(0)).arg(&rig.device), PATIENCE).ok();
    finish(Command::new("blkdiscard").arg("--zeroout").args(range(1 << 20)).arg(&rig.device), PATIENCE).ok();
    let mut back = Aligned::new(&vec![0xaa; 1 << 20]);
    for (megabyte, zero) in [(0, true), (1, true), (2, false), (3, false)] {
        file.read_exact_at(back.bytes_mut(), megabyte << 20).unwrap();
        let same = if zero { back.bytes().iter().all(|byte| *byte == 0) } else { back.bytes() == data.bytes() };
        assert!(same, "megabyte {megabyte}");
    }
    // The smallest write, in the middle of others' data.
    let sector = Aligned::new(&[0x5a; 512]);
    file.write_all_at(sector.bytes(), (2 << 20) + 512).unwrap();
    file.read_exact_at(back.bytes_mut(), 2 << 20).unwrap();
    let mut expected = data.bytes().to_vec();
    expected[512..1024].fill(0x5a);
    assert!(back.bytes() == expected);
    drop(file);
    rig.stop();
}

/// A read-only server's device takes no writes, and is not written.
#[test]
fn read_only_is_read_only() {
    if skipped(&["blockdev"]) {
        return;
    }
    let mut rig = Rig::start(&[SMALL_DRIVE, &["--read-only"]].concat());
    assert_eq!(finish(Command::new("blockdev").arg("--getro").arg(&rig.device), PATIENCE).ok().stdout.trim(), "1");
    let refused = OpenOptions::new()
        .write(true)
        .open(&rig.device)
        .and_then(|file| file.write_all_at(&[1; 512], 0).and_then(|()| file.sync_all()));
    assert!(refused.is_err());
    assert_eq!(rig.status().writes, 0);
    rig.stop();
}

/// fio reads back what it wrote, at depth, with all sizes.
#[test]
fn fio_verifies() {
    if skipped(&["fio"]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    let long = std::env::var_os("PLUMB_LONG").is_some();
    let mut fio = Command::new("fio");
    fio.args(["--name=v", "--ioengine=io_uring", "--direct=1", "--rw=randwrite", "--bsrange=512-1m", "--iodepth=32"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--randrepeat=0", "--fsync=64"])
        .arg(if long { "--size=1g" } else { "--size=96m" })
        .arg(format!("--filename={}", rig.device.display()))
        .current_dir(rig.path(""));
    finish(&mut fio, PATIENCE * 5).ok();
    rig.stop();
}

/// `/dev/fuse` is the way where the kernel has no other, or the machine more than 16 processors.
#[test]
fn requests_come_through_a_ring_where_there_is_one() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::start(&[SMALL_DRIVE, &["--io-uring"]].concat());
    let switch = OpenOptions::new().write(true).open("/sys/module/fuse/parameters/enable_uring");
    let has_ring =
        switch.is_ok() && std::thread::available_parallelism().is_ok_and(|processors| processors.get() <= 16);
    let way = if has_ring { "an io_uring" } else { "/dev/fuse" };
    let ready = rig.wait_line(0, "ready at ");
    assert!(ready.ends_with(&format!("requests come through {way}")), "{ready}");
    rig.stop();
}
