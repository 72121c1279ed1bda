//! Clients that others wrote judge the server: libnbd, QEMU and fio.

use std::fs;

use crate::common::{Served, Setting, must, null_device, tool};
use ssd::NullDevice;
use units::Nanos;

/// Bytes that differ everywhere, so that a misplaced block shows.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

#[test]
fn nbdinfo_sees_the_export() {
    let served = Served::null(Setting::default(), 64);
    let Some(text) = must("nbdinfo", &[&served.uri()]) else { return };
    for line in [
        "newstyle-fixed",
        "using structured packets",
        "export-size: 67108864",
        "is_read_only: false",
        "is_rotational: false",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "can_df: true",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    must("nbdinfo", &["--list", &served.uri()]);

    let read_only = Served::null(Setting { read_only: true, ..Setting::default() }, 64);
    let text = must("nbdinfo", &[&read_only.uri()]).unwrap();
    assert!(text.contains("is_read_only: true") && text.contains("can_zero: false"), "{text}");
}

#[test]
fn nbdcopy_there_and_back() {
    let served = Served::null(Setting::default(), 24);
    let dir = tempfile::tempdir().unwrap();
    let (image, back) = (dir.path().join("image"), dir.path().join("back"));
    let mut data = pattern(24 << 20);
    // A hole, which nbdcopy sends as write zeroes.
    data[4 << 20..12 << 20].fill(0);
    fs::write(&image, &data).unwrap();
    if must("nbdcopy", &["--flush", image.to_str().unwrap(), &served.uri()]).is_none() {
        return;
    }
    must("nbdcopy", &[&served.uri(), back.to_str().unwrap()]);
    assert!(fs::read(&back).unwrap() == data, "what came back differs");
    let report = served.stop();
    assert!(report.clients.accepted >= 4, "nbdcopy used several connections: {report}");
    assert_eq!((report.clients.dropped, report.errors), (0, 0));
}

#[test]
fn qemu_converts_and_compares() {
    let served = Served::null(Setting::default(), 16);
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image.raw");
    fs::write(&image, pattern(16 << 20)).unwrap();
    let (image, uri) = (image.to_str().unwrap(), served.uri());
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", "-t", "none", image, &uri];
    if must("qemu-img", &convert).is_none() {
        return;
    }
    must("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &uri]);
    // A qcow2 image inside the export: small unaligned-looking updates, flushes.
    must("qemu-img", &["create", "-f", "qcow2", &uri, "8M"]);
    must("qemu-io", &["-f", "qcow2", "-c", "write -P 0x5a 1M 3M", "-c", "flush", &uri]);
    let text = must("qemu-io", &["-f", "qcow2", "-c", "read -P 0x5a 1M 3M", &uri]).unwrap();
    assert!(text.contains("read 3145728/3145728"), "{text}");
    must("qemu-img", &["check", "-f", "qcow2", &uri]);
    // FUA writes, discard and write zeroes straight to the export.
    let commands = ["write -f -P 7 0 64k", "discard 0 4k", "write -z 4k 8k", "read -P 0 4k 8k", "read -P 7 12k 52k"];
    let mut arguments = vec!["-f", "raw", "-d", "unmap"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
    arguments.push(&uri);
    let text = must("qemu-io", &arguments).unwrap();
    assert!(!text.contains("failed"), "{text}");
    must("qemu-img", &["bench", "-f", "raw", "-c", "2000", "-d", "16", "-s", "4096", &uri]);
    assert_eq!(served.stop().clients.dropped, 0);
}

fn fio(served: &Served, arguments: &[&str]) -> Option<()> {
    let uri = format!("--uri={}", served.uri());
    let engines = tool("fio", &["--enghelp"])?;
    if !String::from_utf8_lossy(&engines.stdout).contains("nbd") {
        println!("skipped: this fio has no nbd engine");
        return None;
    }
    let mut all = vec!["--name=t", "--ioengine=nbd", "--verify_state_save=0", &uri];
    all.extend(arguments);
    must("fio", &all).map(|_| ())
}

#[test]
fn fio_verifies_what_it_wrote() {
    let served = Served::null(Setting::default(), 32);
    let random = ["--rw=randwrite", "--bsrange=512-128k", "--iodepth=32", "--size=32m", "--verify=crc32c"];
    if fio(&served, &random).is_none() {
        return;
    }
    let mixed = ["--rw=randrw", "--bs=4k", "--iodepth=8", "--size=8m", "--verify=crc32c", "--fsync=16"];
    fio(&served, &mixed).unwrap();
    let report = served.stop();
    assert_eq!((report.clients.dropped, report.errors), (0, 0), "{report}");
}

#[test]
fn four_clients_at_once_and_large_blocks() {
    let served = Served::start(Setting::default(), || {
        let (blocks, latency) = ((64u64 << 20) / 4096, Nanos::from_micros(30));
        Box::new(NullDevice::new(blocks, 4096, latency))
    });
    let arguments = [
        "--rw=randwrite",
        "--bs=64k",
        "--iodepth=8",
        "--numjobs=4",
        "--size=16m",
        "--offset_increment=16m",
        "--verify=crc32c",
        "--group_reporting",
    ];
    if fio(&served, &arguments).is_none() {
        return;
    }
    let info = must("nbdinfo", &[&served.uri()]);
    assert!(info.is_none_or(|text| text.contains("block_size_minimum: 4096")));
    let report = served.stop();
    assert_eq!((report.clients.dropped, report.errors), (0, 0), "{report}");
}

#[test]
fn tcp_serves_as_well() {
    use serve::ServeOptions;
    use serve::Stop;
    use serve::nbd::Server;
    let server = Server::bind(&"tcp:0".parse().unwrap()).unwrap();
    let (uri, stop) = (server.uri(), Stop::new().unwrap());
    let asked = stop.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        let options = ServeOptions { log: Box::new(|_| {}), ..ServeOptions::default() };
        server.run(Box::new(null_device(8)), &options, &asked).unwrap()
    });
    let served = must("nbdinfo", &["--size", &uri]);
    stop.ask();
    let report = thread.join().unwrap();
    if let Some(size) = served {
        assert_eq!(size.trim(), (8 << 20).to_string());
        assert_eq!(report.clients.dropped, 0);
    }
}

/// The model's latency is what a client sees, within what a busy machine
/// allows; the figures of a quiet one are in BENCHMARKS.md.
#[test]
fn latency_follows_the_model() {
    let served = Served::start(Setting { calibrate: true, ..Setting::default() }, || {
        Box::new(NullDevice::new(2048, 512, Nanos::from_millis(2)))
    });
    let mut client = crate::common::Client::go(&served);
    let mut times_us: Vec<u128> = (0..100)
        .map(|_| {
            let started = std::time::Instant::now();
            assert_eq!(client.call(0, 0, 0, 512).0, 0);
            started.elapsed().as_micros()
        })
        .collect();
    times_us.sort_unstable();
    // Never early by more than the lead can be, twice 200 us; and a tenth of the
    // requests should meet no other program's time slice.
    assert!(times_us[0] >= 1600 && times_us[10] < 3000, "{times_us:?} us instead of 2000");
    let report = served.stop();
    assert_eq!(report.latency.requests, 100);
    // Three significant digits.
    assert!((2_000_000 - report.latency.modelled_ns.p50).abs() < 4_000, "{report}");
}
