//! Crashes while a file is moved: recording what the device was asked to do, and judging the states that may be left.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use defrag::ByteRange;

use super::logged::{Entry, LoggedDevice, Recovered, States, obstacle};
use super::loop_device::mount_loop;
use super::scene::{Beside, LENGTH, Scene};
use super::scratch;
use super::writers::{BLOCK, Update, synchronise};
use super::{Dice, System, map_of, ran, scatter_bytes, unmount};

const PIECE: u64 = 4096;
/// For which others go on.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// States of one recording, at most: each has a file system and a schedule of its own, and they go on beside each other,
/// since most of a state's time is waiting for the kernel to mount and unmount.
const STATES_EACH: usize = 125;

/// Recordings of a broken variant, at most: what a crash leaves of one depends on when the kernel writes back and to whom it
/// gives which blocks, so that a few dozen states of one recording may all be good.
const RECORDINGS: u64 = 8;

/// Prints why a test does nothing, and says whether it does nothing.
pub fn skipped(system: System) -> bool {
    match obstacle() {
        Some(why) => {
            println!("skipped: {why}");
            true
        }
        None => super::skipped(system),
    }
}

/// How many states are looked at.
pub fn number_of_states() -> usize {
    let asked = std::env::var("PLUMB_STATES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { 1000 } else { 24 })
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

/// Ends what goes on beside, also where a test fails: nobody waits for programs that go on.
struct OverInTheEnd<'a>(&'a AtomicBool);

impl Drop for OverInTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What was moved, and what the device was asked to do.
pub struct Crash {
    scene: Scene,
    folder: tempfile::TempDir,
    /// What the file held at first.
    first: Vec<u8>,
    pub log: Vec<Entry>,
    updates: Vec<Update>,
    /// Ranges that were moved.
    pub moved: u64,
    /// Where ext4 has its journal on the device.
    journal: Vec<ByteRange>,
}

impl Crash {
    /// Moves a file of 1,024 blocks, window after window, with a log of what the device was asked to do.
    pub fn record(scene: Scene, seed: u64) -> Self {
        let Scene { trial, beside, shape, .. } = scene;
        let system = trial.system;
        let folder = scratch::in_memory();
        let image = folder.path().join("image");
        trial.make_small(&image);
        let journal = journal_of(system, &image);
        let place = folder.path().join("mnt");
        fs::create_dir(&place).unwrap();
        let path = place.join("file");
        let mount = |device: &Path| mount_loop(device, &place, system.name(), trial.mount).unwrap();
        let device = LoggedDevice::new(&image);
        let _unmounted = UnmountedAtPanic(&place);
        mount(&device.device);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut first = Dice(seed).bytes(LENGTH as usize);
        scatter_bytes(&file, system, &first, 0, PIECE);
        shape.punch(&file, &mut first);
        drop(file);
        let pieces = map_of(&path).piece_count(ByteRange { start: 0, end: LENGTH });
        assert!(pieces > LENGTH / PIECE / 2, "{pieces} pieces");
        if let Some(room_bytes) = beside.room_bytes() {
            fill(&place, room_bytes);
        }
        // What is in the image from here on is on the disk.
        rustix::fs::syncfs(File::open(&place).unwrap()).unwrap();
        unmount(&place);
        ran(Command::new("cp").arg("--sparse=always").arg(&image).arg(folder.path().join("base")));
        // Mounting writes, too: ext4 notes that its journal is in use, and wipes it at the next mount if it did not.
        device.begin();
        mount(&device.device);
        let (data, is_written) = (data_bytes(&path), scene.writer().is_some());
        if let Some(latency) = scene.latency {
            device.set_latency(latency);
        }
        let over = AtomicBool::new(false);
        let (updates, moved) = thread::scope(|scope| {
            let over_in_the_end = OverInTheEnd(&over);
            let writer = scope.spawn(|| match beside {
                Beside::Neighbour => {
                    grow(&place.join("neighbour"), &over);
                    Vec::new()
                }
                Beside::Crowd => {
                    append(&place.join("neighbour"), &over);
                    Vec::new()
                }
                Beside::Writer { .. } | Beside::Mapper => {
                    synchronise(&path, LENGTH, seed, scene.writer().unwrap(), &device, &over)
                }
            });
            let moved = scene.moved(&path);
            if beside == Beside::Crowd {
                thread::sleep(AFTERWARDS);
            }
            drop(over_in_the_end);
            (writer.join().unwrap(), moved)
        });
        device.set_latency(Duration::ZERO);
        assert!(is_written || data_bytes(&path) == data, "holes were filled");
        let log = device.end();
        unmount(&place);
        drop(device);
        // On a slow device less is moved, and in larger calls.
        let least = if scene.latency.is_some() { 20 } else { 40 };
        assert!(log.len() > least, "{} entries", log.len());
        Self { scene, folder, first, log, updates, moved, journal }
    }

    /// Looks at `count` states; the faults. With a writer, a third of them are of the moments before a flush.
    pub fn look_all(&self, count: usize, seed: u64) -> Vec<String> {
        let before_flushes = if self.updates.is_empty() { 0 } else { count / 3 };
        let mut faults = self.look(count - before_flushes, seed);
        if before_flushes > 0 {
            faults.extend(self.look_before_flushes(before_flushes, seed));
        }
        faults
    }

    /// Looks at `count` states; the faults.
    pub fn look(&self, count: usize, seed: u64) -> Vec<String> {
        let mut dice = Dice(seed);
        // With a writer, mostly where it has just been told that its data is safe.
        let point = |number: usize| match self.updates.len() as u64 {
            updates if updates > 0 && !number.is_multiple_of(4) => {
                self.updates[dice.below(updates) as usize].synchronised
            }
            _ => dice.below(self.log.len() as u64 + 1) as usize,
        };
        self.look_at((0..count).map(point).collect(), seed)
    }

    /// Looks at a state with every write so far for each update, just synchronised; the faults.
    pub fn look_at_updates(&self, seed: u64) -> Vec<String> {
        self.look_in_turn(self.updates.iter().map(|update| update.synchronised).collect(), &["prefix"], seed)
    }

    /// Looks at states with every write so far, after the first update was synchronised; the faults.
    pub fn look_after_updates(&self, count: usize, seed: u64) -> Vec<String> {
        let mut dice = Dice(seed);
        let first = self.updates[0].synchronised;
        let mut point = || first + dice.below((self.log.len() - first) as u64 + 1) as usize;
        let points = (0..count).map(|_| point());
        self.look_in_turn(points.collect(), &["prefix"], seed)
    }

    /// Looks at states after so many entries of the log; the faults.
    pub fn look_at(&self, points: Vec<usize>, seed: u64) -> Vec<String> {
        // Every other state is an exact prefix; of what no flush followed, the others have a half, or nothing, or the
        // journal alone.
        let kinds = ["prefix", "reordered", "prefix", "flushed", "prefix", "journal"];
        self.look_in_turn(points, if self.journal.is_empty() { &kinds[..4] } else { &kinds }, seed)
    }

    /// Looks at states in which, of what no flush followed, the device has what was written to the journal alone.
    pub fn look_at_journals(&self, count: usize, seed: u64) -> Vec<String> {
        assert!(!self.journal.is_empty());
        let mut dice = Dice(seed);
        let points = (0..count).map(|_| dice.below(self.log.len() as u64 + 1) as usize);
        self.look_in_turn(points.collect(), &["journal"], seed)
    }

    /// Looks at states in which the device was told to flush after an update, and had half of what it was given before.
    pub fn look_before_flushes(&self, count: usize, seed: u64) -> Vec<String> {
        let flush_of = |update: &Update| {
            let log = self.log.get(update.begun..update.synchronised).unwrap_or_default();
            log.iter().rposition(|entry| matches!(entry, Entry::Flush)).map(|at| update.begun + at)
        };
        let flushes: Vec<usize> = self.updates.iter().filter_map(flush_of).collect();
        assert!(!flushes.is_empty());
        let mut dice = Dice(seed);
        let points = (0..count).map(|_| flushes[dice.below(flushes.len() as u64) as usize]);
        self.look_in_turn(points.collect(), &["reordered"], seed)
    }

    fn look_in_turn(&self, mut points: Vec<usize>, kinds: &[&str], seed: u64) -> Vec<String> {
        let mut dice = Dice(seed);
        points.sort_unstable();
        let base = self.folder.path().join("base");
        let kept = self.folder.path().join("base-copy");
        scratch::copy_image(&base, &kept);
        let mut states = States::new(&kept, &self.log);
        let image = self.folder.path().join("state");
        let mut faults = Vec::new();
        for (number, to) in points.into_iter().enumerate() {
            let what = kinds[number % kinds.len()];
            let mut survives = |at: u64| match what {
                "prefix" => true,
                "reordered" => dice.below(2) == 0,
                "journal" => self.journal.iter().any(|range| (range.start..range.end).contains(&at)),
                _ => false,
            };
            states.write(to, &image, &mut survives);
            if let Err(fault) = self.judge(&image, to) {
                faults.push(format!("{what} at {to} of {}: {fault}", self.log.len()));
            }
        }
        faults
    }

    /// Updates that were said to be on the disk, and that the disk had not been given.
    pub fn unwritten(&self) -> Vec<Update> {
        let given = |update: &&Update| {
            let content = update.content();
            self.log[update.begun..update.synchronised].iter().any(|entry| match entry {
                Entry::Write { data, .. } => data.chunks(BLOCK).any(|block| block == content),
                Entry::Flush => false,
            })
        };
        self.updates.iter().filter(|update| !given(update)).copied().collect()
    }

    fn judge(&self, image: &Path, to: usize) -> Result<(), String> {
        let place = self.folder.path().join("state-mnt");
        let mounted = Recovered::mount(image, &place, self.scene.trial.system.name())?;
        let found = fs::read(place.join("file")).map_err(|error| error.to_string());
        let mut names: Vec<String> = fs::read_dir(&place)
            .map_err(|error| error.to_string())?
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("file.other"))
            .collect();
        drop(mounted);
        let found = found?;
        if found.len() != LENGTH as usize {
            return Err(format!("{} bytes", found.len()));
        }
        let good = |(number, block): (usize, &[u8])| self.may_be(number, block, to);
        let bad: Vec<usize> =
            found.chunks(BLOCK).enumerate().filter(|&entry| !good(entry)).map(|(number, _)| number).collect();
        if !bad.is_empty() {
            let (number, of) = (bad[0], |update: &&Update| update.block == bad[0]);
            let block = &found[number * BLOCK..(number + 1) * BLOCK];
            let held = self.updates.iter().filter(of).find(|update| update.content() == block).copied();
            let known: Vec<Update> = self.updates.iter().filter(of).copied().collect();
            let is = match held {
                Some(update) => format!("as of update {}", update.version),
                None if block == self.original(number) => "as it was at first".to_owned(),
                None => "something else".to_owned(),
            };
            return Err(format!("{} bad blocks, the first is {number}: {is}, of {known:?}", bad.len()));
        }
        names.retain(|name| !["file", "neighbour", "filling", "lost+found"].contains(&name.as_str()));
        if !names.is_empty() {
            return Err(format!("left behind: {names:?}"));
        }
        self.scene.trial.system.check(image)
    }

    fn original(&self, number: usize) -> &[u8] {
        &self.first[number * BLOCK..(number + 1) * BLOCK]
    }

    /// Whether a block may have this content after a crash at `to`: what was synchronised last before it, or anything
    /// that was written since.
    fn may_be(&self, number: usize, block: &[u8], to: usize) -> bool {
        let of_block = || self.updates.iter().filter(|update| update.block == number);
        let kept = of_block().filter(|update| update.synchronised <= to).map(|update| update.version).max();
        let oldest = kept.unwrap_or(0);
        (oldest == 0 && block == self.original(number))
            || of_block().any(|update| update.version >= oldest && update.begun <= to && update.content() == block)
    }
}

