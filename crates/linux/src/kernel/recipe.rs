//! What a kernel is built from.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use super::target::Target;
use super::{config, recipes, source_folder};
use crate::error::LinuxError;

/// Says that how a kernel is built has changed, where configuration and patches have not.
const REVISION: u32 = 1;

/// A configuration, patches and a source: one of the repository's ([`Recipe::built_in`], [`Recipe::named`]), and
/// what was added to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recipe {
    /// Values over `allnoconfig`; of two for one option the later counts.
    pub(super) config: String,
    /// In the order in which they are applied.
    pub(super) patches: Vec<Patch>,
    pub(super) target: Target,
    /// A folder that holds the source; the distribution's package otherwise.
    pub(super) source: Option<PathBuf>,
    /// Something was added by [`patch`](Self::patch), [`config`](Self::config) or [`source`](Self::source).
    pub(super) own: bool,
}

/// A patch, of any encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) text: Cow<'static, [u8]>,
}

impl Recipe {
    /// The recipe of the repository that is used where none is named.
    pub fn built_in() -> Self {
        recipes::base()
    }

    /// A recipe of the repository by its folder's name.
    ///
    /// # Errors
    /// [`LinuxError::Invalid`] where there is none of this name, with those that there are.
    pub fn named(name: &str) -> Result<Self, LinuxError> {
        recipes::named(name)
    }

    /// The patches of a recipe of the repository and its configuration, for a PC with several processors as QEMU emulates it:
    /// everything that it needs is in the image, and no driver of real hardware.
    ///
    /// # Errors
    /// [`LinuxError::Invalid`] where there is none of this name, with those that there are.
    pub fn for_pc(name: &str) -> Result<Self, LinuxError> {
        recipes::for_pc(name)
    }

    /// The names that [`named`](Self::named) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        recipes::names()
    }

    /// Adds a patch (`diff -u`, applied with `-p1`) after the others.
    ///
    /// # Errors
    /// Where the file cannot be read or is empty.
    pub fn patch(&mut self, file: &Path) -> Result<(), LinuxError> {
        let text = fs::read(file).map_err(LinuxError::system(format!("cannot read the patch {}", file.display())))?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(LinuxError::Patch { patch: name, reason: "it is empty".to_owned() });
        }
        self.patches.push(Patch { name, text: Cow::Owned(text) });
        self.own = true;
        Ok(())
    }

    /// Adds the values of a fragment of a configuration: lines `CONFIG_NAME=VALUE` and `# CONFIG_NAME is not set`.
    ///
    /// # Errors
    /// Where the file cannot be read, or the first line that is neither, a comment nor empty.
    pub fn config(&mut self, file: &Path) -> Result<(), LinuxError> {
        let text = fs::read_to_string(file)
            .map_err(LinuxError::system(format!("cannot read the configuration {}", file.display())))?;
        let values = config::parse(&text)
            .map_err(|fault| LinuxError::Invalid { message: format!("{}: {fault}", file.display()) })?;
        self.config.push_str(&values);
        self.own = true;
        Ok(())
    }

    /// Takes the source from a folder instead of the distribution's package. It is copied; nothing is written to it.
    ///
    /// # Errors
    /// [`LinuxError::NotASource`] where it holds no kernel, or one that was built in place.
    pub fn source(&mut self, folder: &Path) -> Result<(), LinuxError> {
        let folder = fs::canonicalize(folder)
            .map_err(LinuxError::system(format!("cannot find the kernel source {}", folder.display())))?;
        source_folder::check(&folder)?;
        self.source = Some(folder);
        self.own = true;
        Ok(())
    }

    /// How many patches it has.
    pub fn patch_count(&self) -> usize {
        self.patches.len()
    }

    /// Twelve hexadecimal digits that change with it. Of a source folder names, sizes and times of the files count.
    ///
    /// # Errors
    /// Where the source folder cannot be read.
    pub fn hash(&self) -> Result<String, LinuxError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&REVISION.to_le_bytes());
        if self.target != Target::default() {
            hasher.update(self.target.architecture().as_bytes());
        }
        let source = self.source.as_deref().map(source_folder::Listing::of).transpose()?.map(|listing| listing.text());
        let config = std::iter::once(("config", self.config.as_bytes()));
        let patches = self.patches.iter().map(|patch| (patch.name.as_str(), &*patch.text));
        let source = source.iter().map(|text| ("source", text.as_bytes()));
        for (name, text) in config.chain(patches).chain(source) {
            for part in [name.as_bytes(), text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Ok(hasher.finalize().to_hex().chars().take(12).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(config: &str, name: &str, text: &'static str) -> Recipe {
        let patch = Patch { name: name.to_owned(), text: Cow::Borrowed(text.as_bytes()) };
        Recipe { config: config.to_owned(), patches: vec![patch], ..Recipe::default() }
    }

    #[test]
    fn the_hash_follows_every_part() {
        let one = recipe("A=y\n", "a.patch", "b").hash().unwrap();
        assert_eq!(one.len(), 12);
        assert_eq!(one, recipe("A=y\n", "a.patch", "b").hash().unwrap());
        assert_ne!(one, recipe("A=y\na", ".patch", "b").hash().unwrap());
        assert_ne!(one, recipe("A=y\n", "a.patch", "c").hash().unwrap());
        let for_pc = Recipe { target: Target::Pc, ..recipe("A=y\n", "a.patch", "b") };
        assert_ne!(one, for_pc.hash().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let on_folder = Recipe { source: Some(folder.path().to_owned()), ..recipe("A=y\n", "a.patch", "b") };
        let empty = on_folder.hash().unwrap();
        fs::write(folder.path().join("main.c"), "int x;").unwrap();
        let filled = on_folder.hash().unwrap();
        assert!(one != empty && empty != filled);
        fs::write(folder.path().join("main.c"), "int xx;").unwrap();
        assert_ne!(filled, on_folder.hash().unwrap());
    }

    #[test]
    fn what_cannot_be_added_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let mut recipe = Recipe::built_in();
        let before = recipe.clone();
        let absent = folder.path().join("absent");
        let errors = [
            (recipe.patch(&absent), "cannot read the patch"),
            (recipe.patch(&file("empty.patch", " \n")), "the patch empty.patch"),
            (recipe.config(&absent), "cannot read the configuration"),
            (recipe.config(&file("odd.config", "CONFIG_A=y\nB=y\n")), "odd.config: line 2"),
            (recipe.source(&absent), "cannot find the kernel source"),
            (recipe.source(folder.path()), "is no kernel source"),
        ];
        for (result, words) in errors {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(recipe, before);
        recipe.config(&file("fine.config", "# CONFIG_B is not set")).unwrap();
        assert_ne!(recipe.hash().unwrap(), before.hash().unwrap());
    }
}
