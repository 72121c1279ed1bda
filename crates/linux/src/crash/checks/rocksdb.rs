//! RocksDB: a database directory.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "rocksdb",
    promise: "KEY : VALUE, as `ldb scan` prints it, of a key that is written once",
    needs: ("ldb", "rocksdb-tools"),
    script: r#"[ -e "$checked/CURRENT" ] || [ -s "$PLUMB_ACKNOWLEDGED" ] || exit 0
ldb --db="$checked" checkconsistency > /tmp/plumb-said 2>&1 || { cat /tmp/plumb-said; exit 1; }
ldb --db="$checked" scan > /tmp/plumb-rows 2> /tmp/plumb-said || { cat /tmp/plumb-said; exit 1; }
sort -u /tmp/plumb-rows > /tmp/plumb-there
sort -u "$PLUMB_ACKNOWLEDGED" | comm -23 - /tmp/plumb-there > /tmp/plumb-gone
[ ! -s /tmp/plumb-gone ] || { echo "acknowledged, and not there any more:"; cat /tmp/plumb-gone; exit 1; }"#,
};
