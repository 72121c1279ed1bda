//! The rig itself: healthy guests pass, broken ones are noticed, and servers of other people pass the checks that judge Plumb.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{judge, judge_long, run, transcript};
use conformance::{Ending, Error, Guest, Kernel, Series};

#[test]
fn a_panic_a_failed_check_and_a_hang_are_noticed() {
    judge(|| {
        let guest = Guest::new(&Kernel::fetch(Series::V6_12)?);
        let script = "check good true\ncheck bad false\nrefused accepted true\nlimit_s=1 check slow sleep 5\n\
                      echo c >/proc/sysrq-trigger\nsleep 60";
        let folder = transcript("rig-panic");
        let error = guest.run(script, &folder).unwrap_err();
        let Error::Guest { ending, tail, .. } = error else { return Err(error) };
        assert_eq!(ending, Ending::Died, "{tail}");
        let report = conformance::Report::read(&folder)?;
        assert!(report.passed("good") && !report.passed("bad") && !report.passed("accepted") && !report.passed("slow"));
        assert!(report.complaints().iter().any(|line| line.contains("Kernel panic")), "{:?}", report.complaints());
        Ok(())
    });
}

#[test]
fn a_guest_that_never_ends_is_ended() {
    judge_long(|| {
        let guest = Guest::new(&Kernel::fetch(Series::V6_12)?).time_limit(Duration::from_secs(30));
        let error = guest.run("check good true\nsleep 1000", &transcript("rig-hang")).unwrap_err();
        assert!(matches!(error, Error::Guest { ending: Ending::TimedOut(_), .. }), "{error}");
        Ok(())
    });
}

/// The zoned namespace of QEMU: another implementation of the same specification passes the checks for Plumb's.
#[test]
fn qemus_zoned_namespace_passes_the_checks_of_zones() {
    judge_long(|| {
        for series in Series::ALL {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("zoned.img");
            std::fs::File::create(&image).unwrap().set_len(2 << 30).unwrap();
            let drive = format!("if=none,id=zoned,format=raw,file={}", image.display());
            let namespace = "nvme-ns,drive=zoned,bus=controller,zoned=on,zoned.zone_size=64M,zoned.zone_capacity=48M,\
                             zoned.max_open=14,zoned.max_active=14,logical_block_size=4096,physical_block_size=4096";
            let guest = Guest::new(&Kernel::fetch(series)?).qemu(&[
                "-drive",
                &drive,
                "-device",
                "nvme,id=controller,serial=1",
                "-device",
                namespace,
            ]);
            // zonefs of 6.1.0-56 does not find an append's place right, here either.
            let file_systems = if series == Series::V6_1 { "btrfs f2fs" } else { "btrfs f2fs zonefs" };
            let script = format!(
                "need modules modprobe -a nvme null_blk\n\
                 without=changed-zone-list zoned_commands /dev/nvme0n1\n\
                 need conventional null_block conventional 512 4096\n\
                 zoned_filesystems /dev/nvme0n1 /dev/conventional {file_systems}"
            );
            let report = run(&guest, &format!("rig-qemu-zoned-{series}"), &script)?;
            assert_eq!(report.value("model")?, "host-managed");
        }
        Ok(())
    });
}
