//! Order of writes from ext4 through the kernel `order` to the device, judged by the commands that the device got.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use std::path::Path;

use linux::{FrontEnd, Kernel};
use nvme::{Closing, Command, WriteCommand};
use ordering_rig::commands::{DEVICE, assert_counts, during, ext4, flushes, forced, logged, ordered, table, write};
use ssd::command_log::CommandRecord;

/// Each makes its file longer, so that each fsync has a commit.
const APPENDS: &str = "for i in $(seq 20); do dd if=/dev/zero bs=4k count=1 status=none >> file && sync file; done";
const FSYNCS: usize = 20;
/// Flushes of writing back, when the command has ended.
const AT_THE_END: usize = 1;

#[test]
fn the_kernels_own_tests_pass() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let mut run = linux_rig::on_memory();
    run.kernel_parameters = vec!["kunit.enable=1".into()];
    let outcome = run.script("dmesg").run(&kernel).unwrap();
    let said = outcome.text();
    let tests = said.lines().filter(|line| line.contains("    ok ")).count();
    assert!(said.contains("ok 1 blk-order") && !said.contains("not ok") && tests >= 10, "{said}");
}

#[test]
fn tasks_submit_through_queues_of_their_own_and_move_by_the_seed() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let queues = |migrate_every, seed| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = linux_rig::on(DEVICE);
        run.front_end = FrontEnd::NvmeTcp;
        run.submission_cpus = Some(linux::SubmissionCpus { count: 4, migrate_every });
        run.seed = seed;
        let run = run.script("dd if=/dev/zero of=$PLUMB_DEVICE bs=4k count=64 oflag=direct status=none");
        let (outcome, records) = logged(&run, &kernel, folder.path());
        let records = during(&outcome, records);
        records.iter().filter(|record| write(record).is_some()).map(|record| record.queue.0).collect::<Vec<_>>()
    };
    let still = queues(None, 1);
    assert_eq!((still.len(), still.iter().collect::<std::collections::BTreeSet<_>>().len()), (64, 1), "{still:?}");
    let moving = queues(Some(5), 1);
    assert_eq!(moving.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{moving:?}");
    assert_eq!(moving, queues(Some(5), 1));
    assert_ne!(moving, queues(Some(5), 2));
}

#[test]
fn a_commit_is_one_flush_with_nothing_forced() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    for ordering in ["streams:task,counted", "streams:cgroup", "streams:one", "streams:task,pinned"] {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, records) = logged(&ext4(ordering).script(APPENDS), &kernel, folder.path());
        assert_counts(&records);
        let records = during(&outcome, records);
        assert_eq!((forced(&records), flushes(&records)), (0, FSYNCS + AT_THE_END), "{ordering}\n{}", table(&records));
        assert!(ordered(&records).len() >= 3 * FSYNCS, "{ordering}\n{}", table(&records));
        let dual = ordered(&records).iter().filter(|write| write.order.second.stream.0 != 0).count();
        assert_eq!(dual > 0, ordering != "streams:one", "{ordering}\n{}", table(&records));
        let arrival = ordered(&records).iter().any(|write| write.order.closing == Closing::ByArrival);
        assert_eq!(arrival, ordering.ends_with("pinned"), "{ordering}");
    }
}

/// What says fsync goes on at once, and all is there: in files, in a folder, and when it is read.
#[test]
fn an_fsync_as_a_barrier_waits_for_nothing() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let script = format!(
        "head -c {bytes} /dev/zero > file; sync; for i in $(seq 0 {last}); do \
         dd if=/dev/zero of=file bs=4k seek=$i count=1 conv=notrunc,fdatasync status=none; done; mkdir new; sync new .; wc -c < file",
        bytes = FSYNCS * 4096,
        last = FSYNCS - 1
    );
    let took = |ordering: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, records) = logged(&ext4(ordering).script(&script), &kernel, folder.path());
        assert_counts(&records);
        assert_eq!(outcome.text().trim(), (FSYNCS * 4096).to_string(), "{ordering}");
        assert_eq!(forced(&during(&outcome, records)), 0, "{ordering}");
        outcome.done - outcome.began
    };
    let (durable, barrier) = (took("streams"), took("streams,fsync-as-barrier"));
    println!("{FSYNCS} blocks: {durable} with fdatasync, {barrier} with a barrier in its place");
    assert!(barrier.0 * 2 < durable.0, "{barrier} is no better than {durable}");
}

