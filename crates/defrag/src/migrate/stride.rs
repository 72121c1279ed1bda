//! How much is moved while others are kept out: in one call, and until the next commit.

use std::time::{Duration, Instant};

/// The first call's: 16 pages, each of which a slow device may have to read for itself.
const FIRST_BYTES: u64 = 64 << 10;
const LEAST_BYTES: u64 = 16 << 10;
/// To commit less than this takes as long, nearly: its time is that of the journal's own requests.
const LEAST_COMMITTED_BYTES: u64 = 1 << 20;
/// Until the first commit: each writes blocks of the journal, which small runs on quick devices would pay for in vain.
const FIRST_COMMITTED_BYTES: u64 = 4 << 20;
/// What a call, or a commit, is to take; others who open the file wait for its end and a commit.
const WANTED: Duration = Duration::from_millis(100);

/// What the next call moves, by what the last took.
///
/// The kernel breaks a lease after `fs.lease-break-time` (45 seconds by default, 10 at least), and a call cannot be ended
/// before its time. It grows while calls are short, to `most_bytes`: so much that a device that suddenly takes a tenth of a second
/// for each page of 4 KiB does not make one call last longer than the lease.
///
/// What is moved until the next commit follows the same rule, since it is written then: on a disk of 3 ms a request, beside four
/// readers, 16 MiB take seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stride {
    bytes: u64,
    least_bytes: u64,
    most_bytes: u64,
}

impl Stride {
    /// Of calls.
    pub fn up_to(most_bytes: u64) -> Self {
        Self { bytes: FIRST_BYTES.min(most_bytes), least_bytes: LEAST_BYTES, most_bytes }
    }

    /// Of what is made lasting at once.
    pub fn committed_up_to(most_bytes: u64) -> Self {
        Self { bytes: FIRST_COMMITTED_BYTES.min(most_bytes), least_bytes: LEAST_COMMITTED_BYTES, most_bytes }
    }

    /// Bytes of the next call, at most.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A call that began then moved so many bytes.
    pub fn took(&mut self, bytes: u64, begun: Instant) {
        self.learn(bytes, begun.elapsed());
    }

    fn learn(&mut self, bytes: u64, took: Duration) {
        let (took, wanted) = (took.as_nanos().max(1), WANTED.as_nanos());
        let fitting = u64::try_from(u128::from(bytes) * wanted / took).unwrap_or(u64::MAX);
        // It doubles at most, since the next pieces may be smaller ones.
        let most = self.bytes.saturating_mul(2).min(self.most_bytes).max(self.least_bytes);
        let next = if bytes < self.bytes && took < wanted { self.bytes } else { fitting };
        self.bytes = next.clamp(self.least_bytes, most) / LEAST_BYTES * LEAST_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a page takes, and however that changes: a call's time is bounded by that of pages in the least stride, or
        /// by twice what is wanted and how much slower pages became since the last call.
        #[test]
        fn calls_stay_short(page_us in proptest::collection::vec(1_u64..200_000, 1..60)) {
            let mut stride = Stride::up_to(512 << 10);
            let mut last: Option<u64> = None;
            for page_us in page_us {
                let bytes = stride.bytes();
                prop_assert!((LEAST_BYTES..=512 << 10).contains(&bytes));
                let took = bytes / 4096 * page_us;
                if let Some(last) = last {
                    let slower = page_us.div_ceil(last);
                    prop_assert!(took <= (2 * 100_000 * slower).max(LEAST_BYTES / 4096 * page_us), "{} us", took);
                }
                stride.learn(bytes, Duration::from_micros(took));
                last = Some(page_us);
            }
        }
    }

    #[test]
    fn it_grows_where_calls_are_short_and_shrinks_where_they_are_long() {
        let mut stride = Stride::up_to(512 << 10);
        assert_eq!(stride.bytes(), 64 << 10);
        for _ in 0..10 {
            stride.learn(stride.bytes(), Duration::from_millis(1));
        }
        assert_eq!(stride.bytes(), 512 << 10);
        // What ends before its time says little.
        stride.learn(4096, Duration::from_millis(1));
        assert_eq!(stride.bytes(), 512 << 10);
        stride.learn(512 << 10, Duration::from_secs(12));
        assert_eq!(stride.bytes(), 16 << 10);

        let mut committed = Stride::committed_up_to(16 << 20);
        for _ in 0..10 {
            committed.learn(committed.bytes(), Duration::from_millis(20));
        }
        assert_eq!(committed.bytes(), 16 << 20);
        committed.learn(16 << 20, Duration::from_secs(4));
        assert_eq!(committed.bytes(), 1 << 20);
    }
}
