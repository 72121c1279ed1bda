//! RocksDB: a database directory.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "rocksdb",
    promise: "KEY : VALUE, as `ldb scan` prints it, of a key that is written once",
    needs: ("ldb", "rocksdb-tools"),
    script: r#"[ -e "$checked/CURRENT" ] || [ -s "$PLUMB_ACKNOWLEDGED" ] || exit 0
ldb --db="$checked" checkconsistency > $scratch/plumb-said 2>&1 || { cat $scratch/plumb-said; exit 1; }
ldb --db="$checked" scan > $scratch/plumb-rows 2> $scratch/plumb-said || { cat $scratch/plumb-said; exit 1; }
sort -u $scratch/plumb-rows > $scratch/plumb-there
sort -u "$PLUMB_ACKNOWLEDGED" | comm -23 - $scratch/plumb-there > $scratch/plumb-gone
[ ! -s $scratch/plumb-gone ] || { echo "acknowledged, and not there any more:"; cat $scratch/plumb-gone; exit 1; }"#,
};
