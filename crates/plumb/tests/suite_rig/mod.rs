//! Regression tests of programs that use storage, by their own sources.
#![allow(dead_code)] // each test file uses a part

use std::path::Path;
use std::process::Command;

/// The source of what is installed, from Debian's mirror, in the folder `source`: `$PACKAGE` is of the source package `$OF`.
const FETCH: &str = r#"
set -e
mkdir -p lists/partial parts
for from in /etc/apt/sources.list.d/*.sources; do
    sed 's/^Types:.*/Types: deb-src/' "$from" > "parts/$(basename "$from")"
done
of_debian="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$PWD/parts -o Dir::State::Lists=$PWD/lists"
apt-get $of_debian -q update
apt-get $of_debian -q source --download-only "$OF=$(dpkg-query -W -f '${source:Version}' "$PACKAGE")"
mkdir source
tar xf "$OF"_*.orig.tar.* --strip-components=1 -C source
cd source
"#;

/// What PostgreSQL's tests need built of it.
const POSTGRESQL: &str = r#"
./configure --without-readline --without-zlib --without-icu
make -s -C src/backend generated-headers
cd src/test/regress
gcc -O1 -fPIC -shared -w -I../../include -o regress.so regress.c
ln -s /usr/lib/postgresql/15/lib/autoinc.so /usr/lib/postgresql/15/lib/refint.so .
"#;

/// SQLite's tests are run by a shell of Tcl with SQLite in it.
const SQLITE: &str = r#"
[ -e /usr/include/tcl8.6/tcl.h ] || apt-get install -y -q tcl-dev
./configure --disable-shared --with-tcl=/usr/lib/tcl8.6
make -s testfixture
"#;

/// Git's tests use programs that are not installed.
const GIT: &str = r#"
make -s -j2 CFLAGS=-O1 NO_OPENSSL=1 NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1
"#;

/// PostgreSQL's own regression tests, all of them at once, on a server with few buffers.
pub const REGRESS: &str = r#"
set -e
PATH=$PATH:/usr/lib/postgresql/15/bin
export LC_ALL=C PGHOST="$PWD" PGUSER=postgres
initdb -D data -U postgres -A trust -E UTF8 --no-locale > /dev/null
postgres -D data -k "$PWD" -c listen_addresses= -c fsync=off > log 2>&1 &
server=$!
until psql -q -c 'select' postgres > /dev/null 2>&1; do sleep 0.1; kill -0 $server; done
status=0
regress=$SOURCE/src/test/regress
/usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress --host="$PWD" --user=postgres --bindir=/usr/lib/postgresql/15/bin \
    --inputdir=$regress --dlpath=$regress --max-connections=10 --schedule=$regress/parallel_schedule > said 2>&1 || status=$?
grep -v '^test\|\.\.\. ok' said
[ $status = 0 ] || cat regression.diffs
kill -INT $server
wait $server || true
exit $status
"#;

/// Puts the source of the server that is installed, with what its tests need, into the folder `source` of this one; false, said, where it
/// cannot be had.
pub fn postgresql_source(folder: &Path) -> bool {
    source(folder, "postgresql-15", "postgresql-15", POSTGRESQL)
}

/// The same of SQLite.
pub fn sqlite_source(folder: &Path) -> bool {
    source(folder, "libsqlite3-0", "sqlite3", SQLITE)
}

/// The same of Git.
pub fn git_source(folder: &Path) -> bool {
    source(folder, "git", "git", GIT)
}

fn source(folder: &Path, package: &str, of: &str, build: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{FETCH}{build}")]).current_dir(folder).env("PACKAGE", package).env("OF", of);
    let made = shell.output().unwrap();
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        println!("skipped: no source of {package} as it is installed: {}", said.lines().last().unwrap_or_default());
    }
    made.status.success()
}
