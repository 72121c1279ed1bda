//! Whole trees of a mounted file system at once, and a server whose requests come through rings.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs;
use std::process::Command;

use fs_rig::{Rig, done, skipped};

/// `plumb fs rm` of a path, by a user.
fn removes(rig: &Rig, path: &str, user: Option<&str>) -> bool {
    does(rig, "rm", &[path], user)
}

/// A command of `plumb fs` on paths of the mount, by a user.
fn does(rig: &Rig, what: &str, paths: &[&str], user: Option<&str>) -> bool {
    let mut command = match user {
        Some(user) => {
            // The way to the one that was built may be closed to others.
            let plumb = rig.outside("plumb");
            fs::copy(env!("CARGO_BIN_EXE_plumb"), &plumb).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(plumb);
            command
        }
        None => Command::new(env!("CARGO_BIN_EXE_plumb")),
    };
    let output = command.args(["fs", what]).args(paths.iter().map(|path| rig.place().join(path))).output().unwrap();
    output.status.success()
}

/// The tree is gone for everybody at once; what is open lives on; its room comes back while others go on.
#[test]
fn a_mounted_tree_goes_in_one_step() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.shell(
        "mkdir -p tree/a/b shared; for i in $(seq 300); do echo $i > tree/a/b/$i; done
         head -c 8M /dev/urandom > tree/a/large; ln tree/a/large kept; ls -R tree > /dev/null",
    );
    let before: u64 = rig.shell("stat -f -c %f .").trim().parse().unwrap();
    let open = fs::File::open(rig.place().join("tree/a/b/7")).unwrap();
    assert!(removes(&rig, "tree", None));
    assert_eq!(rig.shell("ls; stat -c %h ."), "kept\nshared\n3\n");
    assert!(!rig.place().join("tree/a/b/8").exists());
    assert_eq!(std::io::read_to_string(open).unwrap(), "7\n");
    rig.shell("[ $(stat -c %s kept) = 8388608 ]; mkdir tree; echo new > tree/a");
    assert!(!removes(&rig, "none", None));
    // By and by its room is free again, and only the other name's file is left.
    rig.shell("for i in $(seq 200); do [ $(stat -c %h kept) = 1 ] && exit 0; sleep 0.1; done; exit 1");
    rig.unmount();
    rig.mount(&[]);
    let after: u64 = rig.shell("stat -f -c %f .").trim().parse().unwrap();
    assert!(after + 64 >= before, "{after} blocks are free, {before} before");
    rig.unmount();
    rig.plumb(&["quiesce", &rig.image(), "--all"]);
    rig.check();
}

/// Who may not remove every entry removes nothing.
#[test]
fn a_mounted_tree_stays_for_who_may_not_remove_it() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(64);
    rig.shell(
        "chmod 1777 .; mkdir -p mine/inner others; touch mine/inner/file; mkdir mine/of-root; touch mine/of-root/file
         chown -R 1234:1234 mine; chown 0:0 mine/of-root mine/of-root/file; chmod -R o+rX .",
    );
    done(Command::new("chmod").arg("755").arg(rig.outside("")));
    for (path, user) in [("mine", "1234"), ("others", "1234"), ("mine/inner", "4321")] {
        assert!(!removes(&rig, path, Some(user)), "{path} by {user}");
    }
    assert_eq!(rig.shell("find . -type f | sort"), "./mine/inner/file\n./mine/of-root/file\n");
    assert!(removes(&rig, "mine/inner", Some("1234")));
    assert_eq!(rig.shell("find . -type f"), "./mine/of-root/file\n");
    rig.unmount();
}

