//! Looks at one state: the kernel mounts and recovers it, commands check it, its own checker has a look.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::kernel_log::KernelLog;
use super::places::Places;
use super::promises::FilePromises;
use super::shell;
use crate::crash::{Acknowledgement, Judge, Judged};
use crate::guest::error::{GuestError, attempt};
use crate::guest::file_system::MOUNT;
use crate::guest::{mounts, served};
use crash::files::Unsynced;
use file_systems::Tools;

/// The promises of which a check is told.
const ACKNOWLEDGED: &str = "/tmp/plumb-acknowledged";

/// Looks at states.
pub(super) struct Examiner<'a> {
    task: &'a Judge,
    folder: PathBuf,
    /// This program, which serves and checks file systems of its own.
    plumb: PathBuf,
    kernel_log: KernelLog,
    /// How many acknowledgements stand in the file.
    told: Option<usize>,
    promises: Option<FilePromises>,
}

/// A fault, and who found it.
pub(super) struct Finding {
    pub(super) by: Judged,
    pub(super) what: String,
    /// The call that gave the promise that is broken.
    pub(super) promised_by: Option<usize>,
}

impl Finding {
    fn new(by: Judged, what: String) -> Self {
        Self { by, what, promised_by: None }
    }
}

/// What was found.
pub(super) type Found = Option<Finding>;

impl<'a> Examiner<'a> {
    pub(super) fn new(task: &'a Judge) -> Result<Self, GuestError> {
        let folder = PathBuf::from(MOUNT);
        attempt(fs::create_dir_all(&folder), || format!("cannot make {MOUNT}"))?;
        let plumb = attempt(std::env::current_exe(), || "cannot find the plumb program".to_owned())?;
        if task.file_system.is_served() {
            served::teach_mount(&plumb)?;
        }
        Ok(Self { task, folder, plumb, kernel_log: KernelLog::open()?, told: None, promises: None })
    }

    /// Learns what was promised of the files, which on `node` are as they were when the command began.
    pub(super) fn learn(&mut self, node: &Path, device: u64) -> Result<(), GuestError> {
        if !self.task.judging.files || self.task.file_system.mount_type().is_none() {
            return Ok(());
        }
        self.mount(node)?.map_err(|why| GuestError::new(format!("before the command began: {why}")))?;
        let promises = FilePromises::new(self.task, &self.folder, device);
        self.unmount(node)?;
        self.promises = Some(promises?);
        Ok(())
    }

    /// What the command had changed and not synchronised when it acknowledged for this time, if that is known.
    pub(super) fn unsynced(&self, acknowledgement: usize, position_bytes: u64) -> Option<Vec<Unsynced>> {
        self.promises.as_ref()?.unsynced(acknowledgement, position_bytes)
    }

    /// The fault of the state on `node`, where `promised` was acknowledged before the cut, which was at this position at the latest.
    pub(super) fn examine(
        &mut self,
        node: &Path,
        promised: &[Acknowledgement],
        position_bytes: u64,
    ) -> Result<Found, GuestError> {
        self.tell(promised)?;
        if self.task.file_system.mount_type().is_none() {
            return self.checks(node, Path::new("/"));
        }
        if let Err(why) = self.mount(node)? {
            return Ok(Some(Finding::new(Judged::Mount, self.with_kernel_log(why))));
        }
        let folder = self.folder.clone();
        // First of all, since commands may change files.
        let violations = self.promises.as_ref().map(|promises| promises.violations(&folder, position_bytes));
        let found = match violations.transpose().map(Option::flatten) {
            Ok(Some(broken)) => {
                Ok(Some(Finding { promised_by: broken.promised_by, ..Finding::new(Judged::Files, broken.what) }))
            }
            Ok(None) => self.checks(node, &folder),
            Err(error) => Err(error),
        };
        let unmounted = self.unmount(node);
        if let Some(fault) = found? {
            unmounted?;
            return Ok(Some(fault));
        }
        if let Err(error) = unmounted {
            return Ok(Some(Finding::new(Judged::Unmount, error.to_string())));
        }
        Ok(self.fsck(node)?.map(|why| Finding::new(Judged::Fsck, self.with_kernel_log(why))))
    }

