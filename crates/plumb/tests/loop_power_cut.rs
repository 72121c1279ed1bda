//! Power cuts under a file system's load: the kernel recovers, the checker finds
//! nothing, and what was synchronised is there.
//!
//! `PLUMB_LONG=1` cuts 200 times for each file system; `PLUMB_CUTS` says another
//! number.
#![allow(clippy::unwrap_used)]

mod loop_rig;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loop_rig::{FileSystem, Rig, SMALL_DRIVE, Tried, skipped};
use serve::control::Request;
use serve::{PowerLoss, Survival};
use ssd::faults::{Effect, Fault};

/// Threads that write at once.
const WRITERS: u64 = 3;
/// Files that each of them replaces in turn.
const SLOTS: u64 = 24;
/// Records after which a log is begun again.
const LOG_RECORDS: u64 = 400;
const MAGIC: u64 = 0x706c_756d_6263_7574;

/// A small generator (SplitMix64): what is written must be known again later.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The content of a file or record: who, where, which one, and bytes that follow
/// from these, so that each byte is checked.
fn content(writer: u64, slot: u64, sequence: u64, longest: u64) -> Vec<u8> {
    let mut dice = Dice(writer << 48 ^ slot << 32 ^ sequence);
    let length = 48 + dice.below(longest) / 8 * 8;
    let mut bytes = Vec::with_capacity(length as usize);
    for word in [MAGIC, writer, slot, sequence, length] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&dice.next().to_le_bytes());
    }
    bytes
}

const LONGEST_FILE: u64 = 48 << 10;
const LONGEST_RECORD: u64 = 2 << 10;

/// What one writer knows of its files: `acknowledged` was synchronised, and one
/// more may have been under way.
#[derive(Clone, Default)]
struct Ledger {
    /// Of each slot: the sequence that a completed fsync covers, and the one that
    /// was being written when the power failed.
    slots: BTreeMap<u64, (Option<u64>, Option<u64>)>,
    /// The log's number, and how many of its records are synchronised.
    log: u64,
    records: u64,
    sequence: u64,
    synchronised: u64,
    /// What the last fsync said was there, and was not to be believed.
    doubtful: Option<Doubt>,
    /// How often it was not there.
    deceived: u64,
}

/// A success reported while the power was being cut.
#[derive(Clone, Copy)]
enum Doubt {
    /// That a file is replaced.
    Slot { slot: u64, sequence: u64 },
    /// That the log has one more record.
    Record,
}

/// Whether an fsync that has returned is to be believed: not once the power is being
/// cut. Kernels were seen to report success on a disk that was gone: of ext4 and XFS
/// (Linux 6.18), the fsync of a folder after a rename whose commit had failed, begun
/// milliseconds after the cut and done at once. For XFS it needs no power cut: rename a
/// file, shut the file system down without writing its log (`XFS_IOC_GOINGDOWN`), and
/// an fsync of the folder succeeds while the rename is gone, where one of the file
/// fails with EIO (`xfs_dir_fsync` in fs/xfs/xfs_file.c does not look whether the log has
/// failed, and a failed log lets go of what it had). A drive that loses what it flushed
/// is found out by what was acknowledged before.
fn believe(cutting: &AtomicBool) -> bool {
    !cutting.load(Ordering::SeqCst)
}

struct Writer<'a> {
    number: u64,
    folder: PathBuf,
    ledger: &'a mut Ledger,
    dice: Dice,
    /// Set before the power is cut.
    cutting: &'a AtomicBool,
}

