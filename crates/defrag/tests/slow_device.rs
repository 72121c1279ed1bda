//! Files that are moved on slow devices: who opens one waits for a call and a commit, not for all of it, and no lease is
//! broken by force.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use defrag::ByteRange;
use defrag::migrate::{FileMover, Migrate, MoveOptions, Unlimited};
use disk::crash::{Crash, found_out, skipped};
use disk::guest::inside;
use disk::logged::LoggedDevice;
use disk::loop_device::mount_loop;
use disk::mutant::LONG_EXT4;
use disk::scene::{Beside, Scene};
use disk::trial::Trial;
use disk::writers::update_by_mapping;
use disk::{Dice, System, scatter_bytes, scratch, trial, unmount};

const LENGTH: u64 = 4 << 20;
const PIECE: u64 = 4096;
const BLOCK: u64 = 4096;
/// Slow enough that an open usually meets a call, and quick enough for a test.
const LATENCY: Duration = Duration::from_millis(2);

/// What is moved is in danger until the next commit, which the kernel makes every five seconds by itself: at a tenth of a second a request,
/// of a few dozen blocks of a file. Here it makes none, so that an update of any block that is moved shows what a crash takes back, and
/// that our own commits do without the kernel's.
const UNCOMMITTED: Trial = Trial { name: "ext4 without commits of its own", mount: "commit=600", ..trial::EXT4 };

/// States that are looked at beside those in which an update was just synchronised.
const STATES: usize = 64;

/// Requests that the device served while others waited for the file: the most of any open.
fn most_requests_within_an_open(way: Option<&'static dyn Migrate>) -> u64 {
    let trial = trial::EXT4;
    let folder = scratch::in_memory();
    let (image, place) = (folder.path().join("image"), folder.path().join("mnt"));
    trial.make_small(&image);
    fs::create_dir(&place).unwrap();
    let device = LoggedDevice::new(&image);
    mount_loop(&device.device, &place, trial.system.name(), trial.mount).unwrap();
    let path = place.join("file");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    scatter_bytes(&file, trial.system, &Dice(1).bytes(LENGTH as usize), 0, PIECE);
    drop(file);
    disk::drop_caches();
    let options = MoveOptions::default();
    let mover = match way {
        Some(way) => FileMover::open_with(&path, way, &options),
        None => FileMover::open(&path, None, &options),
    };
    let mut mover = mover.unwrap();
    device.set_latency(LATENCY);
    let over = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let opener = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                let begun = device.requests();
                drop(OpenOptions::new().write(true).open(&path).unwrap());
                most = most.max(device.requests() - begun);
                // Long enough for the lease to be available once more.
                thread::sleep(Duration::from_millis(20));
            }
            most
        });
        let mut left = u64::MAX;
        for _ in 0..20 {
            let moved = mover.migrate(ByteRange { start: 0, end: LENGTH }, &mut Unlimited).unwrap();
            left = moved.pieces_after;
            if left == 1 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(left, 1, "it was not moved");
        opener.join().unwrap()
    });
    drop(mover);
    device.set_latency(Duration::ZERO);
    unmount(&place);
    most
}

#[test]
fn an_open_waits_for_one_call() {
    if skipped(System::Ext4) {
        return;
    }
    let (ours, mutant) = (most_requests_within_an_open(None), most_requests_within_an_open(Some(&LONG_EXT4)));
    println!("requests within an open, at most: {ours}, in one call {mutant}");
    // 64 pages, each of which may have to be read for itself, their data and a commit.
    assert!(ours <= 256, "{ours} requests");
    assert!(mutant >= LENGTH / BLOCK / 2, "{mutant} requests in one call");
}

/// What an open waits for beside four readers, on a disk of 3 ms a request that serves one after the other: a call and a commit, each of
/// which is made shorter where it takes longer than a tenth of a second. Printed, since a time asserted would be one of the machine.
#[test]
fn opens_beside_readers_on_a_serial_disk() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: it takes minutes; PLUMB_LONG=1 runs it");
        return;
    }
    if skipped(System::Ext4) {
        return;
    }
    const MOVED: u64 = 16 << 20;
    let folder = scratch::in_memory();
    let (image, place) = (folder.path().join("image"), folder.path().join("mnt"));
    trial::EXT4.make_small(&image);
    fs::create_dir(&place).unwrap();
    let device = LoggedDevice::new(&image);
    mount_loop(&device.device, &place, System::Ext4.name(), trial::EXT4.mount).unwrap();
    let (path, read) = (place.join("file"), place.join("read"));
    fs::write(&read, vec![7; LENGTH as usize]).unwrap();
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    scatter_bytes(&file, System::Ext4, &Dice(1).bytes(MOVED as usize), 0, 2 * PIECE);
    drop(file);
    disk::drop_caches();
    let mut mover = FileMover::open(&path, None, &MoveOptions::default()).unwrap();
    device.set_latency(Duration::from_millis(3));
    let over = AtomicBool::new(false);
    let mut waited = thread::scope(|scope| {
        for reader in 0..4 {
            let (over, read) = (&over, &read);
            scope.spawn(move || {
                let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(read).unwrap();
                let mut buffer = vec![0; 2 * BLOCK as usize];
                let skew = buffer.as_ptr().align_offset(BLOCK as usize);
                let mut dice = Dice(reader);
                while !over.load(Ordering::Relaxed) {
                    let at = dice.below(LENGTH / BLOCK) * BLOCK;
                    file.read_exact_at(&mut buffer[skew..skew + BLOCK as usize], at).unwrap();
                }
            });
        }
        let opener = scope.spawn(|| {
            let mut waited = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                drop(OpenOptions::new().write(true).open(&path).unwrap());
                waited.push(begun.elapsed());
                thread::sleep(Duration::from_millis(500));
            }
            waited
        });
        for _ in 0..200 {
            let moved = mover.migrate(ByteRange { start: 0, end: MOVED }, &mut Unlimited).unwrap();
            if moved.pieces_after == 1 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        opener.join().unwrap()
    });
    waited.sort();
    let at = |share: f64| waited[((waited.len() - 1) as f64 * share) as usize];
    println!("{} opens: median {:?}, p90 {:?}, most {:?}", waited.len(), at(0.5), at(0.9), at(1.0));
    drop(mover);
    device.set_latency(Duration::ZERO);
    unmount(&place);
}

/// The kernel lets another program in by force when it has waited for as long as `fs.lease-break-time` says, 45 seconds: what that
/// stores and synchronises before the next commit is at a place that a crash takes back. A single call for the file lasts longer, at a
/// tenth of a second a request. In virtual time: whoever synchronises a machine's file systems waits for the slow one, too.
#[test]
fn no_lease_is_broken_on_a_slow_device() {
    inside("no_lease_is_broken_on_a_slow_device", || {
        if skipped(System::Ext4) {
            return;
        }
        let record = |way: Option<&'static dyn Migrate>, seed: u64| {
            let latency = Some(Duration::from_millis(100));
            Crash::record(Scene { latency, ..Scene::new(UNCOMMITTED, way, Beside::Mapper) }, seed)
        };
        found_out("ext4 in one call", |seed| record(Some(&LONG_EXT4), seed).look_at_updates(5));
        let ours = record(None, 1);
        let mut faults = ours.look_at_updates(5);
        faults.extend(ours.look_after_updates(STATES, 5));
        println!("{} entries, {} states are bad", ours.log.len(), faults.len());
        assert_eq!(faults, [""; 0]);
    });
}

/// The process that stores by a mapping (`disk/writers.rs`).
#[test]
fn mapper() {
    update_by_mapping();
}
