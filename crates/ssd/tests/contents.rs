//! The store against a naive model that keeps every write and decides block by block.

use std::collections::BTreeSet;

use crash::Choice;
use nvme::{Lba, LbaRange, NamespaceId};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use ssd::{Contents, MediaError, Store, VolatileWrite};

const LBA_BYTES: u32 = 512;
const NAMESPACES: [u64; 2] = [40, 24];

#[derive(Clone, Debug)]
enum Op {
    Volatile {
        ns: usize,
        start: u64,
        blocks: u32,
        fill: Option<u8>,
    },
    Durable {
        ns: usize,
        start: u64,
        blocks: u32,
        fill: Option<u8>,
    },
    /// Commits the n-th volatile write, counted modulo their number.
    Commit {
        pick: usize,
    },
    /// Commits a part of the n-th volatile write.
    CommitBlocks {
        pick: usize,
        skip: u32,
        blocks: u32,
    },
    CommitThrough {
        back: u64,
    },
    /// Cuts the power; of the writes with a volatile block, those chosen survive.
    Cut {
        choice: Choice,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let place = (0usize..2).prop_flat_map(|ns| {
        (Just(ns), 0..NAMESPACES[ns])
            .prop_flat_map(|(ns, start)| (Just(ns), Just(start), 1..=(NAMESPACES[ns] - start).min(12) as u32))
    });
    let fill = prop_oneof![4 => (1u8..=255).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        8 => (place.clone(), fill.clone()).prop_map(|((ns, start, blocks), fill)| Op::Volatile { ns, start, blocks, fill }),
        2 => (place, fill).prop_map(|((ns, start, blocks), fill)| Op::Durable { ns, start, blocks, fill }),
        5 => any::<usize>().prop_map(|pick| Op::Commit { pick }),
        4 => (any::<usize>(), 0u32..12, 1u32..12).prop_map(|(pick, skip, blocks)| Op::CommitBlocks { pick, skip, blocks }),
        1 => (0u64..6).prop_map(|back| Op::CommitThrough { back }),
        1 => any::<u64>().prop_map(|lot| Op::Cut { choice: Choice::Lot(lot) }),
    ]
}

/// One block of one write.
#[derive(Clone, Copy, Debug)]
struct Version {
    sequence: u64,
    fill: u8,
    durable: bool,
}

/// Every version of every block since the last cut.
struct Model {
    blocks: [Vec<Vec<Version>>; 2],
    /// (sequence, namespace, start, count) of writes with a volatile block.
    volatile: Vec<(u64, usize, u64, u32)>,
}

impl Model {
    fn new() -> Self {
        Self { blocks: NAMESPACES.map(|blocks| vec![Vec::new(); blocks as usize]), volatile: Vec::new() }
    }

    fn write(&mut self, sequence: u64, ns: usize, start: u64, count: u32, fill: Option<u8>, durable: bool) {
        for block in start..start + u64::from(count) {
            self.blocks[ns][block as usize].push(Version { sequence, fill: fill.unwrap_or(0), durable });
        }
        if !durable {
            self.volatile.push((sequence, ns, start, count));
        }
    }

    fn commit(&mut self, sequence: u64, ns: usize, start: u64, count: u32) {
        for block in start..start + u64::from(count) {
            for version in &mut self.blocks[ns][block as usize] {
                version.durable |= version.sequence == sequence;
            }
        }
        let blocks = &self.blocks;
        self.volatile.retain(|&(sequence, ns, start, count)| {
            (start..start + u64::from(count)).any(|block| {
                blocks[ns][block as usize].iter().any(|version| version.sequence == sequence && !version.durable)
            })
        });
    }

    fn newest(&self, ns: usize, block: u64) -> u8 {
        self.blocks[ns][block as usize].last().map_or(0, |version| version.fill)
    }

