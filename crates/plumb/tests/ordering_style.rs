//! The series `order` and `cachemap` as their kernel's own tools see them: `checkpatch.pl --strict` has nothing to say of a patch, and
//! `sparse` no more of what `order` changes than before. `PLUMB_LONG` runs it.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linux::{Kernel, LinuxError, Recipe};
use linux_rig::{has, is_long};

const SERIES: [&str; 2] = [linux::ordering::KERNEL, "cachemap"];

/// A person signs off, and MAINTAINERS is changed by whoever takes new files.
const LEFT_TO_PEOPLE: &str = "MISSING_SIGN_OFF,FILE_PATH_CHANGES";

/// What the kernel has everywhere and its script asks about all the same, as beginnings of lines.
const IDIOMS: [&str; 5] = [
    // A loop over a set, as for_each_cpu().
    "block/blk-mq.h CHECK:MACRO_ARG_REUSE: Macro argument reuse 'cpu'",
    // Tracepoints are set as the others of their files.
    "include/trace/events/block.h CHECK:PARENTHESIS_ALIGNMENT:",
    "include/trace/events/block.h CHECK:OPEN_ENDED_LINE:",
    "drivers/nvme/host/trace.h CHECK:OPEN_ENDED_LINE:",
    // ext4 names its mount options so.
    "fs/ext4/super.c CHECK:CAMELCASE: Avoid CamelCase: <Opt_order",
];

/// The patches of a series, without the letter before them.
fn patches(series: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../linux/kernel").join(series);
    let mut patches: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    patches.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".patch") && !name.starts_with("0000")
    });
    patches.sort();
    assert!(!patches.is_empty(), "{series}");
    patches
}

/// What the tree's script says of a patch, each line with its file and without the number of its line.
fn checkpatch(tree: &Path, patch: &Path) -> Vec<String> {
    let mut script = Command::new("perl");
    script.args(["scripts/checkpatch.pl", "--strict", "--root=.", "--terse", "--showfile", "--show-types"]);
    script.args(["--no-summary", "--ignore", LEFT_TO_PEOPLE]).arg(patch);
    let output = script.current_dir(tree).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.stderr.is_empty() && said.is_empty() == output.status.success(), "{said}{output:?}");
    let without_number = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let [file, _, what] = std::array::from_fn(|_| parts.next().unwrap());
        format!("{file}{what}")
    };
    said.lines().map(without_number).filter(|line| !IDIOMS.iter().any(|idiom| line.starts_with(idiom))).collect()
}

/// The C files that a series changes.
fn changed(series: &str) -> Vec<String> {
    let text: String = patches(series).iter().map(|patch| std::fs::read_to_string(patch).unwrap()).collect();
    let mut files: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect();
    files.retain(|file| file.ends_with(".c"));
    files.sort();
    files.dedup();
    files
}

/// Findings, and how often each is made: lines move from tree to tree, so that they have no numbers.
type Findings = BTreeMap<String, usize>;

/// What sparse says of these files as they are compiled for the tree's configuration. Not all of them are a part of it: what the
/// compiler then says is passed over.
fn sparse(tree: &Path, files: &[String]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let checker = folder.path().join("checker");
    std::fs::write(&checker, format!("#!/bin/sh\nexec sparse \"$@\" 2>> {}\n", said.display())).unwrap();
    std::fs::set_permissions(&checker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let objects = files.iter().filter(|file| tree.join(file).exists()).map(|file| file.replace(".c", ".o"));
    let mut make = Command::new("make");
    make.args(["ARCH=um", "-k", "-j2", "C=2", "CF=-D__CHECK_ENDIAN__"]).arg(format!("CHECK={}", checker.display()));
    make.args(objects).current_dir(tree).env_remove("MAKEFLAGS").stdin(Stdio::null());
    let output = make.output().unwrap();
    let checked = String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(" CHECK ")).count();
    assert!(checked >= files.len() / 2, "{checked} files: {output:?}");
    let mut findings = Findings::new();
    for line in std::fs::read_to_string(said).unwrap().lines() {
        let is_place = |part: &str| part.trim().parse::<u32>().is_ok();
        let finding: Vec<&str> = line.split(':').filter(|part| !is_place(part)).collect();
        *findings.entry(finding.join(":").trim_start_matches("./").to_owned()).or_default() += 1;
    }
    findings
}

/// What is found more often than before.
fn more<'a>(now: &'a Findings, before: &Findings) -> Vec<(&'a str, usize)> {
    let more =
        now.iter().map(|(what, times)| (what.as_str(), times.saturating_sub(before.get(what).copied().unwrap_or(0))));
    more.filter(|(_, times)| *times > 0).collect()
}

/// The sources of a recipe in a folder, or a word that there are none.
fn sources(recipe: &Recipe, folder: &Path) -> Option<PathBuf> {
    match Kernel::sources(recipe, folder, &mut |_| ()) {
        Err(LinuxError::NoSource { reason }) => {
            println!("skipped: no source of a kernel: {reason}");
            None
        }
        tree => Some(tree.unwrap()),
    }
}

#[test]
fn the_kernels_own_tools_have_nothing_to_say() {
    if !is_long() {
        println!("skipped: unpacks a kernel and compiles parts of it; PLUMB_LONG=1 runs it");
        return;
    }
    if !has("perl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // In stock ext4's place; the patches of virtual time touch little of what the series does.
    let Some(tree) = sources(&Recipe::built_in(), folder.path()) else { return };
    for patch in SERIES.into_iter().flat_map(patches) {
        let said = checkpatch(&tree, &patch);
        assert_eq!(said, Vec::<String>::new(), "{}", patch.display());
    }
    let bad = folder.path().join("bad.patch");
    let text = std::fs::read_to_string(&patches(SERIES[0])[2]).unwrap();
    std::fs::write(&bad, text.replacen("+\tspinlock_t\t\tlock;\t/*", "+        spinlock_t lock; /*", 1)).unwrap();
    let said = checkpatch(&tree, &bad);
    assert!(said.iter().any(|line| line.contains("ERROR:CODE_INDENT")), "{said:?}");

    if !has("sparse") {
        return;
    }
    let files = changed(SERIES[0]);
    let before = sparse(&tree, &files);
    let Some(tree) = sources(&Recipe::named(SERIES[0]).unwrap(), folder.path()) else { return };
    let now = sparse(&tree, &files);
    println!(
        "sparse: {} findings in {} files, {} before",
        now.values().sum::<usize>(),
        files.len(),
        before.values().sum::<usize>()
    );
    assert_eq!(more(&now, &before), []);
    let mut text = std::fs::read_to_string(tree.join("fs/jbd2/order.c")).unwrap();
    text.push_str("\nint jbd2_order_bad(void)\n{\n\treturn 0;\n}\n");
    std::fs::write(tree.join("fs/jbd2/order.c"), text).unwrap();
    let now = sparse(&tree, &["fs/jbd2/order.c".to_owned()]);
    let found = more(&now, &before);
    assert!(found.iter().any(|(what, _)| what.contains("'jbd2_order_bad' was not declared")), "{found:?}");
}
