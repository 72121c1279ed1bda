//! SQLite: a database file.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "sqlite",
    promise: "a query that answers 1, such as: select count(*) from t where id = 7",
    needs: ("sqlite3", "sqlite3"),
    script: r#"found=$(sqlite3 -batch "$checked" 'pragma integrity_check; pragma foreign_key_check')
[ "$found" = ok ] || { echo "integrity_check: $found"; exit 1; }
sed 's/$/;/' "$PLUMB_ACKNOWLEDGED" | sqlite3 -batch -noheader "$checked" > /tmp/plumb-answers
held /tmp/plumb-answers"#,
};
