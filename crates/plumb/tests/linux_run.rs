//! The runner itself: what goes in and comes out, the same digits twice, and every way to fail.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::process::{Command, Stdio};
use std::time::Duration;

use linux::{Ended, FileSystem, Input, LinuxError};
use linux_rig::{PLUMB, has, kernel, on_memory};
use units::Nanos;

#[test]
fn output_status_and_input_pass_through_unchanged() {
    let Some(kernel) = kernel() else { return };
    let mut run = on_memory();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    run.input = Input::Bytes(bytes.clone());
    let outcome = run.script("cat; printf 'to\\000err\\r\\n' >&2; exit 7").run(&kernel).unwrap();
    assert_eq!(outcome.ended, Ended::Exited(7));
    assert!(outcome.stdout == bytes, "{} bytes came back", outcome.stdout.len());
    assert_eq!(outcome.stderr, b"to\0err\r\n");
    let killed = on_memory().script("kill -TERM $$").run(&kernel).unwrap();
    assert_eq!((killed.ended, killed.ended.shell_status()), (Ended::Signaled(15), 143));
    let absent = on_memory().command(["no-such-program"]).run(&kernel).unwrap();
    assert_eq!(absent.ended, Ended::Exited(127));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("no-such-program"));
}

#[test]
fn a_run_is_a_function_of_its_inputs() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let mut run = on_memory();
    run.file_system = FileSystem::Ext4;
    let script = "date +%s.%N; cat /proc/sys/kernel/random/uuid; blkid -o value -s UUID $PLUMB_DEVICE
        for n in 1 2 3; do dd if=/dev/urandom of=f$n bs=4k count=5 oflag=dsync 2>&1; done
        sha256sum f1 f2 f3; cat /proc/uptime; python3 -c 'import random; print(random.random())' || true";
    let first = run.script(script).run(&kernel).unwrap();
    let second = run.script(script).run(&kernel).unwrap();
    assert_eq!(first.ended, Ended::Exited(0), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(first.text(), second.text());
    assert_eq!((first.began, first.done), (second.began, second.done));
    run.seed = 2;
    let other = run.script(script).run(&kernel).unwrap();
    assert_ne!(first.text(), other.text(), "another seed, other random numbers");
}

#[test]
fn the_callers_environment_is_no_part_of_a_run_unless_it_is_named() {
    if kernel().is_none() {
        return;
    }
    let run = |script: &str, given: &[&str], more: &[(&str, &str)]| {
        let mut command = Command::new(PLUMB);
        command.args(["linux", "--device", "none", "--front-end", "null-blk"]);
        command.args(given.iter().flat_map(|variable| ["--env", *variable]));
        command.args(["--", "sh", "-c", script]).env_clear().env("PATH", "/usr/bin:/bin").envs(more.iter().copied());
        // Where else the kernel may lie.
        command.envs(["HOME", "PLUMB_KERNEL"].iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        let done = command.stdin(Stdio::null()).output().unwrap();
        (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let script = "env | sort; (true); date +%s.%N; cat /proc/uptime";
    let long = "x".repeat(30_000);
    let (bare, _) = run(script, &[], &[]);
    assert!(bare.contains("PLUMB_DEVICE="), "{bare}");
    assert_eq!(bare, run(script, &[], &[("A_TERMINALS", &long), ("SSH_TTY", "/dev/pts/7")]).0);
    // Thirty thousand bytes are pages, and pages are faults.
    let (given, _) = run(script, &[&format!("SEED={long}")], &[]);
    let clock = |text: &str| text.lines().find(|line| line.starts_with("1893")).map(str::to_owned);
    assert!(clock(&bare).is_some() && clock(&bare) != clock(&given), "{bare}");
    assert_eq!(run("echo $DATA", &[], &[("DATA", "/srv")]).0, "/srv\n");
    assert_eq!(run("env | grep ^DATA", &["DATA"], &[("DATA", "/srv")]).0, "DATA=/srv\n");
    let (_, refused) = run("true", &["DATA"], &[]);
    assert!(refused.contains("--env DATA: it is not set here: write NAME=VALUE"), "{refused}");
}

#[test]
fn a_request_takes_as_long_as_its_device_says() {
    let Some(kernel) = kernel() else { return };
    let latency = |count: u64| {
        let script = format!("dd if=$PLUMB_DEVICE of=/dev/null bs=4k count={count} iflag=direct 2>/dev/null");
        let outcome = on_memory().script(&script).run(&kernel).unwrap();
        assert!(outcome.ended.success());
        outcome.virtual_time()
    };
    // The difference, so that the shell's own start does not count.
    let per_read = Nanos(latency(1010).since(latency(10)).0 / 1000);
    assert!((Nanos(80_000)..Nanos(81_000)).contains(&per_read), "{per_read:?}");
}

#[test]
fn only_the_output_folder_reaches_the_host() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let caller = folder.path().join("caller");
    let output = folder.path().join("output");
    std::fs::create_dir(&caller).unwrap();
    std::fs::write(caller.join("job.txt"), "seen\n").unwrap();
    let mut run = on_memory();
    run.folder = caller.clone();
    run.output = Some(output.clone());
    run.environment.push(("OUT".into(), output.clone().into()));
    let outcome = run
        .command([
            "sh",
            "-ec",
            "cat \"$0\"; pwd; echo gone > job.txt; cat job.txt; echo kept > $OUT/result; sync",
            "job.txt",
        ])
        .run(&kernel)
        .unwrap();
    assert_eq!(outcome.text(), format!("seen\n{}\ngone\n", caller.display()), "{:?}", outcome.log);
    assert_eq!(std::fs::read_to_string(caller.join("job.txt")).unwrap(), "seen\n");
    assert_eq!(std::fs::read_to_string(output.join("result")).unwrap(), "kept\n");
}

#[test]
fn what_the_command_leaves_running_does_not_hold_the_guest() {
    let Some(kernel) = kernel() else { return };
    let mut run = on_memory();
    run.limits.wall = Some(Duration::from_secs(120));
    let outcome = run.script("sleep 100000 & (setsid sleep 100000 &) ; echo done").run(&kernel).unwrap();
    assert_eq!(outcome.text(), "done\n");
    assert!(outcome.virtual_time() < Nanos::from_secs(10));
}

#[test]
fn a_panic_is_shown_as_one() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let mut run = on_memory();
    run.file_system = FileSystem::Ext4;
    run.mount_options = "errors=panic".to_owned();
    let error = run.script("echo boom | tee /sys/fs/ext4/*/trigger_fs_error; sync; sleep 1").run(&kernel).unwrap_err();
    let LinuxError::Panic { reason, log } = &error else { panic!("{error}") };
    assert!(reason.contains("panic forced after error"), "{reason}");
    assert!(log.contains("boom"), "{log}");
}

#[test]
fn a_guest_without_memory_says_so() {
    let Some(kernel) = kernel() else { return };
    let mut run = on_memory();
    run.memory_bytes = 160 << 20;
    let error = run.command(["tail", "/dev/zero"]).run(&kernel).unwrap_err();
    let LinuxError::OutOfMemory { memory_mib: 160, victim, .. } = &error else { panic!("{error}") };
    assert!(victim.contains("tail"), "{victim}");
}

#[test]
fn a_full_file_system_is_the_commands_affair() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let mut run = on_memory();
    run.file_system = FileSystem::Ext4;
    run.mkfs_options = "-b 4096".to_owned();
    let script = "dd if=/dev/zero of=big bs=1M count=2000; echo $?; rm big; dd if=/dev/zero of=small bs=1M count=1 && echo again";
    let outcome = run.script(&format!("set +e; {script}")).run(&kernel).unwrap();
    assert_eq!(outcome.text(), "1\nagain\n");
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("No space left on device"));
}

