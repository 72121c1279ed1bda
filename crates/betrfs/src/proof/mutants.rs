//! Each deliberate defect is noticed by one of the proofs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::full::Filler;
use super::{between, cases, clones, crash, full, full_at_once, no_room, paths, refused, traces};
use crate::mutant::{Mutant, set};

type Proof = Box<dyn Fn() -> Result<(), String>>;

/// The proofs, quick ones first.
fn proofs() -> Vec<(&'static str, Proof)> {
    vec![
        ("refused", Box::new(refused::too_large)),
        ("held without room", Box::new(no_room::held)),
        ("holes", Box::new(|| cases::holes(0))),
        ("held", Box::new(|| cases::held(0))),
        ("packed", Box::new(|| cases::packed(0))),
        ("parted", Box::new(|| cases::parted(0))),
        ("between", Box::new(between::changes)),
        ("named", Box::new(|| cases::named(0))),
        ("small files", Box::new(|| cases::small(0))),
        ("exchange", Box::new(|| cases::exchange(0))),
        ("renames", Box::new(|| cases::renames(0))),
        ("trees", Box::new(|| cases::trees(0))),
        ("whole copies", Box::new(|| clones::whole(0))),
        ("copies given up", Box::new(|| clones::refused(0))),
        ("traces", Box::new(|| (0..8).try_for_each(|seed| traces::trace(seed, 700, traces::SMALL)))),
        ("crash", Box::new(|| (0..3).try_for_each(|seed| crash::story(seed, 60, 1).map(drop)))),
        ("no room", Box::new(|| no_room::at_every_request(0, 3).map(drop))),
        ("full at once", Box::new(|| full_at_once::at_every_moment(0, 13).map(drop))),
        ("full", Box::new(|| full::fill_and_empty(0, Filler::Files(150), 3 << 20, 1))),
    ]
}

/// Those of the schema with paths.
fn proofs_of_paths() -> Vec<(&'static str, Proof)> {
    vec![
        ("said", Box::new(paths::said)),
        ("order", Box::new(paths::order)),
        ("deep", Box::new(paths::deep)),
        ("large", Box::new(paths::large)),
        ("moves", Box::new(paths::moves)),
        ("cuts", Box::new(|| paths::cuts(12).map(drop))),
    ]
}

/// The proof that notices a defect: it fails or panics.
fn noticed_by(proofs: Vec<(&'static str, Proof)>, mutant: Option<Mutant>) -> Option<&'static str> {
    let notices = |proof: &Proof| {
        set(mutant);
        let result = catch_unwind(AssertUnwindSafe(proof));
        set(None);
        !matches!(result, Ok(Ok(())))
    };
    proofs.into_iter().find(|(_, proof)| notices(proof)).map(|(name, _)| name)
}

fn all_are_noticed(proofs: fn() -> Vec<(&'static str, Proof)>, mutants: &[Mutant]) {
    assert_eq!(noticed_by(proofs(), None), None, "without a defect there is nothing to notice");
    let mut unnoticed = Vec::new();
    for mutant in mutants {
        match noticed_by(proofs(), Some(*mutant)) {
            Some(proof) => println!("{mutant:?}: {proof}"),
            None => unnoticed.push(mutant),
        }
    }
    assert!(unnoticed.is_empty(), "nobody noticed {unnoticed:?}");
}

#[test]
fn every_defect_is_noticed() {
    all_are_noticed(proofs, &Mutant::ALL);
}

#[test]
fn every_defect_of_paths_is_noticed() {
    all_are_noticed(proofs_of_paths, &Mutant::OF_PATHS);
}
