//! What runs in the kernel when a process reads through the page cache, and when processes come and go.

use std::os::fd::BorrowedFd;

use observe::bpf::Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8};
use observe::bpf::{Helper, Program};
use observe::cgroups::Cgroup;
use observe::tracefs::Format;

/// Words of a record: process and thread, device, inode, first page, last page.
pub const WORDS: usize = 5;

const RECORD: i16 = -(8 * WORDS as i16);
const KEY: i16 = RECORD - 8;
const VALUE: i16 = KEY - 8;

/// Who is watched.
#[derive(Clone, Debug)]
pub enum Watched {
    /// The children of this process, and all that they start.
    Children,
    /// Everybody in these control groups, and in those below them.
    Groups(Vec<Cgroup>),
}

/// The maps' descriptors.
#[derive(Clone, Copy)]
pub struct Maps<'a> {
    /// Process to anything, 32 bits each: those that are watched.
    pub processes: BorrowedFd<'a>,
    /// Where records go.
    pub ring: BorrowedFd<'a>,
}

fn of_process(p: &mut Program, maps: Maps<'_>) {
    p.call(Helper::GetCurrentPidTgid).copy(R7, R0).shift_right(R0, 32).store_word(Frame, KEY, R0);
    p.set_map(R1, maps.processes).copy(R2, Frame).add(R2, KEY.into()).call(Helper::MapLookup);
}

/// At `filemap:mm_filemap_get_pages`: a watched process reads these pages, whether they are there or not. None where the kernel's record
/// lacks a field.
pub fn read(format: &Format, watched: &Watched, maps: Maps<'_>) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    p.copy(R6, R1);
    match watched {
        Watched::Children => {
            of_process(&mut p, maps);
            p.jump_if_equal(R0, 0, out);
        }
        Watched::Groups(groups) => {
            let inside = p.label();
            for group in groups {
                p.set_wide(R1, group.level.into()).call(Helper::GetCurrentAncestorCgroupId);
                p.set_wide(R1, group.id).jump_if_same(R0, R1, inside);
            }
            p.jump(out).place(inside).call(Helper::GetCurrentPidTgid).copy(R7, R0);
        }
    }
    p.store(Frame, RECORD, R7);
    for (word, name) in (1..).zip(["s_dev", "i_ino", "index", "last_index"]) {
        p.load(R8, R6, format.field(name)?).store(Frame, RECORD + 8 * word, R8);
    }
    p.set_map(R1, maps.ring).copy(R2, Frame).add(R2, RECORD.into()).set(R3, 8 * WORDS as i32).set(R4, 0);
    p.call(Helper::RingOutput).place(out).exit();
    p.finish()
}

/// At `sched:sched_process_fork`: the child of a watched process is watched.
pub fn fork(format: &Format, _: &Watched, maps: Maps<'_>) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    p.copy(R6, R1);
    of_process(&mut p, maps);
    p.jump_if_equal(R0, 0, out);
    // A new thread is put there too, by its own number, which no process then has.
    p.load(R1, R6, format.field("child_pid")?).store_word(Frame, KEY, R1).set(R1, 1).store_word(Frame, VALUE, R1);
    p.set_map(R1, maps.processes).copy(R2, Frame).add(R2, KEY.into()).copy(R3, Frame).add(R3, VALUE.into()).set(R4, 0);
    p.call(Helper::MapUpdate).place(out).exit();
    p.finish()
}
