//! SQLite: a database file.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "sqlite",
    promise: "a query that answers 1, such as: select count(*) from t where id = 7",
    needs: ("sqlite3", "sqlite3"),
    // All in one process, which takes longer to start than to look, and in one transaction, which takes locks once. The queries by
    // `sed`: a shell reads its lines byte by byte, each a system call.
    script: r#"sqlite3 -batch -noheader "$checked" > $scratch/plumb-rows <<END
.output $scratch/plumb-found
pragma integrity_check; pragma foreign_key_check;
.output $scratch/plumb-answers
begin;
$(sed 's/$/;/' "$PLUMB_ACKNOWLEDGED")
end;
END
found=
read -r found < $scratch/plumb-found || :
[ "$found" = ok ] && [ ! -s $scratch/plumb-rows ] || { echo "integrity_check: $found"; exit 1; }
held $scratch/plumb-answers"#,
};
