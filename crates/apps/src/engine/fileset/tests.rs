use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn definition(files: u64, shape: Shape) -> Definition {
    Definition {
        name: "set",
        files,
        sizes: Sizes { mean_bytes: 16_384, gamma: 1.5 },
        shape,
        prepared_percent: 80,
        shares: 16,
        least_a_share: 2,
        compressible_percent: 0,
    }
}

fn set(definition: &Definition, seed: u64) -> FileSet {
    FileSet::new(definition, "/set".into(), seed).unwrap()
}

fn paths(set: &FileSet) -> Vec<PathBuf> {
    (0..set.len()).map(|at| set.path(at)).collect()
}

/// Of a gamma distribution of shape k and mean m: the variance is m²/k, the skewness 2/√k.
#[test]
fn sizes_have_the_moments_of_their_gamma_distribution() {
    let set = set(&definition(200_000, Shape::Tree { width: 1_000_000, gamma: 1.5 }), 3);
    let sizes: Vec<f64> = set.files.iter().map(|file| file.bytes as f64).collect();
    let count = sizes.len() as f64;
    let moment = |about: f64, power: i32| sizes.iter().map(|size| (size - about).powi(power)).sum::<f64>() / count;
    let mean = moment(0.0, 1);
    let variance = moment(mean, 2);
    let skewness = moment(mean, 3) / variance.powf(1.5);
    assert!((mean / 16_384.0 - 1.0).abs() < 0.01, "mean {mean}");
    assert!((variance / (16_384.0_f64.powi(2) / 1.5) - 1.0).abs() < 0.03, "variance {variance}");
    assert!((skewness / (2.0 / 1.5_f64.sqrt()) - 1.0).abs() < 0.06, "skewness {skewness}");
}

#[test]
fn without_gamma_all_files_are_alike() {
    let alike = Sizes { mean_bytes: 10, gamma: 0.0 };
    let set = set(&Definition { sizes: alike, ..definition(100, Shape::ByShare) }, 3);
    assert!(set.files.iter().all(|file| file.bytes == 10));
}

#[test]
fn four_fifths_of_each_share_are_there_and_never_all_or_none() {
    for files in [32, 33, 100, 1000] {
        let set = set(&definition(files, Shape::Tree { width: 20, gamma: 1.5 }), 3);
        for thread in 0..16 {
            let mut share = set.share(thread, 16);
            let own = (thread..set.len()).step_by(16).count();
            let there = share.count();
            assert!(there >= 1 && there < own, "{files}: {there} of {own}");
            assert!(there.abs_diff(own * 4 / 5) <= 1, "{files}: {there} of {own}");
            assert!(share.delete_next().is_some() && share.create_next().is_some());
        }
    }
    let too_few = FileSet::new(&definition(31, Shape::ByShare), "/set".into(), 1).unwrap_err().to_string();
    assert!(too_few.contains("31 files of set for 16 threads") && too_few.contains("at least 32"), "{too_few}");
}

#[test]
fn shares_divide_the_files() {
    let set = set(&definition(1003, Shape::Tree { width: 20, gamma: 1.5 }), 3);
    let mut all = Vec::new();
    for thread in 0..16 {
        let mut share = set.share(thread, 16);
        all.extend(std::iter::from_fn(|| share.create_next()));
        all.extend(std::iter::from_fn(|| share.delete_next()));
    }
    // What was made was deleted again: twice there for those that were not.
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 1003);
    // Fewer files than threads: they are shared.
    let one = FileSet::new(&Definition { shares: 1, ..definition(2, Shape::ByShare) }, "/set".into(), 1).unwrap();
    assert!((0..100).all(|thread| one.share(thread, 100).count() <= 1));
}

