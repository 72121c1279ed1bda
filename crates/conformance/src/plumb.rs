//! The program under test, built as the tests themselves are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Error, host};

/// How the program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As tests are: for behaviour.
    Dev,
    /// As users get it: for speed.
    Release,
}

/// The `plumb` program without its debugging information where `strip` is there: the one that the environment names in
/// `PLUMB_PROGRAM` (`./test` has built it already), or built here when it is out of date.
pub fn program(profile: Profile) -> Result<PathBuf, Error> {
    static BUILT: [OnceLock<PathBuf>; 2] = [OnceLock::new(), OnceLock::new()];
    let slot = &BUILT[usize::from(profile == Profile::Release)];
    if let Some(path) = slot.get() {
        return Ok(path.clone());
    }
    let path = match env::var_os("PLUMB_PROGRAM") {
        Some(path) if profile == Profile::Dev => strip(Path::new(&path))?,
        _ => strip(&build(&["--package", "plumb", "--bin", "plumb"], profile)?)?,
    };
    Ok(slot.get_or_init(|| path).clone())
}

/// An example program of a package, built when it is out of date.
pub fn example(package: &str, name: &str, profile: Profile) -> Result<PathBuf, Error> {
    strip(&build(&["--package", package, "--example", name], profile)?)
}

/// Has cargo build one program and returns where it lies.
fn build(what: &[&str], profile: Profile) -> Result<PathBuf, Error> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--message-format", "json"]).args(what);
    if profile == Profile::Release {
        command.arg("--release");
    }
    // The folder of the package that the tests run in.
    if let Some(folder) = env::var_os("CARGO_MANIFEST_DIR") {
        command.current_dir(folder);
    }
    let messages = host::text(&mut command)?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| Error::answer("cargo build", "names no executable"))
}

/// A copy without debugging information: half of a guest's memory and of its boot time otherwise.
fn strip(path: &Path) -> Result<PathBuf, Error> {
    let Some(strip) = host::find("strip") else { return Ok(path.to_path_buf()) };
    let folder = path.with_file_name("stripped");
    std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let target = folder.join(path.file_name().unwrap_or(path.as_os_str()));
    let work = tempfile::NamedTempFile::new_in(&folder).map_err(Error::file(&folder))?;
    host::run(Command::new(strip).arg("-o").arg(work.path()).arg(path))?;
    work.persist(&target).map_err(|error| Error::file(&target)(error.error))?;
    Ok(target)
}
