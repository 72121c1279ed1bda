//! Which files of the host a command or script depends on, as far as its words say, and what is in them.
//!
//! A word counts where it names a file: by its path, from the caller's folder, from the folder of the script it stands in, or as a
//! program of the search path. What is text itself is read for words, too: so a script's interpreter, and the scripts and programs
//! that it names, belong to it. Imports of Python are looked for beside the script.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::kernel::find_program;

/// Files beyond this number are left out.
const FILES_MAX: usize = 4096;
/// Longer text is data, and not read for words.
const TEXT_BYTES_MAX: u64 = 256 << 10;
/// Of larger files, size and time stand for what is in them.
const CONTENT_BYTES_MAX: u64 = 256 << 20;
/// What lies there is the kernel's, and changes by itself.
const KERNELS: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Files with a digest of each.
pub(super) type Inputs = BTreeMap<String, String>;

/// What is looked at.
pub(super) struct Search<'a> {
    /// Where the caller stands.
    pub(super) folder: &'a Path,
    /// The search path that programs are found by.
    pub(super) programs: &'a OsStr,
    /// What lies below it is the trial's own.
    pub(super) own: &'a Path,
}

impl Search<'_> {
    /// Everything that these texts name, and what that names.
    pub(super) fn inputs<'t>(&self, texts: impl IntoIterator<Item = &'t OsStr>) -> Inputs {
        let mut found = BTreeSet::new();
        let mut open: Vec<PathBuf> = Vec::new();
        for text in texts {
            // A word may be a path with blanks in it.
            self.name(&text.to_string_lossy(), &[self.folder], &mut found, &mut open);
            self.words(&text.to_string_lossy(), &[self.folder], false, &mut found, &mut open);
        }
        while let Some(path) = open.pop() {
            let Some(text) = text_of(&path) else { continue };
            let beside = path.parent().unwrap_or(self.folder);
            let is_python = path.extension().is_some_and(|end| end == "py")
                || text.starts_with("#!") && text.lines().next().is_some_and(|line| line.contains("python"));
            self.words(&text, &[self.folder, beside], is_python, &mut found, &mut open);
        }
        found.into_iter().map(|path| (path.display().to_string(), digest(&path))).collect()
    }

    fn words(
        &self,
        text: &str,
        folders: &[&Path],
        is_python: bool,
        found: &mut BTreeSet<PathBuf>,
        open: &mut Vec<PathBuf>,
    ) {
        let splits = |character: char| character.is_whitespace() || "\"'`;|&()<>=,:${}[]*?!#".contains(character);
        let words: BTreeSet<&str> = text.split(splits).filter(|word| !word.is_empty()).collect();
        for word in words {
            self.name(word, folders, found, open);
            if is_python {
                self.name(&format!("{}.py", word.replace('.', "/")), folders, found, open);
            }
        }
    }

    /// The files that a word names.
    fn name(&self, word: &str, folders: &[&Path], found: &mut BTreeSet<PathBuf>, open: &mut Vec<PathBuf>) {
        if word.is_empty() || word.len() > 4096 || word.contains('\0') {
            return;
        }
        let mut candidates: Vec<PathBuf> = folders.iter().map(|folder| folder.join(word)).collect();
        if !word.contains('/') {
            candidates.extend(find_program(word, self.programs));
        }
        for path in candidates {
            // Without `./` inside.
            let path: PathBuf = path.components().collect();
            let is_outside = KERNELS.iter().any(|folder| path.starts_with(folder)) || path.starts_with(self.own);
            if found.len() < FILES_MAX && !is_outside && path.is_file() && found.insert(path.clone()) {
                open.push(path);
            }
        }
    }
}

/// A file that is text, and short enough to be a script.
fn text_of(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= TEXT_BYTES_MAX && !bytes.contains(&0)).then(|| String::from_utf8(bytes).ok()).flatten()
}

fn digest(path: &Path) -> String {
    let Ok(about) = fs::metadata(path) else { return "gone".to_owned() };
    if about.len() > CONTENT_BYTES_MAX {
        let since = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        return format!("{} bytes of {}.{:09}", about.len(), since.as_secs(), since.subsec_nanos());
    }
    let mut hasher = blake3::Hasher::new();
    match File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut hasher)) {
        Ok(_) => hasher.finalize().to_hex()[..32].to_owned(),
        Err(error) => format!("not read: {error}"),
    }
}

/// Names of files that differ; where there are none, of those that are in one and not the other.
pub(super) fn changed(before: &Inputs, now: &Inputs) -> Vec<String> {
    let differ = before.iter().filter(|(name, digest)| now.get(*name).is_some_and(|other| other != *digest));
    let differ: Vec<String> = differ.map(|(name, _)| name.clone()).collect();
    if !differ.is_empty() {
        return differ;
    }
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != now.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(folder: &Path, texts: &[&str]) -> Vec<String> {
        let search = Search { folder, programs: OsStr::new("/nowhere"), own: &folder.join("plumb-crash") };
        let inputs = search.inputs(texts.iter().map(OsStr::new));
        let below = |name: &String| name.strip_prefix(&format!("{}/", folder.display())).unwrap().to_owned();
        inputs.keys().map(below).collect()
    }

    #[test]
    fn what_words_name_and_what_that_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("run.sh"), "#!/nowhere/sh\n. lib/common.sh\n\"$PWD\"/../bin/tool --in=data.txt\n");
        write(&at("lib/common.sh"), "helper() { ../lib/deep.sh; }\n");
        write(&at("lib/deep.sh"), "true\n");
        write(&at("data.txt"), "check.py");
        write(&at("check.py"), "import parts.one\n");
        write(&at("parts/one.py"), "pass\n");
        write(&at("beside.txt"), "");
        write(&at("with blank.sh"), "");
        write(&at("plumb-crash/trial.json"), "");
        let all = ["check.py", "data.txt", "lib/common.sh", "lib/../lib/deep.sh", "parts/one.py", "run.sh"];
        let mut expected: Vec<&str> = all.to_vec();
        expected.sort_unstable();
        let mut found = names(folder.path(), &["sh", "run.sh", "plumb-crash/trial.json"]);
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(names(folder.path(), &["sh -c 'cat <beside.txt'"]), ["beside.txt"]);
        assert_eq!(names(folder.path(), &["with blank.sh"]), ["with blank.sh"]);
        assert!(names(folder.path(), &["echo hello", "", "/proc/self/maps"]).is_empty());
    }

    #[test]
    fn a_program_of_the_search_path_counts_and_a_changed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("bin/tool");
        write(&tool, "#!/bin/true\n");
        let programs = folder.path().join("bin");
        let search = Search { folder: Path::new("/nowhere"), programs: programs.as_os_str(), own: Path::new("/own") };
        let before = search.inputs([OsStr::new("tool")]);
        let named = tool.display().to_string();
        assert!(before.contains_key(&named), "{before:?}");
        assert!(changed(&before, &search.inputs([OsStr::new("tool")])).is_empty());
        write(&tool, "#!/bin/false\n");
        let now = search.inputs([OsStr::new("tool")]);
        assert!(changed(&before, &now).contains(&named));
        fs::remove_file(&tool).unwrap();
        assert!(changed(&now, &search.inputs([OsStr::new("tool")])).contains(&named));
    }
}
