//! What the targets in `fuzz/` do, with bytes that a seed says instead of coverage: random ones, and those of before with a few changed,
//! put in twice, taken out, or put together with others.

use rand::{Rng, RngExt};

use super::workload::random;
use crate::mutant::{Mutant, set};

#[allow(dead_code)]
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

/// Bytes that an input has at most.
const INPUT_BYTES_MAX: usize = 1200;

/// Inputs that later ones are made of.
const KEPT: usize = 32;

fn next(kept: &[Vec<u8>], random: &mut impl Rng) -> Vec<u8> {
    let some = |random: &mut dyn Rng| {
        let bytes = kept.get(random.random_range(0..KEPT)).cloned();
        bytes.unwrap_or_else(|| (0..random.random_range(1..INPUT_BYTES_MAX)).map(|_| random.random()).collect())
    };
    let mut input = some(random);
    for _ in 0..random.random_range(1..8) {
        let at = random.random_range(0..=input.len());
        let end = (at + random.random_range(0..40)).min(input.len());
        match random.random_range(0..5) {
            0 => input[at..end].iter_mut().for_each(|byte| *byte = random.random()),
            // Small numbers, and large ones, are what lengths and counts are.
            1 => input[at..end].iter_mut().for_each(|byte| *byte = [0, 1, 127, 128, 255][random.random_range(0..5)]),
            2 => drop(input.drain(at..end)),
            3 => {
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
            _ => {
                let tail = some(random);
                input.truncate(at);
                input.extend(tail.get(at..).unwrap_or_default());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// So many inputs; in the long suite two hundred times as many.
fn fuzz(name: &str, seed: u64, count: usize, target: impl Fn(&[u8])) {
    let count = if std::env::var_os("PLUMB_LONG").is_some() { count * 200 } else { count };
    let mut random = random(seed);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let input = next(&kept, &mut random);
        // So that what a panic says is enough to have it again.
        let told = Told(name, &input);
        target(&input);
        std::mem::forget(told);
        match kept.len() < KEPT {
            true => kept.push(input),
            false => kept[random.random_range(0..KEPT)] = input,
        }
    }
    println!("{name}: {count} inputs");
}

/// Says what the input was, where it is dropped by a panic.
struct Told<'a>(&'a str, &'a [u8]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        eprintln!("{} with {:?}", self.0, self.1);
    }
}

/// With one kind of checksum ignored after the other.
fn unchecked(target: fn(&[u8])) -> impl Fn(&[u8]) {
    let kinds = [Mutant::BlockChecksumIgnored, Mutant::FrameChecksumIgnored, Mutant::SuperblockChecksumIgnored];
    move |input| {
        for kind in kinds {
            set(Some(kind));
            target(input);
        }
        set(None);
    }
}

#[test]
fn any_calls_are_those_of_a_map() {
    fuzz("calls", 1, 60, targets::calls);
}

#[test]
fn any_bytes_in_a_store_end_without_a_panic() {
    // The stores themselves have the checksums that they should.
    targets::image(&[0]);
    fuzz("image", 2, 60, unchecked(targets::image));
}

#[test]
fn any_bytes_in_a_log_end_without_a_panic() {
    targets::log(&[0]);
    fuzz("log", 3, 60, unchecked(targets::log));
}
