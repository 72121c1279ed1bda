//! The programs to begin with do what they say. They are built with the tests, beside them.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// What a program of `examples` prints, line by line.
fn run(name: &str, arguments: &[&str]) -> Vec<String> {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    let output = Command::new(&program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}: {error} (cargo test --examples builds it)", program.display()));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn counters_add_up_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    assert_eq!(run("counters", &[store, "hits=3", "other=1", "hits=10"]), ["hits 13", "other 1"]);
    assert_eq!(run("counters", &[store, "hits=4"]), ["hits 17", "other 1"]);
    assert_eq!(run("counters", &[store]), ["hits 17", "other 1"]);
}

#[test]
fn an_index_agrees_with_what_it_is_of() {
    let expected = [
        "Bern: 267 people, 334 before",
        "Linz: 267 people, 333 before",
        "Nice: 266 people, 333 before",
        "Oslo: 200 people, 0 before",
        "1000 entries agree",
    ];
    assert_eq!(run("index", &[]), expected);
}

#[test]
fn a_queue_gives_each_item_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    assert_eq!(run("queue", &[store, "put", "a", "b", "c"]), ["3 wait"]);
    assert_eq!(run("queue", &[store, "take", "2"]), ["a", "b"]);
    assert_eq!(run("queue", &[store, "put", "d"]), ["2 wait"]);
    assert_eq!(run("queue", &[store, "take", "5"]), ["c", "d"]);
    assert!(run("queue", &[store, "take", "1"]).is_empty());
}
