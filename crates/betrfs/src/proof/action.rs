//! Random operations. Inodes are named by slots, which both sides fill in the same order.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::operations::{Allocate, Kind, RenameFlags, Seek, SetXattr};

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Lookup {
        parent: usize,
        name: Vec<u8>,
    },
    Create {
        parent: usize,
        name: Vec<u8>,
        mode: u32,
    },
    Mknod {
        parent: usize,
        name: Vec<u8>,
        kind: Kind,
        mode: u32,
    },
    Mkdir {
        parent: usize,
        name: Vec<u8>,
        mode: u32,
    },
    Symlink {
        parent: usize,
        name: Vec<u8>,
        target: Vec<u8>,
    },
    Link {
        inode: usize,
        parent: usize,
        name: Vec<u8>,
    },
    Unlink {
        parent: usize,
        name: Vec<u8>,
    },
    Rmdir {
        parent: usize,
        name: Vec<u8>,
    },
    RemoveTree {
        parent: usize,
        name: Vec<u8>,
        at_a_time: usize,
    },
    CloneTree {
        parent: usize,
        name: Vec<u8>,
        new_parent: usize,
        new_name: Vec<u8>,
    },
    Rename {
        parent: usize,
        name: Vec<u8>,
        new_parent: usize,
        new_name: Vec<u8>,
        flags: RenameFlags,
    },
    Tmpfile {
        parent: usize,
        mode: u32,
    },
    Open {
        inode: usize,
    },
    Release {
        inode: usize,
    },
    Read {
        inode: usize,
        offset: u64,
        length: usize,
    },
    /// Where the last write ended.
    WriteOn {
        length: usize,
        seed: u64,
        kill: bool,
    },
    Write {
        inode: usize,
        offset: u64,
        length: usize,
        seed: u64,
        kill: bool,
    },
    /// By who has opened the file with `O_DSYNC`.
    SyncWrite {
        inode: usize,
        offset: u64,
        length: usize,
        seed: u64,
    },
    Truncate {
        inode: usize,
        size: u64,
    },
    Chmod {
        inode: usize,
        mode: u32,
    },
    Chown {
        inode: usize,
        uid: u32,
    },
    Utimes {
        inode: usize,
        seconds: i64,
    },
    Fallocate {
        inode: usize,
        mode: Allocate,
        offset: u64,
        length: u64,
    },
    Seek {
        inode: usize,
        offset: u64,
        what: Seek,
    },
    Copy {
        source: usize,
        from: u64,
        target: usize,
        to: u64,
        length: u64,
    },
    SetXattr {
        inode: usize,
        name: Vec<u8>,
        value: Vec<u8>,
        how: SetXattr,
    },
    RemoveXattr {
        inode: usize,
        name: Vec<u8>,
    },
    Readdir {
        inode: usize,
    },
    Fsync {
        inode: usize,
    },
    Syncfs,
}

pub(super) fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// How far files reach, about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub file_bytes: u64,
    pub write_bytes: usize,
}

fn name(random: &mut impl Rng) -> Vec<u8> {
    match random.random_range(0..60) {
        0 => b".".to_vec(),
        1 => b"..".to_vec(),
        2 => vec![b'n'; 255],
        number => vec![b'a' + (number % 9) as u8],
    }
}

/// Offsets that are often at the edges of blocks and granules.
fn offset(random: &mut impl Rng, most: u64) -> u64 {
    let any = random.random_range(0..=most);
    let near =
        |unit: u64, random: &mut dyn FnMut() -> u64| (any / unit * unit).saturating_add(random()).saturating_sub(1);
    let mut little = || random.random_range(0..3);
    match any % 5 {
        0 => any,
        1 => near(4096, &mut little),
        2 => near(65_536, &mut little),
        3 => any / 4096 * 4096,
        _ => 0,
    }
    .min(most)
}

pub(super) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random(seed).fill_bytes(&mut bytes);
    bytes
}

fn xattr(random: &mut impl Rng) -> Vec<u8> {
    [&b"user.a"[..], b"user.b", b"security.c"][random.random_range(0..3)].to_vec()
}

