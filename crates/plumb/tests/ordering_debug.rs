//! ext4 with ordered writes on a kernel that proves the order of its locks (lockdep), finds out who sleeps where nobody may, and watches
//! its memory (KASAN): under load it says nothing. With `PLUMB_LONG` it is built; so is one for each defect of `ordering_debug/`, of which
//! it must say something.
#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use linux::{Charges, Kernel, Linux, Recipe, SubmissionCpus};
use linux_rig::{PLUMB, has, is_long};
use ordering_rig::commands::ext4;
use ordering_rig::reduced;

/// What the kernel says where it finds a fault.
const SPLATS: [&str; 5] = ["BUG:", "WARNING:", "INFO: possible", "INFO: task", "Kernel panic"];
/// What it says with any series, and without one: TCP takes a packet of the first microsecond for one that has no time
/// (`tcp_clean_rtx_queue`), and where the processor costs nothing the device is connected in that.
const KNOWN: &str = "at net/ipv4/tcp_input.c:3405 tcp_ack";

/// What fio reads back must be what it wrote: past the page cache, through it, and mapped.
const VERIFIED: &str = "fio --output=/dev/null --size=3m --verify=crc32c --verify_fatal=1 --bs=4k --bs_unaligned=0 --randseed=1 \
    --name=synced --numjobs=2 --rw=randwrite --ioengine=psync --fsync=5 \
    --name=mapped --rw=randwrite --ioengine=mmap --fsync=16 \
    --name=direct --rw=randwrite --ioengine=psync --direct=1 --fallocate=none \
    --name=begun --rw=write --ioengine=psync --sync_file_range=write:4 --fdatasync=9 && echo done";

/// Three tasks that make files longer while the controller is reset.
const RESETS: &str = "for task in 1 2 3; do (for i in $(seq 60); do echo $i >> load$task; sync load$task; done) & done
    for n in 1 2 3 4; do
        sleep 0.01$n; echo 1 > /sys/class/nvme/nvme0/reset_controller
        until grep -q live /sys/class/nvme/nvme0/state; do sleep 0.001; done
    done
    wait; cat load? | wc -l | grep -qx 180 && echo done";

/// Tasks that come and go, so that streams are opened and closed, before a reset and after it.
const SHORT_LIVED: &str = "for n in 1 2; do
        for i in 1 2 3 4 5 6 7 8; do (echo $i >> short$i; sync short$i) & done; wait
        echo 1 > /sys/class/nvme/nvme0/reset_controller
        until grep -q live /sys/class/nvme/nvme0/state; do sleep 0.001; done
    done; echo done";

/// Preallocated and direct writes, which are reported to the journal, beside commits.
const UNORDERED: &str = "for i in 1 2 3 4 5 6; do
        fallocate -l 32768 p$i; dd if=/dev/zero of=p$i bs=4096 count=1 seek=3 conv=notrunc,fsync status=none
        dd if=/dev/zero of=d$i bs=4096 count=2 oflag=direct status=none; sync d$i
    done; echo done";

/// Of stress-ng's file system class what changes files and folders; counted, as a second of virtual time is long where calls cost little.
const STRESSORS: &str =
    "for name in fallocate fpunch copy-file hdd iomix sync-file rename dirmany xattr touch fsize flock utime chmod; do
        stress-ng --$name 1 --$name-ops 10 --timeout 20s --temp-path . --seed 1 > said 2>&1 || { cat said; exit 1; }
    done; echo done";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ordering_debug")
}

