//! Any program as a workload (`[workload.program]`), under a real kernel in virtual time and under that of this machine.
#![allow(clippy::unwrap_used)]

mod common;
mod linux_rig;

use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::assert_same_results;

use linux_rig::{PLUMB, has, kernel};

/// A spec of a program on ext4.
fn spec(program: &str, more: &str) -> String {
    format!(
        "title = 't'\n[stack]\nhost = 'linux'\ndevice = 'optane-905p-960gb'\nfilesystem = 'ext4'\n\
         linux.mkfs_options = '-E nodiscard'\n[workload.program]\n{program}\n{more}"
    )
}

fn run(folder: &Path, text: &str) -> Output {
    run_into(folder, text, "results")
}

/// Images are kept in `folder`, too, and the kernel is that of the user's cache.
fn run_into(folder: &Path, text: &str, out: &str) -> Output {
    std::fs::write(folder.join("spec.toml"), text).unwrap();
    let cache = folder.join("cache");
    if !cache.exists() {
        std::fs::create_dir_all(cache.join("plumb")).unwrap();
        let kernel = kernel().unwrap();
        symlink(kernel.program().ancestors().nth(2).unwrap(), cache.join("plumb/linux")).unwrap();
    }
    let mut command = Command::new(PLUMB);
    command.arg("run").arg(folder.join("spec.toml")).arg("--json").arg("--out").arg(folder.join(out));
    command.env("XDG_CACHE_HOME", cache).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap()
}

/// The images that were kept, with the numbers of their files.
fn images(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(folder.join("cache/plumb/images")).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), path.metadata().unwrap().ino())).collect()
}

/// The values of one metric, in the order of the points.
fn values(output: &Output, metric: &str) -> Vec<f64> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let points = report["points"].as_array().unwrap();
    points.iter().map(|point| point["metrics"][metric]["value"].as_f64().unwrap()).collect()
}

#[test]
fn caches_and_memory_are_as_the_spec_says() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // 32 MiB, read twice.
    let program = "prepare = 'head -c 33554432 /dev/urandom > file'\nmeasure = 'cat file > /dev/null; cat file | wc -c'\n\
                   cold = false\nmetrics.read_bytes = { regex = '([0-9]+)' }";
    let sweep = "[sweep]\ncase = ['warm', 'cold', 'small']\n[variants.case]\n\
                 warm = { 'workload.program.cold' = false }\ncold = { 'workload.program.cold' = true }\n\
                 small = { 'workload.program.cold' = true, 'workload.program.memory' = '12MiB' }";
    let text = format!(
        "metrics = ['program.read_bytes', 'program.status', 'counter.block.read_commands']\n{}",
        spec(program, sweep)
    );
    let output = run(folder.path(), &text);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.read_bytes"), [33_554_432.0; 3]);
    assert_eq!(values(&output, "program.status"), [0.0; 3]);
    let commands = values(&output, "counter.block.read_commands");
    assert!(commands[0] < 8.0 && commands[1] > 100.0, "{commands:?}");
    // What does not fit is read again.
    assert!(commands[2] > 1.7 * commands[1], "{commands:?}");
}

#[test]
fn programs_run_beside_it_and_the_same_spec_gives_the_same_bytes() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let program = "prepare = 'echo $WORD > word'\n\
        measure = \"for i in $(seq 40); do head -c 8192 /dev/zero > f$i; sync f$i; done; echo '{\\\"word\\\": \\\"'$(cat word)'\\\"}'\"\n\
        metrics.word = { json = '/word' }\n[workload.variables]\nWORD = 7";
    let sweep = "[sweep]\n'workload.program.beside' = [{}, { writer = 'while :; do head -c 1048576 /dev/zero > big; sync big; done' }]";
    let text = format!("metrics = ['program.word', 'program.elapsed_s']\n{}", spec(program, sweep));
    let once = tempfile::tempdir().unwrap();
    let output = run(once.path(), &text);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.word"), [7.0; 2]);
    let elapsed = values(&output, "program.elapsed_s");
    assert!(elapsed[1] > 1.2 * elapsed[0], "alone and beside a writer: {elapsed:?}");
    let again = tempfile::tempdir().unwrap();
    assert_eq!(String::from_utf8_lossy(&run(again.path(), &text).stdout), String::from_utf8_lossy(&output.stdout));
}

