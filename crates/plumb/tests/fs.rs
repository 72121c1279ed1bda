//! `plumb fs` mounted by a real kernel: what programs write is there, also after the server was killed, and nobody does what he
//! may not.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use fs_rig::{Rig, done, skipped};

#[test]
fn files_and_folders_stay() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::new(256);
    let place = rig.place();
    fs::create_dir_all(place.join("a/b/c")).unwrap();
    let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(place.join("a/text"), &text).unwrap();
    fs::hard_link(place.join("a/text"), place.join("a/b/other")).unwrap();
    std::os::unix::fs::symlink("../text", place.join("a/b/link")).unwrap();
    fs::write(place.join("a/gone"), "x").unwrap();
    fs::rename(place.join("a/gone"), place.join("a/b/c/moved")).unwrap();
    fs::write(place.join("a/removed"), "x").unwrap();
    fs::remove_file(place.join("a/removed")).unwrap();
    // Sparse, with bytes in the middle of blocks.
    let sparse = File::create(place.join("sparse")).unwrap();
    sparse.write_all_at(b"far", 100_000_001).unwrap();
    sparse.write_all_at(b"near", 4094).unwrap();
    drop(sparse);
    for number in 0..300 {
        fs::write(place.join(format!("a/b/c/{number}")), format!("{number}")).unwrap();
    }
    // As it is, as it was kept, and listed by names alone.
    for options in ["", "ro,without=range-message+directory-cache", "ro,noatime"] {
        if !options.is_empty() {
            rig.unmount();
            rig.mount(&["-o", options]);
        }
        assert_eq!(fs::read(place.join("a/b/link")).unwrap(), text);
        assert_eq!(fs::metadata(place.join("a/b/other")).unwrap().nlink(), 2);
        assert_eq!(fs::read(place.join("a/b/c/moved")).unwrap(), b"x");
        assert_eq!(fs::read_dir(place.join("a/b/c")).unwrap().count(), 301);
        assert_eq!(fs::metadata(place.join("a")).unwrap().nlink(), 3);
        let error = fs::read(place.join("a/removed")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let sparse = File::open(place.join("sparse")).unwrap();
        let mut bytes = [1; 8];
        sparse.read_exact_at(&mut bytes, 4092).unwrap();
        assert_eq!(&bytes, b"\0\0near\0\0");
        assert!(sparse.metadata().unwrap().blocks() < 100);
        assert_eq!(sparse.metadata().unwrap().len(), 100_000_004);
    }
    assert_eq!(fs::write(place.join("new"), "x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    rig.unmount();
    let df: serde_json::Value = serde_json::from_str(&rig.plumb(&["df", &rig.image(), "--json"])).unwrap();
    assert!(df["used_bytes"].as_u64().unwrap() > 1_200_000, "{df}");
    let stat: serde_json::Value =
        serde_json::from_str(&rig.plumb(&["stat", &rig.image(), "/a/text", "--json"])).unwrap();
    assert_eq!((stat["size_bytes"].as_u64(), stat["links"].as_u64()), (Some(1_200_000), Some(2)));
    let everything = rig.plumb(&["dump", &rig.image()]);
    assert!(everything.lines().any(|line| line.ends_with(" 3 bytes /a/b/c/299")), "{everything}");
    assert!(!rig.run(&["rm", &rig.image(), "/a/none"]).status.success());
    rig.plumb(&["rm", &rig.image(), "/a/b"]);
    rig.check();
    let left = rig.plumb(&["dump", &rig.image()]);
    assert!(!left.contains("/a/b") && left.lines().any(|line| line.ends_with("bytes /a/text")), "{left}");
}

/// What fsync has promised is there after the server was killed, and the file system is sound whatever else is.
#[test]
fn fsync_holds_when_the_server_is_killed() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::new(256);
    let place = rig.place();
    for round in 0..3 {
        let folder = place.join(format!("round-{round}"));
        fs::create_dir(&folder).unwrap();
        let mut synced = Vec::new();
        for number in 0..40 {
            let name = folder.join(format!("file-{number}"));
            let text = format!("{round}/{number} ").repeat(1 + number * 37);
            let mut file = File::create(&name).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            if number % 2 == 0 {
                file.sync_all().unwrap();
                synced.push((name, text));
            }
        }
        rig.kill();
        rig.check();
        rig.mount(&[]);
        for (name, text) in synced {
            assert_eq!(fs::read_to_string(&name).unwrap_or_default(), text, "{}", name.display());
        }
    }
    rig.unmount();
}

#[test]
fn refuses_what_would_do_harm() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::new(64);
    let image = rig.image();
    fs::write(rig.place().join("file"), "kept").unwrap();
    let refused = |output: std::process::Output, parts: &[&str]| {
        let said = String::from_utf8(output.stderr).unwrap();
        let squeezed: String = said.chars().filter(|c| !c.is_whitespace() && *c != '│').collect();
        assert!(!output.status.success(), "{said}");
        for part in parts {
            assert!(squeezed.contains(&part.replace(' ', "")), "{part} is not in: {said}");
        }
    };
    let other = rig.outside("other");
    fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    // Mounted: neither again, nor made anew even by force.
    refused(rig.run(&["mount", &image, other]), &["in use", "umount"]);
    refused(rig.run(&["mkfs", &image, "--force"]), &["in use"]);
    rig.unmount();
    refused(rig.run(&["mkfs", &image]), &["holds something already", "--force"]);
    refused(rig.run(&["mkfs", &format!("{image}.new")]), &["--size"]);
    refused(rig.run(&["mount", &format!("{image}.none"), other]), &["no such file", "mkfs"]);
    refused(rig.run(&["mount", &image, &format!("{other}/none")]), &["cannot mount there"]);
    refused(rig.run(&["mount", &image, other, "-o", "noatme"]), &["no mount option", "noatme"]);
    let step = rig.run(&["mount", &image, other, "-o", "without=memory-allocator"]);
    refused(step, &["no step", "memory-allocator", "range-message"]);
    rig.mount(&[]);
    assert_eq!(fs::read_to_string(rig.place().join("file")).unwrap(), "kept");
    rig.unmount();
    rig.plumb(&["mkfs", &image, "--force"]);
    rig.mount(&[]);
    assert_eq!(fs::read_dir(rig.place()).unwrap().count(), 0);
    rig.unmount();
}