    /// Applies a cut and a choice of undecided writes, given as predicate on sequence.
    fn cut(&mut self, survives: impl Fn(u64) -> bool) {
        for versions in self.blocks.iter_mut().flatten() {
            let kept = versions.iter().rfind(|version| version.durable || survives(version.sequence)).copied();
            *versions = kept.map(|version| Version { durable: true, ..version }).into_iter().collect();
        }
        self.volatile.clear();
    }
}

fn bytes(fill: Option<u8>, blocks: u32) -> Option<Box<[u8]>> {
    fill.map(|fill| vec![fill; blocks as usize * LBA_BYTES as usize].into_boxed_slice())
}

fn check(store: &Store, model: &Model) {
    for (ns, &blocks) in NAMESPACES.iter().enumerate() {
        let range = LbaRange { start: Lba(0), count: blocks as u32 };
        let data = store.read(NamespaceId(ns as u32 + 1), range).unwrap().unwrap();
        for (block, bytes) in data.chunks(LBA_BYTES as usize).enumerate() {
            let expected = model.newest(ns, block as u64);
            assert!(
                bytes.iter().all(|byte| *byte == expected),
                "namespace {ns} block {block}: {} is not {expected}",
                bytes[0]
            );
        }
    }
}

/// What a broken store would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    ForgetsCommits,
    SurvivesNewestFirst,
    LosesAfter64,
}

