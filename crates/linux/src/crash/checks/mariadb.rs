//! MariaDB: a data directory (`mariadb-install-db --datadir=PATH`), recovered by a server of its own.

use super::Kind;

pub(super) const KIND: Kind = Kind {
    name: "mariadb",
    promise: "a query that answers 1, with the database's name before the table's",
    needs: ("mariadbd", "mariadb-server"),
    // Little memory: most of a server's start is the first touch of its pages, 24,800 of them with the defaults and 8,500 so.
    script: r#"owner=$(stat -c %U "$checked"); socket=$scratch/plumb-mariadb.sock
mariadbd --no-defaults --user="$owner" --datadir="$(realpath "$checked")" --socket=$socket --pid-file=$scratch/plumb-mariadb.pid \
    --skip-networking --skip-grant-tables --innodb-buffer-pool-size=16M --loose-innodb-buffer-pool-size-max=16M \
    --loose-aria-pagecache-buffer-size=1M --loose-key-buffer-size=64K --loose-innodb-log-buffer-size=2M --loose-query-cache-size=0 \
    --table-open-cache=64 --max-connections=10 > $scratch/plumb-said 2>&1 &
server=$!
tries=0
until mariadb-admin --no-defaults --socket=$socket ping > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] && kill -0 $server 2> /dev/null || { echo "the server does not start:"; tail -n 20 $scratch/plumb-said; exit 1; }
    sleep 0.05
done
sed 's/$/;/' "$PLUMB_ACKNOWLEDGED" | mariadb --no-defaults --socket=$socket --force -N -B > $scratch/plumb-answers 2> $scratch/plumb-errors || :
mariadb-check --no-defaults --socket=$socket --all-databases --check --silent > $scratch/plumb-checked 2>&1 || :
mariadb-admin --no-defaults --socket=$socket shutdown
wait $server || { tail -n 20 $scratch/plumb-said; exit 1; }
[ ! -s $scratch/plumb-checked ] || { cat $scratch/plumb-checked; exit 1; }
[ ! -s $scratch/plumb-errors ] || { cat $scratch/plumb-errors; exit 1; }
held $scratch/plumb-answers"#,
};
