//! Which blocks a job touches, in which order.

use crate::common::parse;
use proptest::prelude::*;
use workload::fio::Direction;
use workload::fio::generate::{Generator, Io, Region};

const KIB: u64 = 1024;

fn generator(job: &str, region_bytes: u64, seed: u64) -> Generator {
    let file = parse(&format!("[a]\n{job}"));
    Generator::new(&file.jobs[0].options, Region { start: 1 << 20, bytes: region_bytes }, seed, "a/0")
}

fn pass(generator: &mut Generator, at_most: usize) -> Vec<Io> {
    std::iter::from_fn(|| {
        let direction = generator.direction();
        generator.next(direction)
    })
    .take(at_most)
    .collect()
}

/// Offsets in KiB as fio 3.33 gives them (`--ioengine=null --write_iolog`).
#[test]
fn sequences_are_fios() {
    let offsets = |job: &str, count| -> Vec<u64> {
        pass(&mut generator(job, 64 * KIB, 1), count).iter().map(|io| (io.offset - (1 << 20)) / KIB).collect()
    };
    assert_eq!(offsets("rw=read\nbs=16k", 99), [0, 16, 32, 48]);
    assert_eq!(offsets("rw=read\nbs=12k", 99), [0, 12, 24, 36, 48], "no part of a block");
    assert_eq!(offsets("rw=read:12k", 9), [0, 16, 32, 48, 0, 16, 32, 48, 0]);
    assert_eq!(offsets("rw=write:-8k", 16), [0, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0]);
    let runs = offsets("rw=randread:4", 400);
    assert!(runs.chunks(4).all(|run| run.windows(2).all(|pair| pair[1] == pair[0] + 4 || pair[1] == 0)));
    let same = offsets("rw=randread:4\nrw_sequencer=identical", 400);
    assert!(same.chunks(4).all(|run| run.iter().all(|offset| offset == &run[0])));
    let trims = pass(&mut generator("rw=trimwrite", 16 * KIB, 1), 99);
    assert_eq!(trims.len(), 8);
    assert!(trims.chunks(2).all(|pair| {
        pair[0].direction == Direction::Trim && pair[1] == Io { direction: Direction::Write, ..pair[0] }
    }));
}

#[test]
fn sizes_have_their_weights() {
    let ios = pass(&mut generator("rw=randread\nnorandommap\nbssplit=4k/10:64k/50:32k/40", 1 << 30, 1), 20_000);
    for (bytes, share) in [(4 * KIB, 0.1), (64 * KIB, 0.5), (32 * KIB, 0.4)] {
        let seen = ios.iter().filter(|io| io.bytes == bytes).count() as f64;
        let deviation = f64::sqrt(20_000.0 * share * (1.0 - share));
        assert!((seen - 20_000.0 * share).abs() < 5.0 * deviation, "{seen} I/Os of {bytes}");
    }
    let ios = pass(&mut generator("rw=randread\nnorandommap\nbsrange=4k-16k", 1 << 30, 1), 4_000);
    for multiple in 1..=4 {
        let seen = ios.iter().filter(|io| io.bytes == multiple * 4 * KIB).count();
        assert!((800..1200).contains(&seen), "{seen} of {multiple}");
    }
}

#[test]
fn percentage_random_is_kept() {
    let ios = pass(&mut generator("rw=randread\npercentage_random=30", 1 << 30, 1), 10_000);
    let following = ios.windows(2).filter(|pair| pair[1].offset == pair[0].offset + 4096).count() as f64;
    assert!((following - 7_000.0).abs() < 5.0 * (10_000.0_f64 * 0.7 * 0.3).sqrt(), "{following} of 10000 follow");
}

#[test]
fn streams_depend_on_seed_and_name_alone() {
    let first = pass(&mut generator("rw=randrw", 1 << 26, 1), 1000);
    assert_eq!(first, pass(&mut generator("rw=randrw", 1 << 26, 1), 1000));
    assert_ne!(first, pass(&mut generator("rw=randrw", 1 << 26, 2), 1000));
    // The mix draws from a stream of its own.
    let offsets = |ios: &[Io]| ios.iter().map(|io| io.offset).collect::<Vec<_>>();
    assert_eq!(offsets(&first), offsets(&pass(&mut generator("rw=randrw\nrwmixread=90", 1 << 26, 1), 1000)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// With a random map every block of the region is used exactly once per pass.
    #[test]
    fn each_block_once(
        blocks in 1_u64..3000,
        sizes in prop::sample::select(vec!["bs=4k", "bsrange=4k-32k", "bssplit=4k/30:12k/30:64k/40", "bs=4k,8k"]),
        seed in any::<u64>(),
    ) {
        let mut generator = generator(&format!("rw=randrw\n{sizes}"), blocks * 4096, seed);
        let mut orders = Vec::new();
        for _ in 0..2 {
            let ios = pass(&mut generator, usize::MAX);
            let mut used = vec![0_u8; blocks as usize];
            for io in &ios {
                for block in 0..io.bytes / 4096 {
                    used[((io.offset - (1 << 20)) / 4096 + block) as usize] += 1;
                }
            }
            prop_assert!(used.iter().all(|uses| *uses == 1), "{:?}", used);
            orders.push(ios);
            generator.restart();
        }
        prop_assert!(blocks < 50 || orders[0] != orders[1], "the second pass has the first's order");
    }

    /// Whatever the options, every I/O lies in the region and is aligned.
    #[test]
    fn nothing_leaves_the_region(
        pattern in prop::sample::select(vec!["read", "write:12k", "read:-4k", "randread", "randrw", "rw", "randwrite:5", "randtrimwrite"]),
        extra in prop::sample::select(vec![
            "", "norandommap", "bsrange=4k-64k\nnorandommap", "random_distribution=zipf:1.1", "random_distribution=pareto:0.2:0.9",
            "random_distribution=normal:30", "random_distribution=zoned:50/1:50/99", "random_distribution=zoned_abs:50/4k:50/1g",
            "percentage_random=50", "ba=512", "bs=64k",
        ]),
        kib in 64_u64..4096,
        seed in any::<u64>(),
    ) {
        // fio has no modifier on trimwrite, nor have we.
        let region_bytes = kib * KIB;
        let mut generator = generator(&format!("rw={pattern}\n{extra}"), region_bytes, seed);
        for io in pass(&mut generator, 500) {
            prop_assert!(io.offset >= 1 << 20 && io.offset + io.bytes <= (1 << 20) + region_bytes, "{:?}", io);
            prop_assert!(io.bytes > 0 && io.bytes % 512 == 0 && io.offset % 512 == 0, "{:?}", io);
        }
    }
}
