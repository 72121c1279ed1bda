//! How serving a loop device ends: asked, killed, frozen; under load and mounted.
//! Whatever happens to the server, nobody who uses the device waits for ever.
#![allow(clippy::unwrap_used)]

mod loop_rig;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use loop_rig::{FileSystem, PATIENCE, Rig, SMALL_DRIVE, Tried, finish, skipped};

/// Something that writes to the device as fast as it can until that fails.
struct Load(Child);

impl Load {
    fn on(rig: &Rig) -> Self {
        let child = Command::new("fio")
            .args(["--name=l", "--ioengine=io_uring", "--direct=1", "--rw=randrw", "--bs=4k", "--iodepth=16"])
            .args(["--time_based", "--runtime=600", "--fsync=32"])
            .arg(format!("--filename={}", rig.device.display()))
            .current_dir(rig.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let load = Self(child);
        let deadline = Instant::now() + PATIENCE;
        while rig.status().writes < 100 {
            assert!(Instant::now() < deadline, "the load does not begin");
            thread::sleep(Duration::from_millis(10));
        }
        load
    }

    /// It ends by itself, and with an error.
    #[track_caller]
    fn fails(mut self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(!status.success());
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        panic!("the load hangs: {stat}");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn goes(rig: &Rig) {
    let deadline = Instant::now() + PATIENCE;
    while rig.is_attached() {
        assert!(Instant::now() < deadline, "{} stays attached:\n{}", rig.device.display(), rig.said());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killed_under_load_it_leaves_nobody_waiting() {
    if skipped(&["fio"]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    let load = Load::on(&rig);
    rig.signal("KILL");
    load.fails();
    rig.wait_end();
    // The watchdog detaches it.
    goes(&rig);
    rig.wait_line(0, "watchdog: the server died; ");
}

/// Stopped for longer than the watchdog lets it be, under load, and then let go on.
fn freeze(options: &[&str]) {
    if skipped(&["fio"]) {
        return;
    }
    let mut rig = Rig::start(&[SMALL_DRIVE, &["--stall", "3s"], options].concat());
    let load = Load::on(&rig);
    rig.signal("STOP");
    load.fails();
    rig.wait_line(0, "watchdog: the server has not moved for 3 s");
    rig.signal("CONT");
    // Its connection is gone: serving is over.
    rig.wait_end();
    goes(&rig);
}

#[test]
fn frozen_under_load_it_is_cut_off_by_the_watchdog() {
    freeze(&[]);
}

/// What waits in the ring is not freed by an abort, but by the watchdog's killing the server.
#[test]
fn frozen_with_a_ring_it_leaves_nobody_waiting() {
    freeze(&["--io-uring"]);
}

#[test]
fn mounted_it_is_served_until_it_is_released() {
    if skipped(&FileSystem::Ext4.programs()) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    rig.mkfs(FileSystem::Ext4);
    let place = rig.mount(FileSystem::Ext4);
    rig.signal("TERM");
    let line = rig.wait_line(0, &format!("{} is still in use", rig.device.display()));
    assert!(line.contains(&format!("mounted at {}", place.display())), "{line}");
    // Served as before.
    fs::write(place.join("late"), vec![7; 1 << 20]).unwrap();
    finish(Command::new("sync").arg("-f").arg(&place), PATIENCE).ok();
    assert_eq!(fs::read(place.join("late")).unwrap(), vec![7; 1 << 20]);
    rig.unmount();
    assert!(rig.wait_end().success(), "{}", rig.said());
    assert!(!rig.is_attached());
}

#[test]
fn asked_twice_it_ends_at_once() {
    if skipped(&FileSystem::Ext4.programs()) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    rig.mkfs(FileSystem::Ext4);
    let place = rig.mount(FileSystem::Ext4);
    rig.signal("TERM");
    rig.wait_line(0, &format!("{} is still in use", rig.device.display()));
    rig.signal("TERM");
    rig.wait_end();
    // The file system is there and fails, as one whose disk was pulled out.
    let written = fs::write(place.join("lost"), [1]);
    let synced = finish(Command::new("sync").arg("-f").arg(&place), PATIENCE);
    assert!(written.is_err() || !synced.status.success());
    rig.unmount();
    goes(&rig);
}

#[test]
fn what_a_killed_server_left_is_cleared_by_the_next() {
    if skipped(&[]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    // Without its watchdog nobody clears up. Not by pgrep, which waits for any process of the machine that hangs.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", rig.pid())).unwrap();
    let watchdog = children.split_whitespace().next().expect("a watchdog");
    finish(Command::new("kill").args(["-KILL", watchdog]), PATIENCE).ok();
    rig.signal("KILL");
    rig.wait_end();
    assert!(rig.is_attached());
    let read = fs::File::open(&rig.device).and_then(|file| {
        use std::os::unix::fs::FileExt;
        file.read_exact_at(&mut [0; 512], 0)
    });
    assert!(read.is_err(), "nobody serves it");

    let mut next = Rig::start(SMALL_DRIVE);
    next.wait_line(0, &format!("detached {}", rig.device.display()));
    next.stop();
    assert!(!next.is_attached());
    goes(&rig);
}

#[test]
fn detached_by_others_it_ends() {
    if skipped(&["losetup"]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    finish(Command::new("losetup").arg("-d").arg(&rig.device), PATIENCE).ok();
    assert!(rig.wait_end().success());
    rig.wait_line(0, &format!("{} was detached by another program", rig.device.display()));
}

#[test]
fn without_what_it_needs_it_says_what_else_there_is() {
    if !Path::new("/dev/fuse").exists() || skipped(&["setpriv"]) {
        return;
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all", env!("CARGO_BIN_EXE_plumb")])
        .args(["serve", "--loop"])
        .args(SMALL_DRIVE);
    let ran = finish(&mut command, PATIENCE);
    if ran.stderr.contains("No such file") || ran.status.code() == Some(127) {
        println!("skipped: an unprivileged user cannot run this test's plumb ({})", ran.stderr.trim());
        return;
    }
    assert!(!ran.status.success());
    let said: String = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("need root") && said.contains("plumb linux"), "{said}");
}
