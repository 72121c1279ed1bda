//! `plumb prefetch run`: programs do the same with it as without, and what they are about to read is loaded.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Scratch;
use prefetch_rig::{Probe, cold_file, has, run};

const MIB: u64 = 1 << 20;

#[test]
fn exit_statuses_and_signals_are_the_commands() {
    let scratch = Scratch::new();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let ran = scratch.plumb(&["prefetch", "run", "--", "sh", "-c", script]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(status), ""), "{script}");
    }
    scratch.plumb(&["prefetch", "run", "--", "no-such-program"]).fails(2, &["no-such-program", "PATH"]);
    scratch.plumb(&["prefetch", "run", "--mode", "x", "--", "true"]).fails(2, &["predict+opt"]);
    scratch.plumb(&["prefetch", "run", "--exclude", "a[", "--", "true"]).fails(2, &["a["]);
}

#[test]
fn a_signal_to_the_launcher_reaches_the_command() {
    let scratch = Scratch::new();
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child =
        scratch.command(&["prefetch", "run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\ngot it\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn signals_that_were_ignored_stay_so_and_its_end_is_seen() {
    // `SIGCHLD` too, which tells the launcher of the command's end.
    let ignoring = |command: &[&str]| {
        let mut all = vec!["-c", "trap '' CHLD HUP; exec \"$@\"", "sh"];
        all.extend(command);
        Command::new("sh").args(all).output().unwrap()
    };
    let shown = ["sh", "-c", "grep SigIgn /proc/self/status; exit 3"];
    let plain = ignoring(&shown);
    let through = ignoring(&[&[env!("CARGO_BIN_EXE_plumb"), "prefetch", "run", "--"][..], &shown].concat());
    assert!(!plain.stdout.ends_with(b"0000000000000000\n"), "{plain:?}");
    assert_eq!(plain.status.code(), Some(3));
    assert_eq!(through, plain);
}

#[test]
fn the_environment_and_descriptors_are_the_programs_own() {
    let scratch = Scratch::new();
    let script = "ls /proc/self/fd | tr '\\n' ' '; env | grep -c PLUMB_PREFETCH";
    let ran = scratch.plumb(&["prefetch", "run", "--", "sh", "-c", script]).ok();
    let plain = Command::new("sh").args(["-c", script]).output().unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert_eq!(ran.stdout.replace("1\n", "0\n"), plain);
}

#[test]
fn strides_and_backward_readers_are_loaded_ahead() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    for pattern in ["stride", "reverse", "readback"] {
        let data = cold_file(&scratch, "data", 32 * MIB);
        let plain = probe.plain(&[pattern, data.to_str().unwrap()]);
        // On a busy machine, the program may end before anything is loaded for it.
        let served = (0..10).any(|_| {
            cold_file(&scratch, "data", 32 * MIB);
            let (ran, report) = run(&scratch, &[], &probe.command(&[pattern, data.to_str().unwrap()]));
            assert_eq!((ran.stdout, ran.stderr.as_str()), (plain.clone(), ""), "{pattern}");
            let of = |name: &str| report[name].as_u64().unwrap();
            assert!(of("accesses") > 50 && of("requests") > 3, "{pattern}: {report}");
            assert!(of("loaded_bytes") <= 32 * MIB, "{pattern}: {report}");
            // Where the file system keeps everything in memory there is nothing to load.
            of("windows_loaded") + of("windows_resident") > 0
        });
        assert!(served, "{pattern}");
    }
}

#[test]
fn hostile_programs_come_to_the_same() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    for pattern in prefetch_rig::HOSTILE {
        let data = cold_file(&scratch, "data", 8 * MIB);
        let plain = probe.plain(&[pattern, data.to_str().unwrap()]);
        let data = cold_file(&scratch, "data", 8 * MIB);
        let begun = Instant::now();
        let (ran, report) = run(&scratch, &[], &probe.command(&[pattern, data.to_str().unwrap()]));
        assert_eq!((ran.stdout, ran.stderr.as_str()), (plain, ""), "{pattern}: {report}");
        println!("{pattern}: {:?}, {report}", begun.elapsed());
    }
}

/// Reads backward. musl's compiler has no headers of the kernel, which the probe wants.
const BACKWARD: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    static unsigned char buffer[16384];
    int fd = open(words[count - 1], O_RDONLY);
    unsigned long sum = 0;
    for (long at = lseek(fd, 0, SEEK_END) - 16384; at >= 0; at -= 16384)
        sum = sum * 3 + (unsigned long)pread(fd, buffer, 16384, at) + buffer[9];
    printf("%lx\n", sum);
    return 0;
}
"#;

