//! Makes a file system on the device and mounts it.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{GuestError, attempt};
use super::null_blk::MemoryDevice;
use super::{command, mounts, served, server, zonefs};
use crate::plan::GuestPlan;
use file_systems::{FileSystem, Tools};

/// Where it is mounted.
pub(super) const MOUNT: &str = "/mnt/plumb";
/// Where the one is mounted that has its image, and that.
const LOWER: &str = "/mnt/lower";
const IMAGE: &str = "/mnt/lower/image";

/// What is mounted.
pub(super) struct Mounted {
    pub folder: PathBuf,
    /// Whose device or file has the lock of who serves it.
    served: Option<PathBuf>,
    lies_in_a_file: bool,
}

impl Mounted {
    /// Ends it, when whoever serves it has written everything.
    pub fn unmount(&self) -> Result<(), GuestError> {
        mounts::unmount(&self.folder)?;
        if let Some(node) = &self.served {
            served::wait_until_ended(node)?;
        }
        if self.lies_in_a_file { mounts::unmount(Path::new(LOWER)) } else { Ok(()) }
    }
}

/// Makes the plan's file system on `node` and mounts it, if there is one.
pub(super) fn make_and_mount(plan: &GuestPlan, node: &str, log: &File) -> Result<Option<Mounted>, GuestError> {
    let Some(kind) = plan.file_system.mount_type() else { return Ok(None) };
    let zoned = plan.devices.first().is_some_and(|device| device.zoned);
    let plumb = PathBuf::from(&plan.plumb);
    if plan.file_system.is_served() {
        served::teach_mount(&plumb)?;
    }
    let mut image_bytes = None;
    let node = match plan.image_on {
        None => node,
        Some(lower) => {
            image_bytes = Some(mount_lower(plan, lower, node, log)?);
            IMAGE
        }
    };
    let mut mounted = node.to_owned();
    let run = |program: &Path, words: &[&str], package: &str| run(program, words, package, false, log);
    if plan.file_system_is_made {
        // Nothing to make.
    } else if let Some(tools) = Tools::of(plan.file_system) {
        let maker = tools.make;
        let program = maker.path(&plumb);
        let mut words: Vec<&str> = maker.arguments.to_vec();
        words.extend(if zoned { tools.zoned } else { tools.conventional });
        let bytes = plan.file_system_bytes.or(image_bytes);
        let (before, behind) = bytes.map(|bytes| tools.size_words(bytes)).unwrap_or_default();
        words.extend(before.iter().map(String::as_str));
        words.extend(plan.mkfs_options.iter().map(String::as_str));
        if zoned && plan.file_system == FileSystem::F2fs {
            words.extend(["-c", node]);
            mounted = beside_metadata(node, |metadata| {
                let words: Vec<&str> = words.iter().copied().chain([metadata]).collect();
                run(program, &words, maker.package)
            })?;
        } else {
            words.push(node);
            words.extend(behind.iter().map(String::as_str));
            run(program, &words, maker.package)?;
        }
    } else {
        zonefs::make(Path::new(node))?;
    }
    let folder = PathBuf::from(MOUNT);
    attempt(fs::create_dir_all(&folder), || format!("cannot make {MOUNT}"))?;
    let mut words = vec!["-t", kind];
    if !plan.mount_options.is_empty() {
        words.extend(["-o", &plan.mount_options]);
    }
    words.extend([mounted.as_str(), MOUNT]);
    // Who serves it does the file system's work, which is not for nothing.
    self::run(Path::new("mount"), &words, "mount", plan.charge && plan.file_system.is_served(), log)?;
    let served = plan.file_system.is_served().then(|| PathBuf::from(node));
    Ok(Some(Mounted { folder, served, lies_in_a_file: plan.image_on.is_some() }))
}

