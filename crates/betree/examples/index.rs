//! An index beside what it is of: people by number, and by the place where they live, which never disagree.
//!
//! ```text
//! cargo run --release -p plumb-betree --example index
//! ```
//!
//! A second tree has a key for each person, place first. One batch changes both, under the condition that the person is what
//! the index entry was made of; so whoever loses a race reads again.

use betree::{Batch, Database, Durability, Error, Options, Snapshot, Tree};
use storage::Memory;

struct People {
    database: Database,
    /// Number to place.
    people: Tree,
    /// Place, a zero, number; without a value.
    places: Tree,
}

fn place_key(place: &str, number: u32) -> Vec<u8> {
    [place.as_bytes(), &[0], &number.to_be_bytes()].concat()
}

impl People {
    fn new() -> betree::Result<Self> {
        let database =
            Database::create(Memory::new(64 << 20), Options { log_bytes: 1 << 20, ..Options::default() }, 1)?;
        let (people, places) = (database.tree("people")?, database.tree("places")?);
        Ok(Self { database, people, places })
    }

    /// A person moves in, or from one place to another.
    fn moves(&self, number: u32, place: &str) -> betree::Result<()> {
        let key = number.to_be_bytes();
        loop {
            let before = self.people.get(key)?;
            let mut batch = Batch::new();
            batch.require(&self.people, key, before.as_deref());
            if let Some(before) = &before {
                batch.remove(&self.places, place_key(&String::from_utf8_lossy(before), number));
            }
            batch.insert(&self.people, key, place);
            batch.insert(&self.places, place_key(place, number), "");
            match self.database.commit(&batch, Durability::None) {
                Err(Error::Conflict) => {}
                result => return result,
            }
        }
    }

    /// Who lives at a place, as it was at one moment.
    fn of_place(&self, at: &Snapshot, place: &str) -> betree::Result<Vec<u32>> {
        let prefix = [place.as_bytes(), &[0]].concat();
        let number = |key: Vec<u8>| key.last_chunk().copied().map_or(0, u32::from_be_bytes);
        at.prefix(&self.places, prefix).map(|entry| entry.map(|(key, _)| number(key))).collect()
    }
}

fn main() -> betree::Result<()> {
    let people = People::new()?;
    for number in 0..1000 {
        people.moves(number, ["Bern", "Linz", "Nice"][number as usize % 3])?;
    }
    let before = people.database.snapshot();
    for number in (0..1000).step_by(5) {
        people.moves(number, "Oslo")?;
    }
    let now = people.database.snapshot();
    for place in ["Bern", "Linz", "Nice", "Oslo"] {
        let (was, is) = (people.of_place(&before, place)?.len(), people.of_place(&now, place)?.len());
        println!("{place}: {is} people, {was} before");
    }
    // Every person has one entry in the index, and the other way round.
    let mut count = 0;
    for entry in people.places.iter() {
        let (key, _) = entry?;
        let (place, number) = key.split_at(key.len() - 5);
        assert_eq!(people.people.get(&number[1..])?.as_deref(), Some(place));
        count += 1;
    }
    assert_eq!(count, people.people.iter().count());
    println!("{count} entries agree");
    Ok(())
}
