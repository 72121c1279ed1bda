//! Builds a kernel: source, patches, configuration, compiling, stripping, storing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::recipe::Recipe;
use super::source_folder::Listing;
use super::steps::Steps;
use super::target::Target;
use super::{BuildProgress, Kernel, cache, config, patches, source, source_folder, tools, unpack};
use crate::error::LinuxError;

/// About how many objects a kernel has: for the progress bar.
const OBJECTS: u64 = 1230;

/// Builds `recipe` into the cache at `folder`; another builder's result is taken.
pub(super) fn build(
    folder: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Kernel, LinuxError> {
    tools::check(recipe.target)?;
    fs::create_dir_all(folder).map_err(cannot_make(folder))?;
    let _lock = lock(&folder.join("lock"), progress)?;
    // Here, so that it is that of the files that are copied.
    let hash = recipe.hash()?;
    if let Some(kernel) = cache::newest(folder, &hash)? {
        return Ok(kernel);
    }
    let work = work_folder(folder, recipe, &hash);
    fs::create_dir_all(&work).map_err(cannot_make(&work))?;

    let tree = work.join("tree");
    let steps = Steps { tree: &tree, target: recipe.target, log: work.join("log") };
    let release = prepare(&steps, recipe, &hash, &work.join("download"), progress)?;
    steps.compile(progress)?;
    let kernel = cache::store(folder, &release, &hash, |program| steps.take(program))?;
    if !recipe.own {
        fs::remove_dir_all(&work).map_err(LinuxError::system(format!("cannot remove {}", work.display())))?;
    }
    Ok(kernel)
}

/// What `recipe` is compiled from, in `folder`; what another recipe has left there becomes it.
pub(super) fn sources(
    cache: &Path,
    recipe: &Recipe,
    folder: &Path,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, LinuxError> {
    tools::check(recipe.target)?;
    for folder in [cache, folder] {
        fs::create_dir_all(folder).map_err(cannot_make(folder))?;
    }
    // Builders share what they download.
    let _lock = lock(&cache.join("lock"), progress)?;
    let hash = recipe.hash()?;
    let tree = folder.join("tree");
    let steps = Steps { tree: &tree, target: recipe.target, log: folder.join("log") };
    let own = Recipe { own: true, ..recipe.clone() };
    let downloads = work_folder(cache, &own, &hash).join("download");
    prepare(&steps, recipe, &hash, &downloads, progress)?;
    Ok(tree)
}

/// Source, patches and configuration of `recipe`, whose hash is `hash`: its release.
fn prepare(
    steps: &Steps,
    recipe: &Recipe,
    hash: &str,
    downloads: &Path,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<String, LinuxError> {
    let tree = steps.tree;
    if patches::is_broken(tree) {
        fs::remove_dir_all(tree).map_err(LinuxError::system(format!("cannot remove {}", tree.display())))?;
    }
    match &recipe.source {
        Some(source) => {
            let listing = Listing::of(source)?;
            if !source_folder::is_current(&listing, tree) {
                progress(BuildProgress::Unpacking);
                fs::create_dir_all(tree).map_err(cannot_make(tree))?;
                patches::set(steps, &[])?;
                source_folder::update(source, &listing, tree)?;
            }
            if recipe.hash()? != hash {
                let reason = "changed while it was copied: build again".to_owned();
                return Err(LinuxError::NotASource { folder: source.clone(), reason });
            }
        }
        None if !tree.is_dir() => {
            let source = source::find(downloads, progress)?;
            progress(BuildProgress::Unpacking);
            unpack::unpack(&source, tree)?;
        }
        None => {}
    }
    let release = unpack::release(tree)?;
    progress(BuildProgress::Configuring);
    patches::set(steps, &recipe.patches)?;
    steps.configure(recipe)?;
    Ok(release)
}

fn cannot_make(path: &Path) -> impl FnOnce(std::io::Error) -> LinuxError {
    LinuxError::system(format!("cannot make the folder {}", path.display()))
}

/// Where a recipe is built. Those that a person adds to share a folder for each source, which stays: the next
/// build compiles only what has changed.
fn work_folder(folder: &Path, recipe: &Recipe, hash: &str) -> PathBuf {
    let source = || recipe.source.clone().or_else(source::named).unwrap_or_default();
    if recipe.own {
        let source = blake3::hash(source().as_os_str().as_encoded_bytes()).to_hex();
        let source: String = source.chars().take(12).collect();
        match recipe.target {
            Target::UserMode => folder.join(format!("own-{source}")),
            Target::Pc => folder.join(format!("own-pc-{source}")),
        }
    } else {
        folder.join(format!("building-{hash}"))
    }
}

/// Held while a build goes on; the system takes it back when the builder dies.
fn lock(path: &Path, progress: &mut dyn FnMut(BuildProgress)) -> Result<File, LinuxError> {
    let failed = || LinuxError::system(format!("cannot lock {}", path.display()));
    let file = File::create(path).map_err(failed())?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress(BuildProgress::Waiting);
        flock(&file, FlockOperation::LockExclusive).map_err(std::io::Error::from).map_err(failed())?;
    }
    Ok(file)
}

impl Steps<'_> {
    fn configure(&self, recipe: &Recipe) -> Result<(), LinuxError> {
        let fragment = self.tree.join("plumb.config");
        fs::write(&fragment, &recipe.config)
            .map_err(LinuxError::system(format!("cannot write {}", fragment.display())))?;
        self.run("configure", self.make().arg("allnoconfig").env("KCONFIG_ALLCONFIG", &fragment), None, &mut |_| ())?;
        let path = self.tree.join(".config");
        let made = fs::read_to_string(&path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
        let dropped = config::dropped(&recipe.config, &made);
        if dropped.is_empty() { Ok(()) } else { Err(LinuxError::Config { dropped }) }
    }

    fn compile(&self, progress: &mut dyn FnMut(BuildProgress)) -> Result<(), LinuxError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let already = compiled(self.tree);
        let mut done = already;
        self.run("compile", self.make().arg(format!("-j{jobs}")).arg(self.target.goal()), None, &mut |line| {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("CC" | "AS") => {
                    done += 1;
                    let object = words.next().unwrap_or_default().to_owned();
                    progress(BuildProgress::Compiling { done, about: OBJECTS.max(done), object });
                }
                Some("LD" | "KSYMS") => progress(BuildProgress::Linking),
                _ => {}
            }
        })
    }

    /// Puts what was made at `program`, without symbols.
    fn take(&self, program: &Path) -> Result<(), LinuxError> {
        let made = self.target.made();
        if self.target == Target::Pc {
            let failed = || LinuxError::system(format!("cannot copy {}", made.display()));
            return fs::copy(self.tree.join(made), program).map(drop).map_err(failed());
        }
        let mut command = Command::new("strip");
        command.arg("--strip-all").arg("-o").arg(program).arg(made);
        self.run("strip", &mut command, None, &mut |_| ())
    }
}

