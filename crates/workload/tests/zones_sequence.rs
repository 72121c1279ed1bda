//! Which offsets zonemode=zbd makes of a job: those of fio 3.33 on a sparse file
//! of 8 MiB (`--zonemode=zbd --zonesize=1m --zonecapacity=768k`, offsets from
//! `--log_offset=1`).

use crate::common::{null, run_noted};
use ssd::NullDevice;
use units::Nanos;
use workload::fio::report::ShortfallReason;
use workload::fio::{Direction, JobReport};

fn device() -> NullDevice {
    NullDevice::new(16_384, 512, Nanos::from_micros(10))
}

fn run(job: &str) -> (JobReport, Vec<String>) {
    let text = format!("[a]\nzonemode=zbd\nzonesize=1m\nzonecapacity=768k\n{job}");
    let (mut reports, notes) = run_noted(device(), &text);
    (reports.remove(0), notes)
}

/// Writes of 64 KiB from and to, in KiB.
fn writes(from: u64, to: u64) -> impl Iterator<Item = String> {
    (from..to).step_by(64).map(|kib| format!("w{kib}"))
}

#[test]
fn sequential_writes_are_fios() {
    let zones = |zones: std::ops::Range<u64>| zones.flat_map(|zone| writes(zone * 1024, zone * 1024 + 768));
    for (job, want, resets) in [
        ("rw=write\nbs=64k\nsize=4m", zones(0..4).collect::<Vec<_>>(), 0),
        ("rw=write\nbs=64k\nsize=4m\nio_size=6m", zones(0..4).chain(zones(0..4)).collect(), 4),
        ("rw=write\nbs=64k\nsize=2m\nio_size=3z", zones(0..2).chain(zones(0..2)).collect(), 2),
        ("rw=write\nbs=64k\nsize=4500k\noffset=100k", zones(1..4).collect(), 0),
        ("rw=write\nbs=64k\nsize=2z\noffset=1z", zones(1..3).collect(), 0),
    ] {
        let (report, notes) = run(job);
        assert!(report.is_clean(), "{job}: {:?}", report.shortfall);
        assert_eq!((notes, report.reset.ios), (want, resets), "{job}");
    }
}

#[test]
fn rounding_to_zones_is_said() {
    let (_, host) = crate::common::free_host(device(), 1);
    let text = "[a]\ndirect=1\nzonemode=zbd\nzonesize=1m\nrw=write\nsize=4500k\noffset=100k\n[b]\ndirect=1\nrw=write";
    let run = workload::fio::start(&host, &crate::common::parse(text)).unwrap();
    assert_eq!(run.notes(), ["a: bytes 102400 to 4710400 are rounded to whole zones, 1048576 to 4194304"]);
}

#[test]
fn blocks_that_do_not_divide_a_zone_reset_it_early() {
    let (report, notes) = run("rw=write\nbs=100k\nsize=4m");
    let want: Vec<String> = (0..41).map(|write| format!("w{}", write % 7 * 100)).collect();
    assert_eq!((notes, report.reset.ios), (want, 5));
    let (report, notes) = run("rw=write\nbs=500k\nsize=4m");
    assert_eq!((notes, report.reset.ios), (vec!["w0".to_owned(); 9], 8));
}

#[test]
fn zoneskip_leaves_zones_out_and_wraps() {
    let (report, notes) = run("rw=write\nbs=64k\nzoneskip=1m\nsize=8m");
    let round = [0, 2, 4, 6].into_iter().flat_map(|zone| writes(zone * 1024, zone * 1024 + 768)).collect::<Vec<_>>();
    let want: Vec<String> = round.into_iter().cycle().take(128).collect();
    assert!(notes == want, "{notes:?}");
    assert_eq!(report.reset.ios, 7);
    let (_, notes) = run("rw=read\nbs=64k\nzoneskip=1z\nread_beyond_wp=1\nsize=8m\nnumber_ios=40");
    let zones =
        [0, 2, 4].into_iter().flat_map(|zone| (0..16).map(move |block| format!("r{}", zone * 1024 + block * 64)));
    assert!(notes == zones.take(40).collect::<Vec<_>>(), "{notes:?}");
}

#[test]
fn reads_stay_below_the_write_pointers() {
    let (report, notes) = run("rw=read\nbs=64k\nsize=4m");
    assert_eq!((report.ios(), notes.len()), (0, 0), "there is nothing to read");
    let shortfall = report.shortfall.unwrap();
    assert_eq!(shortfall.reason, ShortfallReason::NoZone { direction: Direction::Read });
    assert!(shortfall.to_string().contains("no zone of its region holds data; write them first"), "{shortfall}");
    let (_, notes) = run("rw=rw\nbs=64k\nsize=2m");
    assert_eq!(notes, ["w0", "r0"], "the first read becomes a write, and the second finds no more");
    let (report, notes) = run("rw=randrw\nbs=64k\nsize=4m\nmax_open_zones=2");
    assert_eq!((report.ios(), notes[0].as_bytes()[0]), (64, b'w'));
    judge(&notes, 2);
}

