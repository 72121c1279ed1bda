//! Files as long as they may be: 8 EiB less one block. What goes beyond is refused, and nothing takes longer for what is not there.

use storage::Memory;

use super::traces::{PATHS, at, tiny};
use crate::operations::{
    Allocate, Attributes, Caller, Error, InodeNumber, Name, Operations, Permissions, Result, Seek, SetAttributes,
};
use crate::rules::FILE_BYTES_MAX;
use crate::{Model, Volume};

const ROOT: InodeNumber = InodeNumber::ROOT;
const END: u64 = FILE_BYTES_MAX;
const GRANULE: u64 = 65_536;

fn words(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 1, gid: 1, groups: &[], umask: 0, now: at(time) }
}

/// What a call answers, without the space that a file takes, of which only the model knows exactly.
type Answer = Result<(u64, Vec<u8>)>;

fn of(attributes: Result<Attributes>) -> Answer {
    attributes.map(|attributes| (attributes.size_bytes, Vec::new()))
}

/// The calls, one after the other.
fn calls(fs: &impl Operations, file: InodeNumber) -> Vec<(&'static str, Answer)> {
    let mut time = 1;
    let mut by = || {
        time += 1;
        caller(time)
    };
    let sized = |size| SetAttributes { size_bytes: Some(size), ..SetAttributes::default() };
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![1; length];
        let read = fs.read(&caller(1), file, offset, &mut bytes)?;
        bytes.truncate(read);
        Ok((read as u64, bytes))
    };
    let at = |found: Result<u64>| found.map(|found| (found, Vec::new()));
    let mut answers = vec![
        ("a beginning", of(fs.write(&by(), file, 0, &[1; 100_000], false))),
        ("the last byte", of(fs.write(&by(), file, END - 1, b"x", false))),
        ("one byte further", of(fs.write(&by(), file, END, b"x", false))),
        ("across the end", of(fs.write(&by(), file, END - 1, b"xy", false))),
        ("where offsets end", of(fs.write(&by(), file, u64::MAX, b"x", false))),
        ("read across the end", read(END - 3, 9)),
        ("read behind the end", read(END, 9)),
        ("read where offsets end", read(u64::MAX - 4, 9)),
        ("the first hole", at(fs.seek(file, 0, Seek::Hole))),
        ("data behind it", at(fs.seek(file, 200_000, Seek::Data))),
        ("a hole at the end", at(fs.seek(file, END - 1, Seek::Hole))),
        ("behind the end", at(fs.seek(file, END, Seek::Data))),
        ("longer", of(fs.setattr(&by(), file, &sized(END + 1)))),
        ("longest", of(fs.setattr(&by(), file, &sized(END)))),
        ("room beyond", of(fs.fallocate(&by(), file, Allocate::Extend, END - 4096, 8192))),
        ("zeroes beyond", of(fs.fallocate(&by(), file, Allocate::ZeroRange, END - 4096, 8192))),
        ("inserted", of(fs.fallocate(&by(), file, Allocate::InsertRange, END - GRANULE + 4096, 4096))),
        ("a block at the end", of(fs.write(&by(), file, END - 4096, &[7; 4096], false))),
        ("copied beyond", at(fs.copy_file_range(&by(), file, 0, file, END - 50, 100))),
        ("copied to the end", at(fs.copy_file_range(&by(), file, 0, file, END - 100, 100))),
        ("read it", read(END - 5000, 9000)),
        // All but its edges.
        ("a hole", of(fs.fallocate(&by(), file, Allocate::PunchHole, 5000, END - 5050))),
        ("read behind it", read(END - 60, 60)),
        ("read before it", read(4000, 3000)),
        ("data after it", at(fs.seek(file, 70_000, Seek::Data))),
        ("a hole in it", at(fs.seek(file, 9000, Seek::Hole))),
        ("all of it", of(fs.fallocate(&by(), file, Allocate::ZeroRange, 0, END))),
        ("no data", at(fs.seek(file, 0, Seek::Data))),
    ];
    // Holes whose edges lie in each way to granules.
    for (begin, end) in [(0, 10), (5, GRANULE), (GRANULE - 1, GRANULE + 1), (GRANULE, 3 * GRANULE), (9, 2 * GRANULE)] {
        let written = of(fs.write(&by(), file, 0, &[9; 4 * GRANULE as usize], false));
        answers.push(("rewritten", written));
        answers.push(("punched", of(fs.fallocate(&by(), file, Allocate::PunchHole, begin, end - begin))));
        answers.push(("read", read(0, 4 * GRANULE as usize)));
    }
    answers.extend([
        ("shorter", of(fs.setattr(&by(), file, &sized(END - 4097)))),
        ("cut", of(fs.setattr(&by(), file, &sized(3)))),
        ("long again", of(fs.setattr(&by(), file, &sized(END)))),
        ("zeroes", read(0, 100)),
        ("written again", of(fs.write(&by(), file, END - 70_000, &[3; 70_000], false))),
    ]);
    answers
}