/// Filebench's depth: so many levels that the mean width holds the files.
#[test]
fn trees_have_the_width_and_depth_that_their_means_say() {
    let shape = Shape::Tree { width: 20, gamma: 1.5 };
    let (mut folders, mut deepest) = (0, 0);
    for seed in 0..20 {
        let set = set(&definition(10_000, shape), seed);
        let paths = paths(&set);
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 10_000, "no name twice");
        let mut widths: BTreeMap<&std::path::Path, u32> = BTreeMap::new();
        for path in &paths {
            *widths.entry(path.parent().unwrap()).or_default() += 1;
            deepest = deepest.max(path.strip_prefix("/set").unwrap().components().count());
        }
        folders += widths.len();
        // Each folder of a file is among those that are made, after the one that it is in.
        let made: Vec<PathBuf> = set.folders().collect();
        let place = |folder: &std::path::Path| made.iter().position(|made| made == folder);
        for folder in widths.keys() {
            assert!(place(folder).unwrap() > place(folder.parent().unwrap()).unwrap());
        }
    }
    // 20 files on average, less what is cut off by the last of a tree.
    let width = 20.0 * 10_000.0 / f64::from(folders as u32);
    assert!((15.0..25.0).contains(&width), "{width} files a folder");
    // Folders that drew a great depth hold most files: 20 times as many with each level.
    assert!(deepest > 5, "{deepest}");
    // The means themselves: ln 10000 / ln 20 = 3.07 levels, so folders of 20 folders of 20 files.
    let even = set(&definition(10_000, Shape::Tree { width: 20, gamma: 0.0 }), 3);
    assert_eq!(even.folders().count(), 1 + 25 + 500);
    assert_eq!(even.path(0), PathBuf::from("/set/00000001/00000001/00000001"));
    assert_eq!(even.path(9_999), PathBuf::from("/set/00000025/00000020/00000020"));
    // One folder where the width is a million.
    let flat = set(&definition(1000, Shape::Tree { width: 1_000_000, gamma: 1.5 }), 3);
    assert_eq!(paths(&flat).iter().map(|path| path.parent().unwrap().to_owned()).collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn balanced_trees_hold_no_more_than_they_may_and_give_threads_leaves_of_their_own() {
    for (files, children, shares) in [(1, 2, 1), (128, 128, 4), (130, 128, 4), (30_000, 128, 4), (5000, 7, 3)] {
        let shape = Shape::Balanced { children };
        let set = set(&Definition { least_a_share: 0, shares, ..definition(files, shape) }, 9);
        let paths = paths(&set);
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len() as u64, files);
        let mut entries: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for entry in set.folders().skip(1).chain(paths.iter().cloned()) {
            *entries.entry(entry.parent().unwrap().to_owned()).or_default() += 1;
        }
        // A leaf may hold a little more than its part: threads go round theirs.
        let most = *entries.values().max().unwrap();
        assert!(most <= children + shares as u64, "{files} files: {most} of {children}");
        let depths: BTreeSet<usize> = paths.iter().map(|path| path.components().count()).collect();
        assert!(depths.len() <= 2, "{depths:?}");
        // The smallest depth that holds them.
        let mut level = 1;
        while children.pow(level) < files {
            level += 1;
        }
        assert_eq!(*depths.last().unwrap(), 2 + level as usize, "{files} files");
        let leaves = |share: usize| -> BTreeSet<&std::path::Path> {
            paths.iter().skip(share).step_by(shares).map(|path| path.parent().unwrap()).collect()
        };
        if entries.len() > 10 * shares {
            assert!((1..shares).all(|share| leaves(0).is_disjoint(&leaves(share))));
        }
    }
}

#[test]
fn the_seed_decides_everything() {
    for shape in [Shape::Tree { width: 20, gamma: 1.5 }, Shape::Balanced { children: 30 }, Shape::ByShare] {
        let definition = definition(500, shape);
        let (one, same, other) = (set(&definition, 5), set(&definition, 5), set(&definition, 6));
        assert_eq!((paths(&one), &one.files), (paths(&same), &same.files));
        assert_eq!(one.preparation_order(5), same.preparation_order(5));
        assert_ne!(one.files, other.files);
        assert_ne!(one.preparation_order(5), other.preparation_order(6));
    }
}

#[test]
fn trees_of_one_entry_a_folder_are_refused() {
    for shape in [Shape::Tree { width: 1, gamma: 1.5 }, Shape::Balanced { children: 1 }] {
        let error = FileSet::new(&definition(100, shape), "/set".into(), 1).unwrap_err().to_string();
        assert!(error.contains("1 entry each"), "{error}");
    }
}

#[test]
fn contents_are_as_compressible_as_asked() {
    let mut random = sim::rng::stream(1, "contents");
    for (percent, from, to) in [(0, 1.0, 1.02), (50, 0.5, 0.58), (100, 0.0, 0.06)] {
        let raw = contents(1 << 20, percent, &mut random);
        let ratio = snap::raw::Encoder::new().compress_vec(&raw).unwrap().len() as f64 / raw.len() as f64;
        assert!((from..to).contains(&ratio), "{percent} per cent: {ratio}");
    }
}
