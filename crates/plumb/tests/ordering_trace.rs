//! The published quick test: streams and epochs of an fsync's commands by the NVMe driver's tracepoints and by the device's log.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::Command as Process;

use linux::trace::{Commands, Row, Submitted};
use linux::{FileSystem, Kernel};
use nvme::{Closing, Command, Epoch, WriteCommand};

/// fio as published: 4 KiB at random places of 16 KiB, each with an fsync. Preallocated extents would be zeroed first.
const QUICK_TEST: &str = "fio --name=q --filename=f --rw=randwrite --bs=4k --size=16k --fsync=1 --ioengine=sync --fallocate=none \
    --output=/dev/null";
const FSYNCS: usize = 4;
const ORDERINGS: [&str; 4] =
    ["streams:task,pinned", "streams:task,counted", "streams:cgroup,counted", "streams:one,counted"];

fn traced(kernel: &Kernel, ordering: &str) -> Commands {
    let mut run = linux_rig::on("samsung-980pro-1tb");
    run.file_system = FileSystem::Ext4;
    run.file_system_bytes = Some(256 << 20);
    run.ordering = Some(ordering.parse().unwrap());
    run.submission_cpus = Some(linux::SubmissionCpus { count: 4, migrate_every: Some(3) });
    run.commands = true;
    let outcome = run.script(QUICK_TEST).run(kernel).unwrap();
    assert!(outcome.ended.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    outcome.commands.unwrap()
}

/// How many commits a run has of which data and descriptors come before the record: the last ordered write before a flush is the
/// record, in an epoch of the journal after all of what it commits.
fn commits(commands: &Commands) -> Result<usize, String> {
    let sent = || commands.rows.iter().filter_map(|row| row.kernel.as_ref());
    let writes = || sent().filter_map(|command| write(&command.command)).filter(|write| write.order.is_ordered());
    let journal = writes().next_back().map(|write| write.order.first.stream).ok_or("no ordered write")?;
    let epoch_of = |write: &WriteCommand| -> Result<Epoch, String> {
        let mut places = write.order.places().map(|(place, _)| place);
        let place = places.find(|place| place.stream == journal);
        place.map(|place| place.epoch).ok_or_else(|| format!("not in the journal's stream: {write:?}"))
    };
    let (mut found, mut pending) = (0, Vec::new());
    for command in sent() {
        match &command.command {
            // The superblocks of ext4 and of its journal are forced, and in no stream.
            Command::Write(write) if write.fua && write.order.is_ordered() => return Err(format!("forced: {write:?}")),
            Command::Write(write) if write.order.is_ordered() => pending.push(*write),
            Command::Flush { .. } => {
                let Some(record) = pending.pop() else { continue };
                if record.order.first.stream != journal || record.order.second.stream.0 != 0 {
                    return Err(format!("no record: {record:?}"));
                }
                for before in &pending {
                    if epoch_of(&record)?.since(epoch_of(before)?).is_none_or(|after| after <= 0) {
                        return Err(format!("{before:?} does not come before {record:?}"));
                    }
                }
                if pending.len() < 2 {
                    return Err(format!("a record of nothing: {record:?}"));
                }
                pending.clear();
                found += 1;
            }
            _ => {}
        }
    }
    Ok(found)
}

fn write(command: &Command) -> Option<&WriteCommand> {
    match command {
        Command::Write(write) => Some(write),
        _ => None,
    }
}

/// The same run with one write changed on the kernel's side: the first ordered one for which `which` holds.
fn changed(commands: &Commands, which: fn(&WriteCommand) -> bool, change: fn(&mut WriteCommand)) -> Commands {
    let mut commands = commands.clone();
    let mut sent = commands.rows.iter_mut().filter_map(|row| row.kernel.as_mut());
    let of = sent.find_map(|sent| match &mut sent.command {
        Command::Write(write) if write.order.is_ordered() && which(write) => Some(write),
        _ => None,
    });
    change(of.expect("a write of that kind"));
    commands
}

fn is_dual(write: &WriteCommand) -> bool {
    write.order.second.stream.0 != 0
}

#[test]
fn driver_and_device_have_the_same_rows_and_a_record_comes_last() {
    let Some(kernel) = linux_rig::kernel_with_streams() else { return };
    if !linux_rig::has("fio") {
        return;
    }
    for ordering in ORDERINGS {
        let commands = traced(&kernel, ordering);
        assert_eq!((commands.lost_events, commands.disagreement()), (0, None), "{ordering}");
        assert!(commits(&commands).unwrap() >= FSYNCS - 1, "{ordering}: {commands:#?}");
        let queues: std::collections::BTreeSet<u16> = sent(&commands).map(|sent| sent.queue.0).collect();
        assert!(queues.len() > 1, "{ordering}: all through {queues:?}");

        // What is changed on the way is found in its row, and what breaks the order of a commit is found as such.
        let later = changed(&commands, |_| true, |write| write.order.first.epoch = write.order.first.epoch.next());
        assert!(later.disagreement().is_some(), "{ordering}");
        let open = changed(&commands, |write| write.order.is_barrier(), |write| write.order.closing = Closing::None);
        assert!(open.disagreement().is_some(), "{ordering}");
        if sent(&commands).filter_map(|sent| write(&sent.command)).any(is_dual) {
            let alone = changed(&commands, is_dual, |write| write.order.second = Default::default());
            assert!(alone.disagreement().is_some() && commits(&alone).is_err(), "{ordering}");
            let late = changed(&commands, is_dual, |write| {
                write.order.second.epoch.0 = write.order.second.epoch.0.wrapping_add(9)
            });
            assert!(late.disagreement().is_some() && commits(&late).is_err(), "{ordering}");
        }
    }
}

fn sent(commands: &Commands) -> impl Iterator<Item = &Submitted> {
    commands.rows.iter().filter_map(|row: &Row| row.kernel.as_ref())
}

/// `plumb linux --commands`.
fn table(path: &Path, extra: &[&str]) -> std::process::Output {
    Process::new(linux_rig::PLUMB)
        .args(["linux", "--device", "samsung-980pro-1tb", "--fs", "ext4", "--commands"])
        .arg(path)
        .args(extra)
        .args(["--", "sh", "-c", "dd if=/dev/zero of=file bs=4k count=1 status=none && sync file"])
        .output()
        .unwrap()
}

#[test]
fn the_table_is_for_users_too() {
    if linux_rig::kernel_with_streams().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.json");
    let done = table(&path, &["--ordering", "streams:task"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((report["agree"].as_bool(), report["lost_events"].as_u64()), (Some(true), Some(0)));
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["seen_by"] == "both"), "{report:#}");
    assert!(rows.iter().any(|row| row["stream_2"] != 0), "{report:#}");
    assert!(rows.iter().any(|row| row["barrier"] == true && row["count_1"] != 0), "{report:#}");

    let done = table(&path, &["--front-end", "ublk"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("choose nvme-tcp"), "{said}");
}
