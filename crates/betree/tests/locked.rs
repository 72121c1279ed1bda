//! A store whose owner is about to let go of it.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use betree::{Database, Durability, Error, Options};
use storage::{File, FileOptions, StorageError};

/// How often it is tried: on a busy machine the owner may be late.
const ATTEMPTS: usize = 5;

/// A killed owner's lock stays until the kernel is done with it: whoever opens the store waits for that.
#[test]
fn a_store_that_is_let_go_of_soon_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let file = FileOptions { capacity_bytes: Some(32 << 20), ..FileOptions::default() };
    let options = Options { log_bytes: 1 << 20, memtable_bytes: 1 << 20, fresh_bytes: 1 << 20, ..Options::default() };
    let database = Database::create(File::open(&path, &file).unwrap(), options.clone(), 1).unwrap();
    database.tree("t").unwrap().insert("key", "value", Durability::Sync).unwrap();
    drop(database);
    for attempt in 0..ATTEMPTS {
        let owner = File::open(&path, &file).unwrap();
        let gone = AtomicBool::new(false);
        let opened = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                gone.store(true, Ordering::Release);
                drop(owner);
            });
            // Where the owner is gone already nothing is shown.
            (!gone.load(Ordering::Acquire)).then(|| File::open(&path, &file))
        });
        match opened {
            Some(Ok(storage)) => {
                let database = Database::open(storage, options).unwrap();
                assert_eq!(database.open_tree("t").unwrap().get("key").unwrap().unwrap(), b"value");
                return;
            }
            Some(Err(StorageError::Locked { .. })) | None => println!("attempt {attempt}: not opened"),
            Some(Err(error)) => panic!("{}", Error::from(error)),
        }
    }
    panic!("{ATTEMPTS} times nobody waited until the owner was gone");
}
