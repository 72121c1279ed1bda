//! The patches of a source tree: which are applied is recorded in it, so that others can take their place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::recipe::Patch;
use super::steps::Steps;
use crate::error::LinuxError;

/// Folder of the tree that holds the applied patches, numbered.
const APPLIED: &str = ".plumb-patches";

/// There while the tree's files and the record do not agree.
const CHANGING: &str = ".plumb-changing";

/// Lines of what `patch` said that an error shows where the reason is not found in them.
const TAIL_LINES: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Apply,
    TakeBack,
}

/// Whether an earlier change of the tree was interrupted: nothing is known of its files then.
pub(super) fn is_broken(tree: &Path) -> bool {
    tree.join(CHANGING).exists()
}

/// Makes `wanted` the tree's patches. Those that it has in common with the applied ones, from the first on, stay.
pub(super) fn set(steps: &Steps, wanted: &[Patch]) -> Result<(), LinuxError> {
    let applied = applied(steps.tree)?;
    let same = applied.iter().zip(wanted).take_while(|((_, text), patch)| **text == *patch.text).count();
    for (record, text) in applied.iter().skip(same).rev() {
        let name = record.file_name().unwrap_or_default().to_string_lossy().into_owned();
        change(steps, &name, text, Direction::TakeBack, || fs::remove_file(record))?;
    }
    for (number, patch) in wanted.iter().enumerate().skip(same) {
        let record = steps.tree.join(APPLIED).join(format!("{number:04}"));
        change(steps, &patch.name, &patch.text, Direction::Apply, || fs::write(&record, &patch.text))?;
    }
    Ok(())
}

/// Records and texts of the applied patches, in order.
fn applied(tree: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, LinuxError> {
    let folder = tree.join(APPLIED);
    let failed = || LinuxError::system(format!("cannot read {}", folder.display()));
    fs::create_dir_all(&folder).map_err(failed())?;
    let entries = fs::read_dir(&folder).map_err(failed())?;
    let mut records: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed())?;
    records.sort();
    let read = |path: PathBuf| fs::read(&path).map(|text| (path, text)).map_err(failed());
    records.into_iter().map(read).collect()
}

/// Applies one patch or takes it back, all of it or nothing.
fn change(
    steps: &Steps,
    name: &str,
    text: &[u8],
    direction: Direction,
    record: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), LinuxError> {
    let command = || {
        let mut command = Command::new("patch");
        command.args(["-p1", "--batch", "--no-backup-if-mismatch"]);
        command.arg(if direction == Direction::Apply { "--forward" } else { "--reverse" });
        command
    };
    let mut said = Vec::new();
    let tried = steps.run("patch", command().args(["--dry-run"]), Some(text), &mut |line| said.push(line.to_owned()));
    let mark = steps.tree.join(CHANGING);
    let failed = || LinuxError::system(format!("cannot change {}", steps.tree.display()));
    match tried {
        Err(LinuxError::Build { .. }) if direction == Direction::Apply => {
            return Err(LinuxError::Patch { patch: name.to_owned(), reason: reason(&said) });
        }
        Err(error) => {
            // Somebody has changed the tree: the next build starts from the source.
            fs::write(&mark, "").map_err(failed())?;
            return Err(error);
        }
        Ok(()) => {}
    }
    fs::write(&mark, "").map_err(failed())?;
    steps.run(&format!("patch {name}"), &mut command(), Some(text), &mut |_| ())?;
    record().map_err(failed())?;
    fs::remove_file(&mark).map_err(failed())
}

