//! Builds a kernel: unpack, patch, configure, compile, strip, store.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use super::recipe::Recipe;
use super::{BuildProgress, Kernel, cache, source, tools, unpack};
use crate::error::LinuxError;

/// Lines of a failed step that its error shows.
const TAIL_LINES: usize = 15;

/// Builds `recipe` into the cache at `folder`; another builder's result is taken.
pub(super) fn build(
    folder: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Kernel, LinuxError> {
    tools::check()?;
    let hash = recipe.hash();
    let work = folder.join(format!("building-{hash}"));
    fs::create_dir_all(&work).map_err(LinuxError::system(format!("cannot make the folder {}", work.display())))?;
    let _lock = lock(&folder.join("lock"), progress)?;
    if let Some(kernel) = cache::newest(folder, &hash)? {
        return Ok(kernel);
    }
    // The lock's last holder may have taken the folder away.
    fs::create_dir_all(&work).map_err(LinuxError::system(format!("cannot make the folder {}", work.display())))?;

    let tree = work.join("tree");
    if !tree.is_dir() {
        let source = source::find(&work.join("download"), progress)?;
        progress(BuildProgress::Unpacking);
        unpack::unpack(&source, &tree)?;
    }
    let release = unpack::release(&tree)?;
    let steps = Steps { tree: &tree, log: work.join("log") };
    let configured = work.join("configured");
    if !configured.is_file() {
        progress(BuildProgress::Configuring);
        steps.patch(recipe)?;
        steps.configure(recipe)?;
        fs::write(&configured, "").map_err(LinuxError::system("cannot write to the build folder"))?;
    }
    steps.compile(recipe, progress)?;
    let kernel = cache::store(folder, &release, &hash, |program| steps.strip(program))?;
    fs::remove_dir_all(&work).map_err(LinuxError::system(format!("cannot remove {}", work.display())))?;
    Ok(kernel)
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

/// The steps in one source tree, with one log.
struct Steps<'a> {
    tree: &'a Path,
    log: PathBuf,
}

impl Steps<'_> {
    /// Applies each patch once, however often the build is begun.
    fn patch(&self, recipe: &Recipe) -> Result<(), LinuxError> {
        for (name, text) in recipe.patches {
            let done = self.tree.join(format!(".{name}.applied"));
            if done.is_file() {
                continue;
            }
            let mut command = Command::new("patch");
            command.args(["-p1", "--forward", "--batch"]);
            self.run(&format!("patch {name}"), &mut command, Some(text), &mut |_| ())?;
            fs::write(&done, "").map_err(LinuxError::system(format!("cannot write {}", done.display())))?;
        }
        Ok(())
    }

    fn configure(&self, recipe: &Recipe) -> Result<(), LinuxError> {
        let fragment = self.tree.join("plumb.config");
        fs::write(&fragment, recipe.config)
            .map_err(LinuxError::system(format!("cannot write {}", fragment.display())))?;
        self.run("configure", self.make().arg("allnoconfig").env("KCONFIG_ALLCONFIG", &fragment), None, &mut |_| ())?;
        let path = self.tree.join(".config");
        let made = fs::read_to_string(&path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
        let refused = refused(recipe.config, &made);
        if refused.is_empty() {
            return Ok(());
        }
        let tail = format!("this source does not know or does not allow {}", refused.join(", "));
        Err(LinuxError::Build { step: "configure".to_owned(), log: self.log.clone(), tail })
    }

    fn compile(&self, recipe: &Recipe, progress: &mut dyn FnMut(BuildProgress)) -> Result<(), LinuxError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let already = compiled(self.tree);
        let mut done = already;
        self.run("compile", self.make().arg(format!("-j{jobs}")).arg("linux"), None, &mut |line| {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("CC" | "AS") => {
                    done += 1;
                    let object = words.next().unwrap_or_default().to_owned();
                    progress(BuildProgress::Compiling { done, about: recipe.objects.max(done), object });
                }
                Some("LD" | "KSYMS") => progress(BuildProgress::Linking),
                _ => {}
            }
        })
    }

    fn strip(&self, program: &Path) -> Result<(), LinuxError> {
        let mut command = Command::new("strip");
        command.arg("--strip-all").arg("-o").arg(program).arg("linux");
        self.run("strip", &mut command, None, &mut |_| ())
    }

    /// `make` for User-Mode Linux; what it would write of place and time is fixed.
    fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.arg("ARCH=um")
            .env("KBUILD_BUILD_TIMESTAMP", "2030-01-01")
            .env("KBUILD_BUILD_USER", "plumb")
            .env("KBUILD_BUILD_HOST", "plumb")
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .env_remove("MFLAGS");
        make
    }

    /// Runs a step; its output goes to the log, and line by line to `hear`.
    fn run(
        &self,
        step: &str,
        command: &mut Command,
        input: Option<&str>,
        hear: &mut dyn FnMut(&str),
    ) -> Result<(), LinuxError> {
        let cannot_log = || LinuxError::system(format!("cannot write {}", self.log.display()));
        let mut log = File::options().create(true).append(true).open(&self.log).map_err(cannot_log())?;
        let (reader, writer) = std::io::pipe().map_err(LinuxError::system("cannot make a pipe"))?;
        let errors = writer.try_clone().map_err(LinuxError::system("cannot make a pipe"))?;
        command.current_dir(self.tree).env("LC_ALL", "C").stdout(writer).stderr(errors);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(LinuxError::system(format!("cannot run {step}")))?;
        // The pipe ends when the child's ends are the last.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            // A child that ends early says why in its output.
            let _ = stdin.write_all(text.as_bytes());
        }
        let mut tail: Vec<String> = Vec::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(LinuxError::system(format!("cannot read the output of {step}")))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(log, "{line}").map_err(cannot_log())?;
            hear(&line);
            if tail.len() == TAIL_LINES {
                tail.remove(0);
            }
            tail.push(line);
        }
        let status = child.wait().map_err(LinuxError::system(format!("cannot wait for {step}")))?;
        if status.success() {
            return Ok(());
        }
        Err(LinuxError::Build { step: step.to_owned(), log: self.log.clone(), tail: tail.join("\n") })
    }
}

/// Values of `fragment` that the finished configuration `made` lacks.
fn refused(fragment: &str, made: &str) -> Vec<String> {
    let has = |setting: &str| made.lines().any(|line| line == setting);
    fragment
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("CONFIG_"))
        .filter(|line| match line.strip_suffix("=n") {
            Some(name) => made.lines().any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))),
            None => !has(line),
        })
        .map(str::to_owned)
        .collect()
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
    use super::*;

    #[test]
    fn refused_settings_are_named() {
        let made = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_D_E=y\n";
        assert_eq!(refused("# x\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_D=n\n", made), Vec::<String>::new());
        assert_eq!(refused("CONFIG_B=y\nCONFIG_C=n\n", made), ["CONFIG_B=y", "CONFIG_C=n"]);
    }

    #[test]
    fn a_failed_step_shows_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let steps = Steps { tree: folder.path(), log: folder.path().join("log") };
        let mut command = Command::new("sh");
        command.args(["-c", "cat; seq 1 40; echo bad >&2; exit 3"]);
        let mut lines = 0;
        let error = steps.run("test", &mut command, Some("first\n"), &mut |_| lines += 1).unwrap_err();
        let LinuxError::Build { step, log, tail } = error else { panic!("{error}") };
        assert_eq!((step.as_str(), lines), ("test", 42));
        assert!(tail.starts_with("27\n") && tail.ends_with("\nbad"), "{tail}");
        assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 42);
    }
}