impl Writer<'_> {
    /// Writes until the power fails.
    fn run(&mut self) {
        let mut log = None;
        while believe(self.cutting) {
            let result = match self.dice.below(5) {
                0 | 1 => self.replace(),
                2 | 3 => self.append(&mut log),
                _ => self.scribble(),
            };
            // The disk is gone.
            if result.is_err() {
                return;
            }
        }
    }

    /// The careful way to replace a file: write another, synchronise it, rename it,
    /// synchronise the folder.
    fn replace(&mut self) -> io::Result<()> {
        let slot = self.dice.below(SLOTS);
        self.ledger.sequence += 1;
        let sequence = self.ledger.sequence;
        let entry = self.ledger.slots.entry(slot).or_default();
        entry.1 = Some(sequence);
        let new = self.folder.join(format!("new-{slot}"));
        let mut file = File::create(&new)?;
        file.write_all(&content(self.number, slot, sequence, LONGEST_FILE))?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(format!("slot-{slot}")))?;
        File::open(&self.folder)?.sync_all()?;
        if believe(self.cutting) {
            *entry = (Some(sequence), None);
            self.ledger.synchronised += 1;
        } else {
            self.ledger.doubtful = Some(Doubt::Slot { slot, sequence });
        }
        Ok(())
    }

    /// Appends a record to a log and synchronises the log's data and size.
    fn append(&mut self, log: &mut Option<File>) -> io::Result<()> {
        if self.ledger.records >= LOG_RECORDS {
            self.ledger.log += 1;
            self.ledger.records = 0;
            *log = None;
            let _ = fs::remove_file(self.folder.join(format!("log-{}", self.ledger.log - 1)));
        }
        let file = match log {
            Some(file) => file,
            None => {
                let path = self.folder.join(format!("log-{}", self.ledger.log));
                let file = OpenOptions::new().create(true).append(true).open(path)?;
                File::open(&self.folder)?.sync_all()?;
                log.insert(file)
            }
        };
        file.write_all(&content(self.number, self.ledger.log, self.ledger.records, LONGEST_RECORD))?;
        file.sync_data()?;
        if believe(self.cutting) {
            self.ledger.records += 1;
            self.ledger.synchronised += 1;
        } else {
            self.ledger.doubtful = Some(Doubt::Record);
        }
        Ok(())
    }

    /// Work that nobody waits for: files made and removed without a word.
    fn scribble(&mut self) -> io::Result<()> {
        let name = self.folder.join(format!("scribble-{}", self.dice.below(8)));
        if self.dice.below(2) == 0 {
            return fs::write(&name, vec![0xee; self.dice.below(256 << 10) as usize]);
        }
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Holds what is there after recovery against the ledger, which becomes what was
/// found: the unmount that follows makes it durable.
fn verify(number: u64, folder: &Path, ledger: &mut Ledger) -> Result<(), String> {
    for (&slot, (acknowledged, under_way)) in &mut ledger.slots {
        let path = folder.join(format!("slot-{slot}"));
        let found = fs::read(&path);
        let may_be = [*acknowledged, *under_way];
        let matching = |bytes: &[u8]| {
            may_be.into_iter().flatten().find(|sequence| bytes == content(number, slot, *sequence, LONGEST_FILE))
        };
        let now = match found {
            Ok(bytes) => match matching(&bytes) {
                Some(sequence) => Some(sequence),
                None => {
                    let head: Vec<u64> = bytes
                        .chunks_exact(8)
                        .take(5)
                        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                        .collect();
                    return Err(format!(
                        "{}: {} bytes that are neither {acknowledged:?} nor {under_way:?}, beginning {head:x?}",
                        path.display(),
                        bytes.len()
                    ));
                }
            },
            // Never synchronised: it need not be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && acknowledged.is_none() => None,
            Err(error) => return Err(format!("{}: {error}; {acknowledged:?} was synchronised", path.display())),
        };
        (*acknowledged, *under_way) = (now, None);
    }
    let path = folder.join(format!("log-{}", ledger.log));
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && ledger.records == 0 => Vec::new(),
        Err(error) => return Err(format!("{}: {error}; it had {} records", path.display(), ledger.records)),
    };
    let (mut at, mut records) = (0, 0);
    loop {
        let expected = content(number, ledger.log, records, LONGEST_RECORD);
        if bytes.get(at..at + expected.len()) != Some(&expected[..]) {
            break;
        }
        at += expected.len();
        records += 1;
    }
    if records < ledger.records {
        let next = content(number, ledger.log, records, LONGEST_RECORD);
        let rest = bytes.get(at..).unwrap_or_default();
        let same = rest.iter().zip(&next).take_while(|(found, expected)| found == expected).count();
        return Err(format!(
            "{}: {} records were synchronised, {records} are there; the next would end at byte {}, the file at {}; {same} \
             bytes of it are there",
            path.display(),
            ledger.records,
            at + next.len(),
            bytes.len()
        ));
    }
    // A torn record is what an append without its fsync may leave.
    if at < bytes.len() {
        let file = OpenOptions::new().write(true).open(&path).map_err(|error| error.to_string())?;
        file.set_len(at as u64).map_err(|error| error.to_string())?;
    }
    ledger.deceived += u64::from(match ledger.doubtful.take() {
        Some(Doubt::Slot { slot, sequence }) => ledger.slots.get(&slot).is_none_or(|found| found.0 != Some(sequence)),
        Some(Doubt::Record) => records == ledger.records,
        None => false,
    });
    ledger.records = records;
    Ok(())
}

struct Cuts {
    system: FileSystem,
    rig: Rig,
    ledgers: Vec<Ledger>,
    dice: Dice,
    undecided: u64,
    survived: u64,
}

impl Cuts {
    fn new(system: FileSystem, seed: u64) -> Self {
        let rig = Rig::start(&[SMALL_DRIVE, &["--recover-from-flash"]].concat());
        rig.mkfs(system);
        Self {
            system,
            rig,
            ledgers: vec![Ledger::default(); WRITERS as usize],
            dice: Dice(seed),
            undecided: 0,
            survived: 0,
        }
    }

