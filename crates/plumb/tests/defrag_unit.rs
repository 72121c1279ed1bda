//! The weekly unit's own command lines, one after the other as systemd runs them, through bad weeks: no week keeps a later
//! one from its work.
#![allow(clippy::unwrap_used)]

mod common;
mod loop_rig;
mod unit_rig;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::fragmented;
use defrag::extents::{WriteBack, read_map};
use loop_rig::{FileSystem, PATIENCE, Ran, Rig, SMALL_DRIVE, finish};

const UNIT: &str = include_str!("../../../packaging/systemd/plumb-defrag@.service");

/// The unit that a journal could bring to a stop, as people may still have it or something like it.
const WITH_JOURNAL: &str = "\
ExecStart=/usr/local/bin/plumb defrag trace --mount %f --out ${STATE_DIRECTORY}/%i.trace -- sleep 1h
ExecStart=/usr/local/bin/plumb defrag run %f --trace ${STATE_DIRECTORY}/%i.trace --journal ${STATE_DIRECTORY}/%i.journal \\
    --report ${STATE_DIRECTORY}/%i.json --budget 4GiB --rate 50MiB
ExecStartPost=/bin/rm -f ${STATE_DIRECTORY}/%i.journal
";

/// A unit for a mount, run without systemd.
struct Unit {
    /// `ExecStart`, then `ExecStartPost`, each as a line for the shell.
    lines: Vec<String>,
    state: PathBuf,
}

impl Unit {
    fn new(text: &str, mount: &Path, state: PathBuf) -> Self {
        fs::create_dir_all(&state).unwrap();
        let of = |key: &str| unit_rig::values(text, key);
        assert!(of("ExecStartPre").is_empty() && of("Type").iter().all(|kind| kind == "oneshot"));
        let lines = [of("ExecStart"), of("ExecStartPost")].concat();
        let plumb = env!("CARGO_BIN_EXE_plumb");
        let own = |line: &String| {
            let line = line.replace("%f", mount.to_str().unwrap()).replace("%i", "instance");
            let line = line.replace("/usr/local/bin/plumb", plumb).replace("sleep 1h", "sh -c \"$WORK\"");
            // Waiting for other programs of this machine is not what is tried here.
            line.replace("--until-psi 10", "").replace("--io-class idle", "")
        };
        let lines: Vec<String> = lines.iter().map(own).collect();
        assert!(lines.len() >= 2 && lines[0].contains("$WORK"), "{lines:#?}");
        Self { lines, state }
    }

    /// A week in which programs do `work`: each line must succeed for the next to be run (systemd.service(5)).
    fn week(&self, work: &str) -> Ran {
        let script: String = self.lines.iter().map(|line| format!("{line} || exit\n")).collect();
        finish(self.shell(&script, work), PATIENCE)
    }

    fn shell(&self, script: &str, work: &str) -> &mut Command {
        let command = Box::leak(Box::new(Command::new("sh")));
        command.args(["-c", script]).env("STATE_DIRECTORY", &self.state).env("WORK", work).env("NO_COLOR", "1")
    }
}

fn pieces(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let map = read_map(&file, size, WriteBack::First).unwrap();
    map.piece_count(map.whole())
}

/// Reads files from the device, past what cannot be read.
fn reading(files: &[&Path]) -> String {
    let dd = |path: &&Path| format!("dd if={} of=/dev/null bs=128k conv=noerror status=none; ", path.display());
    // Out of the page cache, so that they are read from the device.
    let drop = |path: &&Path| format!("dd if={} iflag=nocache count=0 status=none; ", path.display());
    format!("{}{}true", files.iter().map(drop).collect::<String>(), files.iter().map(dd).collect::<String>())
}

