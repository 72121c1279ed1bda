//! The programs: one for each tracepoint, and two that follow processes.
//!
//! A program leaves out what the filters leave out, and counts the rest in a hash map by
//! device, inode, tracepoint and range: a lookup and an addition for an access that is
//! known. The offsets of the fields are this kernel's, from its `format` files.

use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use observe::bpf::Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use observe::bpf::{Helper, Label, NOEXIST, Program};
use observe::tracefs::{Field, Format, device_to_kernel};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::super::events::{DIRECT_WRITE, Extent, Says, Tracepoint};
use super::super::filter::Selection;

/// Places compared one after the other; with more of them, whole devices are.
const MAX_COMPARED: usize = 32;

/// What is counted.
#[derive(FromBytes, IntoBytes, Immutable, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Key {
    /// The tracepoint's number in the table, and perhaps [`WRITTEN`].
    pub tracepoint: u32,
    /// In the kernel's own encoding.
    pub device: u32,
    /// Its number.
    pub inode: u64,
    /// The range's first unit.
    pub start: u64,
    /// What the tracepoint says of its end.
    pub extent: u64,
}

/// How often, and when first.
#[derive(FromBytes, IntoBytes, Immutable, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Counted {
    /// How often.
    pub count: u64,
    /// Nanoseconds since the boot.
    pub first_ns: u64,
}

/// Added to the number of the tracepoint in a key: the access is a write.
pub const WRITTEN: i32 = 1 << 16;

/// Entries of the map of counters.
pub const LOST: u32 = 0;
/// Keys that were added.
pub const ADDED: u32 = 1;

/// A process of the map whose accesses are recorded.
pub const RECORDED: u32 = 1;
/// One of which only the children are: this one.
pub const FOLLOWED: u32 = 2;

/// The maps' descriptors.
#[derive(Clone, Copy)]
pub struct Maps<'a> {
    /// [`Key`] to [`Counted`].
    pub counts: BorrowedFd<'a>,
    /// 32-bit number to 64-bit count.
    pub counters: BorrowedFd<'a>,
    /// Process to [`RECORDED`] or [`FOLLOWED`], 32 bits each.
    pub processes: BorrowedFd<'a>,
    /// Thread, with its process in the upper half, to the [`Key`] of the direct access that it began last.
    pub begun: BorrowedFd<'a>,
}

/// Where the key and the value are, from the end of the stack on.
const KEY: i16 = -(size_of::<Key>() as i16);
const VALUE: i16 = KEY - size_of::<Counted>() as i16;
/// Four bytes for keys of the other maps, at a multiple of eight.
const SMALL_KEY: i16 = VALUE - 8;
const SMALL_VALUE: i16 = SMALL_KEY - 8;

/// Where a part of them is.
const TRACEPOINT: i16 = KEY + offset_of!(Key, tracepoint) as i16;
const DEVICE: i16 = KEY + offset_of!(Key, device) as i16;
const INODE: i16 = KEY + offset_of!(Key, inode) as i16;
const START: i16 = KEY + offset_of!(Key, start) as i16;
const EXTENT: i16 = KEY + offset_of!(Key, extent) as i16;
const COUNT: i16 = VALUE + offset_of!(Counted, count) as i16;
const FIRST: i16 = VALUE + offset_of!(Counted, first_ns) as i16;

