//! How much of the owed work a commit does: one policy a file, each returns a quota.

mod at_once;
mod elsewhere;
mod rising;

/// What a policy sees: how far the room that new messages have is used up, and what a commit used of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PacingLoad {
    /// Bytes of messages in memory at which they are sealed and drained.
    pub memtable_bytes: u64,
    /// How full the room for new messages is, in memory or in the log, whichever is fuller: 0 empty, 1 where the next
    /// tables are sealed, 2 the hard bound.
    pub filled: f64,
    /// How much of that this commit took.
    pub taken: f64,
}

/// Who does the work that flushes and checkpoints are, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pacing {
    /// Whoever commits when it is due does all of it. The most throughput, and pauses as long as the work.
    AtOnce,
    /// Each commit does a part, more as the room for new messages gets less. At twice the room a commit waits for the
    /// rest: so much is owed at most. Here and below, where memory is what is used up, a commit to trees that have at most an
    /// eighth of the room counts as if a quarter less were: it does not wait for what others put.
    #[default]
    Rising,
    /// Somebody else does it with [`Database::work`](crate::Database::work): threads that have nothing else to do, or
    /// the pauses between requests. At twice the room a commit does it after all.
    Elsewhere,
    /// So many threads of the store's own do it, beside commits, each at another tree. At twice the room a commit helps them.
    Beside(usize),
}

impl Pacing {
    /// The policies by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("at-once", Self::AtOnce),
        ("rising", Self::Rising),
        ("elsewhere", Self::Elsewhere),
        ("beside", Self::Beside(2)),
    ];

    /// Bytes of work that a commit does now; none: all there are.
    pub fn quota_bytes(self, load: &PacingLoad) -> Option<u64> {
        match self {
            Self::AtOnce => at_once::quota_bytes(load),
            Self::Rising => rising::quota_bytes(load),
            Self::Elsewhere | Self::Beside(_) => elsewhere::quota_bytes(load),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the policy: the debt is bounded, and a fuller store never does less.
        #[test]
        fn the_debt_is_bounded(memtable_bytes in 1u64..1 << 30, filled in 0.0f64..2.0, more in 0.0f64..1.0, taken in 0.0f64..0.1) {
            for (name, policy) in Pacing::ALL {
                let quota = |filled| policy.quota_bytes(&PacingLoad { memtable_bytes, filled, taken }).unwrap_or(u64::MAX);
                prop_assert!(quota(filled) <= quota(filled + more), "{name}");
                prop_assert_eq!(quota(2.0), u64::MAX, "{}", name);
            }
        }
    }

    /// As long as there is room a commit's work is in proportion to what it takes.
    #[test]
    fn a_small_commit_does_little() {
        let load = PacingLoad { memtable_bytes: 32 << 20, filled: 0.9, taken: 228.0 / f64::from(32 << 20) };
        let quota = Pacing::Rising.quota_bytes(&load).unwrap();
        assert!((2_000..64_000).contains(&quota), "{quota} bytes for 228");
    }
}
