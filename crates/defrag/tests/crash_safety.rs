//! Crashes while files are moved: whatever the device had written by then, and in whatever order since its last flush,
//! the file system recovers, its checker is content, and every byte of the moved file is there.
//!
//! A quick run looks at a few dozen states of each file system; `PLUMB_LONG=1` at 1,000, and `PLUMB_STATES` says
//! another number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use disk::logged::{Entry, LoggedDevice, Recovered, States};
use disk::mutant::PunchAndRewrite;
use disk::{Dice, System, map_of, ran, scatter, unmount};
use plumb_defrag::ByteRange;
use plumb_defrag::migrate::{FileMover, Migrate, MoveOptions, Unlimited};

const LENGTH: u64 = 4 << 20;
const PIECE: u64 = 4096;
const WINDOW: u64 = 64 << 10;
const SEED: u64 = 11;

fn skipped(system: System) -> bool {
    match disk::logged::obstacle() {
        Some(why) => {
            println!("skipped: {why}");
            true
        }
        None => disk::skipped(system),
    }
}

fn number_of_states() -> usize {
    let asked = std::env::var("PLUMB_STATES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { 1000 } else { 24 })
}

/// A file system small enough to be copied a thousand times.
fn make_small(system: System, image: &Path) {
    let bytes = match system {
        System::Ext4 => 96 << 20,
        System::Xfs | System::XfsExchange => 96 << 20,
        System::Btrfs => 128 << 20,
    };
    File::create(image).unwrap().set_len(bytes).unwrap();
    let more: &[&str] = match system {
        System::Ext4 => &["-b", "4096"],
        System::Xfs | System::XfsExchange => &[],
        System::Btrfs => &["-m", "single", "-d", "single"],
    };
    system.make(image, more);
}

/// A test that fails leaves no mount behind.
struct UnmountedAtPanic<'a>(&'a Path);

impl Drop for UnmountedAtPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
}

struct Crash {
    system: System,
    folder: tempfile::TempDir,
    log: Vec<Entry>,
}

