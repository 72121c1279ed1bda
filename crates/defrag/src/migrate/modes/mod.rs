//! Which features and mount options of a file system a move is safe with.
//!
//! Each that is known has a verdict: a crash test has it, it has no part in a move, or it is refused. What is in none of the
//! tables is refused too: a file system that has learnt something since may lose data in a way that nobody has tried.
//! `docs/defrag-safety.md` prints the tables, and `tests/crash_modes.rs` holds them against real mounts.

mod btrfs;
mod ext4;
mod f2fs;
mod mount;
mod xfs;

use super::facts::{Facts, FileSystem};
use super::refusals::Refusal;

/// What is known of a feature or an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The crash test's configuration of this name has it.
    Tried(&'static str),
    /// It has no part in what a move relies on; why.
    Apart(&'static str),
    /// Files are left alone; why.
    Refused(&'static str),
}

/// A feature or an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// As the kernel prints an option (one that ends in `=*` stands for every value), or the name of a feature.
    pub name: &'static str,
    /// Of a feature: the word, counted from zero, and the bit in it.
    bit: Option<(usize, u32)>,
    /// What is known.
    pub verdict: Verdict,
}

impl Mode {
    const fn option(name: &'static str, verdict: Verdict) -> Self {
        Self { name, bit: None, verdict }
    }

    const fn feature(name: &'static str, word: usize, bit: u32, verdict: Verdict) -> Self {
        Self { name, bit: Some((word, bit)), verdict }
    }

    fn is_meant_by(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(key) => name.starts_with(key),
            None => self.name == name,
        }
    }
}

/// What is known of one file system.
#[derive(Clone, Copy, Debug)]
pub struct Modes {
    /// Its name.
    pub system: &'static str,
    /// Mount options, with those that every file system has.
    pub options: [&'static [Mode]; 2],
    /// Features, as its superblock has them.
    pub features: &'static [Mode],
}

impl Modes {
    /// What is known of a file system, if it is one of those whose files are moved.
    pub fn of(system: &FileSystem) -> Option<Self> {
        let (system, options, features) = match system {
            FileSystem::Ext4 => ("ext4", ext4::OPTIONS, ext4::FEATURES),
            FileSystem::Xfs => ("XFS", xfs::OPTIONS, xfs::FEATURES),
            FileSystem::Btrfs => ("Btrfs", btrfs::OPTIONS, btrfs::FEATURES),
            FileSystem::F2fs => ("F2FS", f2fs::OPTIONS, f2fs::FEATURES),
            FileSystem::Other(_) => return None,
        };
        Some(Self { system, options: [options, mount::OPTIONS], features })
    }

    /// What is known of an option, as the kernel prints it.
    pub fn option(&self, name: &str) -> Option<&'static Mode> {
        self.options.iter().copied().flatten().find(|mode| mode.is_meant_by(name))
    }

    /// What is known of a feature.
    pub fn feature(&self, name: &str) -> Option<&'static Mode> {
        self.features.iter().find(|mode| mode.is_meant_by(name))
    }

    /// Names of the features whose bits are set in the words of a superblock.
    pub(super) fn named(&self, words: &[u64]) -> Vec<String> {
        let mut names = Vec::new();
        for (number, word) in words.iter().enumerate() {
            for bit in (0..u64::BITS).filter(|bit| word & (1 << bit) != 0) {
                let known = self.features.iter().find(|mode| mode.bit == Some((number, bit)));
                names.push(known.map_or_else(|| format!("feature {number}:{bit}"), |mode| mode.name.to_owned()));
            }
        }
        names
    }
}

/// Whether a move is safe with everything that a file system has and was mounted with.
pub(super) fn judge(facts: &Facts) -> Result<(), Refusal> {
    let Some(modes) = Modes::of(&facts.system) else { return Ok(()) };
    let options = facts.options.iter().map(|name| (name, modes.option(name)));
    let features = facts.features.iter().flatten().map(|name| (name, modes.feature(name)));
    // What is known to be wrong says more than what is not known.
    let (known, unknown): (Vec<_>, Vec<_>) = options.chain(features).partition(|(_, mode)| mode.is_some());
    for (name, mode) in known {
        if let Some(Mode { verdict: Verdict::Refused(why), .. }) = mode {
            return Err(Refusal::Mode { name: name.clone(), why });
        }
    }
    match unknown.first() {
        Some((name, _)) => Err(Refusal::UnknownMode((*name).clone())),
        None => Ok(()),
    }
}

/// The tables as Markdown, for `docs/defrag-safety.md`.
pub fn modes_text() -> String {
    let mut text = String::new();
    let all = |mode: &Mode, what: &str| {
        let verdict = match mode.verdict {
            Verdict::Tried(trial) => format!("crash test `{trial}`"),
            Verdict::Apart(why) => format!("no part in a move: {why}"),
            Verdict::Refused(why) => format!("**refused**: {why}"),
        };
        (verdict, what.to_owned(), format!("`{}`", mode.name))
    };
    for system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
        let Some(modes) = Modes::of(&system) else { continue };
        let rows = modes.options[0].iter().map(|mode| all(mode, "option"));
        push_table(&mut text, modes.system, rows.chain(modes.features.iter().map(|mode| all(mode, "feature"))));
    }
    push_table(&mut text, "Every file system", mount::OPTIONS.iter().map(|mode| all(mode, "option")));
    text
}

/// Names of one verdict are one row, in the order in which the verdicts come first.
fn push_table(text: &mut String, title: &str, modes: impl Iterator<Item = (String, String, String)>) {
    let mut rows: Vec<((String, String), Vec<String>)> = Vec::new();
    for (verdict, what, name) in modes {
        let key = (verdict, what);
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) => names.push(name),
            None => rows.push((key, vec![name])),
        }
    }
    text.push_str(&format!("### {title}\n\n| verdict | what | names |\n|---|---|---|\n"));
    for ((verdict, what), names) in rows {
        text.push_str(&format!("| {verdict} | {what} | {} |\n", names.join(", ")));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_listed_twice() {
        for system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
            let modes = Modes::of(&system).unwrap();
            let options: Vec<&Mode> = modes.options.iter().copied().flatten().collect();
            for list in [options, modes.features.iter().collect()] {
                for (number, mode) in list.iter().enumerate() {
                    let twice = list[..number].iter().any(|other| other.name == mode.name);
                    assert!(!twice, "{}: {}", modes.system, mode.name);
                    let bit = |other: &&&Mode| mode.bit.is_some() && other.bit == mode.bit;
                    assert_eq!(list.iter().filter(bit).count(), usize::from(mode.bit.is_some()), "{}", mode.name);
                }
            }
        }
    }

    #[test]
    fn values_and_bits_find_their_names() {
        let modes = Modes::of(&FileSystem::Ext4).unwrap();
        assert_eq!(modes.option("commit=30").unwrap().name, "commit=*");
        assert!(matches!(modes.option("data=ordered").unwrap().verdict, Verdict::Tried(_)));
        assert!(modes.option("data=sideways").is_none());
        assert_eq!(modes.named(&[4, 0, 1 << 9 | 1 << 31]), ["has_journal", "bigalloc", "feature 2:31"]);
    }
}