/// A copy has everything that the original has, is seen at once, and goes its own way; who owns only a part copies nothing.
#[test]
fn a_mounted_tree_is_copied_whole() {
    if skipped(&["setpriv", "setfattr"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.shell(
        "chmod 1777 .; mkdir -p tree/a/b tree/empty; for i in $(seq 300); do echo $i > tree/a/b/$i; done
         head -c 8M /dev/urandom > tree/a/large; ln tree/a/large tree/other; ln -s a/large tree/link; mkfifo tree/fifo
         setfattr -n user.note -v here tree/a/b/7; chmod 4750 tree/a/b/8; touch -d 2001-02-03 tree/a/b tree/a/large
         truncate -s 1M tree/sparse; printf x | dd of=tree/sparse bs=1 seek=500000 conv=notrunc 2> /dev/null
         ls copy 2> /dev/null || true
         mkdir mine; echo 1 > mine/1; chown -R 1234:1234 mine; mkdir mine/of-root",
    );
    assert!(does(&rig, "clone", &["tree", "copy"], None));
    let list = "find . -printf '%P %y %m %u %g %n %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort";
    let original = rig.shell(&format!("cd tree; {list}"));
    assert_eq!(original, rig.shell(&format!("cd copy; {list}")));
    rig.shell(
        "[ $(stat -c %i copy/a/large) = $(stat -c %i copy/other) ]; [ $(stat -c %i copy/other) != $(stat -c %i tree/other) ]
         [ $(getfattr --only-values -n user.note copy/a/b/7) = here ]; echo new > copy/a/b/9; [ $(cat tree/a/b/9) = 9 ]",
    );
    assert!(!does(&rig, "clone", &["tree", "copy"], None), "it is there already");
    done(Command::new("chmod").arg("755").arg(rig.outside("")));
    for path in ["mine", "tree"] {
        assert!(!does(&rig, "clone", &[path, "theirs"], Some("1234")), "not all of {path} is his");
    }
    rig.shell("rmdir mine/of-root; ! ls theirs 2> /dev/null");
    assert!(does(&rig, "clone", &["mine", "theirs"], Some("1234")));
    assert_eq!(rig.shell("stat -c '%u %g' theirs/1; cat theirs/1"), "1234 1234\n1\n");
    assert!(does(&rig, "mv", &["theirs", "copy/theirs"], None) && !does(&rig, "mv", &["mine", "copy"], None));
    assert!(removes(&rig, "tree", None));
    rig.unmount();
    rig.plumb(&["clone", &rig.image(), "/copy", "/again"]);
    rig.plumb(&["mv", &rig.image(), "/again/theirs", "/theirs"]);
    rig.check();
    rig.mount(&[]);
    rig.shell("rm copy/a/b/9 again/a/b/9; diff -r --no-dereference copy/a again/a; cat theirs/1 mine/1");
    rig.unmount();
}

/// What lies under it becomes larger while it is mounted, and hears of what is free.
#[test]
fn it_grows_and_is_trimmed_while_it_is_mounted() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::new(64);
    let blocks = |rig: &Rig| rig.shell("stat -f -c %b .").trim().parse::<u64>().unwrap();
    let before = blocks(&rig);
    assert!(!rig.run(&["grow", rig.outside("").to_str().unwrap(), "--size", "256MiB"]).status.success());
    rig.plumb(&["grow", rig.place().to_str().unwrap(), "--size", "256MiB"]);
    assert_eq!(blocks(&rig), before + (192 << 20) / 4096);
    rig.shell("head -c 150M /dev/urandom > large; sync large; sha256sum large > ../sums");
    rig.unmount();
    rig.mount(&[]);
    rig.shell("sha256sum -c ../sums; rm large; echo here > small; sync small");
    rig.unmount();
    rig.plumb(&["quiesce", &rig.image()]);
    let image = rig.image();
    let allocated = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&image).unwrap()) * 512;
    let full = allocated();
    rig.mount(&[]);
    let told = rig.plumb(&["trim", rig.place().to_str().unwrap(), "--json"]);
    assert!(told.contains("trimmed_bytes"), "{told}");
    assert!(allocated() + (100 << 20) < full, "{} of {full} are left", allocated());
    assert_eq!(rig.shell("cat small"), "here\n");
    rig.unmount();
    rig.plumb(&["trim", &rig.image()]);
    rig.plumb(&["grow", &rig.image(), "--size", "300MiB"]);
    rig.check();
}

