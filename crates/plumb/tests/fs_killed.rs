//! The server is killed while programs work, and programs are killed while the server works for them.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fs_rig::{Rig, skipped};

const WRITERS: usize = 4;

/// What a writer was told is durable: the file, and how often its number stands in it.
type Promised = Vec<(PathBuf, usize)>;

/// Makes files, lengthens them, gives them other names and removes some, and syncs; until a call fails.
fn work(place: &Path, writer: usize, round: u64) -> Promised {
    let mut promised = Promised::new();
    for number in 0.. {
        let path = place.join(format!("{round}-{writer}-{number}"));
        let lines = 1 + number * 37 % 5000;
        let done = || -> std::io::Result<PathBuf> {
            let temporary = path.with_extension("new");
            let direct = number % 5 == 4;
            let mut file = File::options()
                .create_new(true)
                .write(true)
                .custom_flags(if direct { rustix::fs::OFlags::DIRECT.bits() as i32 } else { 0 })
                .open(&temporary)?;
            let text = format!("{number:07}\n").repeat(lines);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(place)?.sync_all()?;
            Ok(path.clone())
        };
        let Ok(path) = done() else { return promised };
        promised.push((path, lines));
        // What was durable goes again; from here on nothing is promised of it.
        if number % 3 == 2 {
            let (gone, _) = promised.swap_remove(number / 2 % promised.len());
            if fs::remove_file(gone).is_err() {
                return promised;
            }
        }
    }
    promised
}

/// Each file has what its writer was told is durable.
fn check(promised: &Promised) {
    for (path, lines) in promised {
        let name = path.file_name().unwrap().to_str().unwrap();
        let number: usize = name.rsplit('-').next().unwrap().parse().unwrap();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            text == format!("{number:07}\n").repeat(*lines),
            "{name}: {} bytes instead of {}",
            text.len(),
            8 * lines
        );
    }
}

#[test]
fn what_was_synced_stays_whenever_the_server_is_killed() {
    if skipped(&[]) {
        return;
    }
    let rounds = if std::env::var_os("PLUMB_LONG").is_some() { 200 } else { 6 };
    let mut rig = Rig::new(512);
    let (mut kept, mut all) = (Promised::new(), 0);
    for round in 0..rounds {
        let place = rig.place();
        let promised: Promised = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let place = &place;
                    scope.spawn(move || work(place, writer, round))
                })
                .collect();
            // Some moment, by a fixed rule.
            thread::sleep(Duration::from_millis(20 + round * 7919 % 480));
            rig.kill();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        rig.check();
        rig.mount(&[]);
        all += promised.len();
        check(&promised);
        check(&kept);
        // Room for the next round.
        for (path, _) in kept.drain(..) {
            fs::remove_file(path).unwrap();
        }
        kept = promised;
    }
    println!("{rounds} times killed, {all} files that were synced");
    assert!(all > rounds as usize * WRITERS, "{all}");
    rig.unmount();
}

#[test]
fn programs_that_are_killed_in_the_midst_of_calls_leave_a_sound_file_system() {
    if skipped(&["dd"]) {
        return;
    }
    let rounds = if std::env::var_os("PLUMB_LONG").is_some() { 200 } else { 8 };
    let mut rig = Rig::new(512);
    rig.shell("head -c 48M /dev/urandom > read; sync read; sha256sum read > ../sums");
    let ended = AtomicBool::new(false);
    let place = rig.place();
    thread::scope(|scope| {
        // Somebody whom nobody kills goes on working, and waits for nobody for ever.
        let other = scope.spawn(|| {
            let mut calls = 0;
            let file = File::options().create(true).truncate(false).write(true).open(place.join("other")).unwrap();
            while !ended.load(Ordering::Relaxed) {
                file.write_all_at(&[7; 4096], calls % 1000 * 4096).unwrap();
                file.sync_data().unwrap();
                calls += 1;
            }
            calls
        });
        for round in 0..rounds {
            let scripts = [
                "dd if=/dev/zero of=w bs=64k count=4000 conv=notrunc",
                "dd if=/dev/zero of=d bs=128k count=4000 oflag=direct conv=notrunc",
                "while :; do dd if=read of=/dev/null bs=1M iflag=direct; done",
                "while :; do echo x >> s; sync s; done",
                "while :; do mkdir -p t/u/v; touch t/u/v/f; mv t q; rm -r q; done",
            ];
            let mut programs: Vec<_> = scripts
                .iter()
                .map(|script| {
                    let mut command = Command::new("sh");
                    command
                        .process_group(0)
                        .args(["-c", script])
                        .current_dir(&place)
                        .stdout(Stdio::null())
                        .stderr(Stdio::null());
                    command.spawn().unwrap()
                })
                .collect();
            thread::sleep(Duration::from_millis(10 + round * 31 % 150));
            for program in &mut programs {
                // The shell and what it has started.
                let group = rustix::process::Pid::from_child(program);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
                program.wait().unwrap();
            }
            let _ = fs::remove_file(place.join("w"));
            let _ = fs::remove_file(place.join("d"));
        }
        ended.store(true, Ordering::Relaxed);
        assert!(other.join().unwrap() > 0);
    });
    rig.shell("sha256sum -c ../sums; rm -rf t q");
    rig.unmount();
    rig.mount(&[]);
    rig.shell("sha256sum -c ../sums");
    rig.unmount();
}
