//! Programs and scripts that the caller names from where he stands.
//!
//! Command and scripts run in the mounted file system, where `./check.sh` of the caller's folder is not. What is to be *run* (a
//! program with a slash in its name, the script of an interpreter, a file that a shell reads by `.`) is looked for in the caller's
//! folder first, and gets its absolute path; all else is a name in the file system that is looked at.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::Path;

/// What runs the file that its first argument names.
const INTERPRETERS: [&str; 14] =
    ["sh", "bash", "dash", "ksh", "zsh", "python", "python3", "perl", "ruby", "node", "php", "lua", "source", "."];
/// Of these, those whose option `-c` has text of a shell.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];
/// What has another program behind it.
const PREFIXES: [&str; 16] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec", "nohup", "command", "env", "sudo",
    "nice",
];

/// A command as it is run elsewhere.
pub(super) fn command(folder: &Path, words: &[OsString]) -> Vec<OsString> {
    let mut role = Role::Program;
    let mut resolved = Vec::with_capacity(words.len());
    for word in words {
        let (text, now) = (word.to_str(), role);
        role = text.map_or(Role::Argument, |text| now.after(text));
        resolved.push(match (now, text) {
            (Role::Text, Some(text)) => script(folder, text).into(),
            (Role::Program | Role::Script, Some(text)) => {
                file(folder, text, now).map_or_else(|| word.clone(), OsString::from)
            }
            _ => word.clone(),
        });
    }
    resolved
}

/// A text for a shell as it is run elsewhere.
pub(super) fn script(folder: &Path, text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut copied = 0;
    for Word { at, text: word, role } in words(text) {
        let new = match role {
            Role::Program | Role::Script => file(folder, &word, role),
            Role::Text => Some(script(folder, &word)).filter(|inner| *inner != word),
            Role::Argument => None,
        };
        if let Some(new) = new {
            resolved += text.get(copied..at.start).unwrap_or_default();
            resolved += &quoted(&new);
            copied = at.end;
        }
    }
    resolved + text.get(copied..).unwrap_or_default()
}

/// What a word is to the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// It is run.
    Program,
    /// An interpreter runs it.
    Script,
    /// A shell runs its words.
    Text,
    Argument,
}

impl Role {
    /// Of the word after one with this role.
    fn after(self, word: &str) -> Self {
        let name = word.rsplit('/').next().unwrap_or(word);
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        });
        match self {
            Self::Program if is_assignment || PREFIXES.contains(&word) => Self::Program,
            // `env -i`.
            Self::Program if word.starts_with('-') => Self::Program,
            Self::Program if INTERPRETERS.contains(&name) => Self::Script,
            // `sh -ec TEXT`; `python3 -c` has text of another kind, `-m` a module.
            Self::Script if word.starts_with('-') && word.ends_with('c') && !word.starts_with("--") => Self::Text,
            Self::Script if word == "-m" => Self::Argument,
            Self::Script if word.starts_with('-') => Self::Script,
            _ => Self::Argument,
        }
    }
}

/// The absolute path of a file of the folder that is to be run; a program is only meant where it has a slash.
fn file(folder: &Path, word: &str, role: Role) -> Option<String> {
    if word.is_empty() || word.starts_with('/') || role == Role::Program && !word.contains('/') {
        return None;
    }
    let path = folder.join(word);
    path.is_file().then(|| path.to_str().map(str::to_owned)).flatten()
}

fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+,:@%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A word of a shell's text that is known before the shell runs.
#[derive(PartialEq, Eq, Debug)]
struct Word {
    at: Range<usize>,
    text: String,
    role: Role,
}

/// The words of a text, as far as they have no expansions; what is not understood is left out.
fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut scanner = Scanner { role: Role::Program, is_shell: true, open: None, redirected: false };
    let mut nested: Vec<bool> = Vec::new();
    let mut in_double = false;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' if !in_double => {
                let word = scanner.open(at);
                for (_, inner) in characters.by_ref().take_while(|(_, inner)| *inner != '\'') {
                    word.text.push(inner);
                }
            }
            '"' => {
                in_double = !in_double;
                scanner.open(at);
            }
            '\\' => {
                if let Some((_, next)) = characters.next().filter(|(_, next)| *next != '\n') {
                    scanner.open(at).text.push(next);
                }
            }
            '$' if characters.peek().is_some_and(|(_, next)| *next == '(') => {
                characters.next();
                scanner.open(at).is_known = false;
                scanner.close(at, &mut found);
                nested.push(in_double);
                in_double = false;
                scanner.role = Role::Program;
            }
            ')' if !in_double && !nested.is_empty() => {
                scanner.close(at, &mut found);
                in_double = nested.pop().unwrap_or(false);
                // The rest of a word whose beginning is not known.
                scanner.role = Role::Argument;
                scanner.open(at).is_known = false;
            }
            '$' | '*' | '?' | '[' | '~' => {
                let word = scanner.open(at);
                word.is_known = false;
                word.text.push(character);
            }
            _ if in_double => scanner.open(at).text.push(character),
            '#' if scanner.open.is_none() => {
                characters.by_ref().find(|(_, inner)| *inner == '\n');
                scanner.role = Role::Program;
            }
            ' ' | '\t' => scanner.close(at, &mut found),
            '\n' | ';' | '&' | '|' | '(' | ')' | '`' => {
                scanner.close(at, &mut found);
                scanner.role = Role::Program;
            }
            '<' | '>' => {
                scanner.close(at, &mut found);
                scanner.redirected = true;
            }
            _ => scanner.open(at).text.push(character),
        }
    }
    scanner.close(text.len(), &mut found);
    found
}