/// Where ext4 has its journal, on the device.
fn journal_of(system: System, image: &Path) -> Vec<ByteRange> {
    if system != System::Ext4 {
        return Vec::new();
    }
    let said = |request: &str| ran(Command::new("debugfs").args(["-R", request]).arg(image));
    let shown = said("show_super_stats -h");
    let size = shown.lines().find_map(|line| line.strip_prefix("Block size:")).unwrap().trim();
    let size: u64 = size.parse().unwrap();
    if !shown.contains("has_journal") {
        return Vec::new();
    }
    let mut blocks: Vec<u64> = said("blocks <8>").split_whitespace().map(|word| word.parse().unwrap()).collect();
    blocks.sort_unstable();
    let runs = blocks.chunk_by(|one, next| one + 1 == *next);
    runs.map(|run| ByteRange { start: run[0] * size, end: (run[run.len() - 1] + 1) * size }).collect()
}

fn grow(path: &Path, over: &AtomicBool) {
    let mut file = File::create(path).unwrap();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        if number % 100 == 99 {
            file = File::create(path).unwrap();
        }
        file.write_all(&[7; 5000]).unwrap();
        file.sync_all().unwrap();
        thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes of a file that have a place.
fn data_bytes(path: &Path) -> u64 {
    map_of(path).extents().iter().map(|extent| extent.length).sum()
}

/// Leaves so much room.
fn fill(place: &Path, room_bytes: u64) {
    let space = rustix::fs::statvfs(place).unwrap();
    let mut left = (space.f_bavail * space.f_frsize).saturating_sub(room_bytes);
    let mut file = File::create(place.join("filling")).unwrap();
    let chunk = vec![0x5a; 1 << 20];
    while left > 0 {
        let length = left.min(chunk.len() as u64);
        file.write_all(&chunk[..length as usize]).unwrap();
        left -= length;
    }
    file.sync_all().unwrap();
}

/// Appends and synchronises, until there is no room; then from the beginning.
fn append(path: &Path, over: &AtomicBool) {
    let mut file = File::create(path).unwrap();
    while !over.load(Ordering::Relaxed) {
        if file.write_all(&[9; 256 << 10]).and_then(|()| file.sync_all()).is_err() {
            file = File::create(path).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// What became of some of the states.
struct Part {
    entries: usize,
    moved: u64,
    updates: usize,
    faults: Vec<String>,
    unwritten: Vec<Update>,
}

/// What became of the states of a move, printed.
#[track_caller]
pub fn survives(scene: Scene, count: usize) {
    let begun = std::time::Instant::now();
    let recordings = count.div_ceil(STATES_EACH);
    let part = |number: usize| {
        let crash = Crash::record(scene, number as u64 + 11);
        let states = count * (number + 1) / recordings - count * number / recordings;
        let faults = crash.look_all(states, scene.trial.system as u64 + 1 + 100 * number as u64);
        let (entries, updates) = (crash.log.len(), crash.updates.len());
        assert!(crash.moved > 0);
        assert_eq!(updates == 0, scene.writer().is_none());
        Part { entries, moved: crash.moved, updates, faults, unwritten: crash.unwritten() }
    };
    let parts: Vec<Part> = thread::scope(|scope| {
        let threads: Vec<_> = (0..recordings).map(|number| scope.spawn(move || part(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let faults: Vec<&str> = parts.iter().flat_map(|part| &part.faults).map(String::as_str).collect();
    println!(
        "{scene}: {count} states of {recordings} logs of {} entries, {} ranges moved, {} updates \
         synchronised, {} bad, {:.0} s",
        parts.iter().map(|part| part.entries).sum::<usize>(),
        parts.iter().map(|part| part.moved).sum::<u64>(),
        parts.iter().map(|part| part.updates).sum::<usize>(),
        faults.len(),
        begun.elapsed().as_secs_f64()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(parts.iter().all(|part| part.unwritten.is_empty()));
}

/// Expects that some state of a broken variant has lost bytes. `faults_of` makes the recording of a seed and looks at some of
/// its states.
#[track_caller]
pub fn found_out(name: &str, faults_of: impl Fn(u64) -> Vec<String>) {
    for seed in 1..=RECORDINGS {
        let faults = faults_of(seed);
        let lost: Vec<&String> = faults.iter().filter(|fault| fault.contains("bad blocks")).collect();
        println!("{name}, recording {seed}: {} states have lost bytes, such as: {:?}", lost.len(), lost.first());
        if !lost.is_empty() {
            return;
        }
    }
    panic!("{name}: no state of {RECORDINGS} recordings has lost bytes");
}
