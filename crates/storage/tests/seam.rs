//! Every storage behaves the same behind the seam.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crash::{Cuts, VolatileCache};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use storage::{
    BLOCK_BYTES, Buffer, Completion, Fault, FaultKind, Faulty, File, FileEngine, FileOptions, Image, Memory, Operation,
    QueueExt, Recorded, Request, Storage, StorageError, Tag,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

fn filled(blocks: usize, byte: u8) -> Buffer {
    let mut buffer = Buffer::zeroed(blocks * BLOCK_BYTES);
    buffer.fill(byte);
    buffer
}

/// Writes, several outstanding at once, against a plain array.
fn against_array(storage: &dyn Storage, requests: &[(u8, u64, usize, u8)]) {
    let mut model = vec![0u8; storage.capacity_bytes() as usize];
    let mut queue = storage.open_queue().unwrap();
    for (kind, block, blocks, byte) in requests {
        let at = block * BLOCK;
        let range = at as usize..at as usize + blocks * BLOCK_BYTES;
        let fits = range.end <= model.len();
        let result = match kind {
            0 => queue.read(at, blocks * BLOCK_BYTES).map(|read| assert_eq!(&read[..], &model[range], "at {at}")),
            1 => queue.write(at, filled(*blocks, *byte)).map(|()| model[range].fill(*byte)),
            _ => queue.flush(),
        };
        assert_eq!(result.is_ok(), fits || *kind > 1, "{result:?}");
    }
}

fn requests() -> impl Strategy<Value = Vec<(u8, u64, usize, u8)>> {
    prop::collection::vec((0u8..3, 0u64..34, 1usize..4, any::<u8>()), 0..60)
}

proptest! {
    #[test]
    fn memory_is_an_array(requests in requests()) {
        against_array(&Memory::new(32 * BLOCK), &requests);
    }

    #[test]
    fn wrappers_without_faults_change_nothing(requests in requests()) {
        let (faulty, _) = Faulty::new(Memory::new(32 * BLOCK));
        let (recorded, _) = Recorded::new(faulty);
        against_array(&recorded, &requests);
    }

    /// With every undecided write kept, the last cut is what is there.
    #[test]
    fn the_last_cut_with_everything_is_the_storage(requests in requests()) {
        let memory = Memory::new(32 * BLOCK);
        let before = memory.image();
        let (recorded, recording) = Recorded::new(memory.clone());
        against_array(&recorded, &requests);
        let log = recording.take();
        let last = Cuts::new(before, &log, VolatileCache::default()).last().unwrap();
        prop_assert_eq!(last.image(512, |_, _| true), memory.image());
    }
}

