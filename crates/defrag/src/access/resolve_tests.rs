//! Inode numbers to files, on the file system of the temporary folder.

use super::*;
use crate::ByteRange;

fn one(path: &Path) -> RawFile {
    let mounts = Mounts::now().unwrap();
    let path = path.canonicalize().unwrap();
    let device = mounts.of(&path).unwrap().kernel_device;
    RawFile { device, inode: fs::metadata(&path).unwrap().ino() }
}

fn on_disk(path: &Path) -> bool {
    let mounts = Mounts::now().unwrap();
    let is_on_disk = mounts.of(path).is_some_and(observe::mounts::Mount::is_on_disk);
    if !is_on_disk {
        println!("skipped: {} is on no disk", path.display());
    }
    is_on_disk
}

#[test]
fn an_inode_is_found_and_a_deleted_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    if !on_disk(folder.path()) {
        return;
    }
    let path = folder.path().join("a");
    fs::write(&path, "x").unwrap();
    let raw = one(&path);
    let found = files(&BTreeMap::from([(raw, 0)]), &BTreeMap::new(), &Mounts::now().unwrap());
    let (id, at) = &found[&raw];
    assert_eq!(*at, path);
    assert_eq!(*id, identify(&path).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(files(&BTreeMap::from([(raw, 0)]), &BTreeMap::new(), &Mounts::now().unwrap()).is_empty());
}

#[test]
fn a_walk_finds_what_the_name_cache_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("b/c");
    fs::create_dir_all(&below).unwrap();
    let path = below.join("d");
    fs::write(&path, "x").unwrap();
    let metadata = fs::metadata(&path).unwrap();
    let mut found = BTreeMap::new();
    walk(folder.path(), metadata.dev(), BTreeSet::from([metadata.ino(), u64::MAX]), &mut found);
    assert_eq!(found.len(), 1);
    assert_eq!(found[&metadata.ino()].1, path);
}

#[test]
fn a_traced_file_is_located_by_path_by_number_or_not() {
    let folder = tempfile::tempdir().unwrap();
    if !on_disk(folder.path()) {
        return;
    }
    let path = folder.path().join("a");
    fs::write(&path, "x").unwrap();
    let id = identify(&path).unwrap();
    let access = Access { file: id, range: ByteRange { start: 0, end: 1 }, kind: IoKind::BufferedRead, count: 1 };
    let mut trace = Trace { files: [(id, Some(path.clone()))].into(), accesses: vec![access], ..Trace::default() };
    assert_eq!(locate(&trace).unwrap()[0].now, Ok((path.clone(), id)));

    let moved = folder.path().join("b");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(locate(&trace).unwrap()[0].now, Ok((moved.clone(), id)));

    // Another device number, as after a boot: the path and the generation say that it is the file.
    if id.generation.is_some() {
        let elsewhere = FileId { device: id.device ^ 1, ..id };
        trace.files = [(elsewhere, Some(moved.clone()))].into();
        assert_eq!(locate(&trace).unwrap()[0], Located { file: elsewhere, now: Ok((moved.clone(), id)) });
        let reused = FileId { generation: id.generation.map(|generation| generation ^ 1), ..id };
        trace.files = [(reused, Some(moved.clone()))].into();
        let error = locate(&trace).unwrap().remove(0).now.unwrap_err();
        assert!(error.contains("is not the file that was traced"), "{error}");
    }
    fs::write(&path, "another").unwrap();
    fs::remove_file(&moved).unwrap();
    trace.files = [(id, Some(path))].into();
    assert!(locate(&trace).unwrap()[0].now.is_err());
}
