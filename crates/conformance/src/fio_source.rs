//! fio's own tests of zoned devices (`t/zbd`), from the source of the fio package that the host runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::Apt;
use crate::{Error, host};

/// Unpacks `t/zbd` below `target` and returns the folder that holds `test-zbd-support`.
pub fn zoned_tests(target: &Path) -> Result<PathBuf, Error> {
    let apt = Apt::new(&host::cache()?)?;
    let archive = apt.source_archive("fio")?;
    std::fs::create_dir_all(target).map_err(Error::file(target))?;
    host::run(
        Command::new("tar")
            .arg("-x")
            .arg("-f")
            .arg(&archive)
            .args(["--strip-components=1", "--wildcards", "*/t/zbd/*"])
            .current_dir(target),
    )?;
    let folder = target.join("t/zbd");
    if folder.join("test-zbd-support").is_file() {
        return Ok(folder);
    }
    Err(Error::answer("the source of fio", "has no t/zbd/test-zbd-support"))
}
