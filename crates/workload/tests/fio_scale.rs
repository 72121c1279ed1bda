//! What thousands of jobs, and I/Os in thousands of pieces, cost: as much more as
//! there are more of them.
//!
//! A test binary of its own, since it replaces the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::common::{null, run_on};
use units::Nanos;
use workload::fio::JobReport;
use workload::fio::output::{Header, json_plus, text};

struct Counting;

thread_local! {
    /// Bytes ever allocated, and bytes in use.
    static ALLOCATED: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

fn count(added: usize, removed: usize) {
    // While a thread ends its counter is gone; nothing is measured then.
    let _ = ALLOCATED.try_with(|count| {
        let (all, now) = count.get();
        count.set((all + added as u64, now + added as i64 - removed as i64));
    });
}

// SAFETY: every call is passed to the system's allocator unchanged; counting
// neither allocates (the counter is const-initialised and needs no destructor)
// nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: `pointer` came from `System`, as all of this allocator's do.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as for `dealloc`, and the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, bytes it allocated, and bytes it left in use.
fn allocated<T>(work: impl FnOnce() -> T) -> (T, u64, i64) {
    let before = ALLOCATED.get();
    let result = work();
    let after = ALLOCATED.get();
    (result, after.0 - before.0, after.1 - before.1)
}

/// `jobs` jobs of 100 I/Os, on a device on which they wait for one another.
fn reports(jobs: u32, options: &str) -> Vec<JobReport> {
    let job = format!(
        "[a]\nioengine=io_uring\nrw=randrw\nbs=4k\nsize=1m\nio_size=400k\nnumjobs={jobs}\niodepth=4\n{options}"
    );
    run_on(null(Nanos::from_micros(80)), &job, 1)
}

#[test]
fn output_of_many_jobs_costs_each_of_them_the_same() {
    for options in ["", "group_reporting", "new_group", "unified_rw_reporting=both"] {
        let cost = |jobs| {
            let reports = reports(jobs, options);
            let header = Header::default();
            let (_, text_bytes, _) = allocated(|| text(&reports, &[], &header));
            let (_, json_bytes, _) = allocated(|| json_plus(&reports, &header));
            [text_bytes, json_bytes]
        };
        let (few, many) = (cost(20), cost(160));
        for (few, many, what) in [(few[0], many[0], "text"), (few[1], many[1], "JSON")] {
            assert!(many < few * 12, "{what} with {options:?}: {few} bytes for 20 jobs, {many} for 160");
        }
    }
}

#[test]
fn a_job_is_kept_in_what_it_counted() {
    let (few, _, with_few) = allocated(|| reports(10, ""));
    let (many, _, with_many) = allocated(|| reports(110, ""));
    assert_eq!((few.len(), many.len()), (10, 110));
    let each = (with_many - with_few) / 100;
    assert!(each < 48 << 10, "{each} bytes for the report of a job of 100 I/Os");
}

#[test]
fn a_read_of_a_file_in_100_000_pieces_ends() {
    // A look at every piece whenever one has come would be five billion looks.
    let job = "[a]\nioengine=io_uring\nrw=read\nbs=50000k\nsize=50000k\nfrag_size=512\nfrag_distance=100";
    let device = ssd::NullDevice::new(1 << 20, 512, Nanos::from_micros(80));
    let job = job.replace("frag_distance=100", "frag_distance=512");
    let reports = run_on(device, &job, 1);
    assert_eq!((reports[0].ios(), reports[0].bytes()), (1, 50_000 << 10));
}

#[test]
fn a_write_of_a_file_in_many_pieces_copies_its_bytes_once() {
    let cost = |kib: u64| {
        let job = format!(
            "[a]\nioengine=io_uring\nrw=write\nbs={kib}k\nsize={kib}k\nverify=crc32c\ndo_verify=0\nfrag_size=512\nfrag_distance=512"
        );
        allocated(|| run_on(null(Nanos::from_micros(80)), &job, 1)).1
    };
    let (short, long) = (cost(1 << 10), cost(8 << 10));
    assert!(long < short * 12, "{short} bytes for 1 MiB, {long} for 8 MiB");
}

#[test]
fn jobs_behind_walls_wait_for_all_before_them() {
    let jobs: String = (0..300).map(|number| format!("[j{number}]\nstonewall\nrw=read\nbs=4k\nsize=4k\n")).collect();
    let reports = run_on(null(Nanos::from_micros(80)), &jobs, 1);
    for (number, report) in reports.iter().enumerate() {
        assert_eq!(report.started_at, Nanos::from_micros(80) * number as u64, "job {number}");
    }
}
