//! Debian packages fetched without root: binaries by `apt-get download`, sources through a private list of `deb-src` lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, host};

/// The host's package lists, or a private copy where the host has none.
pub struct Apt {
    cache: PathBuf,
}

impl Apt {
    /// Uses the host's apt; skipped where there is none.
    pub fn new(cache: &Path) -> Result<Apt, Error> {
        host::require("apt-get", "apt: these checks fetch Debian packages")?;
        host::require("dpkg-deb", "dpkg")?;
        Ok(Apt { cache: cache.to_path_buf() })
    }

    /// The newest package whose name `wanted` accepts and that starts with `prefix`, in `sort -V` order of the names.
    ///
    /// Asks the host's lists first and fetches private ones when they know nothing (a container image without lists).
    pub fn newest(&self, prefix: &str, wanted: impl Fn(&str) -> bool) -> Result<Package, Error> {
        let find = |package: &Lists| -> Result<Option<String>, Error> {
            let names = host::text(package.command("apt-cache").args(["pkgnames", prefix]))?;
            Ok(names.lines().filter(|name| wanted(name)).max_by_key(|name| version_key(name)).map(str::to_owned))
        };
        let host_lists = Lists::Host;
        if let Some(name) = find(&host_lists)? {
            return Ok(Package { name, lists: host_lists });
        }
        let private = self.private_lists("binaries", "deb")?;
        match find(&private)? {
            Some(name) => Ok(Package { name, lists: private }),
            None => Err(Error::missing(
                format!("no package {prefix}* in apt's lists"),
                "use Debian 12 with bookworm-security, or Debian 13",
            )),
        }
    }

    /// Fetches a package and unpacks it into `target`, which appears whole or not at all.
    pub fn unpack(&self, package: &Package, target: &Path) -> Result<(), Error> {
        if target.is_dir() {
            return Ok(());
        }
        let work = tempfile::tempdir_in(&self.cache).map_err(Error::file(&self.cache))?;
        let mut download = package.lists.command("apt-get");
        download.args(["-q", "-o", "APT::Sandbox::User=root", "download", &package.name]).current_dir(work.path());
        fetch(&mut download, &package.name)?;
        let deb = only_file(work.path(), ".deb")?;
        let unpacked = work.path().join("unpacked");
        host::run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;
        match fs::rename(&unpacked, target) {
            Err(_) if target.is_dir() => Ok(()), // another process was quicker
            result => result.map_err(Error::file(target)),
        }
    }

    /// The upstream archive (`*.orig.tar.*`) of the source package of `name`, kept in the cache.
    pub fn source_archive(&self, name: &str) -> Result<PathBuf, Error> {
        let kept = self.cache.join("sources").join(name);
        if kept.is_dir() {
            return only_file(&kept, ".orig.tar");
        }
        let lists = self.private_lists("sources", "deb-src")?;
        let work = tempfile::tempdir_in(&self.cache).map_err(Error::file(&self.cache))?;
        let mut download = lists.command("apt-get");
        download
            .args(["-q", "-o", "APT::Sandbox::User=root", "--download-only", "--tar-only", "source", name])
            .current_dir(work.path());
        fetch(&mut download, &format!("the source of {name}"))?;
        only_file(work.path(), ".orig.tar")?;
        let parent = self.cache.join("sources");
        fs::create_dir_all(&parent).map_err(Error::file(&parent))?;
        let path = work.keep();
        match fs::rename(&path, &kept) {
            Err(_) if kept.is_dir() => {}
            result => result.map_err(Error::file(&kept))?,
        }
        only_file(&kept, ".orig.tar")
    }

    /// Package lists of our own under the cache, from the archives that the host's apt is configured for.
    fn private_lists(&self, name: &str, kind: &str) -> Result<Lists, Error> {
        let root = self.cache.join("apt").join(name);
        for folder in ["lists/partial", "archives/partial"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        let targets = host::text(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
            "Created-By: Packages",
        ]))?;
        let keys = ["gpg", "pgp"].map(|end| format!("/usr/share/keyrings/debian-archive-keyring.{end}"));
        let Some(key) = keys.iter().find(|path| Path::new(path).is_file()) else {
            return Err(Error::missing("no keys of Debian's archive", "apt-get install debian-archive-keyring"));
        };
        // One line for each archive and component the host uses. Other archives than Debian's have other keys.
        let mut lines: Vec<String> = targets
            .lines()
            .filter(|target| target.contains("debian"))
            .map(|target| format!("{kind} [signed-by={key}] {target}\n"))
            .collect();
        lines.sort();
        lines.dedup();
        if lines.is_empty() {
            return Err(Error::missing("apt knows no Debian archive", "run on Debian"));
        }
        let list = root.join("sources.list");
        fs::write(&list, lines.concat()).map_err(Error::file(&list))?;
        let lists = Lists::Private(root);
        let mut update = lists.command("apt-get");
        update.args(["-q", "-o", "APT::Sandbox::User=root", "update"]);
        fetch(&mut update, "the package lists")?;
        Ok(lists)
    }
}

/// A package to fetch, and the lists that name it.
pub struct Package {
    name: String,
    lists: Lists,
}

impl Package {
    /// The Debian package's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

enum Lists {
    Host,
    Private(PathBuf),
}

impl Lists {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Lists::Private(root) = self {
            for (option, path) in [
                ("Dir::Etc::SourceList", root.join("sources.list")),
                ("Dir::Etc::SourceParts", root.join("none")),
                ("Dir::State::Lists", root.join("lists")),
                ("Dir::Cache", root.join("archives")),
            ] {
                command.arg("-o").arg(format!("{option}={}", path.display()));
            }
            command.arg("-o").arg("APT::Get::List-Cleanup=0");
        }
        command
    }
}

/// A download that fails is something the host lacks (a network, a mirror), not a failed check.
fn fetch(command: &mut Command, what: &str) -> Result<(), Error> {
    host::run(command)
        .map(drop)
        .map_err(|error| Error::missing(format!("cannot fetch {what}: {error}"), "check the network and apt's sources"))
}

fn only_file(folder: &Path, part: &str) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    let found = entries.flatten().map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.contains(part) && !name.ends_with(".asc")
        })
    });
    found.ok_or_else(|| Error::answer("apt-get", format!("left no file {part} in {}", folder.display())))
}

/// Orders names as `sort -V` does: runs of digits by value.
fn version_key(name: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text_end);
        let number_end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(number_end);
        key.push((0, text.to_owned()));
        key.push((number.parse().unwrap_or(0), String::new()));
        rest = after;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::version_key;

    #[test]
    fn newer_versions_order_after_older_ones() {
        let newest =
            ["linux-image-6.12.9+deb12-amd64", "linux-image-6.12.117+deb12-amd64", "linux-image-6.12.100+deb12-amd64"]
                .into_iter()
                .max_by_key(|name| version_key(name));
        assert_eq!(newest, Some("linux-image-6.12.117+deb12-amd64"));
    }
}
