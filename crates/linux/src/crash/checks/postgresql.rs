//! PostgreSQL: a data directory (`initdb -D PATH`), recovered by a server for a single user.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "postgresql",
    promise: "a query in the database `postgres` that answers 1",
    needs: ("psql", "postgresql"),
    // The server refuses to run as root: it runs as the owner of the directory, who may be the caller. What `amcheck` says of the
    // user's own indexes counts, and the checksums of pages where there are any. Little memory, since most of its start is
    // the first touch of pages.
    script: r#"PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)
user=$(stat -c %u "$checked"); group=$(stat -c %g "$checked")
as_owner() { if [ "$user" = "$(id -u)" ]; then "$@"; else setpriv --reuid="$user" --regid="$group" --clear-groups "$@"; fi; }
indexes="from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam where a.amname = 'btree' and c.oid >= 16384"
{
    cat "$PLUMB_ACKNOWLEDGED"
    echo "create extension if not exists amcheck"
    echo "select bt_index_check(c.oid, true)::text || 'checked' $indexes"
} > $scratch/plumb-queries
chmod 644 $scratch/plumb-queries
as_owner postgres --single -D "$checked" -c fsync=off -c logging_collector=off -c shared_buffers=4MB postgres \
    < $scratch/plumb-queries > $scratch/plumb-rows 2> $scratch/plumb-said || { tail -n 20 $scratch/plumb-said; exit 1; }
if grep -E 'ERROR|FATAL|PANIC' $scratch/plumb-said; then exit 1; fi
sed -n 's/^\t 1: [^=]* = "\(.*\)"\t(typeid.*/\1/p' $scratch/plumb-rows | grep -v 'checked$' > $scratch/plumb-answers || :
held $scratch/plumb-answers
if pg_controldata "$checked" | grep -q 'checksum version: *[1-9]'; then
    as_owner pg_checksums --check -D "$checked" > $scratch/plumb-said 2>&1 || { tail -n 20 $scratch/plumb-said; exit 1; }
fi"#,
};
