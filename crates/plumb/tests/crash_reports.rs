//! The scripts of docs/reports show the faults that they report, as they are printed, with tools of the distribution alone; here on the
//! kernel in virtual time.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::{Command, Stdio};

use linux_rig::{PLUMB, has, kernel};

/// The files that a page prints, put into a folder.
fn write_files(page: &str, folder: &Path) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reports").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let files = text.split("<!-- file: ").skip(1).map(|rest| {
        let (name, rest) = rest.split_once(" -->\n```sh\n").unwrap();
        std::fs::write(folder.join(name), rest.split_once("```").unwrap().0).unwrap();
        name.to_owned()
    });
    files.collect()
}

/// What the script of a page prints; nothing where a program of it is missing.
fn printed(page: &str, programs: &[&str]) -> Option<String> {
    kernel()?;
    if !programs.iter().all(|program| has(program)) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    write_files("README.md", folder.path());
    let [script] = write_files(page, folder.path()).try_into().unwrap();
    let mut command = Command::new(PLUMB);
    command.args(["linux", "--device", "samsung-980pro-1tb", "--charge", "free", "--", "sh", &script]);
    let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{page}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Sizes before the power went and after recovery.
fn sizes(page: &str, programs: &[&str], expected: &str) {
    if let Some(printed) = printed(page, programs) {
        assert_eq!(printed, expected, "{page}");
    }
}

#[test]
fn sizes_that_are_lost() {
    sizes("f2fs-punch-hole.md", &["mkfs.f2fs"], "16484\n24576\n");
    sizes("f2fs-direct-write.md", &["mkfs.f2fs"], "20480\n16484\n");
    sizes("btrfs-tmpfile.md", &["mkfs.btrfs", "xfs_io"], "4096\n0\n");
}

#[test]
fn a_sync_that_flushes_nothing() {
    for (page, program) in [("f2fs-sync.md", "mkfs.f2fs"), ("xfs-sync.md", "mkfs.xfs")] {
        let Some(printed) = printed(page, &[program]) else { continue };
        // In those tries whose overwrites fall into one tick of the clock that stamps files.
        let tries: Vec<&str> = printed
            .split("tracing_mark_write: second")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once("tracing_mark_write: over")?.0))
            .collect();
        assert_eq!(tries.len(), 8, "{page}: {printed}");
        assert!(printed.contains(" FF "), "{page}: where there is something to write it flushes: {printed}");
        assert!(tries.iter().any(|during| !during.contains("block_rq_issue")), "{page}: {printed}");
    }
}

#[test]
fn a_flush_that_comes_too_early() {
    let Some(printed) = printed("f2fs-first-fsync.md", &["mkfs.f2fs"]) else { return };
    // Of each fsync, in order: which comes first, the flush that is submitted or the write that is over.
    let fsyncs: Vec<&str> = printed.split("f2fs_sync_file_exit").collect();
    let place = |text: &str, event: &str, kind: &str| {
        text.lines()
            .position(|line| line.contains(event) && line.contains(kind) && !line.contains("() 0 + 0 be"))
            .unwrap()
    };
    let is_early = |text: &str| place(text, "block_rq_issue", " FF ") < place(text, "block_rq_complete", " WS ");
    assert!(is_early(fsyncs[0]) && !is_early(fsyncs[1]), "{printed}");
}
