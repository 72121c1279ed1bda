//! At rest: a leaf is rewritten where messages take the place of an eighth of it, so that no more than that is kept
//! twice.

pub(crate) fn is_worth_at_rest(replaced_bytes: u64, leaf_bytes: u64) -> bool {
    replaced_bytes > leaf_bytes / 8
}