impl Crash {
    /// Moves a file of 1,024 pieces, window after window, while a neighbour appends and synchronises; with a log of what
    /// the device was asked to do.
    fn record(system: System, way: Option<&'static dyn Migrate>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        make_small(system, &image);
        let place = folder.path().join("mnt");
        fs::create_dir(&place).unwrap();
        let path = place.join("file");
        let mount = |device: &Path| ran(Command::new("mount").args(["-t", system.name()]).arg(device).arg(&place));
        let device = LoggedDevice::new(&image);
        let _unmounted = UnmountedAtPanic(&place);
        mount(&device.device);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        scatter(&file, system, SEED, ByteRange { start: 0, end: LENGTH }, PIECE);
        drop(file);
        let pieces = map_of(&path).piece_count(ByteRange { start: 0, end: LENGTH });
        assert!(pieces > LENGTH / PIECE / 2, "{pieces} pieces");
        // What is in the image from here on is on the disk.
        rustix::fs::syncfs(File::open(&place).unwrap()).unwrap();
        unmount(&place);
        ran(Command::new("cp").arg("--sparse=always").arg(&image).arg(folder.path().join("base")));
        mount(&device.device);
        device.begin();
        let over = AtomicBool::new(false);
        let neighbour = place.join("neighbour");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = File::create(&neighbour).unwrap();
                for number in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    if number % 100 == 99 {
                        file = File::create(&neighbour).unwrap();
                    }
                    file.write_all(&[7; 5000]).unwrap();
                    file.sync_all().unwrap();
                    thread::sleep(std::time::Duration::from_millis(2));
                }
            });
            let options = MoveOptions::default();
            let mover = match way {
                Some(way) => FileMover::open_with(&path, way, &options),
                None => FileMover::open(&path, None, &options),
            };
            let mut mover = mover.unwrap();
            for start in (0..LENGTH).step_by(WINDOW as usize) {
                let moved = mover.migrate(ByteRange { start, end: start + WINDOW }, &mut Unlimited).unwrap();
                if way.is_none() {
                    assert_eq!((moved.pieces_after, &moved.left[..]), (1, &[][..]));
                }
            }
            drop(mover);
            over.store(true, Ordering::Relaxed);
        });
        let log = device.end();
        unmount(&place);
        drop(device);
        assert!(log.len() > 40, "{} entries", log.len());
        Self { system, folder, log }
    }

    /// Looks at `count` states; the faults.
    fn look(&self, count: usize, seed: u64) -> Vec<String> {
        let mut dice = Dice(seed);
        let mut points: Vec<usize> = (0..count).map(|_| dice.below(self.log.len() as u64 + 1) as usize).collect();
        points.sort_unstable();
        let base = self.folder.path().join("base");
        let kept = self.folder.path().join("base-copy");
        ran(Command::new("cp").arg("--sparse=always").arg(&base).arg(&kept));
        let mut states = States::new(&kept, &self.log);
        let image = self.folder.path().join("state");
        let mut faults = Vec::new();
        for (number, to) in points.into_iter().enumerate() {
            // Every other state is an exact prefix.
            let mut survives = || number % 2 == 0 || dice.below(2) == 0;
            states.write(to, &image, &mut survives);
            let what = if number % 2 == 0 { "prefix" } else { "reordered" };
            if let Err(fault) = self.judge(&image) {
                faults.push(format!("{what} at {to} of {}: {fault}", self.log.len()));
            }
        }
        faults
    }

    fn judge(&self, image: &Path) -> Result<(), String> {
        let place = self.folder.path().join("state-mnt");
        let mounted = Recovered::mount(image, &place, self.system.name())?;
        let found = fs::read(place.join("file")).map_err(|error| error.to_string());
        let mut names: Vec<String> = fs::read_dir(&place)
            .map_err(|error| error.to_string())?
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("file.other"))
            .collect();
        drop(mounted);
        let (found, expected) = (found?, Dice(SEED).bytes(LENGTH as usize));
        if found.len() != expected.len() {
            return Err(format!("{} bytes", found.len()));
        }
        let blocks = found.chunks(4096).zip(expected.chunks(4096));
        let bad: Vec<usize> = blocks.enumerate().filter(|(_, (a, b))| a != b).map(|(number, _)| number).collect();
        if !bad.is_empty() {
            return Err(format!("{} bad blocks, the first is {}", bad.len(), bad[0]));
        }
        names.retain(|name| !["file", "neighbour", "lost+found"].contains(&name.as_str()));
        if !names.is_empty() {
            return Err(format!("left behind: {names:?}"));
        }
        self.system.check(image)
    }
}

fn survives_crashes(system: System) {
    if skipped(system) {
        return;
    }
    let (count, begun) = (number_of_states(), std::time::Instant::now());
    let crash = Crash::record(system, None);
    let faults = crash.look(count, system as u64 + 1);
    println!(
        "{system:?}: {count} states of a log of {} entries, {} bad, {:.0} s",
        crash.log.len(),
        faults.len(),
        begun.elapsed().as_secs_f64()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn ext4_survives_crashes() {
    survives_crashes(System::Ext4);
}

#[test]
fn xfs_survives_crashes() {
    survives_crashes(System::Xfs);
}

#[test]
fn xfs_exchange_survives_crashes() {
    survives_crashes(System::XfsExchange);
}

#[test]
fn btrfs_survives_crashes() {
    survives_crashes(System::Btrfs);
}

/// Were it not found out, the tests above would prove nothing.
#[test]
fn the_published_way_is_found_out() {
    for system in [System::Ext4, System::Xfs] {
        if skipped(system) {
            continue;
        }
        let crash = Crash::record(system, Some(&PunchAndRewrite));
        let faults = crash.look(24, 5);
        println!("{system:?}: {} of 24 states are bad, such as: {}", faults.len(), faults.first().unwrap());
        assert!(faults.iter().any(|fault| fault.contains("bad blocks")), "{faults:?}");
    }
}