/// The benchmark measures every system that it is told, and leaves nothing behind.
#[test]
fn it_is_measured_beside_others() {
    if skipped(&["mkfs.ext4", "losetup"]) {
        return;
    }
    let rig = Rig::new(64);
    let dir = rig.outside("measured");
    fs::create_dir(&dir).unwrap();
    let small = "--size 4MiB --files 60 --writes 50 --rounds 2 --systems plumb,plumb-device,memory,ext4 --json";
    let rows = ["--rows", "sequential-write,creates,small-files"];
    let words = ["bench", "--dir", dir.to_str().unwrap()].into_iter().chain(small.split(' ')).chain(rows);
    let output = rig.run(&words.collect::<Vec<_>>());
    if String::from_utf8_lossy(&output.stderr).contains("losetup") {
        println!("skipped: there are no loop devices");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for system in ["plumb", "plumb-device", "memory", "ext4"] {
        for row in rows {
            let of = &row["systems"][system];
            assert!(of["median"].as_f64().unwrap() > 0.0 && of["rounds"].as_array().unwrap().len() == 2, "{of}");
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

/// The same programs over one way to the kernel and the other; where it has no rings, twice through the usual one.
#[test]
fn requests_come_through_rings() {
    if skipped(&["git"]) {
        return;
    }
    let mut rig = Rig::new(256);
    for transport in ["io-uring", "device"] {
        rig.unmount();
        rig.mount(&["--transport", transport]);
        through(&rig);
        rig.unmount();
        rig.mount(&[]);
        rig.shell("cmp a ../data; cmp b ../data; cd r; [ $(git log --oneline | wc -l) = 3 ]; cd ..; rm -r r a b");
    }
    rig.unmount();
}

/// Large and small files, many programs at once, and git.
fn through(rig: &Rig) {
    rig.shell(
        "head -c 20M /dev/urandom > ../data; cp ../data a; cmp a ../data; dd if=a of=b bs=1M oflag=direct 2> /dev/null; cmp a b
         for i in $(seq 8); do (for j in $(seq 50); do echo $i $j > f-$i-$j; mv f-$i-$j g-$i-$j; done) & done; wait
         [ $(ls | grep -c '^g-') = 400 ]; rm g-*; sync a b
         git init -q r; cd r; git config user.name n; git config user.email e
         for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git fsck --strict",
    );
}

/// Mounted to be read, nothing changes a byte of what it lies on: no call, no read, and nothing that a server that was killed left to do.
#[test]
fn what_is_mounted_to_be_read_stays_as_it_is() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.shell("mkdir tree; seq 1 20000 > tree/file; echo late > late; sync tree/file");
    let held = fs::File::open(rig.place().join("late")).unwrap();
    rig.shell("rm late; echo more >> tree/file; sha256sum tree/* > ../sums");
    rig.shell("touch -d 2001-01-01 -a tree/file; sync tree/file");
    rig.kill();
    drop(held);
    let image = rig.image();
    let bytes = || fs::read(&image).unwrap();
    let before = bytes();
    rig.mount(&["-o", "ro"]);
    rig.shell("sha256sum -c ../sums; [ $(stat -c %x tree/file | cut -c1-4) = 2001 ]");
    rig.shell("for i in 'touch x' 'rm tree/file' 'chmod 600 tree/file' 'ln tree/file x'; do ! sh -c \"$i\" 2> ../said; grep -q Read-only ../said; done");
    for call in [&["rm", "tree"][..], &["clone", "tree", "copy"], &["mv", "tree", "other"]] {
        let (call, names) = call.split_first().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        let ran = command.args(["fs", call]).args(names.iter().map(|name| rig.place().join(name))).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains("ead-only"), "{call}: {said}");
    }
    for (call, name) in [("snapshot", Some("now")), ("trim", None), ("grow", None)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        let ran = command.args(["fs", call]).arg(rig.place()).args(name).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains("ead-only"), "{call}: {said}");
    }
    rig.leave();
    assert!(before == bytes(), "it was written to");
    // Mounted to be changed it goes on from there.
    rig.mount(&["-o", "noatime"]);
    rig.shell("sha256sum -c ../sums; [ $(stat -c %x tree/file | cut -c1-4) = 2001 ]");
    rig.unmount();
    rig.mount(&[]);
    rig.shell("sha256sum -c ../sums; [ $(stat -c %x tree/file | cut -c1-4) != 2001 ]");
    rig.unmount();
}

/// A snapshot shows what was there, whatever happens to it, and nobody changes it.
#[test]
fn a_snapshot_stays_as_it_was() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.shell(
        "mkdir tree; seq 1 20000 > tree/file; echo old > tree/small; ln tree/small other; sha256sum tree/* > ../sums",
    );
    let plumb = env!("CARGO_BIN_EXE_plumb");
    done(Command::new(plumb).args(["fs", "snapshot"]).arg(rig.place()).arg("then"));
    let mut again = Command::new(plumb);
    assert!(!again.args(["fs", "snapshot"]).arg(rig.place()).arg("then").status().unwrap().success());
    assert!(removes(&rig, "tree", None));
    rig.shell("echo new > other; sync other");
    rig.unmount();
    assert_eq!(rig.plumb(&["snapshot", &rig.image()]), "then\n");
    rig.mount(&["-o", "snapshot=then"]);
    rig.shell("sha256sum -c ../sums; cat other | grep -qx old; ! touch x 2> /dev/null; ! rm other 2> /dev/null");
    rig.unmount();
    assert!(!rig.run(&["mount", &rig.image(), rig.place().to_str().unwrap(), "-o", "snapshot=none"]).status.success());
    rig.mount(&[]);
    assert_eq!(rig.shell("ls; cat other"), "other\nnew\n");
    rig.unmount();
    rig.plumb(&["snapshot", &rig.image(), "then", "--remove"]);
    assert_eq!(rig.plumb(&["snapshot", &rig.image()]), "");
    rig.check();
}

