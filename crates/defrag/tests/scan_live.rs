//! Scans of real files, against filefrag and find.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use defrag::extents::{ExtentKind, WriteBack};
use defrag::map::{Pictured, cells, page, strip};
use defrag::plan::{Mode, Plan, SkipReason};
use defrag::scan::{Opened, ScanOptions, Scanner};

/// A folder on the file system of the build, which is a real one more often than the one of temporary files.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A file of `blocks` blocks with holes: every third is missing, as is much of the middle.
fn sparse(path: &Path, blocks: u64) {
    let file = File::create(path).unwrap();
    for block in (0..blocks).filter(|block| block % 3 != 2 && !(blocks / 3..blocks / 2).contains(block)) {
        file.write_all_at(&[block as u8; 4096], block * 4096).unwrap();
    }
    file.set_len(blocks * 4096 - 100).unwrap();
    file.sync_all().unwrap();
}

fn scanned(root: &Path, options: ScanOptions) -> Plan {
    let mut scanner = Scanner::new(options);
    let flow = scanner.walk(root, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(flow.is_continue());
    scanner.finish(None)
}

/// The extents that filefrag prints: (first block, first block on the device, blocks), in blocks of 4096 bytes.
fn filefrag(path: &Path) -> Option<Vec<(u64, u64, u64)>> {
    let out = Command::new("filefrag").args(["-b4096", "-v"]).arg(path).output().ok()?;
    if !out.status.success() {
        return None;
    }
    let text = String::from_utf8(out.stdout).unwrap();
    let row = |line: &str| {
        let mut columns = line.split(':');
        columns.next()?.trim().parse::<u64>().ok()?;
        let first = |text: &str| text.trim().split("..").next()?.trim().parse().ok();
        Some((first(columns.next()?)?, first(columns.next()?)?, columns.next()?.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(row).collect())
}

#[test]
fn maps_are_those_of_filefrag() {
    let folder = folder();
    let path = folder.path().join("sparse");
    sparse(&path, 300);
    let map = match Opened::open(&path).unwrap().map(WriteBack::First) {
        Ok(map) => map,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let Some(expected) = filefrag(&path) else { return eprintln!("skipped: no filefrag for this file system") };
    let found: Vec<_> = map
        .extents()
        .iter()
        .map(|extent| (extent.logical / 4096, extent.physical / 4096, extent.length.div_ceil(4096)))
        .collect();
    assert!(found.len() > 50, "holes make extents: {}", found.len());
    if map.bytes_of(map.whole(), ExtentKind::Encoded) == 0 {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_walk_meets_each_file_once() {
    let folder = folder();
    let root = folder.path();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for (index, name) in ["a/one", "a/b/two", "a/b/c/three", "four"].into_iter().enumerate() {
        fs::write(root.join(name), vec![7; 3000 + index * 100_000]).unwrap();
    }
    fs::hard_link(root.join("four"), root.join("a/again")).unwrap();
    std::os::unix::fs::symlink(root.join("a"), root.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let plan = scanned(root, ScanOptions { write_back: WriteBack::First, ..ScanOptions::default() });
    let unreadable = plan.skipped_by_reason.get("unreadable").copied().unwrap_or(0);
    assert_eq!(plan.totals.files + unreadable, 4, "{plan:?}");
    // Through a link at the root, and for a file at the root, it is the same.
    assert_eq!(scanned(&root.join("loop"), ScanOptions::default()).totals.files + unreadable, 4);
    assert!(
        Scanner::new(ScanOptions::default())
            .walk(&root.join("dangling"), &mut |_, _| ControlFlow::Continue(()))
            .is_err()
    );
}

#[test]
fn what_cannot_be_opened_is_told() {
    let folder = folder();
    let mut scanner = Scanner::new(ScanOptions::default());
    let id = defrag::FileId { device: 1, inode: 1, generation: None };
    scanner.traced(&folder.path().join("gone"), id, &[]);
    let path = folder.path().join("other");
    fs::write(&path, [1; 9000]).unwrap();
    scanner.traced(&path, id, &[]);
    let plan = scanner.finish(None);
    let reasons: Vec<_> = plan.skipped.iter().map(|file| file.reason.to_string()).collect();
    assert!(reasons[0].contains("No such file"), "{reasons:?}");
    assert!(reasons[1].contains("another file"), "{reasons:?}");
    assert!(matches!(plan.skipped[0].reason, SkipReason::Unreadable(_)));
}

#[test]
fn pictures_show_holes_and_moves() {
    let folder = folder();
    let path = folder.path().join("sparse & \"holes\" <x>");
    sparse(&path, 3000);
    let Ok(map) = Opened::open(&path).unwrap().map(WriteBack::First) else {
        return eprintln!("skipped: no FIEMAP here");
    };
    let whole = scanned(&path, ScanOptions { mode: Mode::Whole, ..ScanOptions::default() });
    let moves = whole.files.first().map_or(&[][..], |file| &file.moves);
    let (pieces, below) = strip(&map, moves, 60);
    assert_eq!(pieces.chars().count(), 60);
    // Blocks 1000 to 1499 of 3000 are a hole: characters 20 to 29.
    let drawn: Vec<char> = pieces.chars().collect();
    assert!(drawn[21..29].iter().all(|glyph| *glyph == '·'), "{pieces}");
    assert!(drawn[..19].iter().all(|glyph| *glyph != '·'), "{pieces}");
    assert!(!below.contains('^') || below.len() <= 60);
    let all = cells(&map, &[], 60);
    let mapped: u64 = map.pieces(map.whole()).map(|piece| piece.range.len()).sum();
    assert_eq!(all.iter().map(|cell| cell.mapped_bytes).sum::<u64>(), mapped);

    let file = defrag::plan::plan_file(
        defrag::plan::FileFacts {
            path: path.clone(),
            id: Opened::open(&path).unwrap().id(),
            size_bytes: map.size_bytes(),
            block_bytes: 4096,
        },
        &map,
        None,
        defrag::plan::Assumed::Bypass { window_bytes: 1 << 17 },
        &defrag::plan::PlanOptions::default(),
    );
    let html = page(&whole, &[Pictured { plan: file, map }]);
    let text = html.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let document = roxmltree::Document::parse(text).unwrap();
    assert!(document.descendants().any(|node| node.has_tag_name("path") || node.tag_name().name() == "path"));
    assert!(html.contains("sparse &amp; &quot;holes&quot; &lt;x&gt;"));
}