/// The real one does what the model does, and has it after a mount; copies and removals of the file take no longer than others.
pub(super) fn files(seed: u64) -> std::result::Result<(), String> {
    let memory = Memory::new(16 << 20);
    let real = Volume::create(memory.clone(), tiny(seed), 1, at(0)).map_err(words("create"))?;
    let model = Model::new(at(0));
    let open = SetAttributes { uid: Some(1), ..SetAttributes::default() };
    let name = Name::new(b"long").map_err(words("name"))?;
    let made = |fs: &dyn Operations| {
        fs.setattr(&caller(1), ROOT, &open)?;
        Ok(fs.create(&caller(1), ROOT, name, Permissions::of_mode(0o600))?.inode)
    };
    let (ours, theirs) = (made(&real).map_err(words("create"))?, made(&model).map_err(words("create"))?);
    for ((what, found), (_, right)) in calls(&real, ours).into_iter().zip(calls(&model, theirs)) {
        let is_known = matches!((&found, &right), (Err(Error::NotSupported | Error::NoSpace), _));
        if found != right && !is_known {
            let short = |answer: &Answer| format!("{:?}", answer.as_ref().map(|(size, bytes)| (size, bytes.len())));
            return Err(format!("{what}: {} instead of {}", short(&found), short(&right)));
        }
    }
    let copy = Name::new(b"copy").map_err(words("name"))?;
    for fs in [&real as &dyn Operations, &model] {
        fs.clone_tree(&caller(90), ROOT, name, ROOT, copy).map_err(words("copy"))?;
    }
    real.syncfs().map_err(words("sync"))?;
    drop(real);
    let real = Volume::open(memory, tiny(seed)).map_err(words("mount"))?;
    let end = |fs: &dyn Operations, name: Name<'_>| {
        let file = fs.lookup(ROOT, name)?;
        let mut bytes = vec![1; 80_000];
        fs.read(&caller(1), file.inode, END - 75_000, &mut bytes).map(|length| (file.size_bytes, length, bytes))
    };
    for name in [name, copy] {
        if end(&real, name) != end(&model, name) {
            return Err("mounted again, its end differs".to_owned());
        }
    }
    for fs in [&real as &dyn Operations, &model] {
        fs.unlink(&caller(91), ROOT, name)
            .and_then(|()| fs.unlink(&caller(91), ROOT, copy))
            .map_err(words("unlink"))?;
    }
    match real.data_keys().map_err(words("keys"))? {
        0 => Ok(()),
        keys => Err(format!("{keys} keys of data are left")),
    }
}

#[test]
fn files_are_as_long_as_they_may_be() {
    for seed in [0, 1, 2, PATHS] {
        files(seed).unwrap_or_else(|what| panic!("{seed}: {what}"));
    }
}
