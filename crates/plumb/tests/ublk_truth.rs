//! ublk under a real kernel in virtual time: what a program sees is what the device model says, and a
//! disk comes and goes in order.
//!
//! The device's own log of commands is the judge: time in the kernel is virtual and exact, so what a
//! program measures less what the log says is what the way through kernel and server adds.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::io::BufReader;
use std::path::Path;

use linux::{Ended, FrontEnd, Linux, Outcome};
use linux_rig::{PLUMB, has, is_long, kernel, on};
use nvme::{Command, NamespaceId, WriteCommand, ZoneSendAction};
use ssd::command_log::{self, CommandRecord};
use units::Nanos;

/// What the way through kernel and server may add to one request, and a program such as blkzone, which
/// opens the disk and asks for its zone size first.
const WAY: Nanos = Nanos::from_micros(4);

/// `timed WORD...` runs a command and leaves its virtual microseconds in `took`.
const TIMED: &str = r#"
timed() {
    local begin=${EPOCHREALTIME/./}
    "$@" || exit 9
    took=$(( ${EPOCHREALTIME/./} - begin ))
}
"#;

fn ublk(device: &str) -> Linux {
    let mut run = on(device);
    run.front_end = FrontEnd::Ublk;
    run.environment = vec![("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into()), ("PLUMB".into(), PLUMB.into())];
    run
}

/// Runs a bash script and checks that it succeeded.
fn succeed(run: &Linux, script: &str, kernel: &linux::Kernel) -> Outcome {
    let outcome = run.command(["bash", "-ec", script]).run(kernel).unwrap();
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.ended, Ended::Exited(0), "{}\n{stderr}\n{}", outcome.text(), outcome.log);
    outcome
}

/// Runs a bash script with a log of the device's commands.
fn logged(mut run: Linux, script: &str, kernel: &linux::Kernel) -> (Outcome, Vec<CommandRecord>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands");
    run.output = Some(folder.path().to_owned());
    run.serve_arguments.extend(["--command-log".into(), path.clone().into()]);
    let outcome = succeed(&run, script, kernel);
    (outcome, read_log(&path))
}

fn read_log(path: &Path) -> Vec<CommandRecord> {
    let file = std::fs::File::open(path).unwrap();
    command_log::read("commands", BufReader::new(file), 1 << 20).unwrap()
}

/// Numbers that follow `name` on the lines of a script's output that begin with it.
fn numbers(outcome: &Outcome, name: &str) -> Vec<f64> {
    let text = outcome.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).split(' ').map(|word| word.parse().unwrap()).collect()
}

fn mean_us<'a>(records: impl Iterator<Item = &'a CommandRecord>) -> (usize, f64) {
    let latencies: Vec<f64> = records.map(|record| record.latency().unwrap().as_micros_f64()).collect();
    (latencies.len(), latencies.iter().sum::<f64>() / latencies.len() as f64)
}

#[track_caller]
fn added(what: &str, seen_us: f64, modelled_us: f64) {
    println!("{what}: {seen_us:.2} us seen, {modelled_us:.2} us in the device");
    // The shell's clock shows whole microseconds.
    let added_us = seen_us - modelled_us;
    assert!((-1.0..=WAY.as_micros_f64()).contains(&added_us), "{what}: {seen_us} us seen, {modelled_us} us modelled");
}

