//! Who is ahead of a reader: a window that is in memory already is not loaded.

use prefetch::Range;

use crate::mutants::{Mutant, mutated};
use crate::policies::Plan;

/// Most ranges of one plan of which it is asked whether they are resident: the policy makes plans of equal ranges.
const ASKED_RANGES: usize = 8;

/// Who has loaded a window before it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// It is to be loaded.
    Nobody,
    /// The kernel's own readahead, which is always so far ahead of who reads forward, and no farther: the next window may be larger.
    Kernel,
    /// The program, or whoever read the file before: the reader needs nobody.
    Somebody,
}

/// Every so many ranges of a plan one is asked about.
pub fn step(plan: &Plan) -> usize {
    (plan.count as usize).div_ceil(ASKED_RANGES).max(1)
}

/// Who is ahead with this window, where the kernel has up to `kernel_bytes` ahead of a reader; 0 where windows are not to be larger than
/// the kernel's. Where nobody knows what is in memory, nobody is.
pub fn ahead(plan: &Plan, kernel_bytes: u64, mut is_resident: impl FnMut(Range) -> Option<bool>) -> Ahead {
    // Evenly over the plan.
    let mut is_there = |range| is_resident(range).unwrap_or(mutated(Mutant::UnknownIsThere));
    if plan.count == 0 || mutated(Mutant::NeverStandsDown) || !plan.ranges().step_by(step(plan)).all(&mut is_there) {
        return Ahead::Nobody;
    }
    let is_kernels = plan.is_forward() && plan.bytes() <= kernel_bytes && !mutated(Mutant::KernelIsSomebody);
    if is_kernels { Ahead::Kernel } else { Ahead::Somebody }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    pub(crate) fn who_is_ahead_is_told_from_the_kernel() {
        const KERNEL: u64 = 128 << 10;
        let forward = |bytes: u64| Plan::contiguous(1 << 20, (1 << 20) + bytes);
        let there = |_| Some(true);
        assert_eq!(ahead(&forward(KERNEL), KERNEL, there), Ahead::Kernel);
        assert_eq!(ahead(&forward(KERNEL + 4096), KERNEL, there), Ahead::Somebody, "farther than the kernel goes");
        assert_eq!(ahead(&forward(KERNEL), 0, there), Ahead::Somebody, "windows are not larger");
        let backward = Plan { stride_bytes: -1, ..forward(KERNEL) };
        assert_eq!(ahead(&backward, KERNEL, there), Ahead::Somebody, "the kernel does not look back");
        for answer in [Some(false), None] {
            assert_eq!(ahead(&forward(KERNEL), KERNEL, |_| answer), Ahead::Nobody);
        }
        // Of many ranges some are asked about, from the first to the last eighth.
        let strided = Plan { start_bytes: 0, stride_bytes: 65_536, length_bytes: 4096, count: 100, stream: 0 };
        let mut asked = Vec::new();
        let found = ahead(&strided, KERNEL, |range| {
            asked.push(range.start_bytes / 65_536);
            Some(range.start_bytes < 80 * 65_536)
        });
        assert_eq!((found, asked.as_slice()), (Ahead::Nobody, [0, 13, 26, 39, 52, 65, 78, 91].as_slice()));
        assert_eq!(ahead(&Plan { count: 0, ..strided }, KERNEL, there), Ahead::Nobody);
    }
}
