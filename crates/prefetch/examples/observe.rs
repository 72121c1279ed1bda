//! What one observed access costs, to be run under Callgrind: `valgrind --tool=callgrind --toggle-collect='*observed*' observe PATTERN`.

use std::hint::black_box;

use prefetch::{Access, Limits, Plan, Streams};

#[inline(never)]
fn observed(streams: &mut Streams, access: Access, limits: &Limits) -> Option<Plan> {
    streams.observe(access, limits)
}

fn main() {
    let pattern = std::env::args().nth(1).unwrap_or_default();
    let limits = Limits {
        file_bytes: 1 << 40,
        window_bytes: 8 << 20,
        ahead_bytes: 1 << 30,
        forward: true,
        shared: false,
        kept: false,
    };
    let mut streams = Streams::NEW;
    let mut state = 1u64;
    let count = 100_000u64;
    for i in 0..count {
        let offset_bytes = match pattern.as_str() {
            "sequential" => i * 4096,
            "strided" => i * 65_536,
            "reverse" => (count - i) * 4096,
            "interleaved" => (i % 8) * (1 << 32) + i / 8 * 16_384,
            "hot" => 4096,
            _ => {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let random = state >> 28;
                if pattern == "random-small" { random % 2048 * 4096 } else { random }
            }
        };
        let access = Access { offset_bytes, length_bytes: 4096, lane: 7 };
        black_box(observed(&mut streams, black_box(access), &limits));
    }
}