    /// Mounts a state; why it cannot be.
    pub(super) fn mount(&mut self, node: &Path) -> Result<Result<(), String>, GuestError> {
        let kind = self.task.file_system.mount_type().unwrap_or_default();
        self.kernel_log.lines();
        if self.task.mount_options.is_empty() && !self.task.file_system.is_served() {
            let flags = rustix::mount::MountFlags::empty();
            let done = rustix::mount::mount(node, &self.folder, kind, flags, None::<&std::ffi::CStr>);
            return Ok(done.map_err(|error| format!("the kernel does not mount it: {error}")));
        }
        let mut words: Vec<&OsStr> = vec!["-t".as_ref(), kind.as_ref()];
        if !self.task.mount_options.is_empty() {
            words.extend(["-o".as_ref(), OsStr::new(&self.task.mount_options)]);
        }
        words.extend([node.as_os_str(), self.folder.as_ref()]);
        let (status, said) = shell::run("mount", &words, Path::new("/"), &[])?;
        Ok(if status.success() { Ok(()) } else { Err(format!("the kernel does not mount it: {said}")) })
    }

    /// What lies where on a state that can be mounted.
    pub(super) fn places(&mut self, node: &Path) -> Result<Option<Places>, GuestError> {
        if self.task.file_system.mount_type().is_none() || self.mount(node)?.is_err() {
            return Ok(None);
        }
        let places = Places::of(self.task.file_system, node, &self.folder);
        self.unmount(node)?;
        Ok(Some(places))
    }

    /// Takes the mounted state on `node` away; nobody uses it afterwards.
    pub(super) fn unmount(&self, node: &Path) -> Result<(), GuestError> {
        mounts::unmount(&self.folder)?;
        if self.task.file_system.is_served() { served::wait_until_ended(node) } else { Ok(()) }
    }

    /// What the caller's scripts say of a state that no power cut left, where `promised` was acknowledged. All of `paths` must be
    /// there, from the mounted file system on.
    pub(super) fn rehearse(
        &mut self,
        node: &Path,
        promised: &[Acknowledgement],
        paths: &[String],
    ) -> Result<Found, GuestError> {
        self.tell(promised)?;
        if self.task.file_system.mount_type().is_none() {
            return self.checks(node, Path::new("/"));
        }
        if let Err(why) = self.mount(node)? {
            return Ok(Some(Finding::new(Judged::Mount, self.with_kernel_log(why))));
        }
        let folder = self.folder.clone();
        let absent = paths.iter().find(|path| !folder.join(path).exists());
        let found = match absent {
            Some(path) => Ok(Some(Finding::new(Judged::Check, format!("there is no {path}")))),
            None => self.checks(node, &folder),
        };
        self.unmount(node)?;
        found
    }

    fn checks(&self, node: &Path, folder: &Path) -> Result<Found, GuestError> {
        let scripts = [
            (Judged::Recover, "--recover", &self.task.judging.recover),
            (Judged::Check, "--check", &self.task.judging.check),
        ];
        for (judged, name, script) in scripts {
            let Some(script) = script else { continue };
            if let Err(why) = shell::script(name, script, folder, &variables(node, folder))? {
                return Ok(Some(Finding::new(judged, why)));
            }
        }
        Ok(None)
    }

    fn fsck(&self, node: &Path) -> Result<Option<String>, GuestError> {
        let Some(tools) = Tools::of(self.task.file_system).filter(|_| self.task.judging.fsck) else { return Ok(None) };
        let mut words: Vec<&OsStr> = tools.check.arguments.iter().map(OsStr::new).collect();
        words.push(node.as_ref());
        let (status, said) = shell::run(tools.check.path(&self.plumb), &words, Path::new("/"), &[])?;
        Ok(tools
            .is_fault(status.success(), &said)
            .then(|| format!("{} ended with {status}:\n{said}", tools.check.program)))
    }

    /// Writes the lines that the checks get.
    pub(super) fn tell(&mut self, promised: &[Acknowledgement]) -> Result<(), GuestError> {
        if self.told == Some(promised.len()) {
            return Ok(());
        }
        let text: String = promised.iter().flat_map(|promise| [&promise.line, "\n"]).collect();
        attempt(fs::write(ACKNOWLEDGED, text), || "cannot write what was acknowledged".to_owned())?;
        self.told = Some(promised.len());
        Ok(())
    }

    fn with_kernel_log(&mut self, why: String) -> String {
        let lines = self.kernel_log.lines();
        if lines.is_empty() { why } else { format!("{why}\nthe kernel said:\n{}", lines.join("\n")) }
    }
}

/// What commands inside a state are told.
pub(super) fn variables<'v>(node: &'v Path, folder: &'v Path) -> [(&'static str, &'v OsStr); 3] {
    [
        ("PLUMB_DEVICE", node.as_os_str()),
        ("PLUMB_MOUNT", folder.as_os_str()),
        ("PLUMB_ACKNOWLEDGED", OsStr::new(ACKNOWLEDGED)),
    ]
}
