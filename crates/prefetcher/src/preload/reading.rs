//! From a read that succeeded to a request: what the hooks of reads come to.

use core::sync::atomic::Ordering;

use super::descriptors::{self, Known, Look};
use super::recording::{self, Recorded};
use super::{attach, sys};
use crate::policies::{Access, Bulk, Host, PAGE_BYTES, Plan};
use crate::shared::{Counts, File, Guard, Kind, Request, Table};

const O_ACCMODE: i32 = 3;
const O_WRONLY: i32 = 1;
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
const O_PATH: i32 = 0o10_000_000;

/// As much as there was room for: asked for was what came.
pub const WHATEVER: usize = usize::MAX;

/// A read of `result` bytes of `asked` at an offset. What is called from here is the last thing that is done, so that nothing has to
/// be kept across it.
#[inline(always)]
pub fn at(began_ns: u64, fd: i32, offset: i64, asked: usize, result: isize) {
    if began_ns != 0 {
        return recorded_at(began_ns, fd, offset, result);
    }
    if result > 0
        && let Some(table) = attach::table()
    {
        match descriptors::known(fd) {
            Known::Followed { index, generation } => {
                seen::<false>(table, fd, index, generation, offset as u64, result as u64);
            }
            Known::Unknown if asked == WHATEVER || result as usize == asked => identify(table, fd),
            _ => {}
        }
    }
}

/// The same of one that is recorded.
#[cold]
#[inline(never)]
fn recorded_at(began_ns: u64, fd: i32, offset: i64, result: isize) {
    if result > 0
        && let Some(table) = attach::table()
    {
        match descriptors::known(fd) {
            Known::Followed { index, generation } => {
                let access = Recorded { began_ns, index, generation, offset: offset as u64, bytes: result as u64 };
                recording::read(table, &access);
                seen::<false>(table, fd, index, generation, offset as u64, result as u64);
            }
            Known::First | Known::Unknown => first(table, began_ns, fd, Some(offset as u64), result as u64),
            Known::Ignored => {}
        }
    }
}

/// A read of `result` bytes of `asked` where the descriptor stands.
#[inline(always)]
pub fn next(began_ns: u64, fd: i32, asked: usize, result: isize) {
    if began_ns != 0 {
        return recorded_next(began_ns, fd, result);
    }
    if result > 0
        && let Some(table) = attach::table()
    {
        match descriptors::known(fd) {
            Known::Followed { index, generation } => {
                let offset = descriptors::advance(fd, result as u64);
                seen::<true>(table, fd, index, generation, offset, result as u64);
            }
            Known::Unknown if asked == WHATEVER || result as usize == asked => identify(table, fd),
            _ => {}
        }
    }
}

/// The same of one that is recorded.
#[cold]
#[inline(never)]
fn recorded_next(began_ns: u64, fd: i32, result: isize) {
    if result > 0
        && let Some(table) = attach::table()
    {
        match descriptors::known(fd) {
            Known::Followed { index, generation } => {
                let offset = descriptors::advance(fd, result as u64);
                recording::read(table, &Recorded { began_ns, index, generation, offset, bytes: result as u64 });
                seen::<true>(table, fd, index, generation, offset, result as u64);
            }
            Known::First | Known::Unknown => first(table, began_ns, fd, None, result as u64),
            Known::Ignored => {}
        }
    }
}

/// The C library read for the program, more or less than what it gave: where the descriptor stands now is asked of the kernel, unless
/// less than this was consumed since.
#[inline]
pub fn buffered(began_ns: u64, fd: i32, consumed: usize) {
    if consumed > 0
        && let Some(table) = attach::table()
    {
        match descriptors::known(fd) {
            Known::Followed { index, generation } => stands(table, began_ns, fd, index, generation, consumed as u64),
            Known::First | Known::Unknown if began_ns != 0 => first(table, began_ns, fd, None, consumed as u64),
            Known::Unknown => identify(table, fd),
            _ => {}
        }
    }
}

/// More than a stream of the C library reads ahead of its program.
const BUFFER_BYTES: u64 = 64 << 10;

