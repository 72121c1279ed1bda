//! Kernels with a person's own patches, configuration and source: what is refused, and one that runs.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linux_rig::{PLUMB, kernel};

/// Changes what `/proc/cpuinfo` says.
const PATCH: &str = r#"--- a/arch/um/kernel/um_arch.c
+++ b/arch/um/kernel/um_arch.c
@@ -70,3 +70,3 @@
 	seq_printf(m, "processor\t: %d\n", i);
-	seq_printf(m, "vendor_id\t: User Mode Linux\n");
+	seq_printf(m, "vendor_id\t: A Patched Linux\n");
 	seq_printf(m, "model name\t: UML\n");
"#;

fn plumb(arguments: &[&str]) -> Output {
    Command::new(PLUMB).arg("linux").args(arguments).env_remove("PLUMB_KERNEL").output().unwrap()
}

/// What it says on standard error, where it fails.
fn refusal(arguments: &[&str]) -> String {
    let output = plumb(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    // Words may be broken into lines.
    let said = String::from_utf8(output.stderr).unwrap();
    said.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn what_is_no_kernel_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let empty = write(folder, "empty.patch", "\n");
    let odd = write(folder, "odd.config", "CONFIG_A=y\nMAYBE\n");
    let source = folder.join("source").display().to_string();
    fs::create_dir(&source).unwrap();
    let cases = [
        (["--kernel", "no-such"], "there is time-travel"),
        (["--kernel-patch", "/absent.patch"], "cannot read the patch /absent.patch"),
        (["--kernel-patch", &empty], "the patch empty.patch does not apply: it is empty"),
        (["--kernel-config", "/absent.config"], "cannot read the configuration /absent.config"),
        (["--kernel-config", &odd], "line 2: \"MAYBE\" is not CONFIG_NAME=VALUE"),
        (["--kernel-source", "/absent"], "cannot find the kernel source /absent"),
        (["--kernel-source", &source], "is no kernel source"),
    ];
    for ([flag, value], words) in cases {
        for before in [&["build"][..], &["status"], &["--device", "none"]] {
            let after: &[&str] = if before.len() == 2 { &["--", "true"] } else { &[] };
            let said = refusal(&[before, &[flag, value], after].concat());
            assert!(said.contains(words), "{flag} {value}: {said}");
        }
    }
    write(folder, "source/Makefile", "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n");
    write(folder, "source/arch/um/Makefile", "");
    write(folder, "source/include/config/auto.conf", "");
    let said = refusal(&["build", "--kernel-source", &source]);
    assert!(said.contains("was built in place (it holds include/config)"), "{said}");
}

#[test]
fn a_kernel_is_carried_in_a_file() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("carried");
    let built = Command::new(PLUMB).args(["linux", "build", "--out"]).arg(&file).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    // A machine without a compiler, or a kernel.
    let mut carried = Command::new(PLUMB);
    carried.args(["linux", "--device", "none", "--front-end", "null-blk", "--quiet", "--kernel-image", "carried"]);
    carried.args(["--", "uname", "-r"]).current_dir(folder);
    carried.env("PATH", "/bin").env("XDG_CACHE_HOME", folder.join("empty")).env_remove("PLUMB_KERNEL");
    let said = carried.output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), kernel.release());
    assert!(!folder.join("empty").exists(), "nothing was built");

    for command in [&["--device", "none"][..], &[]] {
        let program = if command.is_empty() { "crash" } else { "linux" };
        let mut refused = Command::new(PLUMB);
        refused.arg(program).args(command).args(["--kernel-image", "/bin/true", "--", "true"]);
        let refused = refused.current_dir(folder).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).replace('│', " ");
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains("is no kernel"), "{said}");
        assert_eq!(refused.status.code(), Some(2));
    }
    let said = refusal(&["--device", "none", "--kernel-image", "carried", "--kernel", "order", "--", "true"]);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_patched_kernel_runs() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: it builds a kernel; PLUMB_LONG=1 runs it");
        return;
    }
    if kernel().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let patch = write(folder, "vendor.patch", PATCH);
    let config =
        write(folder, "own.config", "CONFIG_IKCONFIG=y\nCONFIG_IKCONFIG_PROC=y\n# CONFIG_ZONEFS_FS is not set\n");
    let own = ["--kernel-patch", &patch, "--kernel-config", &config];
    let run = ["--device", "none", "--front-end", "null-blk"];
    let script = "grep vendor /proc/cpuinfo; zcat /proc/config.gz | grep -c ZONEFS_FS=y; ls /proc/config.gz";
    let command = ["--", "sh", "-c", script];
    let output = plumb(&[&own[..], &run, &command].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "vendor_id\t: A Patched Linux\n0\n/proc/config.gz\n", "{said}");
    let plain = plumb(&[&run[..], &["--", "grep", "vendor", "/proc/cpuinfo"]].concat());
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "vendor_id\t: User Mode Linux\n", "Plumb's own is as it was");

    let other = write(folder, "other.patch", &PATCH.replace("User Mode Linux", "Another Linux"));
    let said = refusal(&["build", "--kernel-patch", &other]);
    assert!(said.contains("the patch other.patch does not apply: arch/um/kernel/um_arch.c: hunk #1"), "{said}");
    let impossible = write(folder, "impossible.config", "CONFIG_KPROBES=y\n");
    let said = refusal(&["build", "--kernel-config", &impossible]);
    assert!(said.contains("the kernel's configuration dropped CONFIG_KPROBES=y"), "{said}");
}
