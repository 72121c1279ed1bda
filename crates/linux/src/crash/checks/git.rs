//! git: a repository, with or without a working tree.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "git",
    promise: "the name of a commit that a reference leads to, in full",
    needs: ("git", "git"),
    script: r#"git -C "$checked" fsck --full --strict --no-dangling --no-progress > /tmp/plumb-said 2>&1 || { cat /tmp/plumb-said; exit 1; }
git -C "$checked" rev-list --all HEAD -- 2> /tmp/plumb-said | sort -u > /tmp/plumb-there || :
sort -u "$PLUMB_ACKNOWLEDGED" | comm -23 - /tmp/plumb-there > /tmp/plumb-gone
[ ! -s /tmp/plumb-gone ] || { echo "acknowledged, and no reference leads there any more:"; cat /tmp/plumb-gone /tmp/plumb-said; exit 1; }"#,
};