#[test]
fn what_fails_says_which_and_why() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let said = |program: &str, code: i32| {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), &spec(program, ""));
        let text = [&output.stderr[..], &output.stdout[..]].concat();
        let text = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    assert!(said("prepare = 'exit 5'\nmeasure = 'true'", 2).contains("workload.program.prepare failed: status 5"));
    let failed = said("measure = 'echo because >&2; exit 3'", 1);
    assert!(failed.contains("ended with status 3: because"), "{failed}");
    let beside = said("measure = 'sleep 1'\nbeside.x = 'echo why >&2; exit 4'", 2);
    assert!(beside.contains("workload.program.beside failed: status 4") && beside.contains("why"), "{beside}");
    let absent = said("measure = 'true'\nmetrics.x = { regex = '([0-9]+)' }", 1);
    assert!(absent.contains("program.x: the output has no such number"), "{absent}");
}

#[test]
fn a_program_that_failed_has_no_figure_and_runs_again() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lacking = folder.path().join("lacking");
    let text = format!(
        "metrics = ['program.elapsed_s', 'program.status']\n{}",
        spec(&format!("measure = 'cat {} && sleep 1'", lacking.display()), "")
    );
    let output = run(folder.path(), &text);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let metrics = &report["points"][0]["metrics"];
    assert_eq!((output.status.code(), metrics["program.status"]["value"].as_f64()), (Some(1), Some(1.0)), "{report:#}");
    assert_eq!(metrics["program.elapsed_s"]["value"].as_f64(), None, "{report:#}");
    std::fs::write(&lacking, "").unwrap();
    let output = run(folder.path(), &text);
    assert!(output.status.success(), "{output:?}");
    assert!(values(&output, "program.elapsed_s")[0] >= 1.0, "{output:?}");
    // What came well is not repeated, whatever changed.
    std::fs::remove_file(&lacking).unwrap();
    assert_eq!(run(folder.path(), &text).stdout, output.stdout);
}

#[test]
fn what_cannot_be_asked_is_refused_before_anything_runs() {
    let refused = |text: &str, words: &str| {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), text);
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(
        &spec("measure = 'true'", "").replace("'linux'", "'model'").replace("filesystem = 'ext4'\n", ""),
        "needs a real kernel",
    );
    refused(&spec("measure = ' '", ""), "`measure` is empty");
    refused(&spec("measure = 'true'\nmetrics.x = { regex = '(' }", ""), "metrics.x");
    refused(&spec("measure = 'true'\nmetrics.x = { json = 'a' }", ""), "not a JSON pointer");
    refused(&spec("measure = 'true'", "[workload]\nfio = '[j]'"), "workload");
}

