//! git: a repository, with or without a working tree.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "git",
    promise: "the name of a commit that a reference leads to, in full",
    needs: ("git", "git"),
    script: r#"git -C "$checked" fsck --full --strict --no-dangling --no-progress > $scratch/plumb-said 2>&1 || { cat $scratch/plumb-said; exit 1; }
git -C "$checked" rev-list --all HEAD -- 2> $scratch/plumb-said | sort -u > $scratch/plumb-there || :
sort -u "$PLUMB_ACKNOWLEDGED" | comm -23 - $scratch/plumb-there > $scratch/plumb-gone
[ ! -s $scratch/plumb-gone ] || { echo "acknowledged, and no reference leads there any more:"; cat $scratch/plumb-gone $scratch/plumb-said; exit 1; }"#,
};
