//! What it costs to look at a page's bit in a bitmap that BPF programs keep: `bit FILE`, a large one.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::Instant;

use prefetch::PAGE_BYTES;
use prefetcher::residency::bits::Bits;
use prefetcher::residency::bpf::Tracker;

const LOOKS: u64 = 20_000_000;
const ROUNDS: u32 = 9;

fn main() {
    let path = std::env::args().nth(1).expect("bit FILE");
    let file = File::open(path).unwrap();
    let pages = file.metadata().unwrap().len() / PAGE_BYTES;
    let tracker = Tracker::attach().unwrap();
    let (_, array, entries) = tracker.follow(file.as_fd()).unwrap();
    let bits = Bits::new(array.as_fd(), entries, file.as_fd()).unwrap();
    let mut each_ns: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let (mut page, mut there) = (u64::from(round), 0_u64);
            let begun = Instant::now();
            for _ in 0..LOOKS {
                // Far apart, and each looked for only when the last is known.
                page = (page.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + (there & 1)) >> 7) % pages;
                there += u64::from(bits.is_set(page).unwrap());
            }
            black_box(there);
            let empty = Instant::now();
            let (mut page, mut there) = (u64::from(round), 0_u64);
            for _ in 0..LOOKS {
                page = (page.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + (there & 1)) >> 7) % pages;
                there += black_box(page & 1);
            }
            black_box(there);
            let (with, without) = ((empty - begun).as_nanos() as f64, empty.elapsed().as_nanos() as f64);
            (with - without) / LOOKS as f64
        })
        .collect();
    each_ns.sort_by(f64::total_cmp);
    println!("{:.2} ns a bit ({:.2} to {:.2}), {pages} pages", each_ns[4], each_ns[0], each_ns[8]);
}
