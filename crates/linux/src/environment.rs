//! What a command inside has of its caller's environment.
//!
//! All of it would make a run depend on the terminal it was started from: variables are copied at each `exec`, a page more of them is a
//! fault more, and each of both is a moment of virtual time at which a task may sleep.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::error::LinuxError;

/// Where programs and their settings are found, who runs them, and how they write.
const KEPT: [&str; 7] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER"];
/// Of a command that has a terminal.
const OF_A_TERMINAL: &str = "TERM";

/// Variables with their values, by name.
pub type Environment = Vec<(OsString, OsString)>;

/// What a command has: of the `caller` where things are found and how they are written, the variables that `texts` name as `$NAME` or
/// `${NAME}`, and those `given` as `NAME` or `NAME=VALUE`.
///
/// ```
/// # use linux::environment;
/// let caller = || [("HOME", "/root"), ("DATA", "/srv"), ("SSH_TTY", "/dev/pts/3")].map(|(name, value)| (name.into(), value.into()));
/// let found = environment(caller(), ["cp $DATA/table ."], &["SEED=4".into()], false)?;
/// assert_eq!(found, [("DATA", "/srv"), ("HOME", "/root"), ("SEED", "4")].map(|(name, value)| (name.into(), value.into())));
/// # Ok::<(), linux::LinuxError>(())
/// ```
///
/// # Errors
/// Where a name was given that is no name, or that the caller has not.
pub fn environment<T: AsRef<OsStr>>(
    caller: impl IntoIterator<Item = (OsString, OsString)>,
    texts: impl IntoIterator<Item = T>,
    given: &[OsString],
    has_terminal: bool,
) -> Result<Environment, LinuxError> {
    let caller: BTreeMap<OsString, OsString> = caller.into_iter().collect();
    let mut kept: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut keep = |name: &OsStr| {
        let found = caller.get_key_value(name);
        kept.extend(found.map(|(name, value)| (name.clone(), value.clone())));
        found.is_some()
    };
    for name in KEPT.into_iter().chain(Some(OF_A_TERMINAL).filter(|_| has_terminal)) {
        keep(name.as_ref());
    }
    for text in texts {
        for name in names(text.as_ref().as_bytes()) {
            keep(name);
        }
    }
    let invalid =
        |variable: &OsStr, why: &str| LinuxError::Invalid { message: format!("--env {}: {why}", variable.display()) };
    let mut set: Vec<(OsString, OsString)> = Vec::new();
    for variable in given {
        let mut parts = variable.as_bytes().splitn(2, |byte| *byte == b'=');
        let name = OsStr::from_bytes(parts.next().unwrap_or_default());
        if name.is_empty() {
            return Err(invalid(variable, "a variable has a name: write NAME=VALUE, or NAME for one that is set here"));
        }
        match parts.next() {
            Some(value) => set.push((name.to_owned(), OsStr::from_bytes(value).to_owned())),
            None if keep(name) => {}
            None => return Err(invalid(variable, "it is not set here: write NAME=VALUE")),
        }
    }
    kept.extend(set);
    Ok(kept.into_iter().collect())
}

/// Names behind a dollar sign, in braces or not.
fn names(text: &[u8]) -> impl Iterator<Item = &OsStr> {
    text.split(|byte| *byte == b'$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix(b"{").unwrap_or(rest);
        let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(rest.len());
        rest.get(..end).filter(|name| !name.is_empty()).map(OsStr::from_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    #[test]
    fn what_a_session_has_stays_outside_and_what_is_named_comes_along() {
        let caller = [("PATH", "/bin"), ("TERM", "vt100"), ("A", "1"), ("B_2", "2"), ("C", "3"), ("SHLVL", "4")];
        let found = |texts: &[&str], given: &[&str], has_terminal| {
            let given: Vec<OsString> = given.iter().map(OsString::from).collect();
            environment(pairs(&caller), texts, &given, has_terminal)
        };
        assert_eq!(found(&[], &[], false).unwrap(), pairs(&[("PATH", "/bin")]));
        assert_eq!(found(&[], &[], true).unwrap(), pairs(&[("PATH", "/bin"), ("TERM", "vt100")]));
        assert_eq!(
            found(&["echo $A ${B_2:-x} $$ $D $"], &["C", "PATH=/usr/bin", "E="], false).unwrap(),
            pairs(&[("A", "1"), ("B_2", "2"), ("C", "3"), ("E", ""), ("PATH", "/usr/bin")])
        );
        assert!(found(&[], &["D"], false).unwrap_err().to_string().contains("--env D: it is not set here"));
        assert!(found(&[], &["=1"], false).unwrap_err().to_string().contains("a variable has a name"));
    }
}