/// What holds of any order: a write goes to its zone's write pointer, or to the
/// start once all of the zone was written; reads lie below; no more than `open`
/// zones are partly written.
fn judge(notes: &[String], open: usize) {
    let mut pointers = [0_u64; 8];
    for note in notes {
        let kib: u64 = note[1..].parse().unwrap();
        let (zone, within) = ((kib / 1024) as usize, kib % 1024);
        if note.starts_with('r') {
            assert!(within + 64 <= pointers[zone], "{note} beyond {}", pointers[zone]);
            continue;
        }
        if pointers[zone] == 768 {
            pointers[zone] = 0;
        }
        assert_eq!(within, pointers[zone], "{note}");
        pointers[zone] += 64;
        let partly = pointers.iter().filter(|pointer| (1..768).contains(*pointer)).count();
        assert!(partly <= open, "{note}: {pointers:?}");
    }
}

#[test]
fn random_writes_keep_to_the_open_zones() {
    for open in [1, 2, 5] {
        let (report, notes) = run(&format!("rw=randwrite\nbs=64k\nsize=8m\nio_size=20m\nmax_open_zones={open}"));
        assert_eq!((report.directions.write.bytes, notes.len()), (20 << 20, 320));
        judge(&notes, open);
    }
}

#[test]
fn resets_come_at_their_frequency_once_there_is_data_enough() {
    // 20 writes of 64 KiB make 5/32 of 8 MiB; then the fourth write resets its
    // zone, after which there is less.
    let job = "rw=write\nbs=64k\nsize=8m\nzone_reset_threshold=0.15625\nzone_reset_frequency=0.25\nnumber_ios=28";
    let (report, notes) = run(job);
    let want: Vec<String> = writes(0, 768).chain(writes(1024, 1728)).chain(writes(1024, 1344)).collect();
    assert_eq!((notes, report.reset.ios), (want, 1));
}

#[test]
fn verification_fills_each_zone_once() {
    for job in ["rw=write\nbs=64k\nsize=4m", "rw=randwrite\nbs=64k\nsize=4m\nmax_open_zones=2"] {
        let (report, notes) = run(&format!("{job}\nverify=crc32c"));
        assert!(report.is_clean(), "{:?}", report.verify);
        let checked = report.verify.as_ref().map(|verify| verify.checked);
        assert_eq!((report.directions.write.ios, checked, notes.len()), (48, Some(48), 96), "{job}");
    }
}

#[test]
fn zones_need_a_size_or_a_zoned_device() {
    let start = |job: &str| {
        let (_, host) = crate::common::free_host(null(Nanos(1)), 1);
        workload::fio::start(&host, &crate::common::parse(job)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (job, says) in [
        ("[a]\nrw=write\nzonemode=zbd", "or write zonesize=SIZE"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nzonecapacity=2m", "zonecapacity is 2097152 bytes"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=128m", "zonesize is 134217728 bytes, but the device has 67108864"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nsize=100k", "no whole zone of 1048576 bytes"),
        ("[a]\nrw=trim\nzonemode=zbd\nzonesize=1m\nbs=64k", "write bs=1048576"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nbs=2m", "a zone takes 1048576"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nzoneskip=100k", "must be a multiple of the zone size"),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\njob_max_open_zones=2", "add max_open_zones"),
        (
            "[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nmax_open_zones=2\n[b]\nrw=write\nzonemode=zbd\nmax_open_zones=3",
            "job `b`: max_open_zones=3, but another job's limit on the same device is 2",
        ),
        (
            "[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nmax_open_zones=2\nnumjobs=3\nsize=1z\noffset_increment=1z",
            "3 threads at a time write to zones of their own, but 2 zones",
        ),
        (
            "[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nzone_reset_frequency=0.1\nnumjobs=2\nsize=1z\noffset_increment=1z",
            "must have the same region",
        ),
        ("[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nioengine=io_uring\nfinish", "finish needs a device with zones"),
        (
            "[a]\nrw=write\nzonemode=zbd\nzonesize=1m\nioengine=io_uring_cmd\nzone_append",
            "zone_append needs a device with zones",
        ),
        ("[a]\nrw=write\nfilename=/dev/nvme0n2", "filename names namespace 2, but the device has 1"),
    ] {
        let message = start(job);
        assert!(message.contains(says), "{job}: {message}");
        // The last section is the one that cannot start.
        let line = 1 + job.matches('\n').count() - job.lines().rev().position(|line| line.starts_with('[')).unwrap();
        assert!(message.starts_with(&format!("test.fio:{line}: job `")), "{message}");
    }
    let walled =
        "[global]\nrw=write\nzonemode=zbd\nzonesize=1m\nmax_open_zones=1\nsize=1z\n[a]\n[b]\noffset=1z\nstonewall";
    assert_eq!(start(walled), "", "jobs behind a stonewall do not write at the same time");
}