fn run(contents: &Contents, ops: Vec<Op>, defect: Option<Defect>) {
    let mut store = Store::new(contents, LBA_BYTES, &NAMESPACES, false).unwrap();
    let mut model = Model::new();
    for op in ops {
        match op {
            Op::Volatile { ns, start, blocks, fill } => {
                let range = LbaRange { start: Lba(start), count: blocks };
                let sequence = store.write_volatile(NamespaceId(ns as u32 + 1), range, bytes(fill, blocks));
                model.write(sequence, ns, start, blocks, fill, false);
            }
            Op::Durable { ns, start, blocks, fill } => {
                let range = LbaRange { start: Lba(start), count: blocks };
                let sequence = store.write_durable(NamespaceId(ns as u32 + 1), range, bytes(fill, blocks)).unwrap();
                model.write(sequence, ns, start, blocks, fill, true);
            }
            Op::Commit { pick } => {
                if !model.volatile.is_empty() {
                    let (sequence, ns, start, count) = model.volatile[pick % model.volatile.len()];
                    if defect != Some(Defect::ForgetsCommits) {
                        store.commit(sequence).unwrap();
                    }
                    model.commit(sequence, ns, start, count);
                }
            }
            Op::CommitBlocks { pick, skip, blocks } => {
                if !model.volatile.is_empty() {
                    let (sequence, ns, start, count) = model.volatile[pick % model.volatile.len()];
                    let skip = skip.min(count - 1);
                    let start = start + u64::from(skip);
                    let blocks = blocks.min(count - skip);
                    let fresh = (start..start + u64::from(blocks)).all(|block| {
                        model.blocks[ns][block as usize]
                            .iter()
                            .any(|version| version.sequence == sequence && !version.durable)
                    });
                    if fresh {
                        let range = LbaRange { start: Lba(start), count: blocks };
                        store.commit_blocks(sequence, NamespaceId(ns as u32 + 1), range).unwrap();
                        model.commit(sequence, ns, start, blocks);
                    }
                }
            }
            Op::CommitThrough { back } => {
                let through = store.last_sequence().saturating_sub(back);
                store.commit_through(through).unwrap();
                for (sequence, ns, start, count) in model.volatile.clone() {
                    if sequence <= through {
                        model.commit(sequence, ns, start, count);
                    }
                }
            }
            Op::Cut { choice } => {
                let volatile: BTreeSet<u64> = model.volatile.iter().map(|write| write.0).collect();
                let survivors = choice.of(volatile.len());
                let kept: BTreeSet<u64> =
                    volatile.iter().enumerate().filter(|(at, _)| survivors.has(*at)).map(|(_, write)| *write).collect();
                let undecided: Vec<VolatileWrite> = store.cut();
                assert!(undecided.is_sorted_by_key(|write| write.sequence));
                let unknown = undecided.iter().find(|write| !volatile.contains(&write.sequence));
                assert!(unknown.is_none(), "{unknown:?} was durable already");
                let mut surviving: Vec<_> = undecided.iter().filter(|write| kept.contains(&write.sequence)).collect();
                match defect {
                    Some(Defect::SurvivesNewestFirst) => surviving.reverse(),
                    Some(Defect::LosesAfter64) => surviving.truncate(64),
                    _ => {}
                }
                surviving.into_iter().for_each(|write| store.survive(write).unwrap());
                model.cut(|sequence| kept.contains(&sequence));
            }
        }
        check(&store, &model);
    }
    if let Contents::File(_) = contents {
        // A kill keeps what is durable and nothing else.
        drop(store);
        let store = Store::new(contents, LBA_BYTES, &NAMESPACES, false).unwrap();
        model.cut(|_| false);
        check(&store, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(ops in prop::collection::vec(op(), 1..60)) {
        run(&Contents::Memory, ops, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_image_file_agrees_with_the_model(ops in prop::collection::vec(op(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        run(&Contents::File(directory.path().join("image")), ops, None);
    }
}

/// Writes enough that more than 64 are undecided, whichever survive.
fn many_undecided() -> impl Strategy<Value = Vec<Op>> {
    let write = (0..NAMESPACES[0], 1u8..=255).prop_map(|(start, fill)| Op::Volatile {
        ns: 0,
        start,
        blocks: 1,
        fill: Some(fill),
    });
    let choice = prop_oneof![1 => Just(Choice::Everything), 4 => any::<u64>().prop_map(Choice::Lot)];
    (prop::collection::vec(write, 130..200), choice).prop_map(|(mut ops, choice)| {
        ops.push(Op::Cut { choice });
        ops
    })
}

#[test]
fn many_undecided_writes_survive_each_for_itself() {
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&many_undecided(), |ops| {
        run(&Contents::Memory, ops, None);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn broken_stores_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = |defect| {
        let ops = prop_oneof![prop::collection::vec(op(), 1..60), many_undecided()];
        let config =
            ProptestConfig { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        let outcome = TestRunner::new(config).run(&ops, |ops| {
            run(&Contents::Memory, ops, Some(defect));
            Ok::<(), TestCaseError>(())
        });
        outcome.is_err()
    };
    let defects = [Defect::ForgetsCommits, Defect::SurvivesNewestFirst, Defect::LosesAfter64];
    let unnoticed: Vec<_> = defects.into_iter().filter(|defect| !noticed(*defect)).collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn the_image_is_raw_and_sparse() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    let contents = Contents::File(path.clone());
    let blocks = 1 << 30;
    let mut store = Store::new(&contents, 512, &[blocks], false).unwrap();
    let far = LbaRange { start: Lba(blocks - 8), count: 8 };
    store.write_durable(NamespaceId::FIRST, far, Some(vec![9; 4096].into())).unwrap();
    let volatile =
        store.write_volatile(NamespaceId::FIRST, LbaRange { start: Lba(2), count: 1 }, Some(vec![5; 512].into()));
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), blocks * 512);
    assert!(metadata.blocks() * 512 < 1 << 20, "the image is not sparse");
    store.commit(volatile).unwrap();
    let mut bytes = [0; 512];
    std::fs::File::open(&path).unwrap().read_exact_at(&mut bytes, 1024).unwrap();
    assert_eq!(bytes, [5; 512]);
    // A deallocation of everything gives the space back.
    let all = LbaRange { start: Lba(0), count: u32::try_from(blocks).unwrap() };
    store.write_durable(NamespaceId::FIRST, all, None).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().blocks(), 0);
}

#[test]
fn a_scratch_file_has_no_name_and_takes_none() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("contents");
    let contents = Contents::Scratch(path.clone());
    let mut store = Store::new(&contents, 512, &[8, 1 << 30], false).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it goes with the process");
    let range = LbaRange { start: Lba((1 << 30) - 8), count: 8 };
    store.write_durable(NamespaceId(2), range, Some(vec![7; 4096].into())).unwrap();
    assert_eq!(store.read(NamespaceId(2), range).unwrap().unwrap(), vec![7; 4096].into());
    assert_eq!(store.memory_bytes(), 0);
    store.finish().unwrap();

    std::fs::write(directory.path().join("contents.ns2"), "somebody's").unwrap();
    let error = Store::new(&contents, 512, &[8, 8], false).unwrap_err();
    assert!(matches!(error, MediaError::Open { .. }), "{error}");
    assert_eq!(std::fs::metadata(directory.path().join("contents.ns2")).unwrap().size(), 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scratch_file_agrees_with_the_model(ops in prop::collection::vec(op(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        run(&Contents::Scratch(directory.path().join("image")), ops, None);
    }
}

#[test]
fn a_bad_image_is_refused_with_its_path_and_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("short.img");
    std::fs::write(&path, [0; 100]).unwrap();
    let error = Store::new(&Contents::File(path.clone()), 512, &[8], false).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, MediaError::WrongSize { expected: 4096, found: 100, .. }));
    assert!(text.contains(path.to_str().unwrap()) && text.contains("truncate -s 4096"), "{text}");

    let missing = Contents::File(directory.path().join("no/such/directory"));
    assert!(matches!(Store::new(&missing, 512, &[8], false), Err(MediaError::Open { .. })));

    let path = directory.path().join("shared.img");
    let held = Store::new(&Contents::File(path.clone()), 512, &[8], false).unwrap();
    assert!(matches!(Store::new(&Contents::File(path.clone()), 512, &[8], false), Err(MediaError::InUse { .. })));
    drop(held);
    Store::new(&Contents::File(path), 512, &[8], false).unwrap();
}

#[test]
fn an_image_cut_short_under_a_running_device_is_an_error_not_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    let store = Store::new(&Contents::File(path.clone()), 512, &[64], false).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let error = store.read(NamespaceId::FIRST, LbaRange { start: Lba(8), count: 8 }).unwrap_err();
    assert!(matches!(error, MediaError::Read { offset: 4096, bytes: 4096, .. }), "{error}");
}

#[test]
fn timing_only_tracks_ranges_when_asked_and_nothing_otherwise() {
    let range = LbaRange { start: Lba(4), count: 4 };
    let mut tracked = Store::new(&Contents::None, 4096, &[64], true).unwrap();
    tracked.write_volatile(NamespaceId::FIRST, range, None);
    let second = tracked.write_volatile(NamespaceId::FIRST, LbaRange { start: Lba(6), count: 4 }, None);
    tracked.commit(second).unwrap();
    assert_eq!(tracked.read(NamespaceId::FIRST, range).unwrap(), None);
    let undecided: Vec<_> = tracked.cut().iter().map(|write| (write.sequence, write.start.0, write.blocks)).collect();
    assert_eq!(undecided, [(1, 4, 2)], "blocks 6 and 7 hold the later write already");

    let mut untracked = Store::new(&Contents::None, 4096, &[64], false).unwrap();
    untracked.write_volatile(NamespaceId::FIRST, range, None);
    assert_eq!((untracked.last_sequence(), untracked.cut()), (1, Vec::new()));
}

#[test]
fn reminders_of_committed_writes_stay_few() {
    // One write lingers while a million others come and go.
    let mut store = Store::new(&Contents::None, 4096, &[1 << 30], true).unwrap();
    let lingering = store.write_volatile(NamespaceId::FIRST, LbaRange { start: Lba(0), count: 8 }, None);
    for index in 0..200_000u64 {
        let start = Lba(index * 7919 % (1 << 30));
        let sequence = store.write_volatile(NamespaceId::FIRST, LbaRange { start, count: 1 }, None);
        store.commit(sequence).unwrap();
    }
    assert!(format!("{store:?}").len() < 1 << 16, "the store grew with the writes committed");
    // Block 0 was overwritten by the first of them, which is durable.
    let undecided = store.cut();
    assert_eq!(
        undecided.iter().map(|write| (write.sequence, write.start.0, write.blocks)).collect::<Vec<_>>(),
        [(lingering, 1, 7)]
    );
}

#[test]
fn writes_that_a_later_one_replaced_on_the_media_are_forgotten() {
    // A cache that overwrites in place commits only the last version.
    let mut store = Store::new(&Contents::None, 4096, &[64], true).unwrap();
    for _ in 0..20_000 {
        let range = LbaRange { start: Lba(3), count: 2 };
        let replaced = store.write_volatile(NamespaceId::FIRST, range, None);
        assert_eq!(store.write_volatile(NamespaceId::FIRST, range, None), replaced + 1);
        store.commit(replaced + 1).unwrap();
    }
    assert!(format!("{store:?}").len() < 1 << 17, "replaced writes pile up");
    assert_eq!(store.cut(), Vec::new());
}