/// Looks where the descriptor stands, for what was read since the last look.
#[cold]
#[inline(never)]
fn stands(table: &'static Table, began_ns: u64, fd: i32, index: usize, generation: u32, consumed: u64) {
    let Some(now) = attach::may_call().then(|| sys::position(fd)).flatten() else { return };
    let before = descriptors::moved(fd, now);
    // Elsewhere than behind the last look: the program sought.
    let went_on = now >= before && now - before <= consumed + BUFFER_BYTES;
    let begin = if went_on { before } else { now.saturating_sub(consumed) };
    if now > begin {
        recording::read(table, &Recorded { began_ns, index, generation, offset: begin, bytes: now - begin });
        seen::<false>(table, fd, index, generation, begin, now - begin);
    }
}

/// Has the policy look at an access. Most reads of a file that is read at random end here.
#[inline]
fn seen<const CHECK: bool>(table: &'static Table, fd: i32, index: usize, generation: u32, offset: u64, bytes: u64) {
    let access = Access { offset_bytes: offset, length_bytes: bytes, lane: lane() };
    match descriptors::look(fd, access.lane) {
        // By value, in registers.
        Look::Whole => looked_at::<CHECK>(table, fd, index, generation, offset, bytes),
        Look::Cost if Bulk::samples(&access, table.file(index).file_bytes.load(Ordering::Relaxed)) => {
            cost(table, fd, index, generation, offset, bytes);
        }
        Look::Cost | Look::None => {}
    }
}

/// Goes on with an access that is looked at whole.
#[inline(never)]
fn looked_at<const CHECK: bool>(
    table: &'static Table,
    fd: i32,
    index: usize,
    generation: u32,
    offset: u64,
    bytes: u64,
) {
    let (lane, file) = (lane(), table.file(index));
    let access = Access { offset_bytes: offset, length_bytes: bytes, lane };
    // Who holds it looks at an access at this moment: this one goes unseen, and nobody waits.
    let Some(mut guard) = file.try_lock() else { return };
    if file.generation.load(Ordering::Relaxed) != generation {
        drop(guard);
        descriptors::forget(fd);
        return;
    }
    Counts::bump(&file.counts.accesses, 1);
    Counts::bump(&file.counts.accessed_bytes, access.length_bytes);
    let file_bytes = file.file_bytes.load(Ordering::Relaxed);
    let glides = guard.streams.glides(&access, file_bytes);
    if glides && !guard.streams.is_left() && !guard.streams.is_random() {
        guard.served(lane);
        return;
    }
    other(table, file, guard, &Seen { fd, index, access, file_bytes, glides, check: CHECK });
}

/// An access that was looked at.
struct Seen {
    fd: i32,
    index: usize,
    access: Access,
    file_bytes: u64,
    /// It is the next of its reader.
    glides: bool,
    /// The descriptor's place is believed, and not known.
    check: bool,
}

/// Goes on with an access that is not just the next of a reader which is served.
#[inline(never)]
fn other(table: &'static Table, file: &File, mut guard: Guard<'_>, seen: &Seen) {
    let Seen { fd, index, access, file_bytes, glides, check } = *seen;
    let (header, lane) = (&table.header, access.lane);
    let kept = guard.bulk.is_wanted() && header.free_bytes.load(Ordering::Relaxed) > 0;
    let limits = file.limits(header, file_bytes, kept);
    let plan = if glides { None } else { guard.streams.observe_other(access, &limits) };
    if !glides && let Some(passed) = guard.streams.passed() {
        guard.bulk.passed(passed, file_bytes);
    }
    let Some(plan) = plan else {
        let random = guard.streams.is_random();
        if random && Bulk::samples(&access, file_bytes) {
            pass(table, file, &mut guard, fd, index, &access);
        }
        let helpless = random || guard.streams.is_left();
        let rest = guard.seen(lane, helpless);
        if rest > 0 {
            let counts = random
                && header.free_bytes.load(Ordering::Relaxed) > 0
                && file.refused.load(Ordering::Relaxed) == 0
                && !is_settled(&guard, header.passes.load(Ordering::Relaxed) != 0, file_bytes);
            descriptors::rest(fd, lane, rest, counts);
        }
        return;
    };
    let expected = access.offset_bytes.wrapping_add(access.length_bytes);
    due(table, file, &mut guard, fd, index, plan, check.then_some(expected));
}