#[test]
fn a_signal_unmounts() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::new(64);
    fs::write(rig.place().join("file"), "kept").unwrap();
    done(Command::new("kill").arg(rig.server().to_string()));
    assert_eq!(rig.ended(), Some(0));
    rig.check();
    rig.mount(&[]);
    assert_eq!(fs::read_to_string(rig.place().join("file")).unwrap(), "kept");
    // In use: it ends with its last user, whose work is kept.
    let file = File::options().write(true).open(rig.place().join("file")).unwrap();
    done(Command::new("kill").arg(rig.server().to_string()));
    while fs::metadata(rig.place().join("file")).is_ok() {
        std::thread::yield_now();
    }
    file.write_all_at(b"late", 0).unwrap();
    drop(file);
    assert_eq!(rig.ended(), Some(0));
    rig.mount(&[]);
    assert_eq!(fs::read_to_string(rig.place().join("file")).unwrap(), "late");
    rig.unmount();
}

/// Somebody else neither reads nor changes what he may not.
#[test]
fn permissions_hold() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(64);
    let place = rig.place();
    fs::write(place.join("secret"), "secret").unwrap();
    fs::set_permissions(place.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(place.join("shared")).unwrap();
    fs::set_permissions(place.join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(place.join("shared/root's"), "root's").unwrap();
    // The way there.
    fs::set_permissions(rig.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script]).current_dir(&place);
        command.status().unwrap().success()
    };
    assert!(as_nobody("echo mine > shared/mine && cat shared/mine && mkdir shared/folder"));
    let mine = fs::metadata(place.join("shared/mine")).unwrap();
    assert_eq!((mine.uid(), mine.gid()), (65534, 65534));
    for forbidden in [
        "cat secret",
        "echo x > secret",
        "rm -f secret",
        "chmod 666 secret",
        "touch new",
        "rm -f \"shared/root's\"",
        "mv \"shared/root's\" shared/theirs",
        "ln -sfn shared secret",
        "chown 0 shared/mine",
        "mknod shared/null c 1 3",
    ] {
        assert!(!as_nobody(&format!("{forbidden} 2>/dev/null")), "{forbidden}");
    }
    // A write by somebody else takes the set-user-ID bit away.
    assert!(as_nobody("echo '#!/bin/sh' > shared/program && chmod 4777 shared/program"));
    fs::set_permissions(place.join("shared/program"), fs::Permissions::from_mode(0o4777)).unwrap();
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c", "echo true >> shared/program"]);
    done(other.current_dir(&place));
    assert_eq!(fs::metadata(place.join("shared/program")).unwrap().mode() & 0o7777, 0o777);
    rig.unmount();
}

