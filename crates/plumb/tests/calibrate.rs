//! `plumb calibrate device`: a profile out of fio's results, from the command line.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Ran, Scratch};

const JOBS: &str = "[global]\nioengine=libaio\ndirect=1\nstonewall\nnorandommap\ntime_based\nruntime=1s\n\
    [a]\nrw=randread\nbs=4k\n[b]\nrw=read\nbs=512k\n[c]\nrw=write\nbs=512k\n[d]\nrw=randwrite\nbs=4k\n";

/// fio's results on a card with a slower bus than the built-in one.
fn measured(scratch: &Scratch) {
    scratch.write("jobs.fio", JOBS);
    let slower = "stack.device_set.bus.bandwidth=\"60MB\"";
    let run =
        scratch.plumb(&["run", "jobs.fio", "--device", "microsd-evo-128gb", "--set", slower, "--json", "-q"]).ok();
    scratch.write("fio.json", run.stdout);
}

#[test]
fn a_profile_comes_out_of_fios_results() {
    let scratch = Scratch::new();
    measured(&scratch);
    let fit = scratch.plumb(&["calibrate", "device", "--from", "fio.json", "--out", "mine.toml", "-q"]).ok();
    for part in ["microsd-evo-128gb, the nearest", "bus.bandwidth", "within", "errors of rates", "mine.toml"] {
        assert!(fit.stdout.contains(part), "no `{part}` in\n{}", fit.stdout);
    }
    // It is a profile as any other, and does what was measured.
    scratch.plumb(&["validate", "mine.toml", "--data", "fio.json", "--within", "3", "-q"]).ok();
    let shown = scratch.plumb(&["show", "mine.toml"]).ok().stdout;
    assert!(shown.contains("fitted to fio.json"), "{shown}");
    // What is there stays there.
    let again = ["calibrate", "device", "--from", "fio.json", "--out", "mine.toml", "-q"];
    scratch.plumb(&again).fails(2, &["mine.toml is already there"]);
    let json = scratch.plumb(&["calibrate", "device", "--from", "fio.json", "--base", "mine.toml", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["base"], "mine");
    let fits = json["fits"].as_array().unwrap();
    assert!(fits.iter().any(|fit| fit["keys"][0] == "bus.bandwidth" && fit["told"] == "fitted"), "{fits:?}");
    assert!(json["profile"].as_str().unwrap().contains("kind = \"card\""));
}

#[test]
fn what_cannot_be_fitted_is_bad_input() {
    let scratch = Scratch::new();
    measured(&scratch);
    scratch.write("empty.csv", "op,bs,iodepth,iops\n");
    scratch.write("broken.json", "{\"jobs\": [");
    scratch.write("twice.csv", "op,bs,iodepth,iops\nrandread,4k,1,1000\nrandread,4k,1,2000\n");
    for (arguments, parts) in [
        ("--from nothing.json", &["nothing.json"][..]),
        ("--from broken.json", &["broken.json", "fio"]),
        ("--from empty.csv", &["0 of 0 measurements"]),
        ("--from fio.json --out mine", &["ends in .toml"]),
        ("--from fio.json --out no/mine.toml", &["there is no folder no"]),
        ("--from fio.json --base wd-zn540", &["has zones", "--base"]),
        ("--from fio.json --base microsd-evo", &["did you mean `microsd-evo-128gb`"]),
        ("--from fio.json --set lba=512", &["--base"]),
        ("--from fio.json --host spdk", &["--host spdk is for zoned devices"]),
    ] {
        let arguments: Vec<&str> = ["calibrate", "device", "-q"].into_iter().chain(arguments.split(' ')).collect();
        scratch.plumb(&arguments).fails(2, parts);
    }
    let two = ["calibrate", "device", "-q", "--from", "twice.csv", "--base", "microsd-evo-128gb", "--within", "10"];
    scratch.plumb(&two).fails(1, &["OFF", "more than 10 %"]);
    assert!(!scratch.path("mine.toml").exists());
}

/// The real fio on a served card whose commands take so long that the machine's own time does not count.
#[test]
fn a_served_card_is_found_by_the_real_fio() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        return println!("skipped: PLUMB_LONG=1 runs fio for a quarter of a minute");
    }
    match Command::new("fio").arg("--enghelp=nbd").output() {
        Ok(output) if output.status.success() => {}
        _ => return println!("skipped: no fio with the nbd engine here"),
    }
    let scratch = Scratch::new();
    let serve = ["serve", "--device", "microsd-evo-128gb", "--set", "controller.command_overhead=\"20ms\"", "--nbd"];
    let arguments: Vec<&str> = serve.into_iter().chain(["unix:nbd", "--no-calibration"]).collect();
    let mut server = scratch.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ready at ")), "it does not come up");
    let jobs = format!(
        "[global]\nioengine=nbd\nuri=nbd+unix:///?socket={}\nstonewall\nnorandommap\ntime_based\nruntime=4s\n\
        [a]\nrw=randread\nbs=4k\n[b]\nrw=read\nbs=512k\n[c]\nrw=randwrite\nbs=4k\nsize=1g\n",
        scratch.path("nbd").display()
    );
    scratch.write("live.fio", jobs);
    let mut fio = Command::new("fio");
    fio.current_dir(scratch.path("")).args(["--output-format=json+", "--output=live.json", "live.fio"]);
    let ran = Ran::of(fio.output().unwrap());
    server.kill().unwrap();
    server.wait().unwrap();
    ran.ok();
    let fit = ["calibrate", "device", "--from", "live.json", "--base", "microsd-evo-128gb", "--json", "--within", "10"];
    let fit = scratch.plumb(&fit).ok();
    let json: serde_json::Value = serde_json::from_str(&fit.stdout).unwrap();
    let law = json["fits"].as_array().unwrap().iter().find(|fit| fit["keys"][0] == "controller.command_overhead");
    let factor = law.unwrap()["factor"].as_f64().unwrap();
    println!("command overhead: 230 us x {factor}");
    assert!((factor * 0.230 / 20.0 - 1.0).abs() < 0.2, "20 ms were served, {} ms found", factor * 0.230);
}