/// Whether more random reads of the file would change nothing.
fn is_settled(guard: &Guard<'_>, passes: bool, file_bytes: u64) -> bool {
    if passes { guard.bulk.is_complete(file_bytes) } else { guard.bulk.is_wanted() }
}

/// Reads that go unseen while the executor is behind.
const BEHIND_REST: u32 = 8;

/// Leaves a request for a plan. `expected` is where a descriptor without an offset of its own is believed to stand.
#[cold]
#[inline(never)]
fn due(table: &Table, file: &File, guard: &mut Guard<'_>, fd: i32, index: usize, plan: Plan, expected: Option<u64>) {
    file.used_at.store(table.header.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    let closed = !attach::may_call()
        || table.header.over.load(Ordering::Relaxed) != 0
        || table.header.follow.load(Ordering::Relaxed) == 0
        || file.refused.load(Ordering::Relaxed) != 0;
    if closed {
        guard.streams.resident(&plan);
        return;
    }
    // The executor is behind: nothing is asked of the kernel for a plan that goes nowhere.
    if guard.is_full() {
        guard.streams.dropped(&plan);
        Counts::bump(&file.counts.dropped, 1);
        descriptors::rest(fd, lane(), BEHIND_REST, false);
        return;
    }
    // A descriptor that others share moves without us.
    if let Some(expected) = expected
        && let Some(now) = sys::position(fd)
        && now != expected
    {
        descriptors::moved(fd, now);
        guard.streams.dropped(&plan);
        return;
    }
    let lane = lane();
    descriptors::rest(fd, lane, guard.rest(lane), false);
    push(table, file, guard, index, request(plan, fd, Kind::Stream));
}

/// A read at random of which nothing but its cost is looked at.
#[cold]
#[inline(never)]
fn cost(table: &Table, fd: i32, index: usize, generation: u32, offset: u64, bytes: u64) {
    let file = table.file(index);
    let access = Access { offset_bytes: offset, length_bytes: bytes, lane: lane() };
    let Some(mut guard) = file.try_lock() else { return };
    if file.generation.load(Ordering::Relaxed) == generation {
        pass(table, file, &mut guard, fd, index, &access);
    }
}

/// Counts what a read at random costs, and asks for regions of the file where they are worth loading.
#[inline(never)]
fn pass(table: &Table, file: &File, guard: &mut Guard<'_>, fd: i32, index: usize, access: &Access) {
    let header = &table.header;
    let host = Host {
        bandwidth_bytes_per_second: header.bandwidth_bytes_per_second.load(Ordering::Relaxed),
        latency_ns: header.latency_ns.load(Ordering::Relaxed),
        readahead_bytes: 0,
        memory_bytes: 0,
        free_bytes: header.free_bytes.load(Ordering::Relaxed),
    };
    let file_bytes = file.file_bytes.load(Ordering::Relaxed);
    if !attach::may_call() || guard.is_full() || file.refused.load(Ordering::Relaxed) != 0 {
        return;
    }
    // The executor counts the sizes of files that are read so together.
    file.used_at.store(header.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    if header.passes.load(Ordering::Relaxed) == 0 {
        guard.bulk.count(access, file_bytes, &host);
    } else if let Some(plan) = guard.bulk.pays(access, file_bytes, &host) {
        push(table, file, guard, index, request(plan, fd, Kind::Pass));
    }
}

fn request(plan: Plan, fd: i32, kind: Kind) -> Request {
    Request { plan, process: sys::process(), fd, kind: kind as u32, lane: lane() }
}

fn push(table: &Table, file: &File, guard: &mut Guard<'_>, index: usize, request: Request) {
    if !guard.push(request) {
        return;
    }
    Counts::bump(&file.counts.requests, 1);
    if table.ask(index) {
        sys::wake(&table.header.asleep);
    }
}

/// A number that differs between threads: where the thread's own memory begins.
#[inline(always)]
fn lane() -> u32 {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word of a thread's own memory is its address.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    // Threads' memories lie whole megabytes or pages apart.
    let pages = pointer as u64 >> 6;
    (pages ^ pages >> 17) as u32
}

/// Looks at what a descriptor is, and follows it if it is a file worth that.
#[cold]
#[inline(never)]
pub(super) fn identify(table: &'static Table, fd: i32) {
    if !attach::may_call() {
        return;
    }
    match place(table, fd, table.header.min_file_bytes.load(Ordering::Relaxed)) {
        Some((index, generation)) => {
            recording::named(table, fd, index, generation);
            descriptors::follow(fd, index, generation, sys::position(fd).unwrap_or(0));
        }
        None => descriptors::ignore(fd),
    }
}

/// A descriptor's first read, where all are recorded: it is looked at at once.
#[cold]
#[inline(never)]
fn first(table: &'static Table, began_ns: u64, fd: i32, offset: Option<u64>, bytes: u64) {
    identify(table, fd);
    if let Known::Followed { index, generation } = descriptors::known(fd) {
        // Where it stands is behind what was read.
        let offset = offset.unwrap_or_else(|| descriptors::advance(fd, 0).saturating_sub(bytes));
        recording::read(table, &Recorded { began_ns, index, generation, offset, bytes });
    }
}

/// The place of an open file in the table, if it is a regular file of this size at least, read through the page cache.
fn place(table: &'static Table, fd: i32, least_bytes: u64) -> Option<(usize, u32)> {
    let status = sys::status(fd).filter(|status| status.is_regular && status.size >= least_bytes && status.ino != 0)?;
    let flags = sys::flags(fd);
    if flags < 0 || flags & (O_DIRECT | O_PATH) != 0 || flags & O_ACCMODE == O_WRONLY {
        return None;
    }
    table.place(status.dev, status.ino, status.size)
}

/// A descriptor was opened.
#[inline]
pub fn opened(fd: i32) {
    if fd < 0 {
        return;
    }
    descriptors::forget(fd);
    if let Some(table) = attach::table()
        && table.header.whole_at_open.load(Ordering::Relaxed) != 0
    {
        whole(table, fd);
    }
}

/// Asks for all of a file.
#[cold]
#[inline(never)]
fn whole(table: &'static Table, fd: i32) {
    if !attach::may_call() {
        return;
    }
    if let Some((index, generation)) = place(table, fd, table.header.min_file_bytes.load(Ordering::Relaxed)) {
        recording::named(table, fd, index, generation);
        descriptors::follow(fd, index, generation, 0);
        let bytes = table.file(index).file_bytes.load(Ordering::Relaxed);
        ask(table, fd, index, Plan::contiguous(0, bytes), Kind::Whole);
    }
}

/// A range of a file was mapped, to be read only.
#[inline]
pub fn mapped(fd: i32, offset: i64, bytes: usize) {
    if let Some(table) = attach::table()
        && bytes as u64 >= table.header.min_map_bytes.load(Ordering::Relaxed)
    {
        map(table, fd, offset as u64, bytes as u64);
    }
}

#[cold]
#[inline(never)]
fn map(table: &'static Table, fd: i32, offset: u64, bytes: u64) {
    if !attach::may_call() {
        return;
    }
    let Some((index, _)) = place(table, fd, table.header.min_map_bytes.load(Ordering::Relaxed)) else { return };
    let file_bytes = table.file(index).file_bytes.load(Ordering::Relaxed);
    let end = offset.saturating_add(bytes).min(file_bytes.next_multiple_of(PAGE_BYTES));
    ask(table, fd, index, Plan::contiguous(offset.min(end), end), Kind::Map);
}

fn ask(table: &'static Table, fd: i32, index: usize, plan: Plan, kind: Kind) {
    let file = table.file(index);
    file.used_at.store(table.header.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    if plan.length_bytes == 0 || table.header.over.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Some(mut guard) = file.try_lock() {
        push(table, file, &mut guard, index, request(plan, fd, kind));
    }
}
