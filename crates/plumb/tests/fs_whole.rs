//! Whole trees of a mounted file system at once, and a server whose requests come through rings.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs;
use std::process::Command;

use fs_rig::{Rig, done, skipped};

/// `plumb fs rm` of a path, by a user.
fn removes(rig: &Rig, path: &str, user: Option<&str>) -> bool {
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
    let output = command.args(["fs", "rm"]).arg(rig.place().join(path)).output().unwrap();
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

/// The same programs over the other way to the kernel; where it has none, through the usual one.
#[test]
fn requests_come_through_rings() {
    if skipped(&["git"]) {
        return;
    }
    let mut rig = Rig::new(256);
    rig.unmount();
    rig.mount(&["--transport", "io-uring"]);
    rig.shell(
        "head -c 20M /dev/urandom > ../data; cp ../data a; cmp a ../data; dd if=a of=b bs=1M oflag=direct 2> /dev/null; cmp a b
         for i in $(seq 8); do (for j in $(seq 50); do echo $i $j > f-$i-$j; mv f-$i-$j g-$i-$j; done) & done; wait
         [ $(ls | grep -c '^g-') = 400 ]; rm g-*; sync a b
         git init -q r; cd r; git config user.name n; git config user.email e
         for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git fsck --strict",
    );
    rig.unmount();
    rig.mount(&[]);
    rig.shell("cmp a ../data; cmp b ../data; cd r; [ $(git log --oneline | wc -l) = 3 ]");
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
