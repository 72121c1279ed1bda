//! What becomes of ext4 with ordered writes where the device fails, is reset, has few streams, or keeps no order any more.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use std::collections::BTreeSet;

use linux_rig::{has, kernel_with_streams};
use nvme::{Command, StreamAction};
use ordering_rig::commands::{assert_counts, controlled, during, ext4, flushes, forced, logged, ordered, table};
use ssd::command_log::CommandRecord;

const ORDERING: &str = "streams:task,counted";
/// Each makes its file longer and waits for it.
const APPENDS: &str = "for i in $(seq 20); do echo $i >> other; sync other; done; echo appends $(wc -l < other)";
const FSYNCS: usize = 20;
/// After a stream broke: that which finds it, and that which runs meanwhile.
const COMMITS_WITHOUT_ORDER: usize = 2;

/// Streams that are opened, in order.
fn opened(records: &[CommandRecord]) -> usize {
    records
        .iter()
        .filter(|record| {
            matches!(record.command, Command::StreamManagement { action: StreamAction::Open { .. }, .. })
                && record.status.is_some_and(|status| status.is_success())
        })
        .count()
}

/// The most that were open at once, and those that are at the end.
fn open_streams(records: &[CommandRecord]) -> (usize, usize) {
    let (mut open, mut most) = (BTreeSet::new(), 0);
    for record in records.iter().filter(|record| record.status.is_some_and(|status| status.is_success())) {
        if let Command::StreamManagement { stream, action, .. } = &record.command {
            match action {
                StreamAction::Open { .. } => open.insert(stream.0),
                StreamAction::Close => open.remove(&stream.0),
            };
            most = most.max(open.len());
        }
    }
    (most, open.len())
}

#[test]
fn an_error_of_data_is_reported_and_order_comes_back() {
    let Some(kernel) = kernel_with_streams() else { return };
    if !has("perl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Data that is overwritten and synced: nothing else is under way.
    let script = format!(
        "head -c 65536 /dev/zero > file; sync
         control inject error write-fault --operation write --times 1
         perl -e 'open(F, \"+<\", \"file\"); syswrite(F, \"x\" x 4096); syscall(75, fileno(F)) == 0 or exit 1' && echo unreported
         {APPENDS}
         dmesg | grep -ci abort || true"
    );
    let (outcome, records) = logged(&controlled(ORDERING, &script), &kernel, folder.path());
    let said = outcome.text();
    assert!(said.contains("appends 20") && !said.contains("unreported"), "{said}");
    assert_eq!(said.lines().last(), Some("0"), "{said}");
    // What was opened anew takes the place of what is closed.
    let is_closed = |record: &CommandRecord| {
        matches!(record.command, Command::StreamManagement { action: StreamAction::Close, .. })
    };
    let closed = records.iter().position(is_closed).unwrap();
    let after = &records[closed..];
    // The commit that finds the stream broken and the one that runs meanwhile are made without order, and no other.
    let without_order = forced(&during(&outcome, records.clone()));
    assert!(without_order <= COMMITS_WITHOUT_ORDER, "{}", table(&records));
    assert!(ordered(after).len() > 2 * FSYNCS, "{}", table(after));
}

/// A file that becomes longer is data, journal and record under way at once: the first, second or third write of these fails, and the
/// stream takes nothing that arrives behind it. Before each, commits find the stream broken and order comes back.
#[test]
fn an_error_under_a_commit_aborts_no_journal() {
    let Some(kernel) = kernel_with_streams() else { return };
    if !has("perl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        ": > kept
         for nth in 1 2 3; do
             for i in 1 2 3; do echo $i >> first; sync first; done
             control inject error write-fault --operation write --nth $nth --times 1
             perl -e 'use IO::Handle; open(F, \">\", \"new$ARGV[0]\") or die $!; syswrite(F, \"x\" x 65536) == 65536 or die $!;
                 exit !F->sync' $nth && echo $nth >> kept
         done
         {APPENDS}
         echo 3 > /proc/sys/vm/drop_caches; cat first | wc -l
         for n in $(cat kept); do cmp -n 65536 new$n /tmp/x || echo lost $n; done
         dmesg | grep -ci abort || true"
    );
    let script = format!("yes x | tr -d '\\n' | head -c 65536 > /tmp/x; {script}");
    let (outcome, records) = logged(&controlled(ORDERING, &script), &kernel, folder.path());
    assert_eq!(outcome.text(), "appends 20\n9\n0\n", "{}", table(&records));
    // Each of the three commits ends without order, and no other does but those that find the stream broken.
    let without_order = forced(&during(&outcome, records.clone()));
    assert!((3..=3 * (1 + COMMITS_WITHOUT_ORDER)).contains(&without_order), "{}", table(&records));
}

/// In a reset, eight times over, what is under way fails: data is said to be lost, or is there, and the journal goes on.
#[test]
fn a_reset_under_commits_aborts_no_journal() {
    let Some(kernel) = kernel_with_streams() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "for task in 1 2 3; do (for i in $(seq 150); do echo $i >> load$task; sync load$task || echo $task.$i >> lost; done) & done
         for n in 1 2 3 4 5 6 7 8; do
             sleep 0.01$n; echo 1 > /sys/class/nvme/nvme0/reset_controller
             until grep -q live /sys/class/nvme/nvme0/state; do sleep 0.001; done
         done
         wait
         cat load? | wc -l
         {APPENDS}
         dmesg | grep -ci abort || true"
    );
    let (outcome, records) = logged(&ext4(ORDERING).script(&script), &kernel, folder.path());
    assert_eq!(outcome.text(), "450\nappends 20\n0\n", "{}", table(&records));
    // Something was under way.
    assert!(
        records.iter().any(|record| record.completed_at.is_none() || !record.status.is_some_and(|s| s.is_success()))
    );
    assert!(opened(&records) >= 2, "{}", table(&records));
}