/// One request at a time: reads, writes, FUA writes and flushes; each kind is
/// told in the log by its opcode and FUA bit.
#[test]
fn a_request_takes_what_the_device_says_it_takes() {
    let Some(kernel) = kernel() else { return };
    let script = format!(
        "{TIMED}
        copy() {{ timed dd bs=4k count=$1 status=none \"${{@:2}}\"; }}
        copy 500 if=$PLUMB_DEVICE of=/dev/null iflag=direct; echo read $took
        copy 500 if=/dev/zero of=$PLUMB_DEVICE oflag=direct; echo write $took
        copy 500 if=/dev/zero of=$PLUMB_DEVICE oflag=direct,dsync; echo fua $took
        cat /sys/block/ublkb0/queue/{{write_cache,fua,logical_block_size}}
        copy 1 if=/dev/zero of=$PLUMB_DEVICE oflag=direct conv=fsync seek=4096; echo flush $took"
    );
    let run = ublk("samsung-980pro-1tb");
    let (outcome, log) = logged(run.clone(), &script, &kernel);
    let text = outcome.text();
    assert!(text.contains("write back\n1\n512\n"), "the cache and FUA are the device's: {text}");
    let each = |name: &str| numbers(&outcome, name)[0] / 500.0;
    // A disk that appears is read as well: the program's reads are the last ones.
    let reads = log.iter().rev().filter(|record| matches!(record.command, Command::Read { .. })).take(500);
    added("read", each("read"), mean_us(reads).1);
    let writes: Vec<&CommandRecord> =
        log.iter().filter(|record| matches!(record.command, Command::Write(WriteCommand { fua: false, .. }))).collect();
    assert_eq!(writes.len(), 501);
    added("write", each("write"), mean_us(writes[..500].iter().copied()).1);
    let flushes: Vec<&CommandRecord> = log
        .iter()
        .filter(|record| matches!(record.command, Command::Flush { nsid } if nsid != NamespaceId::ALL))
        .collect();
    assert_eq!(flushes.len(), 501);
    let (count, fua_us) =
        mean_us(log.iter().filter(|record| matches!(record.command, Command::Write(WriteCommand { fua: true, .. }))));
    assert_eq!(count, 500);
    // A block device's file flushes after every synchronous write, FUA or not
    // (blkdev_write_iter of block/fops.c).
    let (_, flush_us) = mean_us(flushes[..500].iter().copied());
    added("FUA write and flush", each("fua"), fua_us + flush_us);
    let last: Nanos = [writes[500], flushes[500]].iter().map(|record| record.latency().unwrap()).sum();
    added("dd of one write and a flush", numbers(&outcome, "flush")[0], last.as_micros_f64());

    let (again, same_log) = logged(run, &script, &kernel);
    assert_eq!(again.text(), text, "two runs print the same digits");
    assert!(same_log == log, "and the device gets the same commands at the same times");
}

/// 32 at a time, by fio.
#[test]
fn many_requests_at_a_time_take_what_the_device_says() {
    let Some(kernel) = kernel() else { return };
    if !has("fio") {
        return;
    }
    let script = "fio --name=j --thread --filename=$PLUMB_DEVICE --direct=1 --ioengine=io_uring --iodepth=32 \
        --rw=randread --bs=4k --number_ios=1000 --size=256m --randrepeat=1 --output-format=terse --terse-version=3";
    let (outcome, log) = logged(ublk("samsung-980pro-1tb"), script, &kernel);
    let text = outcome.text();
    let terse = text.lines().find(|line| line.starts_with("3;")).unwrap_or_else(|| panic!("{text}"));
    // fio(1), TERSE OUTPUT: the mean of completion latency in microseconds is field 16.
    let fields: Vec<&str> = terse.split(';').collect();
    let seen_us: f64 = fields[15].parse().unwrap();
    let (count, modelled_us) =
        mean_us(log.iter().rev().filter(|record| matches!(record.command, Command::Read { .. })).take(1000));
    assert_eq!(count, 1000);
    added("read at depth 32", seen_us, modelled_us);
}

/// Finish and reset of a zone by how much of it is written, against the device model, and as a
/// check of the whole way against the measurements of the drive that the profile was fitted to.
#[test]
fn zones_are_finished_and_reset_as_the_drive_does_it() {
    let Some(kernel) = kernel() else { return };
    if !has("blkzone") {
        return;
    }
    // Blocks of 4 KiB; mean latencies of crates/ssd/tests/data/zn540 in microseconds.
    let mut cases = vec![("finish", 1, 907_636.0), ("finish", 34_464, 793_507.0)];
    cases.extend([("reset", 1, 1_660.5), ("reset", 17_232, 5_138.1), ("reset", 34_464, 6_852.0)]);
    if is_long() {
        cases.extend([("finish", 68_928, 681_514.2), ("finish", 137_856, 456_978.1)]);
        cases.extend([("reset", 68_928, 8_670.1), ("reset", 137_856, 12_192.0), ("reset", 275_712, 16_939.8)]);
    }
    let mut script = format!(
        "{TIMED}
        zone_sectors=$(cat /sys/block/ublkb0/queue/chunk_sectors)
        occupy() {{ # ZONE BLOCKS
            local large=$(( $2 / 256 )) rest=$(( $2 % 256 )) first=$(( $1 * zone_sectors / 8 ))
            [ $large = 0 ] || dd if=/dev/zero of=$PLUMB_DEVICE bs=1M count=$large seek=$(( first / 256 )) \
                oflag=direct conv=notrunc status=none
            [ $rest = 0 ] || dd if=/dev/zero of=$PLUMB_DEVICE bs=4k count=$rest seek=$(( first + large * 256 )) \
                oflag=direct conv=notrunc status=none
        }}
        manage() {{ # ACTION BLOCKS ZONE
            occupy $3 $2
            sleep 1
            timed blkzone $1 -o $(( $3 * zone_sectors )) -c 1 $PLUMB_DEVICE
            echo $1-$2 $took
            # Contents of the zone go, and the device comes to rest.
            blkzone reset -o $(( $3 * zone_sectors )) -c 1 $PLUMB_DEVICE
            sleep 1
        }}\n"
    );
    for (zone, (action, blocks, _)) in cases.iter().enumerate() {
        script += &format!("manage {action} {blocks} {zone}\n");
    }
    let (outcome, log) = logged(ublk("wd-zn540"), &script, &kernel);
    for (zone, (action, blocks, published_us)) in cases.iter().enumerate() {
        let seen_us = numbers(&outcome, &format!("{action}-{blocks}"))[0];
        let wanted = if *action == "finish" { ZoneSendAction::Finish } else { ZoneSendAction::Reset };
        let record = log.iter().find(|record| {
            matches!(record.command, Command::ZoneManagementSend { start, action, all: false, .. }
                if action == wanted && start.0 == zone as u64 * 524_288)
        });
        let modelled_us = record.unwrap().latency().unwrap().as_micros_f64();
        added(&format!("{action} at {blocks} blocks"), seen_us, modelled_us);
        let error = (seen_us - published_us) / published_us;
        assert!(error.abs() < 0.15, "{action} at {blocks} blocks: {seen_us} us, measured on the drive {published_us}");
    }
}

/// A zoned disk's limits and writes, by tools that know zones.
#[test]
fn zone_tools_find_the_device_s_zones() {
    let Some(kernel) = kernel() else { return };
    if !has("blkzone") || !has("fio") {
        return;
    }
    let script = r#"
        cd /sys/block/ublkb0/queue; cat zoned nr_zones max_open_zones max_active_zones zone_append_max_bytes
        z=$(cat chunk_sectors); cd /
        state() { blkzone report -o $(( $1 * z )) -c 1 $PLUMB_DEVICE | grep -o 'zcond:..(..' | cut -d '(' -f 2; }
        blkzone report $PLUMB_DEVICE | wc -l
        blkzone open -o 0 -c 1 $PLUMB_DEVICE; state 0
        blkzone close -o 0 -c 1 $PLUMB_DEVICE; state 0
        dd if=/dev/zero of=$PLUMB_DEVICE bs=64k count=1 seek=$(( z / 128 )) oflag=direct status=none; state 1
        blkzone finish -o $z -c 1 $PLUMB_DEVICE; state 1
        dd if=/dev/zero of=$PLUMB_DEVICE bs=64k count=1 seek=$(( z / 128 )) oflag=direct status=none 2>/dev/null || echo refused
        blkzone reset $PLUMB_DEVICE; state 1
        fio --name=z --thread --filename=$PLUMB_DEVICE --direct=1 --zonemode=zbd --rw=randwrite --bs=64k --size=16m \
            --max_open_zones=8 --ioengine=io_uring --iodepth=4 --verify=crc32c --verify_fatal=1 --output=/dev/null && echo verified
    "#;
    let mut run = ublk("wd-zn540");
    for setting in ["namespaces=[40]", "zone.size=\"16MiB\"", "zone.capacity=\"12MiB\"", "geometry.pages_per_block=12"]
    {
        run.settings.push(setting.to_owned());
    }
    let outcome = succeed(&run, script, &kernel);
    assert_eq!(
        outcome.text(),
        "host-managed\n40\n14\n14\n262144\n40\noe\ncl\noi\nfu\nrefused\nem\nverified\n",
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}

/// Without power a disk fails everything, and works again after.
#[test]
fn a_power_cut_is_an_input_output_error() {
    let Some(kernel) = kernel() else { return };
    let mut run = ublk("samsung-980pro-1tb");
    run.serve_arguments = vec!["--control".into(), "unix:/dev/shm/control".into()];
    let script = r#"
        control() { "$PLUMB" control unix:/dev/shm/control "$@" > /dev/null; }
        try() { dd if=$PLUMB_DEVICE of=/dev/null bs=4k count=1 iflag=direct status=none 2>&1 | grep -o 'Input/output error' || echo fine; }
        try
        control power-cut --survive none --off
        try; try
        control power-on
        try
    "#;
    let outcome = succeed(&run, script, &kernel);
    assert_eq!(outcome.text(), "fine\nInput/output error\nInput/output error\nfine\n", "{}", outcome.log);
}

/// A number that is taken, a server that is killed, and one that stops under a mounted file system.
#[test]
fn disks_come_and_go_in_order() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let script = r#"
        cd /dev/shm
        serve() { # LOG
            "$PLUMB" serve --device samsung-980pro-1tb --ublk 5 --no-calibration --image image > $1 2>&1 &
            server=$!
            for n in {1..50}; do ! grep -q '^ready at /dev/ublkb5' $1 || return 0; sleep 0.05; done
            cat $1; exit 9
        }
        serve first
        "$PLUMB" serve --device samsung-980pro-1tb --ublk 5 --no-calibration > second 2>&1 && exit 8
        grep -o 'is served by process' second
        kill -9 $server; wait $server || true
        serve third
        grep -o 'was left behind by a server that was killed' third
        mkfs.ext4 -q -E nodiscard /dev/ublkb5 64M
        mkdir -p mounted; mount /dev/ublkb5 mounted
        echo kept > mounted/file
        kill -TERM $server; wait $server && echo ended
        grep -o 'is mounted on /dev/shm/mounted' third
        umount mounted
        [ ! -e /dev/ublkb5 ] && [ ! -e /dev/ublkc5 ] && echo gone
        serve fourth
        mount /dev/ublkb5 mounted; cat mounted/file; umount mounted
        kill -TERM $server; wait $server && echo ended
    "#;
    let outcome = succeed(&ublk("samsung-980pro-1tb"), script, &kernel);
    assert_eq!(
        outcome.text(),
        "is served by process\nwas left behind by a server that was killed\nended\n\
         is mounted on /dev/shm/mounted\ngone\nkept\nended\n",
        "{}",
        outcome.log
    );
}