/// Makes and mounts the file system that has the image; how large the image may be.
fn mount_lower(plan: &GuestPlan, lower: FileSystem, node: &str, log: &File) -> Result<u64, GuestError> {
    let unknown = || GuestError::new(format!("{lower} has no image"));
    let (tools, kind) = Tools::of(lower).zip(lower.mount_type()).ok_or_else(unknown)?;
    if !plan.file_system_is_made {
        let words: Vec<&str> = [tools.make.arguments, tools.conventional, &[node]].concat();
        run(Path::new(tools.make.program), &words, tools.make.package, false, log)?;
    }
    attempt(fs::create_dir_all(LOWER), || format!("cannot make {LOWER}"))?;
    run(Path::new("mount"), &["-t", kind, node, LOWER], "mount", false, log)?;
    let about = attempt(rustix::fs::statvfs(LOWER), || format!("cannot see how large {LOWER} is"))?;
    // What the blocks of a file take besides, and what is kept for root.
    Ok(about.f_bavail.saturating_mul(about.f_frsize) / 10 * 9)
}

/// F2FS updates its metadata in place, which a device of sequential zones alone does not take: it lies on a
/// conventional device in memory, without latency. That is the smallest in whole zones on which `make`
/// succeeds, so that data and nodes have no room there. Its node.
fn beside_metadata(node: &str, make: impl Fn(&str) -> Result<(), GuestError>) -> Result<String, GuestError> {
    const MOST_ZONES: u64 = 16;
    let name = Path::new(node).file_name().unwrap_or_default();
    let path = Path::new("/sys/class/block").join(name).join("queue/chunk_sectors");
    let text = attempt(fs::read_to_string(&path), || format!("cannot read the zone size of {node}"))?;
    let sectors: u64 = text.trim().parse().map_err(|_| GuestError::new(format!("{node} has no zones")))?;
    let zone_mib = (sectors / 2048).max(1);
    let mut zones = 2;
    loop {
        let memory =
            MemoryDevice { name: "plumb-metadata", size_mib: zones * zone_mib, block_bytes: 4096, latency_ns: 0 };
        let metadata = memory.make()?;
        match make(&metadata) {
            Ok(()) => return Ok(metadata),
            Err(error) if zones == MOST_ZONES => return Err(error),
            Err(_) => memory.remove()?,
        }
        zones += 1;
    }
}

/// Runs a program of the host; its output goes to the log, and into the error if it fails.
fn run(program: &Path, words: &[&str], package: &str, pays: bool, log: &File) -> Result<(), GuestError> {
    let path = command::search_path(None);
    let name = program.display();
    if !program.is_absolute() && program.to_str().is_none_or(|name| crate::kernel::find_program(name, &path).is_none())
    {
        return Err(GuestError::new(format!("{name} is not installed: apt-get install {package}")));
    }
    let failed = || format!("cannot run {name}");
    let said = File::from(attempt(rustix::fs::memfd_create("said", rustix::fs::MemfdFlags::CLOEXEC), failed)?);
    let copy = || attempt(said.try_clone(), failed).map(OwnedFd::from).map(Stdio::from);
    let mut child = Command::new(program);
    child.args(words).env_clear().env("PATH", &path).env("GLIBC_TUNABLES", server::KEEP_MEMORY);
    child.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
    if pays {
        command::pay(&mut child)?;
    }
    let status = attempt(child.status(), failed)?;
    let mut text = vec![0; said.metadata().map_or(0, |about| about.len().min(1 << 20) as usize)];
    let read = std::os::unix::fs::FileExt::read_at(&said, &mut text, 0).unwrap_or(0);
    text.truncate(read);
    attempt(std::io::Write::write_all(&mut &*log, &text), || "cannot write the log".to_owned())?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text);
    Err(GuestError::new(format!("`{name} {}` failed ({status}): {}", words.join(" "), text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        let log = tempfile::tempfile().unwrap();
        let error = run(Path::new("mkfs.absent"), &["/dev/x"], "absent-tools", false, &log).unwrap_err().to_string();
        assert_eq!(error, "mkfs.absent is not installed: apt-get install absent-tools");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let log = tempfile::tempfile().unwrap();
        let error = run(Path::new("ls"), &["/no/such/folder"], "coreutils", false, &log).unwrap_err().to_string();
        assert!(error.starts_with("`ls /no/such/folder` failed (exit status: 2): "), "{error}");
    }
}
