//! The file systems of the guest: the host's root under a private layer, and those of the kernel.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_move, move_mount,
};

use super::error::{GuestError, attempt};
use crate::plan::GuestPlan;

/// Folders of the bare root, one of which carries the layers. What it holds stays visible
/// through them: the lower layer is the file system below the mount.
const STAGES: [&str; 5] = ["/run", "/mnt", "/tmp", "/var", "/etc"];

/// Makes `/dev` usable on the root that the kernel mounted.
pub(super) fn devices_of_the_bare_root() -> Result<(), GuestError> {
    plain("devtmpfs", "/dev")
}

/// Puts a root together that can be written, and enters it.
pub(super) fn root(plan: &GuestPlan) -> Result<(), GuestError> {
    let stage = STAGES.into_iter().find(|folder| Path::new(folder).is_dir());
    let stage = stage.ok_or_else(|| GuestError::new("the host's root has no folder to mount on"))?;
    plain("tmpfs", stage)?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| Path::new(stage).join(name));
    for folder in [&upper, &work, &root] {
        make(folder)?;
    }
    let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    let done = mount("overlay", &root, "overlay", MountFlags::empty(), Some(&*c_string(&options)?));
    attempt(done, || "cannot lay a private layer over the host's files".to_owned())?;

    let inside = |path: &str| root.join(path);
    for (kind, path) in [("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev")] {
        make(&inside(path))?;
        plain(kind, inside(path))?;
    }
    for (kind, path) in [("devpts", "dev/pts"), ("tmpfs", "dev/shm")] {
        make(&inside(path))?;
        plain(kind, inside(path))?;
    }
    let kernel = [
        ("configfs", "sys/kernel/config"),
        ("debugfs", "sys/kernel/debug"),
        ("tracefs", "sys/kernel/tracing"),
        ("cgroup2", "sys/fs/cgroup"),
    ];
    for (kind, path) in kernel {
        // A kernel of one's own may lack one; who needs it, says so.
        if inside(path).is_dir() {
            let _ = plain(kind, inside(path));
        }
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        // The bare root's /dev is the same file system, and a second guest of one kernel does not exist.
        let _ = symlink(format!("/proc/self/fd{target}"), inside("dev").join(name));
    }
    attempt(std::env::set_current_dir(&root), || "cannot enter the new root".to_owned())?;
    attempt(mount_move(".", "/"), || "cannot move the new root".to_owned())?;
    attempt(rustix::process::chroot("."), || "cannot change to the new root".to_owned())?;
    attempt(std::env::set_current_dir("/"), || "cannot enter the new root".to_owned())?;
    attempt(rustix::system::sethostname(b"plumb"), || "cannot set the host's name".to_owned())?;
    for folder in &plan.writable {
        writable(&PathBuf::from(folder))?;
    }
    for folder in &plan.direct {
        direct(&PathBuf::from(folder))?;
    }
    Ok(())
}

/// Mounts a folder of the host so that writes reach it.
fn writable(folder: &Path) -> Result<(), GuestError> {
    let path = folder
        .to_str()
        .ok_or_else(|| GuestError::new(format!("{}: a folder for output needs a name in UTF-8", folder.display())))?;
    attempt(fs::create_dir_all(folder), || format!("cannot make {path}"))?;
    let done = mount("host", folder, "hostfs", MountFlags::empty(), Some(&*c_string(path)?));
    attempt(done, || format!("cannot mount the host's folder {path}"))
}

/// The same, past the guest's page cache: contents of devices lie there, which are larger than its memory. A kernel
/// that does not know how keeps them in its cache, too.
fn direct(folder: &Path) -> Result<(), GuestError> {
    let path = folder
        .to_str()
        .ok_or_else(|| GuestError::new(format!("{}: a folder of images needs a name in UTF-8", folder.display())))?;
    attempt(fs::create_dir_all(folder), || format!("cannot make {path}"))?;
    let mounted = || -> rustix::io::Result<()> {
        let context = fsopen("hostfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "hostfs", path)?;
        fsconfig_set_flag(&context, "direct")?;
        fsconfig_create(&context)?;
        let made = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        move_mount(&made, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    };
    mounted().or_else(|_| writable(folder))
}

/// Takes a file system of the command away; whatever kept it busy is gone.
pub(super) fn unmount(folder: &Path) -> Result<(), GuestError> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match rustix::mount::unmount(folder, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return attempt(Err(error), || format!("cannot unmount {}", folder.display())),
        }
    }
    Err(GuestError::new(format!("cannot unmount {}: it stays busy", folder.display())))
}

fn plain(kind: &str, folder: impl AsRef<Path>) -> Result<(), GuestError> {
    let folder = folder.as_ref();
    let done = mount(kind, folder, kind, MountFlags::empty(), None::<&std::ffi::CStr>);
    attempt(done, || format!("cannot mount {kind} on {}", folder.display()))
}

fn make(folder: &Path) -> Result<(), GuestError> {
    attempt(fs::create_dir_all(folder), || format!("cannot make {}", folder.display()))
}

fn c_string(text: &str) -> Result<std::ffi::CString, GuestError> {
    std::ffi::CString::new(text).map_err(|_| GuestError::new(format!("`{text:?}` holds a zero byte")))
}
