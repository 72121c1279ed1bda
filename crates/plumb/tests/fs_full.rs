//! A small file system of `plumb fs` that runs full under several writers: each is told so, and nothing that was synced is lost.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs::{self, File};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::thread;

use fs_rig::{Rig, skipped};

const WRITERS: usize = 4;

/// No writer gets so far.
const FILES_MAX: usize = 4000;

/// What a file has, by its number, and what no compression makes shorter.
fn content(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut bytes = Vec::with_capacity(8 * words(number));
    for _ in 0..words(number) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Of eight bytes.
fn words(number: usize) -> usize {
    1 + number * 6151 % 40_000
}

/// Makes files and syncs each, until there is no room: those that were synced.
fn fill(place: &Path, writer: usize, round: usize) -> Vec<(PathBuf, usize)> {
    let mut kept = Vec::new();
    for number in 0..FILES_MAX {
        let path = place.join(format!("{round}-{writer}-{number}"));
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(&content(number))?;
            file.sync_all()
        };
        match write() {
            Ok(()) => kept.push((path, number)),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()), "{error}");
                return kept;
            }
        }
    }
    panic!("it never runs full");
}

fn check(kept: &[(PathBuf, usize)]) {
    for (path, number) in kept {
        let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == content(*number), "{}: {} bytes", path.display(), found.len());
    }
}

fn available_bytes(place: &Path) -> u64 {
    let space = rustix::fs::statvfs(place).map_err(Error::from).unwrap();
    space.f_bavail * space.f_frsize
}

#[test]
fn nothing_is_lost_where_there_is_no_room() {
    if skipped(&[]) {
        return;
    }
    let rounds = if std::env::var_os("PLUMB_LONG").is_some() { 12 } else { 2 };
    let mut rig = Rig::new(96);
    let mut kept: Vec<(PathBuf, usize)> = Vec::new();
    for round in 0..rounds {
        let place = rig.place();
        let filled: Vec<_> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn({
                        let place = &place;
                        move || fill(place, writer, round)
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let bytes: usize = filled.iter().map(|(_, number)| 8 * words(*number)).sum();
        println!("round {round}: {} files, {bytes} bytes synced; {} left", filled.len(), available_bytes(&place));
        assert!(bytes > 8 << 20, "round {round}: {bytes} bytes until it was full");
        kept.extend(filled);
        check(&kept);
        // What failed may be there in part, and goes now; so it does on a full one.
        for entry in fs::read_dir(&place).unwrap() {
            let path = entry.unwrap().path();
            if !kept.iter().any(|(kept, _)| *kept == path) {
                fs::remove_file(path).unwrap();
            }
        }
        if round % 2 == 0 {
            rig.unmount();
        } else {
            rig.kill();
            rig.check();
        }
        rig.mount(&[]);
        check(&kept);
        // Every other one goes, and there is room for more.
        let mut index = 0;
        kept.retain(|(path, _)| {
            index += 1;
            let goes = index % 2 == 0;
            if goes {
                fs::remove_file(path).unwrap();
            }
            !goes
        });
    }
    rig.unmount();
}