/// The next operation of a trace, on so many slots.
pub(super) fn action(random: &mut impl Rng, slots: usize, scale: Scale) -> Action {
    // Newer ones more often: older ones are gone.
    let slot = |random: &mut dyn FnMut(usize) -> usize| {
        if random(3) == 0 { random(slots) } else { slots.saturating_sub(1 + random(12.min(slots))) }
    };
    let mut pick = |most: usize| random.random_range(0..most.max(1));
    let (inode, other) = (slot(&mut pick), slot(&mut pick));
    let parent = if pick(3) == 0 { 0 } else { slot(&mut pick) };
    let new_parent = if pick(3) == 0 { 0 } else { slot(&mut pick) };
    let mode = [0o644, 0o755, 0o4755, 0o2711, 0o777, 0o2755][pick(6)];
    let most = scale.file_bytes;
    match pick(100) {
        0..4 => Action::Lookup { parent, name: name(random) },
        4..18 => Action::Create { parent, name: name(random), mode },
        18..20 => {
            let kind = [Kind::Fifo, Kind::Socket, Kind::CharacterDevice, Kind::File][pick(4)];
            Action::Mknod { parent, name: name(random), kind, mode }
        }
        20..27 => Action::Mkdir { parent, name: name(random), mode },
        27..29 => Action::Symlink { target: vec![b't'; pick(5000)], parent, name: name(random) },
        29..32 => Action::Link { inode, parent, name: name(random) },
        32..37 => Action::Unlink { parent, name: name(random) },
        37..40 => Action::Rmdir { parent, name: name(random) },
        40..47 => {
            let flags =
                [RenameFlags::Replace, RenameFlags::NoReplace, RenameFlags::Exchange][pick(5).saturating_sub(2)];
            Action::Rename { parent, name: name(random), new_parent, new_name: name(random), flags }
        }
        47 => Action::Tmpfile { parent, mode },
        48 => Action::Open { inode },
        49..52 => Action::Release { inode },
        52..58 => Action::Read { inode, length: pick(scale.write_bytes), offset: offset(random, most) },
        58..76 => {
            let length = match pick(4) {
                0 => match pick(2) {
                    0 => pick(20),
                    _ => pick(4500),
                },
                1 => 4096 * pick(scale.write_bytes / 4096 + 1),
                _ => pick(scale.write_bytes),
            };
            let kill = pick(2) == 0;
            let (offset, seed) = (offset(random, most), random.next_u64());
            match seed % 5 {
                0..3 => Action::Write { inode, offset, length, seed, kill },
                _ => Action::WriteOn { length, seed, kill },
            }
        }
        76..81 => Action::Truncate { inode, size: offset(random, most) },
        81 if pick(3) == 0 => Action::Chown { inode, uid: pick(3) as u32 },
        81 => Action::Chmod { inode, mode },
        82 => Action::RemoveTree { at_a_time: 1 + pick(9), parent, name: name(random) },
        83 if pick(2) == 0 => Action::CloneTree { parent, name: name(random), new_parent, new_name: name(random) },
        83 => Action::Utimes { inode, seconds: pick(1000) as i64 - 500 },
        84..89 => {
            let modes = [
                Allocate::Extend,
                Allocate::KeepSize,
                Allocate::PunchHole,
                Allocate::ZeroRange,
                Allocate::ZeroRangeKeepSize,
                Allocate::PunchHole,
                Allocate::CollapseRange,
                Allocate::InsertRange,
            ];
            let mode = modes[pick(8)];
            let (mut begin, mut length) = (offset(random, most), offset(random, most / 2));
            if matches!(mode, Allocate::CollapseRange | Allocate::InsertRange) {
                (begin, length) = (begin / 4096 * 4096, length / 8192 * 4096);
            }
            Action::Fallocate { inode, mode, offset: begin, length }
        }
        89..91 => {
            let what = [Seek::Data, Seek::Hole][pick(2)];
            Action::Seek { inode, offset: offset(random, most), what }
        }
        91..93 => {
            let length = pick(scale.write_bytes) as u64;
            Action::Copy { source: inode, from: offset(random, most), target: other, to: offset(random, most), length }
        }
        93..95 => {
            let how = [SetXattr::Either, SetXattr::Create, SetXattr::Replace][pick(3)];
            let value = bytes(pick(9) as u64, pick(300));
            Action::SetXattr { inode, name: xattr(random), value, how }
        }
        95 => Action::RemoveXattr { inode, name: xattr(random) },
        96 => Action::Readdir { inode: parent },
        97..99 => Action::Fsync { inode },
        _ => Action::Syncfs,
    }
}

/// The same of who packs files into one: it reads and looks up others between writes that go on, which often end with a granule.
pub(super) fn packing(random: &mut impl Rng, slots: usize, scale: Scale) -> Action {
    let (inode, parent, kill) = (random.random_range(0..slots), 0, false);
    match random.random_range(0..20) {
        0 => Action::Write { inode, offset: 0, length: 16_384, seed: random.next_u64(), kill },
        1..10 => Action::WriteOn {
            length: [4096, 16_384, 16_384, 5000][random.random_range(0..4)],
            seed: random.next_u64(),
            kill,
        },
        10..16 => Action::Read { inode, offset: 0, length: 100 },
        16..18 => Action::Lookup { parent, name: name(random) },
        _ => action(random, slots, scale),
    }
}