struct Open {
    at: usize,
    text: String,
    is_known: bool,
}

struct Scanner {
    role: Role,
    /// The interpreter, whose text may be one of a shell.
    is_shell: bool,
    open: Option<Open>,
    /// The next word is a file that is read or written.
    redirected: bool,
}

impl Scanner {
    fn open(&mut self, at: usize) -> &mut Open {
        self.open.get_or_insert_with(|| Open { at, text: String::new(), is_known: true })
    }

    fn close(&mut self, end: usize, found: &mut Vec<Word>) {
        let Some(word) = self.open.take() else { return };
        if std::mem::take(&mut self.redirected) {
            return;
        }
        let role = self.role;
        if role == Role::Program {
            self.is_shell = SHELLS.contains(&word.text.rsplit('/').next().unwrap_or_default());
        }
        self.role = role.after(&word.text);
        if word.is_known && (role != Role::Text || self.is_shell) {
            found.push(Word { at: word.at..end, text: word.text, role });
        }
    }
}

/// An argument of the command, once the file system is there that it runs in: a file of the caller's folder that is not there.
pub(crate) fn argument(callers: &Path, mounted: &Path, word: &OsStr) -> OsString {
    let is_option = word.is_empty() || word.as_encoded_bytes().starts_with(b"-");
    let path = callers.join(word);
    let is_meant = !is_option && !mounted.join(word).exists() && path.is_file();
    if is_meant { path.into_os_string() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with two scripts, a program and a database.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        for name in ["check.sh", "load.py", "bin/tool", "db", "it's.sh"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        folder
    }

    #[test]
    fn what_is_run_is_found_where_the_caller_stands_and_nothing_else_is_touched() {
        let folder = folder();
        let at = folder.path().to_str().unwrap();
        let of = |text: &str| script(folder.path(), text).replace(at, "AT");
        let same = |text: &str| assert_eq!(of(text), text);
        assert_eq!(of("./check.sh"), "AT/./check.sh");
        assert_eq!(of("set -u; ./check.sh ./check.sh"), "set -u; AT/./check.sh ./check.sh");
        assert_eq!(of("if ! bin/tool x; then exit 1; fi"), "if ! AT/bin/tool x; then exit 1; fi");
        assert_eq!(of("X=1 python3 -u load.py load.py"), "X=1 python3 -u AT/load.py load.py");
        assert_eq!(of(". ./check.sh\n. check.sh"), ". AT/./check.sh\n. AT/check.sh");
        assert_eq!(of("n=\"$(bin/tool db)\"; ./check.sh $n"), "n=\"$(AT/bin/tool db)\"; AT/./check.sh $n");
        assert_eq!(of("sh -ec './check.sh || exit 1'"), "sh -ec 'AT/./check.sh || exit 1'");
        assert_eq!(of("\"./it's.sh\""), r"'AT/./it'\''s.sh'");
        assert_eq!(of("for i in 1 2; do bin/tool $i > db; done"), "for i in 1 2; do AT/bin/tool $i > db; done");
        assert_eq!(of("cat db | bin/tool"), "cat db | AT/bin/tool");
        // Names in the file system that is looked at, text, comments, and what is not known before it runs.
        for text in
            ["sqlite3 db 'select 1'", "grep -qx old db", "# ./check.sh", "echo './check.sh'", "> check.sh", "check.sh"]
        {
            same(text);
        }
        for text in
            ["$DIR/check.sh", "./absent.sh", "echo \"$(cat ./db)\"", "python3 -c 'import load'", "", "'", "$(", ")"]
        {
            same(text);
        }
    }

    #[test]
    fn a_command_is_resolved_word_by_word() {
        let folder = folder();
        let at = folder.path().to_str().unwrap();
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let resolved: Vec<String> =
                command(folder.path(), &words).iter().map(|word| word.to_str().unwrap().replace(at, "AT")).collect();
            resolved.join(" ")
        };
        assert_eq!(of(&["sh", "check.sh", "db"]), "sh AT/check.sh db");
        assert_eq!(of(&["./bin/tool", "db"]), "AT/./bin/tool db");
        assert_eq!(of(&["env", "X=1", "bin/tool"]), "env X=1 AT/bin/tool");
        assert_eq!(of(&["sh", "-c", "./check.sh && cat db"]), "sh -c AT/./check.sh && cat db");
        assert_eq!(of(&["sqlite3", "db", "select 1"]), "sqlite3 db select 1");
    }

    #[test]
    fn an_argument_is_the_callers_file_where_the_file_system_has_none_of_the_name() {
        let (folder, mounted) = (folder(), tempfile::tempdir().unwrap());
        std::fs::write(mounted.path().join("db"), "").unwrap();
        let of = |word: &str| argument(folder.path(), mounted.path(), OsStr::new(word));
        assert_eq!(of("check.sh"), folder.path().join("check.sh"));
        for word in ["db", "absent", "-check.sh", "bin", ""] {
            assert_eq!(of(word), word);
        }
    }

    proptest::proptest! {
        /// Of any text, with no file of the caller's in it, nothing changes.
        #[test]
        fn any_text_is_left_as_it_is(text in r#"[ -~\n]{0,60}"#) {
            let empty = tempfile::tempdir().unwrap();
            proptest::prop_assume!(!text.contains('/') || !text.contains(".."));
            proptest::prop_assert_eq!(script(empty.path(), &text), text);
        }
    }
}