#[test]
fn programs_with_musl_are_followed() {
    let Some(probe) = Probe::compile_with("musl-gcc", BACKWARD) else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 16 * MIB);
    let plain = probe.plain(&[data.to_str().unwrap()]);
    let (ran, report) = run(&scratch, &[], &probe.command(&[data.to_str().unwrap()]));
    assert_eq!((ran.stdout, ran.stderr.as_str()), (plain, ""), "{report}");
    assert!(report["programs"] == 1 && report["requests"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn ten_thousand_threads_read_the_same_file() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: ten thousand threads take a while (PLUMB_LONG=1)");
        return;
    }
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 32 * MIB);
    let words = ["threads", data.to_str().unwrap(), "10000"];
    let plain = probe.plain(&words);
    cold_file(&scratch, "data", 32 * MIB);
    let (ran, report) = run(&scratch, &[], &probe.command(&words));
    assert_eq!((ran.stdout, ran.stderr.as_str()), (plain, ""), "{report}");
}

#[test]
fn a_report_pictures_what_was_read_loaded_and_in_memory() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 32 * MIB);
    let plain = probe.plain(&["reverse", data.to_str().unwrap()]);
    let words = probe.command(&["reverse", data.to_str().unwrap()]);
    // On a busy machine, the program may end before anything is loaded for it.
    let pictured = (0..10).any(|_| {
        cold_file(&scratch, "data", 32 * MIB);
        let (ran, report) = run(&scratch, &["--report", "run.html"], &words);
        assert_eq!((ran.stdout, ran.stderr.as_str()), (plain.clone(), ""), "{report}");
        let page = fs::read_to_string(scratch.path("run.html")).unwrap();
        let has = |class: &str| page.contains(&format!("<path style=\"stroke: var(--{class})\""));
        assert!(page.contains("/data</h2>") && (has("hit") || has("wait")), "{page}");
        assert!(!page.contains("accesses are not in it"), "{page}");
        // Where the file system keeps everything in memory there is nothing to load.
        has("resident") && (has("prefetch") || report["windows_resident"].as_u64() > Some(0))
    });
    assert!(pictured);
}

/// Reads by io_uring the library does not see: they are as without, and nothing is loaded.
#[test]
fn io_uring_goes_by_the_library() {
    if !has("fio") {
        println!("skipped: fio is not here");
        return;
    }
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 16 * MIB);
    let words = [
        "fio",
        "--name=a",
        "--bs=16k",
        "--size=16m",
        "--ioengine=io_uring",
        "--rw=read:48k",
        "--thread",
        "--output=/dev/null",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.push(format!("--filename={}", data.display()));
    let allowed = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    if !allowed.status.success() {
        println!("skipped: io_uring is not allowed here");
        return;
    }
    let (_, report) = run(&scratch, &[], &words);
    assert!(report["programs"] == 1 && report["accesses"] == 0 && report["loaded_bytes"] == 0, "{report}");
}

