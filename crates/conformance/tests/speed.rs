//! Plumb's NVMe/TCP target beside the kernel's own (`nvmet` over `null_blk`) in one guest: a table, no timed assertion.
//!
//! Both run on the same two emulated processors with the same client; the numbers mean nothing beyond their ratio.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{judge_long, run};
use conformance::plumb::{self, Profile};
use conformance::{Error, Guest, Kernel, Report, Series};

const SCRIPT: &str = "\
need null_blk modprobe null_blk nr_devices=0
need modules modprobe -a nvme-tcp nvmet-tcp
job() {
    fio --name=$1 --filename=$2 --rw=$3 --bs=4k --iodepth=$4 --size=256m --direct=1 --ioengine=io_uring --thread \
        --time_based --ramp_time=1 --runtime=${run_s:-4} --output-format=json
}
jobs() {
    local what=$1 device=$2 rw depth
    for rw in randread randwrite; do
        for depth in 1 32; do
            check $what-$rw-$depth job $what $device $rw $depth
        done
    done
}
port=4420
for delay_us in 0 80; do
    kernel=nqn.2014-08.org.example:kernel-$delay_us
    need null-$delay_us null_block null$delay_us 512 4096 memory_backed=0 irqmode=2 completion_nsec=$((delay_us * 1000))
    need target-$delay_us nvmet $kernel /dev/null$delay_us $port
    need attach-kernel-$delay_us attach $kernel --nr-io-queues=2
    jobs kernel-$delay_us $(fabric $kernel)
    check detach-kernel-$delay_us detach $kernel
    port=$((port + 1))
    plumb=nqn.2014-08.org.example:plumb-$delay_us
    fixed_target $port $plumb ${delay_us}us 512MiB >/share/out/serve-$delay_us 2>&1 &
    server=$!
    need ready-$delay_us eventually 30 grep -q '^ready at' /share/out/serve-$delay_us
    need attach-plumb-$delay_us attach $plumb --nr-io-queues=2
    jobs plumb-$delay_us $(fabric $plumb)
    check detach-plumb-$delay_us detach $plumb
    kill -TERM $server
    wait $server
    port=$((port + 1))
done
";

/// Mean latency in us and thousands of I/Os a second of a fio job.
fn figures(report: &Report, name: &str, read: bool) -> Result<(f64, f64), Error> {
    let json = report.json(name)?;
    let side = &json["jobs"][0][if read { "read" } else { "write" }];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    Ok((number(&side["lat_ns"]["mean"]) / 1e3, number(&side["iops"]) / 1e3))
}

#[test]
fn beside_the_kernels_own_target() {
    judge_long(|| {
        let server = plumb::example("plumb-conformance", "fixed_target", Profile::Release)?;
        let guest = Guest::new(&Kernel::fetch(Series::V6_12)?).program(server).time_limit(Duration::from_secs(600));
        let report = run(&guest, "speed", SCRIPT)?;
        println!(
            "{:12} {:>6} {:>28} {:>34}",
            "device", "", "mean latency at depth 1, us", "thousand I/Os a second at depth 32"
        );
        println!(
            "{:12} {:>6} {:>9} {:>9} {:>8} {:>14} {:>9} {:>8}",
            "", "", "kernel", "Plumb", "ratio", "kernel", "Plumb", "ratio"
        );
        for delay_us in [0, 80] {
            for (direction, read) in [("randread", true), ("randwrite", false)] {
                let at =
                    |who: &str, depth: u32| figures(&report, &format!("{who}-{delay_us}-{direction}-{depth}"), read);
                let (kernel, plumb) = (at("kernel", 1)?.0, at("plumb", 1)?.0);
                let (kernel_k, plumb_k) = (at("kernel", 32)?.1, at("plumb", 32)?.1);
                println!(
                    "{:12} {:>6} {kernel:9.0} {plumb:9.0} {:7.2}x {kernel_k:14.1} {plumb_k:9.1} {:7.2}x",
                    format!("{delay_us} us"),
                    &direction[4..],
                    plumb / kernel,
                    plumb_k / kernel_k,
                );
                assert!([kernel, plumb, kernel_k, plumb_k].iter().all(|figure| *figure > 0.0), "a job did nothing");
            }
        }
        Ok(())
    });
}
