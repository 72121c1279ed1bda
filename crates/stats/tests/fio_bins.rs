//! Real fio as the judge of the bins that bear its name.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use stats::Histogram;
use units::Nanos;

/// The keys of all `bins` objects in fio's json+ output.
fn bin_names(json: &str) -> Vec<u64> {
    let objects = json.split("\"bins\" : {").skip(1).map(|rest| rest.split('}').next().unwrap());
    objects.flat_map(|object| object.split('"').skip(1).step_by(2)).map(|key| key.parse().unwrap()).collect()
}

#[test]
fn fio_names_bins_as_we_do() {
    // Blocks of very different lengths, for latencies over many bins.
    let workload = ["--name=job", "--filename=/dev/zero", "--size=64m", "--bsrange=512-1m", "--rw=read"];
    let arguments = [&workload[..], &["--ioengine=psync", "--output-format=json+"]].concat();
    let Ok(output) = Command::new("fio").args(arguments).output() else {
        eprintln!("skipped: needs fio (apt-get install fio)");
        return;
    };
    let names = bin_names(&String::from_utf8(output.stdout).unwrap());
    assert!(names.len() > 20, "fio printed only {} bins", names.len());
    for name in names {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(name));
        assert_eq!(histogram.fio_bins(), [(name, 1)]);
    }
}