/// The program for the tracepoint of this number in the table; `None` if the kernel's
/// record lacks a field.
pub fn access(
    number: usize,
    tracepoint: &Tracepoint,
    format: &Format,
    selection: &Selection,
    maps: Maps<'_>,
) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    p.copy(R6, R1);
    if let Some((name, bits)) = tracepoint.required {
        let bits = i32::try_from(bits).ok()?;
        p.load(R1, R6, format.field(name)?).and(R1, bits).jump_unless_equal(R1, bits, out);
    }
    // R7 device, R8 inode, R9 thereafter whatever is at hand.
    p.load(R7, R6, format.field(tracepoint.device)?).load(R8, R6, format.field(tracepoint.inode)?);
    places(&mut p, selection, out);
    processes(&mut p, selection, maps, out);

    let number = i32::try_from(number).ok()?;
    p.store_word(Frame, DEVICE, R7).store(Frame, INODE, R8);
    p.load(R9, R6, format.field(tracepoint.start)?).store(Frame, START, R9);
    match tracepoint.says {
        Says::DirectGoesOn(flags) => {
            begun(&mut p, maps, out);
            // In R9 the number of units that were begun with.
            p.store(Frame, EXTENT, R9).load(R1, R6, format.field(flags)?).and(R1, i32::try_from(DIRECT_WRITE).ok()?);
            let read = p.label();
            p.jump_if_equal(R1, 0, read).set(R1, WRITTEN).place(read).add(R1, number).store_word(Frame, TRACEPOINT, R1);
        }
        Says::Access(_) | Says::DirectBegins => {
            p.set(R1, number).store_word(Frame, TRACEPOINT, R1);
            match tracepoint.extent {
                Extent::One => p.set(R1, 1),
                Extent::Last(name) | Extent::Count(name) => p.load(R1, R6, format.field(name)?),
                Extent::Order(name) => match format.field(name) {
                    Some(field) => p.load(R1, R6, field),
                    None => p.set(R1, 0),
                },
            };
            p.store(Frame, EXTENT, R1);
        }
    }
    if tracepoint.says == Says::DirectBegins {
        p.call(Helper::GetCurrentPidTgid).store(Frame, SMALL_KEY, R0);
        update(&mut p, maps.begun, SMALL_KEY, KEY, 0);
        p.place(out).exit();
        return p.finish();
    }

    let known = p.label();
    lookup(&mut p, maps.counts, KEY);
    p.jump_unless_equal(R0, 0, known);
    p.call(Helper::KtimeGetNs).store(Frame, FIRST, R0).set(R1, 1).store(Frame, COUNT, R1);
    update(&mut p, maps.counts, KEY, VALUE, NOEXIST);
    let failed = p.label();
    p.jump_unless_equal(R0, 0, failed);
    count(&mut p, maps.counters, ADDED, out);
    // Another processor was first, or the map is full.
    p.place(failed);
    lookup(&mut p, maps.counts, KEY);
    p.jump_unless_equal(R0, 0, known);
    count(&mut p, maps.counters, LOST, out);
    p.place(known).set(R1, 1).atomic_add(R0, 0, R1);
    p.place(out).exit();
    p.finish()
}

/// Goes to `out` unless the thread has begun a direct access to the device in R7 and the inode in R8 from the unit in R9 on;
/// otherwise that is taken out of the map, and R9 gets its number of units.
fn begun(p: &mut Program, maps: Maps<'_>, out: Label) {
    let part = |offset: usize, size_bytes| Field { offset_bytes: offset as u16, size_bytes, is_signed: false };
    p.call(Helper::GetCurrentPidTgid).store(Frame, SMALL_KEY, R0);
    lookup(p, maps.begun, SMALL_KEY);
    p.jump_if_equal(R0, 0, out);
    p.load(R1, R0, part(offset_of!(Key, device), 4)).jump_unless_same(R1, R7, out);
    p.load(R1, R0, part(offset_of!(Key, inode), 8)).jump_unless_same(R1, R8, out);
    p.load(R1, R0, part(offset_of!(Key, start), 8)).jump_unless_same(R1, R9, out);
    p.load(R9, R0, part(offset_of!(Key, extent), 8));
    p.set_map(R1, maps.begun).copy(R2, Frame).add(R2, SMALL_KEY.into());
    p.call(Helper::MapDelete);
}

fn lookup(p: &mut Program, map: BorrowedFd<'_>, key: i16) {
    p.set_map(R1, map).copy(R2, Frame).add(R2, key.into()).call(Helper::MapLookup);
}

fn update(p: &mut Program, map: BorrowedFd<'_>, key: i16, value: i16, flags: i32) {
    p.set_map(R1, map).copy(R2, Frame).add(R2, key.into());
    p.copy(R3, Frame).add(R3, value.into()).set(R4, flags).call(Helper::MapUpdate);
}

/// One more in the map of counters, and then to `out`.
fn count(p: &mut Program, counters: BorrowedFd<'_>, which: u32, out: Label) {
    p.set_wide(R1, which.into()).store_word(Frame, SMALL_KEY, R1);
    lookup(p, counters, SMALL_KEY);
    p.jump_if_equal(R0, 0, out).set(R1, 1).atomic_add(R0, 0, R1).jump(out);
}