/// A way to a file, or none where the kernel has no io_uring.
fn has(engine: FileEngine) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let options = FileOptions { capacity_bytes: Some(BLOCK), engine, ..FileOptions::default() };
    let opened = File::open(&folder.path().join("store"), &options).unwrap().open_queue();
    match opened {
        Ok(_) => true,
        Err(error @ StorageError::Uring { .. }) => {
            println!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_file_is_an_array_whatever_the_engine_and_is_locked() {
    for engine in [FileEngine::Calls, FileEngine::Auto, FileEngine::Uring] {
        for page_cache in [false, true] {
            if has(engine) {
                an_array_and_locked(engine, page_cache);
            }
        }
    }
}

/// Far more requests at once than a ring takes, in any order: each completes once, with its own tag and bytes.
#[test]
fn many_requests_at_once_all_complete() {
    const BLOCKS: u64 = 300;
    for engine in [FileEngine::Calls, FileEngine::Uring] {
        if !has(engine) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let capacity_bytes = Some(2 * BLOCKS * BLOCK);
        let options = FileOptions { capacity_bytes, engine, ..FileOptions::default() };
        let file = File::open(&folder.path().join("store"), &options).unwrap();
        let mut queue = file.open_queue().unwrap();
        let byte = |number: u64| (number % 251) as u8 + 1;
        let mut completions = Vec::new();
        for number in 0..BLOCKS {
            let offset_bytes = (number * 7 % BLOCKS) * 2 * BLOCK;
            let buffer = filled(1 + (number % 2) as usize, byte(number));
            queue.submit(Tag(number), Request::Write { offset_bytes, buffer });
        }
        // A bad one among them, and one that transfers nothing.
        queue.submit(Tag(1000), Request::Read { offset_bytes: 2 * BLOCKS * BLOCK, buffer: Buffer::zeroed(1) });
        queue.submit(Tag(1001), Request::Read { offset_bytes: 0, buffer: Buffer::default() });
        let drain = |queue: &mut dyn storage::Queue, completions: &mut Vec<Completion>, until: usize| {
            while completions.len() < until {
                let before = completions.len();
                queue.complete(completions);
                assert!(completions.len() > before, "waiting gives something");
            }
            assert_eq!(completions.len(), until);
            let tags: BTreeSet<u64> = completions.iter().map(|one| one.tag.0).collect();
            assert_eq!(tags.len(), until, "each once");
        };
        drain(&mut *queue, &mut completions, BLOCKS as usize + 2);
        for one in completions.drain(..) {
            assert_eq!(one.result.is_ok(), one.tag.0 != 1000, "{:?}", one.result);
        }
        queue.flush().unwrap();
        for number in 0..BLOCKS {
            let offset_bytes = (number * 7 % BLOCKS) * 2 * BLOCK;
            queue.submit(Tag(number), Request::Read { offset_bytes, buffer: Buffer::zeroed(BLOCK_BYTES) });
        }
        drain(&mut *queue, &mut completions, BLOCKS as usize);
        for one in completions {
            one.result.unwrap();
            assert!(one.buffer.iter().all(|found| *found == byte(one.tag.0)), "request {}", one.tag.0);
        }
        // Dropped with requests at the kernel.
        queue.submit(Tag(0), Request::Write { offset_bytes: 0, buffer: filled(64, 3) });
        drop(queue);
    }
}

fn an_array_and_locked(engine: FileEngine, page_cache: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = FileOptions { capacity_bytes: Some(32 * BLOCK + 100), page_cache, engine, ..FileOptions::default() };
    let file = File::open(&path, &options).unwrap();
    assert_eq!(file.capacity_bytes(), 32 * BLOCK);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let requests = requests().new_tree(&mut runner).unwrap().current();
    against_array(&file, &requests);
    let mut queue = file.open_queue().unwrap();
    queue.write(0, filled(1, 7)).unwrap();
    queue.call(Request::Discard { offset_bytes: 0, len_bytes: BLOCK }).unwrap();

    let second = File::open(&path, &FileOptions::default()).unwrap_err();
    assert!(matches!(second, StorageError::Locked { .. }), "{second}");
    drop(queue);
    drop(file);
    let to_read =
        File::open(&path, &FileOptions { read_only: true, page_cache, engine, ..FileOptions::default() }).unwrap();
    assert_eq!(to_read.capacity_bytes(), 32 * BLOCK);
    let mut queue = to_read.open_queue().unwrap();
    let before = queue.read(BLOCK, BLOCK as usize).unwrap();
    assert!(matches!(queue.write(BLOCK, filled(1, 9)), Err(StorageError::Io { .. })));
    assert!(queue.read(BLOCK, BLOCK as usize).unwrap()[..] == before[..]);
    drop((queue, to_read));
    assert_eq!(File::open(&path, &FileOptions::default()).unwrap().capacity_bytes(), 32 * BLOCK);
    let missing = File::open(&folder.path().join("none"), &FileOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("cannot be opened"), "{missing}");
}

#[test]
fn room_is_taken_for_what_is_reserved_and_contents_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let file = File::open(&path, &FileOptions { capacity_bytes: Some(64 * BLOCK), ..FileOptions::default() }).unwrap();
    let mut queue = file.open_queue().unwrap();
    queue.write(BLOCK, filled(1, 7)).unwrap();
    let room_bytes = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(room_bytes() < 32 * BLOCK);
    let (faulty, _) = Faulty::new(Arc::new(file));
    faulty.reserve(32 * BLOCK).unwrap();
    assert!((32 * BLOCK..64 * BLOCK).contains(&room_bytes()), "{}", room_bytes());
    assert_eq!((faulty.capacity_bytes(), queue.read(BLOCK, 4096).unwrap()[0]), (64 * BLOCK, 7));
    // More than there is anywhere.
    let none = faulty.reserve(1 << 62).unwrap_err();
    assert!(
        matches!(none, StorageError::Reserve { .. }) && none.to_string().contains("no room for its first"),
        "{none}"
    );
}

#[test]
fn bad_requests_complete_with_what_is_wrong() {
    let mut queue = Memory::new(8 * BLOCK).open_queue().unwrap();
    assert!(matches!(queue.read(512, 4096), Err(StorageError::Misaligned { .. })));
    assert!(matches!(queue.read(u64::MAX - 4095, 4096), Err(StorageError::OutOfRange { .. })));
    assert!(matches!(queue.write(8 * BLOCK, filled(1, 0)), Err(StorageError::OutOfRange { .. })));
    let odd = queue.call(Request::Discard { offset_bytes: 0, len_bytes: 5 });
    assert!(matches!(odd, Err(StorageError::Misaligned { operation: Operation::Discard, .. })));
    let mut none: Vec<Completion> = Vec::new();
    queue.complete(&mut none);
    assert!(none.is_empty(), "nothing was outstanding");
}

fn fault(operation: Operation, at: u64, kind: FaultKind) -> Fault {
    Fault { operation: Some(operation), at, lasting: false, kind }
}

#[test]
fn each_fault_does_what_it_says_once() {
    let memory = Memory::new(16 * BLOCK);
    let (storage, faults) = Faulty::new(memory.clone());
    let mut queue = storage.open_queue().unwrap();

    faults.add(fault(Operation::Write, 1, FaultKind::Error));
    queue.write(0, filled(4, 1)).unwrap();
    assert!(queue.write(0, filled(4, 2)).is_err());
    assert_eq!(queue.read(0, 4096).unwrap()[0], 1, "a failed write did nothing");

    faults.clear();
    faults.add(fault(Operation::Write, 0, FaultKind::Short));
    assert!(queue.write(0, filled(4, 3)).is_err());
    let now = queue.read(0, 4 * BLOCK_BYTES).unwrap();
    assert_eq!((now[2 * BLOCK_BYTES - 1], now[2 * BLOCK_BYTES]), (3, 1), "the first half arrived");

    faults.clear();
    faults.add(fault(Operation::Read, 0, FaultKind::Corrupt { bit: 9 }));
    assert_eq!(queue.read(0, 4096).unwrap()[1], 3 ^ 2);
    assert_eq!(queue.read(0, 4096).unwrap()[1], 3);

    faults.clear();
    faults.add(fault(Operation::Write, 0, FaultKind::Lost));
    queue.write(0, filled(4, 9)).unwrap();
    assert_eq!(queue.read(0, 4096).unwrap()[0], 3);

    faults.clear();
    faults.add(fault(Operation::Write, 0, FaultKind::Delayed));
    queue.submit(Tag(1), Request::Write { offset_bytes: 0, buffer: filled(1, 5) });
    queue.submit(Tag(2), Request::Write { offset_bytes: 0, buffer: filled(1, 6) });
    let mut order = Vec::new();
    while order.len() < 2 {
        queue.complete(&mut order);
    }
    assert_eq!(order.iter().map(|done| done.tag.0).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(queue.read(0, 4096).unwrap()[0], 5, "the delayed one came last");

    faults.clear();
    faults.add(Fault { lasting: true, ..fault(Operation::Flush, 1, FaultKind::Error) });
    assert_eq!((0..3).map(|_| queue.flush().is_ok()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(faults.injected(), 7);
}

/// The last mark and the first bytes of two blocks, for each way in which a cut may end.
type Left = (Option<u64>, BTreeSet<(u8, u8)>);

/// Two writes, a flush that covers only the first, and all that a cut may leave at each moment.
#[test]
fn a_flush_covers_what_completed_before_it() {
    let memory = Memory::new(4 * BLOCK);
    let (storage, recording) = Recorded::new(memory);
    let (mut one, mut two) = (storage.open_queue().unwrap(), storage.open_queue().unwrap());
    one.write(0, filled(1, 1)).unwrap();
    two.submit(Tag(1), Request::Write { offset_bytes: BLOCK, buffer: filled(1, 2) });
    one.flush().unwrap();
    let mut done = Vec::new();
    two.complete(&mut done);
    recording.mark(7);
    let log = recording.take();

    let mut states: Vec<Left> = Vec::new();
    for cut in Cuts::new(Image::new(4 * BLOCK), &log, VolatileCache::default()) {
        let mut leaves = BTreeSet::new();
        for subset in 0..1u32 << cut.undecided.len() {
            let image = cut.image(BLOCK_BYTES as u32, |write, _| {
                cut.undecided.iter().position(|other| other.id == write.id).is_some_and(|at| subset >> at & 1 == 1)
            });
            let (mut a, mut b) = ([0], [0]);
            image.read(0, &mut a);
            image.read(BLOCK, &mut b);
            leaves.insert((a[0], b[0]));
        }
        states.push((cut.mark, leaves));
    }
    let expected: Vec<Left> = vec![
        (None, BTreeSet::from([(0, 0)])),
        (None, BTreeSet::from([(0, 0), (1, 0)])),
        (None, BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)])),
        // The mark was made before the next moment at which a cut could leave something else.
        (Some(7), BTreeSet::from([(1, 0), (1, 2)])),
    ];
    assert_eq!(states, expected);
}

/// A file that becomes longer while it is open is longer for the queues that there are, too, once somebody has looked.
#[test]
fn a_file_is_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for engine in [FileEngine::Auto, FileEngine::Calls] {
        let options = FileOptions { capacity_bytes: Some(1 << 20), engine, ..FileOptions::default() };
        let file = File::open(&path, &options).unwrap();
        let mut queue = file.open_queue().unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len((2 << 20) + 100).unwrap();
        assert!(queue.write(1 << 20, Buffer::padded(b"there")).is_err());
        assert_eq!(
            (file.capacity_bytes(), file.measure().unwrap(), file.capacity_bytes()),
            (1 << 20, 2 << 20, 2 << 20)
        );
        queue.write(1 << 20, Buffer::padded(b"there")).unwrap();
        assert_eq!(&queue.read(1 << 20, 4096).unwrap()[..5], b"there");
        drop((queue, file));
        std::fs::remove_file(&path).unwrap();
    }
}