/// Objects that an interrupted build has compiled already.
fn compiled(tree: &Path) -> u64 {
    let mut count = 0;
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with(".o") {
                count += 1;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::recipe::Patch;
    use super::*;

    /// Two objects that print a word each; an option that it does not know is dropped, as Kconfig does.
    const MAKEFILE: &str = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n\
        allnoconfig:\n\tsed /UNKNOWN/d $(KCONFIG_ALLCONFIG) > .config\n\
        linux: a.o b.o\n\t$(CC) -o linux a.o b.o\n\
        %.o: %.c\n\t@echo \"  CC      $@\"\n\t@$(CC) -c -o $@ $<\n";

    const OTHER_WORD: &str = "--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,2 @@\n const char *word(void) {\n-return \"one\"; }\n\
        +return \"two\"; }\n";

    struct Source {
        folder: tempfile::TempDir,
        cache: tempfile::TempDir,
    }

    impl Source {
        fn new() -> Self {
            let source = Self { folder: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
            fs::create_dir_all(source.folder.path().join("arch/um")).unwrap();
            source.write("arch/um/Makefile", "");
            source.write("Makefile", MAKEFILE);
            source.write("a.c", "const char *word(void) {\nreturn \"one\"; }\n");
            source.write("b.c", "int puts(const char *);\nconst char *word(void);\nint main(void) { puts(word()); }\n");
            source
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn recipe(&self, config: &str, patches: &[(&str, &'static str)]) -> Recipe {
            let patch = |(name, text): &(&str, &'static str)| Patch {
                name: (*name).to_owned(),
                text: Cow::Borrowed(text.as_bytes()),
            };
            let mut recipe = Recipe { config: config.to_owned(), ..Recipe::default() };
            recipe.patches = patches.iter().map(patch).collect();
            recipe.source(self.folder.path()).unwrap();
            recipe
        }

        /// What the kernel prints, and the objects that were compiled for it.
        fn build(&self, recipe: &Recipe) -> Result<(String, Vec<String>), LinuxError> {
            let mut objects = Vec::new();
            let kernel = build(self.cache.path(), recipe, &mut |progress| {
                if let BuildProgress::Compiling { object, .. } = progress {
                    objects.push(object);
                }
            })?;
            // They are compiled side by side.
            objects.sort();
            let output = Command::new(kernel.program()).output().unwrap();
            Ok((String::from_utf8(output.stdout).unwrap(), objects))
        }
    }

    fn tools_are_there() -> bool {
        let there = tools::check(Target::UserMode);
        if let Err(missing) = &there {
            println!("skipped: {missing}");
        }
        there.is_ok()
    }

    #[test]
    fn another_patch_compiles_what_it_changes_and_no_more() {
        if !tools_are_there() {
            return;
        }
        let source = Source::new();
        let plain = source.recipe("CONFIG_A=y\n", &[]);
        let patched = source.recipe("CONFIG_A=y\n", &[("word", OTHER_WORD)]);
        let built = |recipe| source.build(recipe).unwrap();
        let words =
            |text: &str, objects: &[&str]| (format!("{text}\n"), objects.iter().map(|o| (*o).to_owned()).collect());
        assert_eq!(built(&plain), words("one", &["a.o", "b.o"]));
        assert_eq!(built(&patched), words("two", &["a.o"]));
        assert_eq!(built(&plain), words("one", &[]), "both are in the cache");
        source.write(
            "b.c",
            "int puts(const char *);\nconst char *word(void);\nint main(void) { return puts(word()) < 0; }\n",
        );
        assert_eq!(built(&patched), words("two", &["a.o", "b.o"]), "the patch was taken back and applied again");
        assert_eq!(built(&source.recipe("CONFIG_B=y\n", &[("word", OTHER_WORD)])), words("two", &[]));
    }

    #[test]
    fn what_does_not_go_into_a_source_is_named_and_does_no_harm() {
        if !tools_are_there() {
            return;
        }
        let source = Source::new();
        let twice = [("first", OTHER_WORD), ("second", OTHER_WORD)];
        let error = source.build(&source.recipe("CONFIG_A=y\n", &twice)).unwrap_err();
        assert_eq!(error.to_string(), "the patch second does not apply: a.c: it is applied already");
        let error = source.build(&source.recipe("CONFIG_A=y\nCONFIG_UNKNOWN=y\n", &[])).unwrap_err();
        assert!(matches!(&error, LinuxError::Config { dropped } if dropped == &["CONFIG_UNKNOWN=y"]), "{error}");
        assert_eq!(source.build(&source.recipe("CONFIG_A=y\n", &[])).unwrap().0, "one\n");
        assert_eq!(fs::read_dir(source.folder.path()).unwrap().count(), 4, "nothing was written to the source");

        // A change of the copy that was cut off: it is made again.
        let work = work_folder(source.cache.path(), &source.recipe("", &[]), "");
        fs::write(work.join("tree/.plumb-changing"), "").unwrap();
        fs::write(work.join("tree/a.c"), "half").unwrap();
        assert_eq!(source.build(&source.recipe("CONFIG_B=y\n", &[])).unwrap().0, "one\n");
    }

    /// In a process of its own it builds; in the test's, that process is interrupted as a terminal does it.
    #[test]
    fn a_build_that_was_interrupted_goes_on_where_it_was() {
        const PLACE: &str = "PLUMB_TEST_INTERRUPTED_BUILD";
        let recipe = |place: &Path| {
            let mut recipe = Recipe { config: "CONFIG_A=y\n".to_owned(), ..Recipe::default() };
            recipe.source(&place.join("source")).unwrap();
            recipe
        };
        if let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) {
            build(&place.join("cache"), &recipe(&place), &mut |_| ()).unwrap();
            return;
        }
        if !tools_are_there() {
            return;
        }
        let source = Source::new();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        // The second object is compiled once somebody opens its gate.
        let makefile = MAKEFILE.replace("%.o:", "b.o: a.o\n%.o:").replace(
            "@$(CC) -c",
            &format!(
                "@echo $@ >> {0}/begun; until [ -e {0}/$@ ]; do sleep 0.02; done; echo $@ >> {0}/compiled; $(CC) -c",
                place.display()
            ),
        );
        source.write("Makefile", &makefile);
        fs::rename(source.folder.path(), place.join("source")).unwrap();
        fs::write(place.join("a.o"), "").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "kernel::build::tests::a_build_that_was_interrupted_goes_on_where_it_was"]);
        let mut child = std::os::unix::process::CommandExt::process_group(child.env(PLACE, place), 0).spawn().unwrap();
        // The second waits for the first, which is done then.
        while !fs::read_to_string(place.join("begun")).is_ok_and(|begun| begun.contains("b.o")) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let group = rustix::process::Pid::from_child(&child);
        // As Ctrl-C does; but what a shell has started beside itself ignores that.
        rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
        assert!(!child.wait().unwrap().success());

        fs::write(place.join("b.o"), "").unwrap();
        build(&place.join("cache"), &recipe(place), &mut |_| ()).unwrap();
        assert_eq!(fs::read_to_string(place.join("compiled")).unwrap(), "a.o\nb.o\n", "each once");
    }
}
