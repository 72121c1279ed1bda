//! How many states of a folder of `plumb crash` are judged without a kernel a second, on one thread or more.
//!
//! `cargo run --release -p plumb-ext4-states --example rate FOLDER STATES [streams|volatile-cache [THREADS]]`

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use crash::{LogReader, Rule, Streams, VolatileCache};
use ext4_states::{Judgement, judge};
use observe::calls::Followed;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (folder, states) = (Path::new(&words[0]), words[1].parse().unwrap());
    let log = LogReader::read(BufReader::new(File::open(folder.join("writes.log")).unwrap())).unwrap();
    let recorded: serde_json::Value =
        serde_json::from_reader(File::open(folder.join("recorded.json")).unwrap()).unwrap();
    let calls = Followed::read(BufReader::new(File::open(folder.join("calls.jsonl")).unwrap())).unwrap().calls;
    let parts = tempfile::tempdir().unwrap();
    let judgement = Judgement {
        log: &log,
        from: log.entries_at(recorded["began_bytes"].as_u64().unwrap()),
        device: recorded["device"].as_u64().unwrap(),
        calls: Some(&calls),
        fsck: true,
        scripts: None,
        atomic_bytes: 4096,
        states,
        seed: 1,
        shown_max: 3,
        threads: words.get(3).map_or(1, |threads| threads.parse().unwrap()),
        folder: parts.path(),
        name: "rate",
        defect: None,
    };
    match words.get(2).map(String::as_str) {
        Some("volatile-cache") => rate(&judgement, &VolatileCache::default()),
        _ => rate(&judgement, &Streams::new(log.log.unit_bytes())),
    }
}

fn rate<R: Rule + Sync>(judgement: &Judgement<'_>, rule: &R) {
    let begin = Instant::now();
    let (counts, shown) = judge(judgement, rule, &|| false, &mut |_| {}).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    println!("{counts:?}");
    for bad in shown.iter().take(5) {
        println!("{bad:?}");
    }
    let rate = |count: u64| count as f64 / seconds;
    println!("{:.0} states a second, {:.0} distinct ones", rate(counts.generated), rate(counts.distinct));
}