#[test]
fn after_a_reset_streams_are_opened_again() {
    let Some(kernel) = kernel_with_streams() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "echo 0 > other; sync
         for i in 1 2 3; do echo $i >> before; sync before; done
         echo reset > /tmp/now; echo 1 > /sys/class/nvme/nvme0/reset_controller
         until grep -q live /sys/class/nvme/nvme0/state; do sleep 0.01; done
         {APPENDS}
         wc -l < before; dmesg | grep -ci abort || true"
    );
    let (outcome, records) = logged(&ext4(ORDERING).script(&script), &kernel, folder.path());
    let said = outcome.text();
    assert!(said.contains("appends 21\n3\n0"), "{said}");
    // Before and after it: the journal's, at least.
    assert!(opened(&records) >= 2, "{}", table(&records));
    let records = during(&outcome, records);
    let without_order = forced(&records);
    assert!((1..=COMMITS_WITHOUT_ORDER).contains(&without_order) && flushes(&records) >= FSYNCS, "{}", table(&records));
    assert!(ordered(&records).len() > 2 * FSYNCS, "{}", table(&records));
}

#[test]
fn with_few_streams_tasks_take_turns_or_share_the_journals() {
    let Some(kernel) = kernel_with_streams() else { return };
    for streams in [1, 2, 4] {
        let folder = tempfile::tempdir().unwrap();
        let mut run = ext4(ORDERING);
        run.settings = vec![format!("order_tables.streams={streams}")];
        let (outcome, records) = logged(&run.script(APPENDS), &kernel, folder.path());
        assert!(outcome.text().contains("appends 20"), "{}", outcome.text());
        assert_counts(&records);
        let (most, _) = open_streams(&records);
        assert_eq!(most, streams, "{}", table(&records));
        let dual = ordered(&records).iter().filter(|write| write.order.second.stream.0 != 0).count();
        assert_eq!(dual > 0, streams > 1, "{}", table(&records));
        let records = during(&outcome, records);
        assert_eq!(forced(&records), 0, "{}", table(&records));
    }
}

#[test]
fn epochs_that_are_open_when_it_is_unmounted_lose_nothing_nor_where_the_next_device_keeps_no_order() {
    let Some(kernel) = kernel_with_streams() else { return };
    if !has("perl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    // Data under way in the present epoch, and a barrier after which more is written; nothing of it is synced.
    let script = "for t in 1 2 3; do
        yes $t | head -c 400000 > file$t
        perl -e 'open(F, \"+<\", $ARGV[0]); syscall(277, fileno(F), 0, 0, 2); fcntl(F, 1039, 0) or die $!;
            syswrite(F, \"new $ARGV[0]\\n\"); syscall(277, fileno(F), 0, 0, 2);' file$t
    done; cat file? | cksum";
    let mut run = ext4(ORDERING);
    run.image = Some(image);
    let (first, records) = logged(&run.script(script), &kernel, folder.path());
    assert_counts(&records);
    let (most, left) = open_streams(&records);
    assert!(most >= 2 && left == 0, "{}", table(&records));
    let under_way = records.iter().filter(|record| record.completed_at.is_none()).count();
    assert_eq!(under_way, 0, "{}", table(&records));
    // The same again on a device that keeps no order.
    run.file_system_is_made = true;
    run.settings = vec!["order=\"none\"".into()];
    let script = format!("cat file? | cksum; {APPENDS}; dmesg");
    let (second, records) = logged(&run.script(&script), &kernel, folder.path());
    let said = second.text();
    assert_eq!(said.lines().next(), first.text().lines().last(), "{said}");
    assert!(said.contains("appends 20") && said.contains("falling back to flushes and FUA"), "{said}");
    assert_eq!((ordered(&records).len(), opened(&records)), (0, 0), "{}", table(&records));
}
