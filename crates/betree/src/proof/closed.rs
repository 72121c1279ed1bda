//! A closed store: what is looked at without opening it is what opening finds, and nothing changes.

use storage::{Image, Memory};

use super::workload::{Map, batch, content, random, tiny};
use crate::{Database, Durability, Error};

fn bytes(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; image.capacity_bytes() as usize];
    image.read(0, &mut bytes);
    bytes
}

pub(super) fn closed(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let memory = Memory::new(1 << 20);
    let database = Database::create(memory.clone(), tiny(seed), 5).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let (mut random, mut map) = (random(seed), Map::new());
    for number in 1..70 {
        let batch = batch(&tree, number, &mut random, &mut map);
        database.commit(&batch, Durability::Sync).map_err(failed)?;
        if number == 30 {
            database.save_snapshot("kept").map_err(failed)?;
        }
        if number % 9 != 0 {
            continue;
        }
        // As if the power went now.
        let image = memory.image();
        let copy = Memory::from_image(image.clone());
        let findings = crate::verify(copy.clone()).map_err(failed)?;
        if let Some(finding) = findings.first() {
            return Err(format!("batch {number}: {finding}"));
        }
        let mut lines = Vec::new();
        crate::dump(copy.clone(), true, |line| lines.push(line.to_owned())).map_err(failed)?;
        if bytes(&copy.image()) != bytes(&image) {
            return Err("looking at a store changed it".to_owned());
        }
        let opened = Database::open(copy, tiny(seed)).map_err(failed)?;
        let found = content(&opened.tree("t").map_err(failed)?).map_err(failed)?;
        if found != map {
            return Err("a closed store is another one".to_owned());
        }
    }
    // With nothing waiting, the entries of the leaves are the map.
    drop(tree);
    database.remove_snapshot("kept").map_err(failed)?;
    database.compact().map_err(failed)?;
    drop(database);
    let mut entries = Vec::new();
    let entry = |line: &str| line.trim_start().starts_with('"').then(|| line.trim_start().to_owned());
    crate::dump(memory, true, |line| entries.extend(entry(line))).map_err(failed)?;
    let expected: Vec<String> =
        map.iter().map(|(key, value)| format!("\"{}\" = {} bytes", key.escape_ascii(), value.len())).collect();
    let same = entries.len() == expected.len()
        && entries.iter().zip(&expected).all(|(entry, expected)| entry.starts_with(expected.as_str()));
    if same { Ok(()) } else { Err(format!("a dump of {} entries, not {}", entries.len(), expected.len())) }
}

#[test]
fn a_closed_store_is_verified_and_dumped_as_it_is() {
    for seed in 0..3 {
        closed(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn only_where_a_program_was_killed_is_all_of_the_log_read() {
    let options = crate::Options { log_bytes: 4 << 20, ..tiny(0) };
    let memory = Memory::new(16 << 20);
    let read_bytes = |image: Image| {
        let database = Database::open(Memory::from_image(image), options.clone()).unwrap();
        database.stats().read_bytes
    };
    let database = Database::create(memory.clone(), options.clone(), 5).unwrap();
    database.tree("t").unwrap().insert("a", "b", Durability::Sync).unwrap();
    let killed = memory.image();
    drop(database);
    let (closed, killed) = (read_bytes(memory.image()), read_bytes(killed));
    assert!(closed < 64 << 10, "{closed} bytes");
    assert!(killed > 4 << 20, "{killed} bytes");
    // Closed once more, without a change.
    drop(Database::open(memory.clone(), options.clone()).unwrap());
    assert_eq!(read_bytes(memory.image()), closed);
}