/// Goes to `out` unless the device in R7 and the inode in R8 are at one of the places.
fn places(p: &mut Program, selection: &Selection, out: Label) {
    let mut exact: Vec<(u32, Option<u64>)> =
        selection.places.iter().map(|place| (device_to_kernel(place.kernel_device), place.inode)).collect();
    if exact.len() > MAX_COMPARED {
        for (_, inode) in &mut exact {
            *inode = None;
        }
    }
    exact.sort_unstable();
    exact.dedup();
    // With that many devices everything is recorded, and what is too much left out later.
    if exact.is_empty() || exact.len() > MAX_COMPARED {
        return;
    }
    let inside = p.label();
    for (device, inode) in exact {
        let next = p.label();
        p.set_wide(R1, device.into()).jump_unless_same(R7, R1, next);
        if let Some(inode) = inode {
            p.set_wide(R1, inode).jump_unless_same(R8, R1, next);
        }
        p.jump(inside).place(next);
    }
    p.jump(out).place(inside);
}

/// Goes to `out` unless the current process is to be recorded. Uses R9.
fn processes(p: &mut Program, selection: &Selection, maps: Maps<'_>, out: Label) {
    p.call(Helper::GetCurrentPidTgid).shift_right(R0, 32).copy(R9, R0);
    p.set_wide(R1, std::process::id().into()).jump_if_same(R9, R1, out);
    if !selection.has_processes() {
        return;
    }
    let inside = p.label();
    if selection.children || !selection.processes.is_empty() {
        let next = p.label();
        p.store_word(Frame, SMALL_KEY, R9);
        lookup(p, maps.processes, SMALL_KEY);
        p.jump_unless_equal(R0, 0, inside).place(next);
    }
    for group in &selection.cgroups {
        p.set_wide(R1, group.level.into()).call(Helper::GetCurrentAncestorCgroupId);
        p.set_wide(R1, group.id).jump_if_same(R0, R1, inside);
    }
    p.jump(out).place(inside);
}

/// At `sched:sched_process_fork`: the child of a process in the map is put there too.
pub fn fork(format: &Format, maps: Maps<'_>) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    p.copy(R6, R1).call(Helper::GetCurrentPidTgid).shift_right(R0, 32).store_word(Frame, SMALL_KEY, R0);
    lookup(&mut p, maps.processes, SMALL_KEY);
    p.jump_if_equal(R0, 0, out);
    // A new thread is put there too, by its own number, which no process then has.
    p.load(R1, R6, format.field("child_pid")?).store_word(Frame, SMALL_KEY, R1);
    p.set_wide(R1, RECORDED.into()).store_word(Frame, SMALL_VALUE, R1);
    update(&mut p, maps.processes, SMALL_KEY, SMALL_VALUE, 0);
    p.place(out).exit();
    p.finish()
}

/// At `sched:sched_process_exit`: a thread's number, and that of a process with its last
/// thread, may soon mean another. (Kernels that do not tell the last thread forget a
/// process when its first thread ends.)
pub fn exit(format: &Format, maps: Maps<'_>) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    let forget = p.label();
    p.copy(R6, R1).call(Helper::GetCurrentPidTgid).copy(R7, R0).shift_right(R7, 32);
    p.copy(R8, R0).shift_left(R8, 32).shift_right(R8, 32);
    if let Some(field) = format.field("group_dead") {
        let alive = p.label();
        p.load(R1, R6, field).jump_if_equal(R1, 0, alive);
        // The last thread may be any: the process goes.
        p.store_word(Frame, SMALL_KEY, R7).set_map(R1, maps.processes).copy(R2, Frame).add(R2, SMALL_KEY.into());
        p.call(Helper::MapDelete).place(alive);
        p.jump_unless_same(R7, R8, forget).jump(out);
    }
    p.place(forget).store_word(Frame, SMALL_KEY, R8).set_map(R1, maps.processes).copy(R2, Frame);
    p.add(R2, SMALL_KEY.into()).call(Helper::MapDelete);
    p.place(out).exit();
    p.finish()
}
