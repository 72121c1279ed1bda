//! ext4 with ordered writes on four processors that run at the same time, under lockdep and KASAN: the kernel says nothing, what is read
//! is what was written, and what an fsync acknowledged is there after the device lost its power.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{judge_long, run};
use conformance::plumb::{self, Profile};
use conformance::{Error, Guest, Kernel, host};

/// A drive that keeps order and leaves in its buffer what nobody flushes, and one log of acknowledged lines for each of four tasks.
const START: &str = r#"
limit_s=3000
nqn=nqn.2014-08.org.example:order
serve ssd --device samsung-980pro-1tb --set initial.fill=0 --set 'order="streams"' --set 'buffer.destage_after="60s"' --nvme-tcp tcp:4420 --nqn $nqn --control unix:/tmp/control
need attach attach $nqn --nr-io-queues=4 --ctrl-loss-tmo=600
device=$(fabric $nqn) controller=$(controller $nqn)
value processors $(grep -c ^processor /proc/cpuinfo)
tasks="1 2 3 4"
value queues $(cat /sys/class/nvme/${controller##*/}/queue_count)

# Lines to a log, each acknowledged when its fsync returned: log TASK LINES
log() {
    local n
    for ((n = 0; n < $2; n++)); do
        echo "$n" >>"/mnt/log$1" && sync "/mnt/log$1" && echo "$n" >>"/tmp/acknowledged$1" || return 0
    done
}

# The same without an fsync: early TASK LINES
early() {
    local n
    for ((n = 0; n < $2; n++)); do
        echo "$n" >>"/mnt/log$1" && echo "$n" >>"/tmp/acknowledged$1" || return 0
    done
}

# Every acknowledged line is there, in its place: kept [NAME OF THE FILES THAT HAVE THEM]
kept() {
    local task lines
    for task in $tasks; do
        lines=/tmp/${1:-acknowledged}$task
        [[ -e $lines ]] || continue
        cmp -n "$(stat -c %s "$lines")" "$lines" "/mnt/log$task" || return
    done
}

# Groups whose writes are told apart, where each is to have a stream.
control_groups() {
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || return
    echo "+io +memory" >/sys/fs/cgroup/cgroup.subtree_control
}

# This task is in a group of its own then: own_group TASK
own_group() {
    [[ $options == *order=cgroup* ]] || return 0
    mkdir -p "/sys/fs/cgroup/task$1" && echo "$BASHPID" >"/sys/fs/cgroup/task$1/cgroup.procs"
}

# Four tasks at once, of which each must succeed: all FUNCTION ARGUMENT
all() {
    local task pids=()
    for task in $tasks; do { own_group "$task" && "$1" "$task" "$2"; } & pids+=($!); done
    for task in "${pids[@]}"; do wait "$task" || return; done
}

# Files that are replaced, preallocated, written past the page cache and beside it: mixed TASK ROUNDS
mixed() {
    local n at=${place:-/mnt}/mixed$1
    mkdir -p "$at"
    for ((n = 0; n < $2; n++)); do
        dd if=/tmp/pattern of="$at/new" bs=4k count=10 conv=fsync status=none && mv "$at/new" "$at/file" && sync "$at" || return
        dd if=/tmp/pattern of="$at/direct" bs=4k count=4 seek=$((n % 5)) oflag=direct conv=notrunc status=none || return
        truncate -s $((n * 5000)) "$at/short" && sync "$at/direct" "$at/short" || return
    done
}

# They are what they are on a file system in memory: same_as_in_memory ROUNDS
same_as_in_memory() {
    local task
    mkdir -p /memory && mount -t tmpfs none /memory && place=/memory all mixed "$1" || return
    for task in $tasks; do diff -r "/memory/mixed$task" "/mnt/mixed$task" || return; done
    umount /memory
}

# One file of three tasks, which each write a block of it and acknowledge its number when an fsync has returned; the fourth has all of the
# file written back meanwhile, and waits for nothing. Numbers are larger after each cut, so that none is taken for an earlier one's:
# shared TASK NUMBERS
shared() {
    local n file=/mnt/shared
    for ((n = 10000 * cut; n < $2; n++)); do
        if (($1 == 4)); then
            dd if=/tmp/pattern of=$file bs=1M count=4 seek=1 conv=notrunc &&
                dd of=$file oflag=nocache conv=notrunc count=0
        else
            printf '%-4095d\n' $n | dd of=$file bs=4k seek=$((64 * $1)) iflag=fullblock conv=notrunc &&
                sync $file && echo $n >>"/tmp/acknowledged$1"
        fi 2>/tmp/said$1 || return 0
    done
}

# Each block of the file has the last number that was acknowledged, if any was, or a later one; otherwise the cut counts as one that
# lost something.
in_place() {
    local task found promised
    for task in 1 2 3; do
        [[ -s /tmp/promised$task ]] || continue
        promised=$(tail -n1 "/tmp/promised$task") && found=$(dd if=/mnt/shared bs=4k skip=$((64 * task)) count=1 status=none) || return
        echo "task $task: $promised was acknowledged, ${found%% *} is there"
        ((${found%% *} >= promised)) || { ((++lost)) && return; }
    done
}

fio_mixed() {
    fio --directory=/mnt --size=2m --verify=crc32c --verify_fatal=1 --bs=4k --randseed=1 \
        --name=synced --numjobs=3 --rw=randwrite --ioengine=psync --fsync=5 \
        --name=direct --rw=randwrite --ioengine=libaio --iodepth=8 --direct=1 --fallocate=none \
        --name=begun --rw=write --ioengine=psync --sync_file_range=write:4 --fdatasync=9
}

# Of stress-ng all that works on files, four at a time; what finds no room or no such call there is no fault (3, 4).
stressed() {
    mkdir /mnt/stress && stress-ng --class filesystem --sequential 4 --timeout 1s --temp-path /mnt/stress --seed 1 --verify
    local status=$?
    ((status == 0 || status == 3 || status == 4)) && rm -rf /mnt/stress
}

reset_under_load() {
    all log 20 &
    local load=$! n
    for n in 1 2 3; do
        sleep 0.3
        nvme reset "$controller" || return
        eventually 60 grep -q live "/sys/class/nvme/${controller##*/}/state" || return
    done
    wait "$load"
}

# Writes that nobody synchronises, sixteen under way, so that a cut finds some in the drive's buffer whoever was flushing
unsynced() {
    while fio --name=unsynced --filename=/mnt/unsynced --rw=randwrite --bs=4k --size=8m --ioengine=libaio --iodepth=16 --direct=1 \
        --fallocate=none --time_based --runtime=1000 >/dev/null 2>&1; do :; done
}

# The drive loses its power while four tasks write and synchronise and a fifth writes without: what was acknowledged before the cut is there
# when ext4 is mounted again. The seconds count from when the first has something acknowledged:
# lose_power FUNCTION SECONDS SURVIVORS [CHECK]
lose_power() {
    rm -f /tmp/acknowledged* /tmp/promised* /mnt/log* /mnt/unsynced
    sync -f /mnt
    unsynced &
    eventually 60 test -s /mnt/unsynced || return
    all "$1" 1000000 &
    eventually 300 test -s /tmp/acknowledged1 || return
    sleep "$2"
    local task
    for task in $tasks; do [[ ! -e /tmp/acknowledged$task ]] || cp "/tmp/acknowledged$task" "/tmp/promised$task"; done
    plumb control unix:/tmp/control power-cut --off --survive $3 || return
    nvme disconnect -n "$nqn" || return # otherwise the host tries to connect again for as long as it was told
    wait
    umount /mnt
    plumb control unix:/tmp/control power-on || return
    eventually 60 attach "$nqn" --nr-io-queues=4 || return
    device=$(fabric "$nqn")
    mount -t ext4 -o "$options" "$device" /mnt && ${4:-kept} promised && cat /tmp/promised* | wc -l
}

# How many cuts lose what was acknowledged of one file: cuts_of_one_file CUTS
cuts_of_one_file() {
    local cut lost=0
    dd if=/tmp/pattern of=/mnt/shared bs=1M count=5 status=none && sync || return
    for ((cut = 1; cut <= $1; cut++)); do
        lose_power shared 1 none in_place >&2 || return
    done
    echo $lost
}
"#;

/// What is done with one order.
const LOADS: &str = r#"
[[ $options != *order=cgroup* ]] || need $name-groups control_groups
check $name-mkfs mkfs.ext4 -q -F -E nodiscard -b 4096 $device 1g
need $name-mount mount -t ext4 -o $options $device /mnt
pattern
check $name-fio fio_mixed
check $name-mixed all mixed 6
check $name-same same_as_in_memory 6
check $name-stress stressed
check $name-log all log 20
check $name-kept kept
# What a group wrote is forgotten with the drive.
value $name-groups-used "$(grep -c wbytes=[1-9] /sys/fs/cgroup/task*/io.stat | grep -vc ':0$')"
check $name-reset reset_under_load
check $name-kept-after-resets kept
value $name-lines "$(cat /mnt/log? | wc -l)"
survivors="random --seed 1"
for after in 1 2.5; do
    check $name-cut-$after lose_power log $after "$survivors"
    survivors=none
    value $name-acknowledged-$after "$(cat /tmp/promised* | wc -l)"
done
value $name-lost-of-one-file "$(cuts_of_one_file 4)"
# Otherwise a machine that is slow enough has all of it written back before the cut.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
refused $name-early lose_power early 2 none
device=$(fabric $nqn)
check $name-unmount umount /mnt
check $name-fsck e2fsck -fn $device
value $name-locks "$(sed -n 's/ debug_locks: *//p' /proc/lockdep_stats)"
"#;

fn of_this_house(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn kernel() -> Result<Kernel, Error> {
    let mut recipe = linux::Recipe::for_pc(linux::ordering::KERNEL).unwrap();
    recipe.config(&of_this_house("linux/kernel/checks.config")).unwrap();
    match linux::Kernel::build(&recipe, &mut |_| ()) {
        Ok(kernel) => Ok(Kernel::built(kernel.program(), kernel.release())),
        Err(error @ (linux::LinuxError::MissingTools { .. } | linux::LinuxError::NoSource { .. })) => {
            Err(Error::Missing { what: "no kernel is built".to_owned(), remedy: error.to_string() })
        }
        Err(error) => panic!("{error}"),
    }
}

/// How many undecided writes survived a cut, and how many there were, by `plumb control`.
fn survivors(said: &str) -> (u64, u64) {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.iter().position(|&word| word == "undecided").unwrap_or_else(|| panic!("{said}"));
    (words[at - 3].parse().unwrap(), words[at - 1].parse().unwrap())
}

fn on_four_processors(name: &str, options: &str) -> Result<(), Error> {
    let kernel = kernel()?;
    let guest = Guest::new(&kernel)
        .program(plumb::program(Profile::Dev)?)
        .program(host::require("stress-ng", "stress-ng")?)
        .memory_mib(4096)
        .time_limit(Duration::from_secs(3600));
    let report = run(&guest, &format!("ordered-{name}"), &format!("{START}\nname={name} options={options}\n{LOADS}"))?;
    // Admin queue and one for each processor.
    assert_eq!((report.value("processors")?, report.value("queues")?), ("4", "5"));
    assert_eq!(report.value(&format!("{name}-locks"))?.trim(), "1", "lockdep gave up");
    let groups = if options.contains("order=cgroup") { "4" } else { "0" };
    assert_eq!(report.value(&format!("{name}-groups-used"))?.trim(), groups, "groups that wrote");
    // What is under way in a reset may fail, and is not acknowledged then: twenty lines of each task are from before. Each cut met some.
    assert!((80.0..=160.0).contains(&report.number(&format!("{name}-lines"))?));
    let mut lost = 0;
    for after in ["1", "2.5"] {
        let acknowledged = report.number(&format!("{name}-acknowledged-{after}"))?;
        let (survived, undecided) = survivors(&report.output(&format!("{name}-cut-{after}"))?);
        println!(
            "{name}: after {after} s {acknowledged} lines acknowledged, {survived} of {undecided} undecided writes survived the cut"
        );
        assert!(acknowledged > 0.0);
        lost += undecided - survived;
    }
    // Otherwise any drive would have passed.
    assert!(lost > 0, "neither cut lost a write");
    assert_eq!(report.value(&format!("{name}-lost-of-one-file"))?.trim(), "0", "cuts that lost what was acknowledged");
    // The check says so where lines are acknowledged without an fsync.
    let early = report.output(&format!("{name}-early"))?;
    assert!(
        ["EOF on /mnt/log", "differ: byte", "/mnt/log1: No such file"].iter().any(|said| early.contains(said)),
        "{early}"
    );
    Ok(())
}

#[test]
fn a_stream_for_each_task() {
    judge_long(|| on_four_processors("task", "order=task,order_epochs=counted"));
}

#[test]
fn a_stream_for_each_task_on_one_queue() {
    judge_long(|| on_four_processors("pinned", "order=task,order_epochs=pinned"));
}

#[test]
fn one_stream() {
    judge_long(|| on_four_processors("one", "order=one,order_epochs=counted"));
}

#[test]
fn a_stream_for_each_control_group() {
    judge_long(|| on_four_processors("cgroup", "order=cgroup,order_epochs=counted"));
}

/// The same of a kernel that was told of no order: it waits and flushes, and comes to the same.
#[test]
fn without_an_order() {
    judge_long(|| on_four_processors("off", "defaults"));
}
