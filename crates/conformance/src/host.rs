//! Programs of the host: found, run, and the folder where fetched things are kept.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Error;

/// `$XDG_CACHE_HOME/plumb/conformance` (XDG Base Directory Specification: `~/.cache` when unset), made when absent.
pub fn cache() -> Result<PathBuf, Error> {
    let base = env::var_os("XDG_CACHE_HOME")
        .filter(|value| Path::new(value).is_absolute())
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .ok_or_else(|| Error::missing("no folder to keep kernels in", "set XDG_CACHE_HOME or HOME"))?;
    let cache = base.join("plumb/conformance");
    fs::create_dir_all(&cache).map_err(Error::file(&cache))?;
    Ok(cache)
}

/// Where a program is, looking also where only root's path leads (`/sbin`, `/usr/sbin`).
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Like [`find`]; without the program the check is skipped, naming the Debian package that has it.
pub fn require(program: &str, package: &str) -> Result<PathBuf, Error> {
    find(program)
        .ok_or_else(|| Error::missing(format!("{program} is not installed"), format!("apt-get install {package}")))
}

/// Runs a program to its end; a failure carries the end of what it printed.
pub fn run(command: &mut Command) -> Result<Output, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::file(Path::new(&program)))?;
    if output.status.success() {
        return Ok(output);
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Program { program, status: output.status.to_string(), output: tail(&text, 20) })
}

/// What a program prints on its standard output.
pub fn text(command: &mut Command) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&run(command)?.stdout).into_owned())
}

/// The last `count` lines.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