/// A mounted file system is checked while it is used, by who may; what is damaged is told.
#[test]
fn a_mounted_file_system_is_checked() {
    if skipped(&["setpriv"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.shell("mkdir a; for i in $(seq 200); do echo $i > a/$i; done; head -c 4M /dev/urandom > large; sync large");
    let place = rig.place().to_str().unwrap().to_owned();
    let changes = "for i in $(seq 400); do echo $i > b-$i; mv b-$i c-$i; rm -f c-$((i / 2)); done";
    let mut beside = Command::new("bash").args(["-c", changes]).current_dir(rig.place()).spawn().unwrap();
    for _ in 0..5 {
        assert_eq!(rig.plumb(&["fsck", &place]), format!("{place}: sound\n"));
    }
    assert!(beside.wait().unwrap().success());
    done(Command::new("chmod").arg("755").arg(rig.outside("")));
    assert!(!does(&rig, "fsck", &["."], Some("1234")), "it is not his");
    let refused = rig.run(&["fsck", &place, "--repair"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("mounted"), "{refused:?}");
    // A piece of the large file is damaged where it lies.
    let piece = fs::read(rig.place().join("large")).unwrap()[1 << 20..][..64].to_vec();
    rig.unmount();
    rig.plumb(&["quiesce", &rig.image()]);
    let mut image = fs::read(rig.image()).unwrap();
    // What the log had of it lies before that.
    let at = image.windows(64).rposition(|window| window == piece).expect("it is stored as it is");
    image[at + 7] ^= 4;
    fs::write(rig.image(), image).unwrap();
    rig.mount(&[]);
    let found = rig.run(&["fsck", &place, "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((found.status.code(), &said["sound"]), (Some(1), &false.into()), "{found:?}");
    assert!(said["findings"][0].as_str().unwrap().contains("checksum"), "{said}");
    rig.leave();
}