#[test]
fn an_image_of_what_was_prepared_gives_the_same_bytes() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = |words: &str| {
        format!(
            "prepare = 'echo {words} > word; head -c 4194304 /dev/urandom > file; mkdir d; ln word d/link'\ncold = true\n\
             measure = 'cat d/link; cat file | wc -c; head -c 65536 /dev/zero > new; sync new; stat -c inode=%i file'\n\
             metrics.inode = {{ regex = 'inode=([0-9]+)' }}"
        )
    };
    let text = |words: &str| spec(&program(words), "[run]\nrepeats = 2\n");
    for (out, images_after) in [("made", 1), ("kept", 1)] {
        let before = images(folder.path());
        let output = run_into(folder.path(), &text("one"), out);
        assert!(output.status.success(), "{output:?}");
        let after = images(folder.path());
        assert_eq!(after.len(), images_after, "both repeats begin with one image");
        assert!(before.is_empty() || before == after, "it was made again");
    }
    assert_same_results(&folder.path().join("made"), &folder.path().join("kept"));

    // A broken one is made again.
    let (path, number) = images(folder.path()).remove(0);
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(b"broken", file.metadata().unwrap().len() / 2).unwrap();
    assert!(run_into(folder.path(), &text("one"), "broken").status.success());
    assert_ne!(images(folder.path()), [(path, number)]);
    assert_same_results(&folder.path().join("made"), &folder.path().join("broken"));

    // Other commands make another, and a cache that cannot be written none: the results are the same.
    assert!(run_into(folder.path(), &text("two"), "other").status.success());
    assert_eq!(images(folder.path()).len(), 2);
    std::fs::remove_dir_all(folder.path().join("cache/plumb/images")).unwrap();
    std::fs::write(folder.path().join("cache/plumb/images"), "in the way").unwrap();
    assert!(run_into(folder.path(), &text("one"), "without").status.success());
    assert_same_results(&folder.path().join("made"), &folder.path().join("without"));

    // Every value of every run is in the tables.
    let table = std::fs::read_to_string(folder.path().join("made/program.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].ends_with(",metric,value"), "{table}");
    for metric in ["elapsed_s", "status", "inode"] {
        assert_eq!(lines.iter().filter(|line| line.contains(&format!(",{metric},"))).count(), 2, "{table}");
    }
    assert!(folder.path().join("made/program.parquet").metadata().unwrap().len() > 0);
}

/// A spec of a program on a loop device of this machine, or on a modelled device that is served there.
fn live(device: &str, program: &str, more: &str) -> String {
    format!(
        "title = 't'\n[stack]\nhost = 'live'\ndevice = '{device}'\nfilesystem = 'ext4'\nlive = {{ size = '256m' }}\n\
         [workload.program]\n{program}\n{more}"
    )
}

/// Whether this machine refused; says so.
fn refused(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let refused = said.contains("cannot be here") || said.contains("the server of");
    if refused {
        println!("skipped: {said}");
    }
    refused
}

#[test]
fn on_a_loop_device_of_this_machine() {
    if !has("mkfs.ext4") {
        return;
    }
    let program = "prepare = 'head -c 67108864 /dev/urandom > file; echo $WORD > word'\n\
                   measure = \"cat file | wc -c; echo '{\\\"word\\\": \\\"'$(cat word)'\\\"}'\"\n\
                   metrics.word = { json = '/word' }\nmetrics.read_bytes = { regex = '([0-9]+)\\n' }";
    let sweep = "[workload.variables]\nWORD = 7\n[sweep]\n'workload.program.cold' = [false, true]\n";
    let metrics = "metrics = ['program.word', 'program.read_bytes', 'program.status', 'program.elapsed_s', \
                   'counter.block.read_commands']\n";
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &(metrics.to_owned() + &live("loop", program, sweep)));
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.word"), [7.0; 2]);
    assert_eq!(values(&output, "program.read_bytes"), [67_108_864.0; 2]);
    assert_eq!(values(&output, "program.status"), [0.0; 2]);
    assert!(values(&output, "program.elapsed_s").iter().all(|elapsed| *elapsed > 0.0));
    let commands = values(&output, "counter.block.read_commands");
    assert!(commands[1] > 2.0 * commands[0] && commands[1] > 32.0, "warm and cold: {commands:?}");
    let table = std::fs::read_to_string(folder.path().join("results/program.csv")).unwrap();
    assert_eq!(table.lines().filter(|line| line.contains(",word,7")).count(), 2, "{table}");

    // What fails says which, and leaves nothing mounted.
    let said = |program: &str, status: i32| {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), &live("loop", program, ""));
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(said("prepare = 'exit 5'\nmeasure = 'true'", 2).contains("workload.program.prepare failed: status 5"));
    assert!(said("measure = 'echo because >&2; exit 3'", 1).contains("ended with status 3: because"));
    assert!(said("measure = 'sleep 1'\nbeside.x = 'exit 4'", 2).contains("workload.program.beside failed: status 4"));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&format!("{}", folder.path().display())), "{mounts}");
}

#[test]
fn on_a_modelled_device_that_is_served_here() {
    if !has("mkfs.ext4") {
        return;
    }
    let program = "measure = 'head -c 1048576 /dev/zero > file; sync file'";
    let metrics = "metrics = ['program.status', 'counter.device.host_written_bytes', 'counter.block.write_commands']\n";
    let folder = tempfile::tempdir().unwrap();
    let served = live("optane-905p-960gb", program, "").replace("size = '256m'", "mkfs_options = '-E nodiscard'");
    let output = run(folder.path(), &(metrics.to_owned() + &served));
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.status"), [0.0]);
    assert!(values(&output, "counter.device.host_written_bytes")[0] >= 1_048_576.0, "mkfs is in it, too");
    assert!(values(&output, "counter.block.write_commands")[0] > 0.0);
}

#[test]
fn memory_is_limited_here_where_it_can_be() {
    if !has("mkfs.ext4") {
        return;
    }
    let program = "prepare = 'head -c 33554432 /dev/urandom > file'\ncold = true\n\
                   measure = 'cat file > /dev/null; cat file > /dev/null'";
    let sweep = "[sweep]\n'workload.program.memory' = ['512MiB', '12MiB']\n";
    let folder = tempfile::tempdir().unwrap();
    let text = format!("metrics = ['counter.block.read_commands']\n{}", live("loop", program, sweep));
    let output = run(folder.path(), &text);
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let commands = values(&output, "counter.block.read_commands");
    assert!(commands[1] > 1.7 * commands[0], "what does not fit is read again: {commands:?}");
}