#[test]
fn data_and_descriptors_come_before_the_commit_record() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    if !linux_rig::has("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Preallocated extents are zeroed beside the order, which costs the first commit its own.
    let run = ext4("streams:task,counted").script(
        "fio --name=q --filename=f --rw=randwrite --bs=4k --size=16k --fsync=1 --ioengine=sync --fallocate=none \
         --output=/dev/null",
    );
    let (outcome, records) = logged(&run, &kernel, folder.path());
    let records = during(&outcome, records);
    println!("{}", table(&records));
    let writes = ordered(&records);
    let journal = writes.iter().map(|write| write.order.second.stream).find(|stream| stream.0 != 0).unwrap();
    let epoch = |write: &WriteCommand| {
        let order = &write.order;
        if order.first.stream == journal { order.first.epoch } else { order.second.epoch }
    };
    let last_of_descriptors = |write: &&&WriteCommand| write.order.first.stream == journal && write.order.is_barrier();
    let mut commits = Vec::new();
    for last in writes.iter().filter(last_of_descriptors) {
        // The log is written from front to back: the record is behind them.
        let behind = last.range.start.0 + u64::from(last.range.count);
        let record = writes.iter().position(|write| write.range.start.0 == behind).expect("a commit record");
        assert_eq!(epoch(writes[record]).0, epoch(last).0 + 1, "{}", table(&records));
        for before in &writes[..record] {
            assert!(epoch(before).0 < epoch(writes[record]).0, "{}", table(&records));
        }
        let is_record = |record: &CommandRecord| write(record).is_some_and(|write| write.range.start.0 == behind);
        commits.push(records.iter().position(is_record).unwrap());
    }
    // The last is of writing back, when the command has ended.
    assert!(commits.len() >= 3, "{}", table(&records));
    for pair in commits.windows(2) {
        assert_eq!(flushes(&records[pair[0]..pair[1]]), 1, "{}", table(&records));
    }
    assert_counts(&records);
}

#[test]
fn a_device_without_order_is_named_and_flushed() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut run = ext4("streams");
    run.settings = vec!["order=\"none\"".into()];
    let (outcome, records) = logged(&run.script(&format!("{APPENDS}; dmesg")), &kernel, folder.path());
    assert!(outcome.text().contains("falling back to flushes and FUA"), "{}", outcome.text());
    let records = during(&outcome, records);
    assert_eq!((forced(&records), ordered(&records).len()), (FSYNCS, 0), "{}", table(&records));
}

/// Stock ext4 asks for a record with FUA, and the block layer makes a flush of that.
#[test]
fn a_drive_without_fua_is_flushed_after_each_record() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let sent = |setting: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = ext4("");
        run.front_end = FrontEnd::Ublk;
        run.settings = vec![setting.into()];
        let (outcome, records) = logged(&run.script(APPENDS), &kernel, folder.path());
        let records = during(&outcome, records);
        (forced(&records), flushes(&records))
    };
    assert_eq!(sent("controller.without_fua=false"), (FSYNCS, FSYNCS + AT_THE_END));
    assert_eq!(sent("controller.without_fua=true"), (0, 2 * FSYNCS + AT_THE_END));
}

#[test]
fn a_barrier_for_data_flushes_nothing() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    if !linux_rig::has("perl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // F_BARRIERFDATASYNC of blocks that are there.
    let script = "dd if=/dev/zero of=file bs=4k count=8 status=none; sync\n\
        perl -e 'open(F, \"+<\", \"file\"); for $i (0..7) { sysseek(F, $i << 12, 0); syswrite(F, \"x\" x 4096);\n\
        fcntl(F, 1040, 0) or die $!; }'";
    let (outcome, records) = logged(&ext4("streams:task").script(script), &kernel, folder.path());
    assert_counts(&records);
    let records = during(&outcome, records);
    // Each write of the loop ends its epoch, or is on flash before the next is given to the device.
    let is_dual = |record: &CommandRecord| write(record).is_some_and(|write| write.order.second.stream.0 != 0);
    let first = records.iter().position(|record| is_dual(record) && write(record).unwrap().order.is_barrier()).unwrap();
    let (mut barriers, mut calls, mut is_ended) = (0, 0, true);
    for record in &records[first..] {
        if is_dual(record) {
            assert!(is_ended, "{}", table(&records));
            is_ended = write(record).unwrap().order.is_barrier();
            (calls, barriers) = (calls + 1, barriers + usize::from(is_ended));
        } else if matches!(record.command, Command::Flush { .. }) {
            is_ended = true;
        }
    }
    assert!(calls == 8 && barriers >= 7, "{barriers} of {calls}\n{}", table(&records));
}

