//! What a hook costs a program whose file is in memory, in instructions, as Callgrind counts them.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use std::process::Command;

use common::Scratch;
use prefetch_rig::{Probe, cold_file, has};

/// Reads pages of a file as its second word says, as often as its third.
const HOT: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    static char page[4096];
    int fd = open(words[1], O_RDONLY);
    long pages = lseek(fd, 0, SEEK_END) / 4096, reads = atol(words[3]);
    unsigned long place = 1;
    if (count < 4 || fd < 0) return 1;
    for (long at = 0; at < reads; at++) {
        long first = at;
        if (words[2][0] == 's') first = at * 4;
        if (words[2][0] == 'b') first = pages - 1 - at;
        if (words[2][0] == 'r') {
            place = place * 6364136223846793005UL + 1442695040888963407UL;
            first = (long)(place >> 40) % pages;
        }
        if (pread(fd, page, 4096, first * 4096) != 4096) return 2;
    }
    return 0;
}
"#;

/// What is asked of a hook.
const MOST: u64 = 150;

/// Reads in each of two runs, whose difference is counted: what the start and the end cost is in both.
const READS: [u64; 2] = [4000, 12_000];

/// Of so many rounds the least is taken.
const ROUNDS: usize = 3;

/// Instructions of a run under these words.
fn instructions(scratch: &Scratch, before: &[&str], program: &[String]) -> u64 {
    let words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"].map(str::to_owned);
    let words: Vec<String> =
        before.iter().map(|word| (*word).to_owned()).chain(words).chain(program.iter().cloned()).collect();
    let output = if before.is_empty() {
        Command::new(&words[0]).args(&words[1..]).output().unwrap()
    } else {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        scratch.command(&words).output().unwrap()
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains("Collected :")).unwrap_or_else(|| panic!("{said}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_hook_takes_few_instructions() {
    let Some(probe) = Probe::compile_with("gcc", HOT) else { return };
    if !has("valgrind") {
        println!("skipped: valgrind is not here");
        return;
    }
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 256 << 20);
    std::io::copy(&mut std::fs::File::open(&data).unwrap(), &mut std::io::sink()).unwrap();
    let data = data.to_str().unwrap();
    for (mode, pattern) in [
        ("predict+opt", "forward"),
        ("predict+opt", "strided"),
        ("predict+opt", "backward"),
        ("predict+opt", "random"),
        ("budget", "random"),
        ("budget", "strided"),
    ] {
        let of_each = |before: &[&str]| {
            let run = |reads: u64| instructions(&scratch, before, &probe.command(&[data, pattern, &reads.to_string()]));
            (run(READS[1]) - run(READS[0])) / (READS[1] - READS[0])
        };
        let plain = of_each(&[]);
        // On a busy machine the executor answers late, and the hook looks at more reads meanwhile.
        let hooked = (0..ROUNDS).map(|_| of_each(&["prefetch", "run", "--mode", mode, "--"])).min().unwrap();
        assert!(hooked > plain, "{pattern} {mode}: nothing was hooked");
        let cost = hooked - plain;
        println!("{pattern} reads under {mode}: {cost} instructions");
        assert!(cost <= MOST, "{pattern} {mode}: {cost} instructions");
    }
}