/// The kernel, with a defect if one is named.
fn kernel(defect: Option<&str>) -> Option<Kernel> {
    if !is_long() {
        println!("skipped: it builds a kernel; PLUMB_LONG=1 runs it");
        return None;
    }
    if !["fio", "stress-ng", "mkfs.ext4"].into_iter().all(has) {
        return None;
    }
    let mut recipe = Recipe::named(linux::ordering::KERNEL).unwrap();
    recipe.config(&reduced()).unwrap();
    recipe.config(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../linux/kernel/checks.config")).unwrap();
    if let Some(defect) = defect {
        recipe.patch(&folder().join(defect).with_extension("patch")).unwrap();
    }
    Some(Kernel::build(&recipe, &mut |_| ()).unwrap())
}

/// A load whose tasks move between submission queues.
fn load(ordering: &str, script: &str) -> Linux {
    let mut run = ext4(ordering);
    run.submission_cpus = Some(SubmissionCpus { count: 4, migrate_every: Some(3) });
    run.script(&format!("{{ {script}\n}}; grep debug_locks /proc/lockdep_stats"))
}

/// What the kernel complains of.
fn splats(kernel: &Kernel, run: &Linux) -> Vec<String> {
    let outcome = run.run(kernel).unwrap();
    let said = outcome.text();
    let is_splat = |line: &&str| SPLATS.iter().any(|splat| line.contains(splat)) && !line.contains(KNOWN);
    let found: Vec<String> = outcome.log.lines().filter(is_splat).map(str::to_owned).collect();
    if found.is_empty() {
        // It did what it should, and lockdep was there to the end.
        assert!(said.contains("done") && outcome.ended.success(), "{said}\n{}", outcome.log);
        assert_eq!(said.split_whitespace().last(), Some("1"), "{said}");
    } else {
        println!("{}", outcome.log);
    }
    found
}

fn says_nothing(run: impl Fn(&str) -> Linux) {
    let Some(kernel) = kernel(None) else { return };
    for ordering in ["streams:task,counted", "streams:task,pinned", "streams:one,counted", "streams:cgroup,counted"] {
        assert_eq!(splats(&kernel, &run(ordering)), Vec::<String>::new(), "{ordering}");
    }
}

#[test]
fn of_data_that_is_written_and_read_back() {
    says_nothing(|ordering| load(ordering, VERIFIED));
}

#[test]
fn of_what_changes_files_and_folders() {
    says_nothing(|ordering| {
        let mut run = load(ordering, STRESSORS);
        // Some of them want a gibibyte.
        run.file_system_bytes = Some(4 << 30);
        // A stressor that never sleeps would not end where what it asks for takes no time.
        let charges = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../processors/charged-time.toml");
        run.charge = Some(Charges::read(&charges).unwrap());
        run
    });
}

#[test]
fn of_tasks_that_do_everything_to_few_files() {
    for seed in 1..=4 {
        says_nothing(|ordering| {
            let script = format!("{PLUMB} app races --tasks 3 --steps 24 --seed {seed} && echo done");
            let mut run = load(ordering, &script);
            run.delay_every = NonZeroU32::new(23);
            run.seed = seed;
            run
        });
    }
}

#[test]
fn of_resets_under_load() {
    says_nothing(|ordering| load(ordering, RESETS));
}

/// There are two streams for tasks, which take turns.
fn short_lived(ordering: &str) -> Linux {
    let mut run = load(ordering, SHORT_LIVED);
    run.settings = vec!["order_tables.streams=3".into()];
    run
}

#[test]
fn of_streams_that_are_closed_and_opened() {
    says_nothing(short_lived);
}

#[test]
fn of_what_is_written_beside_the_order() {
    says_nothing(|ordering| load(ordering, UNORDERED));
}

#[test]
fn of_its_own_tests() {
    let Some(kernel) = kernel(None) else { return };
    let mut run = linux_rig::on_memory();
    run.kernel_parameters = vec!["kunit.enable=1".into()];
    let run = run.script("dmesg | grep 'ok 1 blk-order'; echo done; grep debug_locks /proc/lockdep_stats");
    assert_eq!(splats(&kernel, &run), Vec::<String>::new());
}

/// The kernel says this of a defect.
fn is_told(defect: &str, says: &str, run: &Linux) {
    let Some(kernel) = kernel(Some(defect)) else { return };
    let found = splats(&kernel, run);
    assert!(found.iter().any(|line| line.contains(says)), "{defect}: {found:?}");
}

#[test]
fn two_locks_in_two_orders_are_told() {
    is_told("two-locks-in-two-orders", "WARNING: possible", &load("streams", UNORDERED));
}

#[test]
fn a_wait_under_a_lock_is_told() {
    is_told("a-wait-under-a-lock", "BUG: sleeping function called from invalid context", &load("streams", UNORDERED));
}

#[test]
fn memory_that_is_used_after_it_was_freed_is_told() {
    is_told("a-closed-stream-stays-known", "BUG: KASAN: slab-use-after-free", &short_lived("streams"));
}