#[test]
fn numbers_of_epochs_begin_again() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut run = ext4("streams:task");
    run.kernel_parameters = vec!["blk_order.first_epoch=65526".into()];
    let (outcome, records) = logged(&run.script(APPENDS), &kernel, folder.path());
    assert_counts(&records);
    let records = during(&outcome, records);
    let epochs: Vec<u16> = ordered(&records).iter().map(|write| write.order.first.epoch.0).collect();
    assert!(epochs.contains(&65535) && epochs.contains(&0), "{epochs:?}");
    assert_eq!((forced(&records), flushes(&records)), (0, FSYNCS + AT_THE_END), "{}", table(&records));
}

#[test]
fn without_an_order_the_kernel_does_what_the_plain_one_does() {
    if !linux_rig::is_long() {
        println!("skipped: slow; PLUMB_LONG=1 runs it");
        return;
    }
    let (Some(with), Some(without)) = (linux_rig::kernel_with_streams(), linux_rig::kernel()) else { return };
    // No folders: where they go is drawn by lot, and each kernel draws its own.
    let script = format!("{APPENDS}; dd if=/dev/zero of=big bs=1M count=40 conv=fsync status=none; sync");
    for front_end in [FrontEnd::NvmeTcp, FrontEnd::Ublk] {
        let of = |kernel: &Kernel| {
            let folder = tempfile::tempdir().unwrap();
            let mut run = ext4("");
            run.front_end = front_end;
            let (outcome, _) = logged(&run.script(&script), kernel, folder.path());
            let log = std::fs::read_to_string(folder.path().join("commands.tsv")).unwrap();
            (outcome.began, outcome.done, outcome.device, log)
        };
        let (plain, patched) = (of(&without), of(&with));
        assert!(plain == patched, "{front_end}: the kernels differ");
    }
}

/// Three tasks, each of which makes a file longer, waits for it, says so, and renames it there and back.
const MAILS: &str = "for t in 1 2 3; do (for i in 1 2 3 4 5 6; do dd if=/dev/urandom bs=4k count=3 status=none >> f$t; \
    sync f$t; echo $t.$i > $PLUMB_ACKNOWLEDGE; mv f$t x$t; mv x$t f$t; done) & done; wait";

/// Status and summary of `plumb crash` with that order, on a device with that setting.
fn cut(ordering: &str, setting: &str, folder: &Path) -> (i32, String) {
    let done = std::process::Command::new(linux_rig::PLUMB)
        .args(["crash", "--ordering", ordering, "--migrate-every", "3", "--set", setting, "--states", "400"])
        .args(["--show", "0", "--out"])
        .arg(folder)
        .args(["--", "sh", "-c", MAILS])
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (done.status.code().unwrap(), said)
}

#[test]
fn a_power_cut_leaves_nothing_bad_and_a_device_that_ignores_the_order_is_found_out() {
    if linux_rig::kernel_with_streams().is_none() || !linux_rig::has("mkfs.ext4") {
        return;
    }
    for ordering in ["streams:task,counted", "streams:task,pinned", "streams:one,counted"] {
        let folder = tempfile::tempdir().unwrap();
        let (status, said) = cut(ordering, "order=\"streams\"", &folder.path().join("kept"));
        assert_eq!(status, 0, "{ordering}: {said}");
        assert!(said.contains("all good") && said.contains("survives: streams; 18 acknowledged"), "{said}");
        let (status, said) = cut(ordering, "order=\"ignored\"", &folder.path().join("ignored"));
        assert_eq!(status, 1, "{ordering}: {said}");
        assert!(said.contains("bad by the kernel's mount") && said.contains("survives: volatile-cache"), "{said}");
    }
}