/// Who is not root mounts by fusermount3, for himself alone.
#[test]
fn users_mount_by_themselves() {
    if skipped(&["fusermount3", "setpriv", "unshare"]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // Where /dev/fuse is root's alone, this namespace has one for everybody, as udev makes it.
    let as_root = r#"
        mount --bind devfuse /dev/fuse
        exec setpriv --reuid=65534 --regid=65534 --clear-groups bash -eu user.sh
    "#;
    let as_user = r#"
        ./plumb fs mkfs disk.plumb --size 64MiB
        mkdir place
        ./plumb fs mount disk.plumb place --background -o noatime
        # Whatever fails, the server ends.
        trap 'fusermount3 -uz place 2> /dev/null || true' EXIT
        grep -q ' place.* fuse.plumb rw,nosuid,nodev,noatime' <(sed "s|$PWD/||g" /proc/mounts)
        for number in $(seq 50); do seq "$number" > "place/$number" & done; wait
        cat place/50 | wc -l | grep -qx 50
        fusermount3 -u place
        ./plumb fs fsck disk.plumb
        ./plumb fs dump disk.plumb | wc -l | grep -qx 50
    "#;
    fs::write(scratch.path().join("user.sh"), as_user).unwrap();
    done(Command::new("mknod").args(["-m", "666", "devfuse", "c", "10", "229"]).current_dir(scratch.path()));
    done(Command::new("chown").arg("65534").arg(scratch.path()));
    // The way to the one that was built may be closed to others.
    fs::copy(env!("CARGO_BIN_EXE_plumb"), scratch.path().join("plumb")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "bash", "-euc", as_root]).current_dir(scratch.path());
    done(&mut command);
}

/// git, a compiler and a database as they are.
#[test]
fn programs_work() {
    if skipped(&["git", "gcc", "sqlite3"]) {
        return;
    }
    let mut rig = Rig::new(512);
    rig.shell(
        r#"
        git init -q -b main "$OUTSIDE/origin"
        for i in $(seq 200); do mkdir -p "$OUTSIDE/origin/d$((i % 7))"; seq "$i" $((i * 9)) > "$OUTSIDE/origin/d$((i % 7))/$i"; done
        git -C "$OUTSIDE/origin" add -A
        git -C "$OUTSIDE/origin" -c user.name=n -c user.email=e commit -q -m first
        git clone -q "$OUTSIDE/origin" clone
        git -C clone status --porcelain | wc -l | grep -qx 0
        echo more >> clone/d1/1
        git -C clone -c user.name=n -c user.email=e commit -q -a -m second
        git -C clone gc -q
        git -C clone fsck --strict
        diff -r --exclude=.git "$OUTSIDE/origin/d2" clone/d2
        "#,
    );
    rig.shell(
        r#"
        mkdir -p c && cd c
        echo 'int twice(int x) { return 2 * x; }' > twice.c
        printf '#include <stdio.h>\nint twice(int);\nint main(void) { printf("%%d\\n", twice(21)); }\n' > main.c
        gcc -O1 -c twice.c && gcc -O1 -c main.c && ar rcs libtwice.a twice.o && gcc -o answer main.o libtwice.a
        ./answer | grep -qx 42
        "#,
    );
    if Command::new("cargo").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        rig.shell("cargo init -q --vcs none --name answer rust; cd rust; cargo build -q --offline --target-dir target; ./target/debug/answer | grep -q Hello");
    } else {
        println!("skipped: cargo is not here");
    }
    for journal in ["delete", "wal"] {
        rig.shell(&format!(
            "sqlite3 {journal}.db \"pragma journal_mode={journal}; create table t(a, b);
               with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
               insert into t select i, hex(randomblob(40)) from n;
               create index i on t(b); delete from t where a % 3 = 0;\" > /dev/null
             sqlite3 {journal}.db 'pragma integrity_check; select count(*) from t' | tr '\\n' ' ' | grep -qx 'ok 3334 '"
        ));
    }
    rig.unmount();
    rig.mount(&[]);
    rig.shell(
        "git -C clone fsck --strict; ./c/answer | grep -qx 42; sqlite3 wal.db 'pragma integrity_check' | grep -qx ok",
    );
    rig.unmount();
}