/// The file at which `patch` stopped, and why, from what it said.
fn reason(said: &[String]) -> String {
    let mut file = "";
    for (at, line) in said.iter().enumerate() {
        if let Some(name) = line.strip_prefix("checking file ") {
            file = name;
        } else if line.starts_with("Hunk #") && line.contains("FAILED") {
            return format!(
                "{file}: {}",
                line.to_lowercase().trim_end_matches('.').replace("failed", "finds another text")
            );
        } else if line.starts_with("can't find file to patch") {
            let named = said.iter().skip(at).find_map(|line| line.strip_prefix("|+++ "));
            let name = named.and_then(|name| name.split_whitespace().next()).unwrap_or("a file");
            let inner = name.split_once('/').map_or(name, |(_, inner)| inner);
            return format!("{inner}: this source has no such file");
        } else if line.starts_with("Reversed (or previously applied)") {
            return format!("{file}: it is applied already");
        } else if line.contains("garbage was found") {
            return "it holds no differences between files".to_owned();
        } else if line.contains("malformed patch") {
            return format!("{file}: {}", line.trim_start_matches("patch: **** "));
        }
    }
    said.iter().skip(said.len().saturating_sub(TAIL_LINES)).cloned().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::target::Target;
    use super::*;

    const FIRST: &str = "a\nb\nc\n";

    fn patch(name: &str, text: String) -> Patch {
        Patch { name: name.to_owned(), text: Cow::Owned(text.into_bytes()) }
    }

    /// Changes the line `from` of `file` to `to`.
    fn line(file: &str, from: &str, to: &str) -> String {
        let text = FIRST.replace(from, &format!("-{from}\n+{to}"));
        let text: String =
            text.lines().map(|line| if line.len() > 1 { format!("{line}\n") } else { format!(" {line}\n") }).collect();
        format!("--- a/{file}\n+++ b/{file}\n@@ -1,3 +1,3 @@\n{text}")
    }

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("tree/fs")).unwrap();
            fs::write(folder.path().join("tree/fs/x.c"), FIRST).unwrap();
            Self(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("tree")
        }

        fn set(&self, wanted: &[Patch]) -> Result<String, LinuxError> {
            let tree = self.path();
            let steps = Steps { tree: &tree, target: Target::default(), log: self.0.path().join("log") };
            set(&steps, wanted)?;
            Ok(fs::read_to_string(tree.join("fs/x.c")).unwrap())
        }
    }

    #[test]
    fn others_take_the_place_of_applied_patches() {
        let tree = Tree::new();
        let [one, two, new] = [
            patch("one", line("fs/x.c", "a", "A1")),
            patch("two", line("fs/x.c", "c", "C1").replace(" a", " A1")),
            patch("new", "--- /dev/null\n+++ b/fs/new.c\n@@ -0,0 +1 @@\n+new\n".to_owned()),
        ];
        let other = patch("other", line("fs/x.c", "b", "B1").replace(" a", " A1"));
        assert_eq!(tree.set(&[one.clone(), two]).unwrap(), "A1\nb\nC1\n");
        let when = || fs::metadata(tree.path().join("fs/x.c")).unwrap().modified().unwrap();
        assert_eq!(tree.set(&[one.clone(), other.clone(), new.clone()]).unwrap(), "A1\nB1\nc\n");
        assert!(tree.path().join("fs/new.c").exists());
        let before = when();
        assert_eq!(tree.set(&[one, other]).unwrap(), "A1\nB1\nc\n");
        assert_eq!(when(), before, "what stays is not written again");
        assert!(!tree.path().join("fs/new.c").exists());
        assert_eq!(tree.set(&[]).unwrap(), FIRST);
        assert!(!is_broken(&tree.path()));
    }

    #[test]
    fn a_patch_that_does_not_fit_names_itself_and_the_place() {
        let tree = Tree::new();
        let good = patch("good.patch", line("fs/x.c", "a", "A1"));
        let both = format!("{}{}", line("fs/x.c", "b", "B1"), line("fs/y.c", "a", "A1"));
        let cases = [
            ("hunk", line("fs/x.c", "b", "B1").replace(" c", " d").replace("-b", "-e"), "fs/x.c: hunk #1"),
            ("absent", line("fs/y.c", "a", "A1"), "fs/y.c: this source has no such file"),
            ("second", both, "fs/y.c: this source has no such file"),
            ("again", line("fs/x.c", "a", "A1"), "fs/x.c: it is applied already"),
            ("prose", "Dear kernel,\nplease.\n".to_owned(), "holds no differences"),
            ("cut", line("fs/x.c", "b", "B1").replace(" c\n", "c\n"), "malformed patch at line"),
        ];
        for (name, text, words) in cases {
            let error = tree.set(&[good.clone(), patch(name, text)]).unwrap_err();
            assert!(matches!(&error, LinuxError::Patch { patch, .. } if patch == name), "{error}");
            assert!(error.to_string().contains(words), "{name}: {error}");
            assert_eq!(tree.set(std::slice::from_ref(&good)).unwrap(), "A1\nb\nc\n", "nothing of it is applied");
        }
    }
}
