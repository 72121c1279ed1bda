//! Manual pages that man can read, and completions that shells can: what packages are made of.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::Scratch;

/// The output of a program, if it is here.
fn said(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let Ok(output) = Command::new(program).args(arguments).env("MANWIDTH", "100").output() else {
        println!("skipped: {program} is not here");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text))
}

#[test]
fn pages_are_there_for_each_command_and_man_reads_them() {
    let scratch = Scratch::new();
    let folder = scratch.path("pages");
    scratch.plumb(&["man", folder.to_str().unwrap()]).ok();
    let names: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // What units and pages of docs name among them.
    for page in ["plumb.1", "plumb-prefetch-run.1", "plumb-prefetch-agent.1", "plumb-defrag.1", "plumb-fs-mount.1"] {
        assert!(names.contains(page), "{page}: {names:?}");
    }
    for unit in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd")).unwrap() {
        let text = fs::read_to_string(unit.unwrap().path()).unwrap();
        let named = text.lines().filter_map(|line| line.strip_prefix("Documentation=")).flat_map(str::split_whitespace);
        for page in named.filter_map(|word| word.strip_prefix("man:")?.strip_suffix("(1)")) {
            assert!(names.contains(&format!("{page}.1")), "{page}: {names:?}");
        }
    }
    for name in &names {
        let path = folder.join(name);
        let Some((ok, text)) = said("man", &["--warnings", "--local-file", path.to_str().unwrap()]) else { return };
        assert!(ok && !text.contains("warning:"), "{name}: {text}");
        assert!(text.contains("NAME") && text.contains("SYNOPSIS"), "{name}: {text}");
    }
    assert!(names.len() > 40, "{names:?}");
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = scratch.plumb(&["completion", shell]).ok().stdout;
        let path = scratch.write(shell, &text);
        assert!(text.contains("prefetch") && text.contains("residency"), "{shell}");
        let Some((ok, complaints)) = said(shell, &["-n", path.to_str().unwrap()]) else { continue };
        assert!(ok && complaints.is_empty(), "{shell}: {complaints}");
    }
    let script = scratch.path("bash");
    let completes = format!(
        "source {}; COMP_WORDS=(plumb prefetch ''); COMP_CWORD=2; _plumb plumb '' prefetch; echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let Some((ok, words)) = said("bash", &["-c", &completes]) else { return };
    assert!(ok && ["run", "agent", "stats", "advise"].iter().all(|word| words.contains(word)), "{words}");
}
