//! Programs at a tracepoint of the running kernel, and the map that one fills. Needs root.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::process::Command;

use observe::bpf::Register::{Frame, R0, R1, R2, R3, R4, R6};
use observe::bpf::{Helper, Map, MapKind, Program, attach};
use observe::processes;
use observe::tracefs::{self, Format};

/// The tracepoint of new processes and a map from their numbers; `None` where that is not available.
fn forks() -> Option<(Format, Map<u32, u64>)> {
    let format = tracefs::root().map_err(|error| error.to_string());
    let format = format.and_then(|root| {
        Format::read(&root, "sched", "sched_process_fork").map_err(|error| error.to_string())?.ok_or("none".into())
    });
    let map = Map::create(MapKind::Hash, 1 << 12).map_err(|error| error.to_string());
    match format.and_then(|format| Ok((format, map?))) {
        Ok(both) => Some(both),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Runs a process and gives its number.
fn child() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn taken(map: &Map<u32, u64>) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    map.take(&mut |&key, &value| assert_eq!(found.insert(key, value), None, "twice")).unwrap();
    found
}

#[test]
fn a_program_runs_as_long_as_it_is_attached() {
    let Some((format, map)) = forks() else { return };
    if !processes::are_numbered_as_in_the_kernel() {
        println!("skipped: the numbers of processes are others in this PID namespace");
        return;
    }
    let mut program = Program::default();
    program.copy(R6, R1).load(R1, R6, format.field("child_pid").unwrap()).store_word(Frame, -8, R1);
    program.set_wide(R1, 0x1_0000_0007).store(Frame, -16, R1);
    program.set_map(R1, map.as_fd()).copy(R2, Frame).add(R2, -8).copy(R3, Frame).add(R3, -16).set(R4, 0);
    program.call(Helper::MapUpdate).exit();
    let attached = attach(&program.finish().unwrap(), &format).unwrap();
    let seen = [child(), child()];
    drop(attached);
    let unseen = child();
    map.set(&u32::MAX, &9).unwrap();
    assert_eq!(map.get(&u32::MAX).unwrap(), 9);

    let found = taken(&map);
    assert!(seen.iter().all(|process| found.get(process) == Some(&0x1_0000_0007)), "{seen:?}: {found:?}");
    assert!(!found.contains_key(&unseen), "{unseen}: {found:?}");
    assert_eq!(found.get(&u32::MAX), Some(&9));
    assert_eq!(taken(&map).len(), 0, "taken once");
    assert!(map.get(&u32::MAX).is_err());
}

#[test]
fn the_verifier_says_why_it_refuses() {
    let Some((format, _)) = forks() else { return };
    let mut program = Program::default();
    program.add(R0, 1).exit();
    let error = attach(&program.finish().unwrap(), &format).err().unwrap().to_string();
    assert!(error.contains("R0 !read_ok"), "{error}");
}

/// More entries than are taken out at once at first.
#[test]
fn all_of_a_large_map_is_taken() {
    const ENTRIES: u32 = 20_000;
    let map: Map<u32, u64> = match Map::create(MapKind::Hash, ENTRIES) {
        Ok(map) => map,
        Err(why) => return println!("skipped: {why}"),
    };
    for key in 0..ENTRIES {
        map.set(&key, &(u64::from(key) * 3)).unwrap();
    }
    assert!(map.set(&ENTRIES, &0).is_err(), "it is full");
    let expected = (0..ENTRIES).map(|key| (key, u64::from(key) * 3)).collect::<BTreeMap<_, _>>();
    assert_eq!(taken(&map), expected);
}