/// A launcher whose program takes its time, and where that says how far it is.
fn slow_run(scratch: &Scratch, probe: &Probe) -> (Child, PathBuf) {
    let data = cold_file(scratch, "data", 8 * MIB);
    let out = scratch.path("out");
    let words = probe.command(&["slow", data.to_str().unwrap(), out.to_str().unwrap()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    (scratch.command(&[&["prefetch", "run", "--"], &words[..]].concat()).spawn().unwrap(), out)
}

#[test]
fn a_program_goes_on_when_the_launcher_is_killed() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let (mut child, out) = slow_run(&scratch, &probe);
    let started = Instant::now();
    while !out.exists() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while fs::read_to_string(&out).unwrap_or_default() != "begun\ndone\n" {
        assert!(started.elapsed() < Duration::from_secs(60), "the program did not end: {:?}", fs::read_to_string(&out));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_run_has_come_to_is_told_while_it_goes_on() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let (mut child, _) = slow_run(&scratch, &probe);
    let number = child.id().to_string();
    let mut told = false;
    while child.try_wait().unwrap().is_none() {
        let ran = scratch.plumb(&["prefetch", "stats", "--json"]).ok();
        let runs: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        told |= runs[&number]["programs"] == 1;
    }
    assert!(told);
    scratch.plumb(&["prefetch", "stats", &number]).fails(2, &[&number]);
}

#[test]
fn usual_programs_print_the_same() {
    let scratch = Scratch::new();
    let lines: String = (0..60_000).map(|line| format!("{} {:x} some text\n", line * 7919 % 60_000, line)).collect();
    scratch.write("text", &lines);
    let scripts = [
        (
            "sh",
            "sort text | md5sum; sort -n text | tail -3; tac text | head -3; wc text; cksum text; split -n 3 text x; cat x?? | cmp - text",
        ),
        (
            "grep",
            "grep -c 'ff some' text; grep -n 59999 text; sed -n '30000p;$p' text; awk '{ n += $1 } END { print n }' text",
        ),
        ("tar", "tar cf a.tar text && mkdir -p b && tar xf a.tar -C b && cmp text b/text && tar tf a.tar"),
        (
            "gzip",
            "gzip -c text | gzip -dc | cmp - text && cp text c && cp --reflink=never text d && cmp c d && dd if=text bs=4k skip=3 status=none | md5sum",
        ),
        (
            "git",
            "git init -q g && cd g && cp ../text . && git add . && git -c user.name=a -c user.email=a@b.c commit -qm a && git cat-file -p HEAD:text | cmp - text && git fsck && git status --short",
        ),
        (
            "python3",
            "python3 -c 'import mmap; f = open(\"text\", \"rb\"); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(sum(m[::4096])); f.seek(-100, 2); print(f.read())'",
        ),
        (
            "perl",
            "perl -ne '$n += length; END { print \"$n\\n\" }' text; perl -e 'open F, \"text\"; seek F, 5000, 0; read F, $b, 20; print $b'",
        ),
        (
            "sqlite3",
            "sqlite3 t.db 'create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000) insert into t select i, hex(i * i) from n; select count(*), sum(a), max(b) from t; pragma integrity_check;'",
        ),
        (
            "gcc",
            "printf '#include <stdio.h>\\nint main(void) { puts(\"built\"); return 3; }\\n' > m.c && gcc -O1 -o m m.c && ./m; echo $?",
        ),
        (
            "make",
            "for n in $(seq 30); do echo \"int f$n(int x) { return x * $n + 1; }\" > f$n.c; echo \"int f$n(int); sum += f$n($n);\" >> calls; done
             (echo '#include <stdio.h>'; echo 'int main(void) { int sum = 0;'; cat calls; echo 'printf(\"%d \", sum); return 0; }') > main.c
             printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tgcc -o $@ $^\\n' > Makefile
             make -s -j4 CFLAGS=-O1 && ./prog && make -q && echo built",
        ),
        (
            "ldb",
            "db_bench --db=db --benchmarks=fillseq,compact --num=4000 --value_size=1000 --compression_type=none --seed=1 > /dev/null 2>&1
             ldb --db=db scan | md5sum; ldb --db=db checkconsistency; sst_dump --file=db --command=verify 2>&1 | grep -c -i corrupt;
             db_bench --db=db --use_existing_db=1 --benchmarks=readreverse,readrandom --num=4000 --reads=4000 --seed=1 2>&1 | grep -o '4000 of 4000 found'",
        ),
        (
            "bash",
            "bash -c 'exec 7< text; read -u 7 line; echo $line; exec 8<&7 7<&-; read -u 8 line; echo $line'; (head -c 100; cat) < text | md5sum",
        ),
    ];
    for (program, script) in scripts {
        if !has(program) {
            println!("skipped: {program} is not here");
            continue;
        }
        let mut said = Vec::new();
        for with in [false, true] {
            let folder = scratch.path(if with { "with" } else { "without" });
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("text"), &lines).unwrap();
            let mut command = if with {
                scratch.command(&["prefetch", "run", "--", "sh", "-c", script])
            } else {
                let mut plain = Command::new("sh");
                plain.args(["-c", script]);
                plain
            };
            let output = command.current_dir(&folder).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            said.push((output.status.code(), text(&output.stdout), text(&output.stderr)));
        }
        assert_eq!(said[0], said[1], "{program}");
        assert!(!said[0].1.is_empty() || said[0].0 == Some(0), "{program}: {:?}", said[0]);
    }
}

#[test]
fn programs_in_which_it_cannot_act_are_named_and_run() {
    let scratch = Scratch::new();
    if !has("gcc") {
        println!("skipped: gcc is not here");
        return;
    }
    scratch.write("m.c", "int main(void) { return 9; }\n");
    let source = scratch.path("m.c");
    let program = scratch.path("static");
    let built = Command::new("gcc").arg("-static").arg("-o").arg(&program).arg(&source).output().unwrap();
    if !built.status.success() {
        println!("skipped: no static C library");
        return;
    }
    let ran = scratch.plumb(&["prefetch", "run", "--", program.to_str().unwrap()]);
    assert_eq!(ran.status, Some(9));
    assert!(ran.stderr.contains("statically"), "{}", ran.stderr);
    assert_eq!(scratch.plumb(&["prefetch", "run", "--quiet", "--", program.to_str().unwrap()]).stderr, "");
}

/// Programs with privileges, and programs of Go: each runs as it would, and is named.
#[test]
fn programs_with_privileges_and_of_go_are_named_and_run() {
    let scratch = Scratch::new();
    let refused = |program: &std::path::Path, why: &str| {
        let ran = scratch.plumb(&["prefetch", "run", "--", program.to_str().unwrap()]);
        assert_eq!(ran.status, Some(9), "{ran:?}");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    };
    let root = rustix::process::geteuid().is_root();
    if root && has("gcc") {
        scratch.write("m.c", "int main(void) { return 9; }\n");
        let build = |name: &str| {
            let program = scratch.path(name);
            assert!(Command::new("gcc").arg("-o").arg(&program).arg(scratch.path("m.c")).status().unwrap().success());
            program
        };
        let nobodys = build("nobodys");
        std::os::unix::fs::chown(&nobodys, Some(65534), None).unwrap();
        fs::set_permissions(&nobodys, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
        refused(&nobodys, "setuid");
        let groups = build("groups");
        fs::set_permissions(&groups, std::os::unix::fs::PermissionsExt::from_mode(0o2755)).unwrap();
        refused(&groups, "setgid");
        let capable = build("capable");
        // The kernel's own form: revision 2, effective, CAP_NET_BIND_SERVICE (bit 10).
        let mut capability = [0_u8; 20];
        (capability[0], capability[3], capability[5]) = (1, 2, 4);
        match rustix::fs::setxattr(&capable, "security.capability", &capability, rustix::fs::XattrFlags::CREATE) {
            Ok(()) => refused(&capable, "capabilities"),
            Err(error) => println!("skipped: no capabilities of files here ({error})"),
        }
    } else {
        println!("skipped: programs with privileges want root, and gcc");
    }
    if has("go") {
        scratch.write("m.go", "package main\nimport \"os\"\nfunc main() { os.Exit(9) }\n");
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(scratch.path("gopher")).arg(scratch.path("m.go"));
        let built = go.env("GOCACHE", scratch.path("cache")).env("GOFLAGS", "-mod=mod").output().unwrap();
        assert!(built.status.success(), "{built:?}");
        refused(&scratch.path("gopher"), "Go program");
    } else {
        println!("skipped: go is not here");
    }
}

#[test]
fn a_mapping_is_loaded_before_it_is_touched() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 48 * MIB);
    let plain = probe.plain(&["map", data.to_str().unwrap()]);
    let data = cold_file(&scratch, "data", 48 * MIB);
    let (ran, report) = run(&scratch, &[], &probe.command(&["map", data.to_str().unwrap(), "wait"]));
    assert_eq!(ran.stdout, plain);
    let (bulk, resident) = (report["bulk_loads"].as_u64().unwrap(), report["resident_bytes"].as_u64().unwrap());
    // Where the file system keeps everything in memory, there is nothing to load.
    assert!(bulk == 1 || resident >= 40 * MIB, "{report}");
}

