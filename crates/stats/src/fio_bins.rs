//! fio's latency bins (its "plat" groups), by which `json+` names them.
//!
//! Layout as in fio's stat.h: 29 groups of 64 bins. Values below 128 ns have a
//! bin each; from there every power of two is cut into 64 equal bins, and
//! everything from 2^34 ns (17 s) on falls into the last. `json+` prints a bin
//! as its middle, rounded down.

/// log2 of the bins in a group (FIO_IO_U_PLAT_BITS).
const GROUP_BITS: u32 = 6;
/// Bins in all groups (FIO_IO_U_PLAT_NR).
const BINS: u32 = 29 << GROUP_BITS;

/// The bin of a value in nanoseconds.
pub(crate) fn index_of(value: u64) -> u32 {
    let msb = value.max(1).ilog2();
    if msb <= GROUP_BITS {
        return value as u32;
    }
    let dropped_bits = msb - GROUP_BITS;
    let within = (value >> dropped_bits) as u32 & ((1 << GROUP_BITS) - 1);
    (((dropped_bits + 1) << GROUP_BITS) + within).min(BINS - 1)
}

/// The value that names a bin.
pub(crate) fn value_of(index: u32) -> u64 {
    debug_assert!(index < BINS);
    if index < 2 << GROUP_BITS {
        return u64::from(index);
    }
    let dropped_bits = (index >> GROUP_BITS) - 1;
    let within = u64::from(index) & ((1 << GROUP_BITS) - 1);
    (1 << (dropped_bits + GROUP_BITS)) + (within << dropped_bits) + (1 << dropped_bits) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_names_itself_and_names_ascend() {
        for index in 0..BINS {
            assert_eq!(index_of(value_of(index)), index);
            assert!(index == 0 || value_of(index) > value_of(index - 1));
        }
        assert_eq!(index_of(u64::MAX), BINS - 1);
    }

    #[test]
    fn edges_of_groups() {
        assert_eq!([127, 128, 129, 130].map(index_of), [127, 128, 128, 129]);
        assert_eq!([128, 129, 191, 192].map(value_of), [129, 131, 255, 258]);
        assert_eq!([(1 << 34) - 1, 1 << 34].map(index_of), [BINS - 1, BINS - 1]);
    }
}
