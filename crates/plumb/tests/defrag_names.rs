//! Names that would command a terminal, through everything that `plumb defrag` says.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use common::disk::Disk;
use common::{Scratch, fragmented};
use serde_json::Value;

/// A title for the window, red, a line that looks like a server's, right to left, a control sequence in one character,
/// and a byte that is not UTF-8.
const HOSTILE: &[u8] =
    b"a\x1b]0;pwned\x07\x1b[31m\nready at dev loop0\r\xe2\x80\xae\xc2\x9b2J\xe2\x80\x8b <b>&\"\\\xff";

/// The same, where only text is allowed.
const HOSTILE_TEXT: &str = "t\u{1b}]0;pwned\u{7}\u{1b}[31m\nready at /dev/loop0\r\u{202e}\u{9b}2J\u{7f}";

fn hostile(before: &str) -> OsString {
    let mut name = OsString::from(before);
    name.push(OsStr::from_bytes(HOSTILE));
    name
}

/// Nothing but what has a look of its own, on lines of Plumb's own making.
#[track_caller]
fn harmless(what: &str, text: &[u8]) -> String {
    let text = std::str::from_utf8(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    for character in text.chars() {
        assert!(character == '\n' || units::is_plain(character), "{what}: {character:?} in {text:?}");
    }
    assert!(!text.lines().any(|line| line.starts_with("ready at")), "{what}: a forged line in\n{text}");
    text.to_owned()
}

/// Runs `plumb defrag` with the words, of which `names` take the place of `@`; its output, and standard output alone.
#[track_caller]
fn said(scratch: &Scratch, words: &str, names: &[&OsStr], status: i32) -> (String, String) {
    let mut command = scratch.command(&["defrag"]);
    let mut names = names.iter();
    for word in words.split(' ') {
        command.arg(if word == "@" { names.next().unwrap() } else { OsStr::new(word) });
    }
    let output = command.output().unwrap();
    let (out, errors) = (harmless(words, &output.stdout), harmless(words, &output.stderr));
    assert_eq!(output.status.code(), Some(status), "{words}:\n{out}{errors}");
    (format!("{out}{errors}"), out)
}

#[test]
fn every_output_is_harmless() {
    let scratch = Scratch::new();
    let disk = match Disk::new(&scratch, "mkfs.ext4") {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let folder = disk.place.join(hostile("folder "));
    fs::create_dir(&folder).unwrap();
    let (file, fixed) = (folder.join(hostile("file ")), folder.join(hostile("fixed ")));
    fragmented(&file);
    fragmented(&fixed);
    fs::create_dir(folder.join(hostile("sub"))).unwrap();
    let tmpfs = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(folder.join(hostile("sub"))).status().unwrap();
    assert!(tmpfs.success());
    let attribute = |how: &str| assert!(Command::new("chattr").arg(how).arg(&fixed).status().unwrap().success());
    attribute("+i");
    let place = folder.as_os_str();
    let page = hostile("page ");

    let (scan, _) = said(&scratch, "scan @ --html @", &[place, &page], 0);
    let look =
        "file a\\u{1b}]0;pwned\\u{7}\\u{1b}[31m\\nready at dev loop0\\r\\u{202e}\\u{9b}2J\\u{200b} <b>&\"\\\\\\xff";
    assert!(scan.contains(look) && scan.contains("immutable"), "{scan}");
    let page = fs::read(scratch.path("").join(&page)).unwrap();
    let page = harmless("the page", &page);
    assert!(page.contains("pwned\\u{7}") && page.contains("&lt;b&gt;&amp;&quot;"), "{page}");
    let (_, json) = said(&scratch, "scan @ --json", &[place], 0);
    let scanned: Value = serde_json::from_str(&json).unwrap();
    let path: Vec<u8> = serde_json::from_value(scanned["plan"]["files"][0]["path"].clone()).unwrap();
    assert_eq!(Path::new(OsStr::from_bytes(&path)), file);

    for words in ["run @ --dry-run", "run @ --dry-run --verbose", "run @ --dry-run --json", "run @ --dry-run -q"] {
        let (text, out) = said(&scratch, words, &[place], 0);
        assert!(text.contains("immutable"), "{words}: {text}");
        assert!(!words.contains("json") || serde_json::from_str::<Value>(&out).is_ok(), "{words}: {out}");
    }

    // A trace of it, by its own kind of file; and what is wrong with such files.
    let trace = hostile("trace ");
    let text = format!(
        "{{\"header\":{{\"version\":1,\"source\":\"bpf\"}}}}\n{{\"file\":{{\"device\":\"7:250\",\"inode\":12,\"path\":{}}}}}\n\
         {{\"access\":{{\"file\":0,\"kind\":\"direct-read\",\"start\":0,\"length\":4096,\"count\":1}}}}\n\
         {{\"end\":{{\"files\":1,\"accesses\":1,\"lost\":0,\"unresolved\":0}}}}\n",
        serde_json::to_string(HOSTILE_TEXT).unwrap()
    );
    scratch.write("source", &text);
    fs::write(scratch.path("").join(&trace), &text).unwrap();
    let (gone, _) = said(&scratch, "scan --trace @", &[&trace], 0);
    assert!(gone.contains("t\\u{1b}]0;pwned"), "{gone}");
    said(&scratch, "run --trace @", &[&trace], 0);
    said(&scratch, "run --trace @ --json -q", &[&trace], 0);
    said(&scratch, "verify --trace @", &[&trace], 2);
    said(&scratch, "trace --merge @ @ --out @", &[&trace, &trace, &hostile("merged ")], 0);
    for (number, garbage) in [
        format!("{HOSTILE_TEXT}\n"),
        format!("{{\"header\":{{\"version\":1,{}:0}}}}\n", serde_json::to_string(HOSTILE_TEXT).unwrap()),
        text.replace("direct-read", "direct-\\u001b[31m\\u009b"),
        text.replace("7:250", "7\\u001b[31m\\u202e"),
    ]
    .iter()
    .enumerate()
    {
        let name = hostile(&format!("garbage {number} "));
        fs::write(scratch.path("").join(&name), garbage).unwrap();
        let (text, _) = said(&scratch, "scan --trace @", &[&name], 2);
        assert!(text.contains("pwned") && text.contains("line"), "{text}");
    }
    let log =
        format!("fio version 2 iolog\n{0} add\n{0} open\n{0} read 0 4096\n{0} close\n", "/no\u{1b}[31m\u{9b}\u{202e}");
    let name = hostile("log ");
    fs::write(scratch.path("").join(&name), log).unwrap();
    said(&scratch, "trace --from-iolog @ --out @", &[&name, &hostile("of log ")], 0);
    fs::write(scratch.path("").join(&name), format!("1 openat(AT_FDCWD, \"{HOSTILE_TEXT}\", O_RDONLY) = 3\n")).unwrap();
    let strace = scratch.command(&["defrag", "trace", "--out", "x", "--from-strace"]).arg(&name).output().unwrap();
    harmless("strace", &strace.stdout);
    harmless("strace", &strace.stderr);
    said(&scratch, "scan @", &[&hostile("nowhere ")], 2);
    said(&scratch, "scan --trace @", &[&hostile("nowhere ")], 2);
    said(&scratch, "run @ --journal @", &[place, &name], 2);
    said(&scratch, "trace --path @ --out x", &[&hostile("nowhere ")], 2);
    said(&scratch, "trace --cgroup @ --out x", &[&hostile("nowhere ")], 2);

    // On a terminal there is progress too: everything that is escaped there is Plumb's own.
    let line = format!("{} defrag run . --dry-run -v", env!("CARGO_BIN_EXE_plumb"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).current_dir(&folder).stdin(Stdio::null());
    match terminal.output() {
        Ok(output) => {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("pwned") && !text.contains("\u{1b}]0;") && !text.contains('\u{9b}'), "{text:?}");
        }
        Err(error) => eprintln!("skipped: script: {error}"),
    }

    // And moved, with a journal that is gone on with, put aside and finished.
    let (journal, report) = (hostile("journal "), hostile("report "));
    let words = "run @ --journal @ --report @ --budget 200KiB -q";
    let (text, _) = said(&scratch, words, &[place, &journal, &report], 0);
    assert!(text.contains("fixed a\\u{1b}") && text.contains("immutable"), "-q hides why: {text}");
    let text = harmless("report", &fs::read(scratch.path("").join(&report)).unwrap());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["skipped"][0]["reason"], "refused", "{report:#}");
    let (text, out) = said(&scratch, "run @ --journal @ --json", &[place, &journal], 0);
    assert!(text.contains("is finished; a plan of its own"), "{text}");
    let moved: Value = serde_json::from_str(&out).unwrap();
    let path: Vec<u8> = serde_json::from_value(moved["files"][0]["path"].clone()).unwrap();
    assert_eq!(OsString::from_vec(path), file.as_os_str());
    said(&scratch, "run --journal @", &[&journal], 0);
    attribute("-i");
    assert!(Command::new("umount").arg(folder.join(hostile("sub"))).status().unwrap().success());
}