    fn folder(&self, writer: u64) -> PathBuf {
        self.rig.place().join(format!("writer-{writer}"))
    }

    /// Load, a cut in the middle of it, and the disk back.
    fn cut(&mut self, survive: Survival) {
        self.rig.mount(self.system);
        let folders: Vec<PathBuf> = (0..WRITERS).map(|writer| self.folder(writer)).collect();
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        let seen = self.rig.lines();
        let load = Duration::from_millis(30 + self.dice.below(270));
        let cutting = AtomicBool::new(false);
        let mut control = self.rig.control();
        let dice = &mut self.dice;
        thread::scope(|scope| {
            for ((number, folder), ledger) in (0..).zip(folders).zip(&mut self.ledgers) {
                let cutting = &cutting;
                let mut writer = Writer { number, folder, ledger, dice: Dice(dice.next()), cutting };
                scope.spawn(move || writer.run());
            }
            thread::sleep(load);
            cutting.store(true, Ordering::SeqCst);
            let loss: PowerLoss = control.ask(&Request::PowerCut { survive, off: false }).unwrap();
            self.undecided += loss.undecided;
            self.survived += loss.survived;
        });
        self.rig.unmount();
        self.rig.wait_ready(seen);
    }

    /// The kernel recovers, what was synchronised is there, and the checker is content.
    fn recover(&mut self) -> Result<(), String> {
        let mounted = self.rig.try_mount(self.system);
        if !mounted.status.success() {
            return Err(format!("the file system cannot be mounted: {}", mounted.stderr));
        }
        let mut faults = Vec::new();
        for number in 0..WRITERS {
            let folder = self.rig.place().join(format!("writer-{number}"));
            faults.extend(verify(number, &folder, &mut self.ledgers[number as usize]).err());
        }
        self.rig.unmount();
        faults.extend(self.system.check(&self.rig.device).err());
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
    }

    fn synchronised(&self) -> u64 {
        self.ledgers.iter().map(|ledger| ledger.synchronised).sum()
    }
}

fn number_of_cuts() -> u64 {
    let asked = std::env::var("PLUMB_CUTS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { 200 } else { 3 })
}

fn survives_cuts(system: FileSystem) {
    if skipped(&system.programs()) {
        return;
    }
    let mut cuts = Cuts::new(system, system as u64 + 1);
    let (count, begun) = (number_of_cuts(), Instant::now());
    for cut in 1..=count {
        let survive = match cut % 8 {
            0 => Survival::All,
            1 => Survival::None,
            2 => Survival::Prefix { writes: cuts.dice.below(64) },
            _ => Survival::Random { seed: cuts.dice.next() },
        };
        cuts.cut(survive);
        if cut % 20 == 0 {
            println!("{}: {cut} of {count} cuts, {:.0} s", system.name(), begun.elapsed().as_secs_f64());
        }
        if let Err(fault) = cuts.recover() {
            panic!("{}, cut {cut} ({survive:?}):\n{fault}", system.name());
        }
    }
    assert!(cuts.synchronised() >= count, "the writers got nothing done");
    println!(
        "{}: {count} power cuts recovered in {:.0} s; {} synchronised writes, all there; {} writes undecided, {} of them survived",
        system.name(),
        begun.elapsed().as_secs_f64(),
        cuts.synchronised(),
        cuts.undecided,
        cuts.survived
    );
    let deceived: u64 = cuts.ledgers.iter().map(|ledger| ledger.deceived).sum();
    if deceived > 0 {
        println!("{}: {deceived} fsyncs were reported done on the disk that was gone", system.name());
    }
    cuts.rig.stop();
    assert!(!cuts.rig.is_attached());
}

#[test]
fn ext4_survives_power_cuts() {
    survives_cuts(FileSystem::Ext4);
}

#[test]
fn xfs_survives_power_cuts() {
    survives_cuts(FileSystem::Xfs);
}

#[test]
fn btrfs_survives_power_cuts() {
    survives_cuts(FileSystem::Btrfs);
}

/// The mutant: a drive that acknowledges flushes and writes nothing. Were it not
/// found out, the tests above would prove nothing.
#[test]
fn a_drive_that_lies_about_flushes_is_found_out() {
    if skipped(&FileSystem::Ext4.programs()) {
        return;
    }
    let mut cuts = Cuts::new(FileSystem::Ext4, 99);
    let fault = Fault::new(Effect::LostFlush);
    cuts.rig.control().ask::<serde_json::Value>(&Request::Inject { fault }).unwrap();
    for cut in 1..=10 {
        cuts.cut(Survival::None);
        if let Err(fault) = cuts.recover() {
            println!("found out at cut {cut}: {}", fault.lines().next().unwrap_or_default());
            return;
        }
    }
    panic!("ten power cuts did not find out a drive whose flushes do nothing");
}