#[test]
fn modes_and_patterns_decide_what_is_loaded() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let loaded = |options: &[&str], pattern: &str| {
        let data = cold_file(&scratch, "data", 16 * MIB);
        let (_, report) = run(&scratch, options, &probe.command(&[pattern, data.to_str().unwrap()]));
        let of = |name: &str| report[name].as_u64().unwrap();
        (of("requests"), of("loaded_bytes") + of("resident_bytes"))
    };
    assert_eq!(loaded(&["--mode", "app-only"], "stride"), (0, 0));
    assert_eq!(loaded(&["--mode", "os-only"], "stride"), (0, 0));
    assert_eq!(loaded(&["--exclude", "data"], "stride").1, 0);
    assert_eq!(loaded(&["--include", "*.sst"], "stride").1, 0);
    assert_eq!(loaded(&["--min-file", "1GiB"], "stride"), (0, 0));
    // On a busy machine, the program may end before anything is loaded for it.
    let loads = |options: &[&str]| (0..10).map(|_| loaded(options, "stride")).find(|(_, bytes)| *bytes > 0);
    assert!(loads(&["--include", "data"]).is_some());
    assert_eq!(loads(&["--mode", "fetchall+opt"]).unwrap().0, 1);
    scratch.write("profile.toml", "mode = \"app-only\"\n");
    assert_eq!(loaded(&["--profile", "profile.toml"], "stride"), (0, 0));
    assert!(loads(&["--profile", "profile.toml", "--mode", "predict"]).is_some());
}