fn bad_weeks(text: &str) {
    if loop_rig::skipped(&["mkfs.ext4", "fallocate", "dd"]) {
        return;
    }
    let mut rig = Rig::start(SMALL_DRIVE);
    rig.mkfs(FileSystem::Ext4);
    let place = rig.mount(FileSystem::Ext4);
    let unit = Unit::new(text, &place, rig.path("state"));
    let file = |name: &str| {
        let path = place.join(name);
        fragmented(&path);
        assert!(pieces(&path) > 100, "{name} in {} pieces", pieces(&path));
        path
    };

    // Before anything is moved: the room that a move gives back would take their pieces together.
    let [good, bad, second, third, fourth, fifth, sixth] =
        ["good", "bad", "second", "third", "fourth", "fifth", "sixth"].map(file);

    // A file of which a block cannot be read: the week fails, and the rest of it is moved.
    let map = read_map(File::open(&bad).unwrap(), 2 << 20, WriteBack::First).unwrap();
    let sector = map.extents()[17].physical / 512;
    let inject = |words: &[&str]| {
        let control = format!("unix:{}", rig.path("control").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        finish(command.args(["control", &control]).args(words), PATIENCE).ok()
    };
    inject(&["inject", "media", &format!("{sector}+8")]);
    let week = unit.week(&reading(&[&good, &bad]));
    if week.stderr.contains("cannot trace here") {
        println!("skipped: {}", week.stderr);
        return;
    }
    assert_eq!(week.status.code(), Some(1), "{week:?}");
    assert!(week.stdout.contains("bad: failed: ") && week.stdout.contains("Input/output error"), "{week:?}");
    assert!(pieces(&good) <= 16, "{} pieces; {week:?}", pieces(&good));

    // The next has its own trace: the bad file is not in it.
    let week = unit.week(&reading(&[&second]));
    assert!(week.status.success() && pieces(&second) <= 16, "{} pieces; {week:?}", pieces(&second));

    // Killed in the middle.
    let line = unit.lines[1].replace("--rate 50MiB", "--rate 300KiB");
    let traced = format!("{}\n", unit.lines[0]);
    finish(unit.shell(&traced, &reading(&[&third])), PATIENCE).ok();
    let mut run = unit.shell(&format!("exec {line}"), "").stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    run.kill().unwrap();
    run.wait().unwrap();
    let left = pieces(&third);
    assert!(left > 16, "it was killed too late to leave anything");
    let week = unit.week(&reading(&[&fourth]));
    assert!(week.status.success() && pieces(&fourth) <= 16, "{} pieces; {week:?}", pieces(&fourth));

    // No room for the trace: the week fails, and the next does not.
    finish(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&unit.state), PATIENCE).ok();
    let filling = fs::write(unit.state.join("filling"), vec![1; 1 << 20]);
    let week = unit.week(&reading(&[&fifth]));
    // Room for the trace, and none for what comes after it.
    fs::write(unit.state.join("filling"), vec![1; 48 << 10]).unwrap();
    let narrow = unit.week(&reading(&[&fifth]));
    finish(Command::new("umount").arg(&unit.state), PATIENCE).ok();
    assert!(filling.is_err() && week.status.code() == Some(1), "{week:?}");
    assert!(week.stderr.contains("No space left"), "{week:?}");
    assert!(narrow.status.code().is_some_and(|code| code <= 1), "{narrow:?}");
    let week = unit.week(&reading(&[&fifth]));
    assert!(week.status.success() && pieces(&fifth) <= 16, "{} pieces; {week:?}", pieces(&fifth));

    // The mount goes away after the trace; it comes back, and so does the rest.
    finish(unit.shell(&traced, &reading(&[&sixth])), PATIENCE).ok();
    rig.unmount();
    let run = finish(unit.shell(&unit.lines[1..].join("\n"), ""), PATIENCE);
    assert!(run.status.code().is_some_and(|code| code < 2), "{run:?}");
    rig.mount(FileSystem::Ext4);
    let week = unit.week(&reading(&[&sixth]));
    assert!(week.status.success() && pieces(&sixth) <= 16, "{} pieces; {week:?}", pieces(&sixth));
}

#[test]
fn the_unit_goes_on_after_bad_weeks() {
    bad_weeks(UNIT);
}

#[test]
fn a_unit_with_a_journal_goes_on_after_bad_weeks() {
    bad_weeks(WITH_JOURNAL);
}