#[test]
fn it_can_be_given_up() {
    let Some(kernel) = kernel() else { return };
    let mut run = on_memory().script("while :; do :; done");
    run.limits.wall = Some(Duration::from_secs(5));
    let error = run.run(&kernel).unwrap_err();
    assert!(matches!(error, LinuxError::TimedOut { .. }), "{error}");
}

/// Nobody is left to stop it: the host does.
#[test]
fn a_guest_ends_with_a_plumb_that_is_killed() {
    if kernel().is_none() {
        return;
    }
    let mut plumb = Command::new(PLUMB)
        .args(["linux", "--device", "samsung-980pro-1tb", "--", "sh", "-c", "while :; do :; done"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The kernel, and below it the processes of the guest.
    let processes = || descendants(plumb.id());
    let started = wait_until(|| processes().len() > 3);
    let all = processes();
    plumb.kill().unwrap();
    plumb.wait().unwrap();
    assert!(started, "the guest did not start: {all:?}");
    // One that ended and that nobody has waited for yet is a zombie, whose command line is empty.
    let runs = |pid: &&u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    assert!(wait_until(|| !all.iter().any(|pid| runs(&pid))), "{:?}", all.iter().filter(runs).collect::<Vec<_>>());
}

/// Children, and theirs.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> =
        children.flat_map(|line| line.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    let theirs: Vec<u32> = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, theirs].concat()
}

/// Within a minute.
fn wait_until(is_so: impl Fn() -> bool) -> bool {
    (0..600).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(100));
        }
        so
    })
}

#[test]
fn several_guests_at_once() {
    let Some(kernel) = kernel() else { return };
    let outputs: Vec<String> = std::thread::scope(|scope| {
        let guests: Vec<_> = (0..3)
            .map(|number| {
                let (kernel, run) = (&kernel, on_memory());
                scope.spawn(move || run.script(&format!("sleep {number}; echo {number}")).run(kernel).unwrap().text())
            })
            .collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).collect()
    });
    assert_eq!(outputs, ["0\n", "1\n", "2\n"]);
}

#[test]
fn no_privilege_is_needed() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;

    let Some(kernel) = kernel() else { return };
    if !has("mkfs.xfs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [program, plumb] = ["linux", "plumb"].map(|name| folder.path().join(name));
    std::fs::copy(kernel.program(), &program).unwrap();
    std::fs::copy(linux_rig::PLUMB, &plumb).unwrap();
    let mut command = std::process::Command::new(&plumb);
    command.args(["linux", "--device", "none", "--front-end", "null-blk", "--fs", "xfs", "--"]);
    command.args(["sh", "-ec", "id -u; dd if=/dev/zero of=f bs=4k count=3 oflag=dsync 2>/dev/null; exit 5"]);
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("PLUMB_KERNEL", &program);
    if std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert_eq!(output.stdout, b"0\n", "{said}");
    assert!(said.contains("s of virtual time"), "{said}");
}
