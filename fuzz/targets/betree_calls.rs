//! Any sequence of calls, beside an ordered map.
#![no_main]

use std::collections::BTreeMap;
use std::ops::Bound;

use betree::{Database, Durability, Snapshot, Tree};
use libfuzzer_sys::fuzz_target;
use storage::Memory;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything in a tree, as a view or as it is now.
fn held(tree: &Tree, view: Option<&Snapshot>) -> Map {
    let all = match view {
        Some(view) => view.range::<&[u8]>(tree, ..),
        None => tree.iter(),
    };
    all.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fuzz_target!(|input: &[u8]| {
    let [kind, calls @ ..] = input else { return };
    let options = fuzz::options(*kind);
    let memory = Memory::new(8 << 20);
    let mut database = Database::create(memory.clone(), options.clone(), 1).unwrap();
    let mut tree = database.tree("t").unwrap();
    let (mut map, mut view, mut saved) = (Map::new(), None, None::<Map>);
    for call in calls.chunks(3).take(400) {
        let &[what, a, b] = call else { break };
        let key = vec![a; usize::from(a % 5) + 1];
        match what % 12 {
            0..=2 => {
                let value = vec![b; usize::from(b)];
                tree.insert(&key, value.clone(), Durability::None).unwrap();
                map.insert(key, value);
            }
            3 => {
                tree.remove(&key, Durability::Batch).unwrap();
                map.remove(&key);
            }
            4 => {
                let (start, end) = (vec![a.min(b)], vec![a.max(b)]);
                tree.remove_range(&start[..]..&end[..], Durability::None).unwrap();
                map.retain(|key, _| *key < start || *key >= end);
            }
            5 => {
                let mut batch = betree::Batch::new();
                batch.upsert(&tree, &key, 2, vec![b; 3]);
                database.commit(&batch, Durability::None).unwrap();
                map.entry(key).or_default().extend([b; 3]);
            }
            6 => assert_eq!(tree.get(&key).unwrap().as_deref(), map.get(&key).map(Vec::as_slice)),
            7 => {
                let bounds = (Bound::Excluded(key.clone()), Bound::Unbounded::<Vec<u8>>);
                let next = tree.range::<Vec<u8>>(bounds.clone()).next().map(|entry| entry.unwrap().0.to_vec());
                assert_eq!(next.as_ref(), map.range(bounds).next().map(|(key, _)| key));
            }
            8 => view = Some((database.snapshot(), map.clone())),
            9 => match (b % 3, &saved) {
                (0, None) => {
                    database.save_snapshot("s").unwrap();
                    saved = Some(map.clone());
                }
                (1, Some(saved)) => assert_eq!(&held(&tree, Some(&database.open_snapshot("s").unwrap())), saved),
                (2, Some(_)) => {
                    database.remove_snapshot("s").unwrap();
                    saved = None;
                }
                _ => {}
            },
            10 => match b % 4 {
                0 => database.checkpoint().unwrap(),
                1 => database.compact().unwrap(),
                2 => database.quiesce().unwrap(),
                _ => drop(database.work(4096).unwrap()),
            },
            _ => {
                if let Some((view, map)) = view.take() {
                    assert_eq!(held(&tree, Some(&view)), map);
                }
                drop((tree, database));
                database = Database::open(memory.clone(), options.clone()).unwrap();
                tree = database.open_tree("t").unwrap();
            }
        }
    }
    assert_eq!(held(&tree, None), map);
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
});
