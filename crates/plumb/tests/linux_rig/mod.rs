//! What the tests of `plumb linux` share: a kernel from the cache, or a word that there is none.
#![allow(dead_code)] // Each test file uses its own part.

use std::path::Path;
use std::process::Command;

use linux::{FrontEnd, Kernel, Linux, LinuxError, Recipe};

/// The plumb program.
pub const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Whether the long suite is asked for.
pub fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// The kernel of the cache. Building one takes minutes and is `plumb linux build`'s affair.
pub fn kernel() -> Option<Kernel> {
    match Kernel::cached() {
        Ok(kernel) => Some(kernel),
        Err(LinuxError::NoKernel) => {
            println!("skipped: no kernel for virtual time is built (plumb linux build)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The kernel that knows streams.
pub fn kernel_with_streams() -> Option<Kernel> {
    kernel_named(linux::ordering::KERNEL)
}

/// A recipe's kernel. Building it takes minutes and is `plumb linux build`'s affair.
pub fn kernel_named(name: &str) -> Option<Kernel> {
    match Kernel::cached_of(&Recipe::named(name).unwrap()) {
        Ok(kernel) => Some(kernel),
        Err(LinuxError::NoKernel) => {
            println!("skipped: no kernel {name} is built (plumb linux build --kernel {name})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether a program that makes file systems is there; says so where it is not.
pub fn has(program: &str) -> bool {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = folders.iter().any(|folder| Path::new(folder).join(program).exists());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// A run on the kernel's own memory device, whose requests take 80 us.
pub fn on_memory() -> Linux {
    let mut run = Linux::new(PLUMB, "none");
    run.front_end = FrontEnd::NullBlk;
    run.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    run
}

/// A run on a modelled device.
pub fn on(device: &str) -> Linux {
    let mut run = Linux::new(PLUMB, device);
    run.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    run
}

/// What `plumb run` reports of the points of one of our experiments, with another sweep. The programs find `plumb`.
pub fn points(experiment: &str, sweep: &str) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(experiment);
    let folders = [Path::new(PLUMB).parent().unwrap().as_os_str(), "/usr/sbin:/usr/bin:/sbin:/bin".as_ref()];
    let output = Command::new(PLUMB)
        .arg("run")
        .arg(spec)
        .args(["--json", "--quiet", "--set", &format!("sweep={sweep}"), "--out"])
        .arg(folder.path().join("results"))
        .env("PATH", folders.join(":".as_ref()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["points"].as_array_mut().unwrap().drain(..).collect()
}
