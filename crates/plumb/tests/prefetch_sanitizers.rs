//! Hostile programs, and the preload library inside of them, watched by the sanitizers of addresses and of threads.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Scratch;
use prefetch_rig::{HOSTILE, Probe, cold_file, run};

const MIB: u64 = 1 << 20;

/// The sanitizer has to be there before the library is: it is in the program.
const THREADS: [&str; 3] = ["-fsanitize=thread", "-static-libtsan", "-rdynamic"];

/// The library as the build script compiles it, but for the sanitizer that watches it; none, said, where the compiler has none.
/// What it calls of that the program brings: the interfaces of both compilers' sanitizers are one.
fn watched_library(scratch: &Scratch, crates: &Path, sanitizer: &str) -> Option<PathBuf> {
    let library = scratch.path("libwatched.so");
    let source = crates.join("prefetcher/src/preload/root.rs");
    let mut compiler = Command::new("rustc");
    compiler.env("RUSTC_BOOTSTRAP", "1").args(["--crate-name", "plumb_prefetch", "--crate-type", "cdylib"]);
    compiler.args(["--edition", "2024", "--cfg", "plumb_preload", "--cap-lints", "allow", "-g"]);
    for option in ["opt-level=3", "lto=fat", "codegen-units=1", "panic=abort", "force-unwind-tables=yes"] {
        compiler.args(["-C", option]);
    }
    compiler.args(["-C", "unsafe-allow-abi-mismatch=sanitizer", &format!("-Zsanitizer={sanitizer}")]);
    let output = compiler.arg("-o").arg(&library).arg(source).output();
    if !output.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: rustc has no such sanitizer here: {output:?}");
        return None;
    }
    Some(library)
}

/// The folder of all crates.
fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program with this library instead of the launcher's own.
fn under(library: &Path, probe: &Probe, arguments: &[&str]) -> Vec<String> {
    let words = ["env".to_owned(), format!("LD_PRELOAD={}", library.display())];
    words.into_iter().chain(probe.command(arguments)).collect()
}

/// Processor time of all programs that this one has waited for (`cutime`, `cstime` of proc(5), in hundredths of a second).
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks = after_name.split_whitespace().skip(13).take(2).map(|field| field.parse::<u64>().unwrap()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// Runs every hostile program once: how often a file was read.
fn round(probe: &Probe, library: &Path, mode: &str) -> u64 {
    let scratch = Scratch::new();
    let mut accesses = 0;
    // The end of a filtered process is reported by a sanitizer in ways of its own.
    for pattern in HOSTILE.into_iter().filter(|pattern| !["seccomp", "unshare"].contains(pattern)) {
        let data = cold_file(&scratch, "data", 4 * MIB);
        let plain = probe.plain(&[pattern, data.to_str().unwrap()]);
        let data = cold_file(&scratch, "data", 4 * MIB);
        let words = under(library, probe, &[pattern, data.to_str().unwrap()]);
        let (ran, report) = run(&scratch, &["--mode", mode], &words);
        assert_eq!((ran.stdout, ran.stderr.as_str()), (plain, ""), "{pattern} {mode}: {report}");
        accesses += report["accesses"].as_u64().unwrap();
    }
    accesses
}

/// The hostile programs under these options of gcc's, for ten seconds; in the long suite several at once, since they wait for storage
/// most of their time, until those of all tests had a processor for an hour.
fn nothing_is_found(sanitizer: &str, options: &[&str]) {
    let scratch = Scratch::new();
    let Some(probe) = Probe::sanitized(options) else { return };
    let Some(library) = watched_library(&scratch, &crates(), sanitizer) else { return };
    let (rounds, accesses, begun) = (AtomicUsize::new(0), AtomicU64::new(0), Instant::now());
    let is_over = || match std::env::var_os("PLUMB_LONG") {
        Some(_) => processor_time() >= Duration::from_hours(1),
        None => begun.elapsed() >= Duration::from_secs(10),
    };
    let at_once = if std::env::var_os("PLUMB_LONG").is_some() { 6 } else { 1 };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let mode = ["predict+opt", "budget", "fetchall+opt"][rounds.fetch_add(1, Ordering::Relaxed) % 3];
                    accesses.fetch_add(round(&probe, &library, mode), Ordering::Relaxed);
                    if is_over() {
                        break;
                    }
                }
            });
        }
    });
    let (rounds, accesses) = (rounds.into_inner(), accesses.into_inner());
    println!("{sanitizer}: {rounds} rounds, {accesses} accesses, {:?} of all tests on a processor", processor_time());
    assert!(accesses > 0, "the library was not in the program");
}

#[test]
fn the_sanitizer_of_addresses_finds_nothing() {
    nothing_is_found("address", &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
}

#[test]
fn the_sanitizer_of_threads_finds_nothing() {
    nothing_is_found("thread", &THREADS);
}

/// A lock that lets everybody in is a race that the sanitizer of threads tells.
#[test]
fn a_lock_that_locks_nothing_is_found() {
    let scratch = Scratch::new();
    let Some(probe) = Probe::sanitized(&THREADS) else { return };
    let copied = scratch.path("crates");
    for part in ["prefetcher/src", "prefetch/src"] {
        std::fs::create_dir_all(copied.join(part).parent().unwrap()).unwrap();
        let status = Command::new("cp").arg("-r").arg(crates().join(part)).arg(copied.join(part)).status();
        assert!(status.unwrap().success());
    }
    let file = copied.join("prefetcher/src/shared/file.rs");
    let right = std::fs::read_to_string(&file).unwrap();
    let lock = "self.lock.compare_exchange(free, held, Ordering::Acquire, Ordering::Relaxed).ok()?;";
    assert_eq!(right.matches(lock).count(), 1, "the line that takes the lock reads otherwise now");
    std::fs::write(&file, right.replace(lock, "")).unwrap();
    let Some(library) = watched_library(&scratch, &copied, "thread") else { return };
    let data = cold_file(&scratch, "data", 4 * MIB);
    let words = under(&library, &probe, &["threads", data.to_str().unwrap()]);
    let words: Vec<&str> = ["prefetch", "run", "--"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let ran = scratch.plumb(&words);
    assert!(ran.stderr.contains("WARNING: ThreadSanitizer: data race"), "{:?} {}", ran.status, ran.stderr);
}
