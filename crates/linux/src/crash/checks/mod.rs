//! What is known of other people's programs: how to tell that their files are whole and hold what was acknowledged.
//!
//! Each is a script for `sh -e` in a sibling file; adding one is a file and a line in [`KINDS`]. `$checked` names what is
//! looked at, `$scratch` a folder for files beside it, `$PLUMB_ACKNOWLEDGED` the lines that were promised, and `held ANSWERS`
//! compares one answer a line with them.

mod git;
mod mariadb;
mod postgresql;
mod rocksdb;
mod sqlite;

use std::fmt;
use std::str::FromStr;

use crate::kernel::find_program;

/// A program whose files can be checked.
#[derive(PartialEq, Eq, Debug)]
struct Kind {
    name: &'static str,
    /// What a line of `$PLUMB_ACKNOWLEDGE` is.
    promise: &'static str,
    /// A program that the script needs, and the Debian package that has it.
    needs: (&'static str, &'static str),
    /// For `sh -e`.
    script: &'static str,
}

const KINDS: [&Kind; 5] = [&sqlite::KIND, &git::KIND, &postgresql::KIND, &mariadb::KIND, &rocksdb::KIND];

/// For scripts whose promises are queries that answer 1. One process: a state is looked at in milliseconds.
const HELD: &str = r#"held() {
    awk 'FILENAME == ARGV[1] { if ($0 != "") asked[++n] = $0; next }
        $0 != "" { answers[++m] = $0 }
        END {
            if (n != m) { print n + 0 " queries were acknowledged, " m + 0 " rows came"; exit 1 }
            for (i = 1; i <= n; i++)
                if (answers[i] != "1") { print "acknowledged, and not so any more: " asked[i]; bad = 1 }
            exit bad
        }' "$PLUMB_ACKNOWLEDGED" "$1"
}
"#;

/// A check that is built in, of a path: `sqlite:db`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramCheck {
    kind: &'static Kind,
    path: String,
}

impl ProgramCheck {
    /// The script, for `sh -e` in the mounted file system.
    pub fn script(&self) -> String {
        let path = self.path.replace('\'', r"'\''");
        // Its variables and its exit are its own.
        format!("(\nchecked='{path}'; scratch=${{TMPDIR:-/tmp}}\n{HELD}{}\n)", self.kind.script)
    }

    /// What is looked at, from the mounted file system on.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What this machine lacks for it, with the Debian package to install.
    pub fn missing(&self) -> Option<String> {
        let (program, package) = self.kind.needs;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let path = std::env::join_paths(folders).unwrap_or(path);
        find_program(program, &path)
            .is_none()
            .then(|| format!("{program} is not installed (Debian: apt-get install {package})"))
    }

    /// Each name, with what a line of `$PLUMB_ACKNOWLEDGE` means to it.
    pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
        KINDS.iter().map(|kind| (kind.name, kind.promise))
    }
}

/// Why a word names no check.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{word:?} is not KIND:PATH, with a kind of {}", KINDS.map(|kind| kind.name).join(", "))]
pub struct UnknownCheck {
    word: String,
}

impl FromStr for ProgramCheck {
    type Err = UnknownCheck;

    fn from_str(word: &str) -> Result<Self, UnknownCheck> {
        let unknown = || UnknownCheck { word: word.to_owned() };
        let (name, path) = word.split_once(':').ok_or_else(unknown)?;
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(unknown)?;
        // Scripts are text for a shell, and so are their variables.
        if path.is_empty() || path.contains('\0') {
            return Err(unknown());
        }
        Ok(Self { kind, path: path.to_owned() })
    }
}

impl fmt::Display for ProgramCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_reach_the_script_as_they_are() {
        let check: ProgramCheck = "sqlite:it's $(here).db".parse().unwrap();
        assert!(check.script().contains(r"checked='it'\''s $(here).db'"));
        assert_eq!(check.to_string(), "sqlite:it's $(here).db");
        for word in ["sqlite", "sqlite:", "oracle:db", ":db", ""] {
            let error = word.parse::<ProgramCheck>().unwrap_err().to_string();
            assert!(error.contains("sqlite, git, postgresql"), "{error}");
        }
    }
}
