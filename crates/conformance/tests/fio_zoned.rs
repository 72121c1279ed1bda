//! fio's own suite for zoned devices (`t/zbd/test-zbd-support`) on a served namespace, beside the kernel's own target.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{guest, judge_long, transcript};
use conformance::{Error, Series, fio_source};

/// 160 zones of 16 MiB with a capacity of 12 MiB, at most 14 open: both devices.
///
/// Without native multipath, because the suite sets the I/O scheduler, which a multipath device does not have.
const SERVED: &str = "\
need core modprobe nvme_core multipath=0
need modules modprobe -a nvme-tcp mq-deadline
nqn=nqn.2014-08.org.example:zoned
serve zoned --device wd-zn540 --set namespaces=[160] --set zone.size=\"16MiB\" --set zone.capacity=\"12MiB\" \
--set geometry.pages_per_block=12 --nvme-tcp tcp:4420 --nqn $nqn
need attach attach $nqn
limit_s=2400
check suite fio_zoned_tests $(fabric $nqn)
check detach detach $nqn
unserve zoned
";

const KERNELS_OWN: &str = "\
need null_blk modprobe null_blk nr_devices=0
need core modprobe nvme_core multipath=0
need modules modprobe -a nvme-tcp nvmet-tcp mq-deadline
nqn=nqn.2014-08.org.example:zoned
need device null_block zoned 2560 4096 zoned=1 zone_size=16 zone_capacity=12 zone_max_open=14 zone_max_active=14
need target nvmet $nqn /dev/zoned 4420
need attach attach $nqn
limit_s=2400
check suite fio_zoned_tests $(fabric $nqn)
check detach detach $nqn
";

/// Test numbers and their outcomes: `PASS`, `FAIL`, or `SKIP` with the reason.
fn outcomes(output: &str) -> BTreeMap<u32, String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("Running test ")?.split_once(" ... "))
        .filter_map(|(number, outcome)| Some((number.trim().parse().ok()?, outcome.trim().to_owned())))
        .collect()
}

fn suite(name: &str, script: &str) -> Result<BTreeMap<u32, String>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let tests = fio_source::zoned_tests(folder.path())?;
    let guest = guest(Series::V6_12)?.file("zbd", tests).time_limit(Duration::from_secs(3000));
    let report = guest.run(script, &transcript(name))?;
    assert_eq!(report.complaints(), Vec::<String>::new(), "{name}");
    for check in report.checks().iter().filter(|check| check.name != "suite") {
        assert!(check.failure.is_none(), "{name}: {check:?}");
    }
    let outcomes = outcomes(&report.output("suite")?);
    let count = |word: &str| outcomes.values().filter(|outcome| outcome.starts_with(word)).count();
    println!("{name}: {} passed, {} failed, {} skipped", count("PASS"), count("FAIL"), count("SKIP"));
    Ok(outcomes)
}

#[test]
fn every_test_that_passes_on_the_kernels_own_target_passes_here() {
    judge_long(|| {
        let theirs = suite("fio-zoned-kernel", KERNELS_OWN)?;
        let ours = suite("fio-zoned-plumb", SERVED)?;
        assert!(ours.len() >= 50, "the suite stopped early: {ours:?}");
        let mut worse = Vec::new();
        for (number, outcome) in &ours {
            let their = theirs.get(number).map_or("did not run", String::as_str);
            if !outcome.starts_with("PASS") {
                println!("test {number}: {outcome} (the kernel's target: {their})");
            }
            if outcome.starts_with("FAIL") && !their.starts_with("FAIL") {
                worse.push(*number);
            }
        }
        assert_eq!(worse, Vec::<u32>::new(), "tests that fail on Plumb's target alone");
        Ok(())
    });
}
