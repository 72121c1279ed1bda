//! The NVMe/TCP server on loopback with a host of our own: data arrives whole with and without digests and in-capsule data,
//! nobody's misbehaviour harms another, and tshark's dissector finds no fault with what is said.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::initiator::served::Served;
use crate::initiator::{Host, LBA_BYTES, NQN, Queue, Wish, flush_entry, pcap, read_entry, write_entry};
use nvme::tcp::{Digests, FatalErrorStatus, H2cData, Pdu};
use nvme::{CNTLID_DYNAMIC, CommandId, Status};
use proptest::collection::vec;
use proptest::prelude::*;
use serve::control::{Client as Control, Request, Status as ControlStatus};
use serve::nvme_tcp::{Limits, Listen, Server};
use serve::subsystem::SubsystemConfig;
use serve::{PowerLoss, ServeError, Survival};
use ssd::faults::{Effect, Fault, Operation};
use units::Nanos;

/// Makes the next command of a kind take so much longer.
fn slow_down(control: &mut Control, operation: Operation, added: Nanos) {
    let fault = Fault { operations: vec![operation], times: Some(1), ..Fault::new(Effect::Delay { added }) };
    let _: serde_json::Value = control.ask(&Request::Inject { fault }).unwrap();
}

/// Limits under which even short transfers take several R2Ts and PDUs.
fn narrow() -> Limits {
    Limits { h2c_data_bytes: 8192, r2t_bytes: 20 << 10, r2ts: 3, held_bytes: 256 << 10, ..Limits::default() }
}

fn contents(seed: u64, bytes: u32) -> Vec<u8> {
    (0..u64::from(bytes)).map(|at| (seed.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(at | 1) >> 3) as u8).collect()
}

/// Reads until the server closes, which it must.
fn closes(mut stream: &TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server hangs: {error}"),
    }
    rest
}

/// Writes and reads back blocks of many sizes; gives the queues' records.
fn exercise(served: &Served, wish: Wish) -> Vec<pcap::Record> {
    let mut host = Host::connect(served.address, wish, 2);
    let mut lba = 0;
    for (round, blocks) in [1, 2, 3, 7, 32, 128, 1].into_iter().enumerate() {
        let data = contents(round as u64 + 1, blocks * LBA_BYTES);
        let [one, other] = &mut host.io[..] else { panic!("two queues") };
        assert_eq!(one.write(lba, &data), Status::SUCCESS);
        assert_eq!(one.call(flush_entry(), &[], 0).status(), Status::SUCCESS);
        assert!(other.read(lba, blocks * LBA_BYTES) == data, "{blocks} blocks with {wish:?}");
        lba += u64::from(blocks);
    }
    let used = wish.flow_control == (host.io[1].successes_in_data == 0);
    assert!(used, "SUCCESS is used exactly without flow control");
    [host.admin].into_iter().chain(host.io).map(|queue| queue.record).collect()
}

fn wishes() -> Vec<Wish> {
    let mut wishes = Vec::new();
    for digests in [Digests::empty(), Digests::HEADER, Digests::DATA, Digests::all()] {
        for (in_capsule_bytes, flow_control, alignment, max_r2t) in [(0, true, 0, 1), (8192, false, 7, 4)] {
            wishes.push(Wish { digests, in_capsule_bytes, flow_control, alignment, max_r2t });
        }
    }
    wishes
}

#[test]
fn data_comes_back_whatever_was_negotiated() {
    for limits in [Limits::default(), narrow()] {
        let served = Served::ssd(limits);
        for wish in wishes() {
            exercise(&served, wish);
        }
        let report = served.finish();
        assert_eq!((report.errors, report.clients.dropped), (0, 0));
    }
}

/// Sessions as tshark sees them: PDUs of each kind, none malformed, every digest
/// right.
#[test]
fn dissectors_find_no_fault() {
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let served = Served::ssd(narrow());
    // The dissector takes padding before data for data, so there is to be none.
    let plain = wishes().into_iter().map(|wish| Wish { alignment: 0, ..wish });
    let records: Vec<_> = plain.flat_map(|wish| exercise(&served, wish)).collect();
    let file = served.dir.path().join("session.pcap");
    std::fs::write(&file, pcap::capture(&records.iter().collect::<Vec<_>>())).unwrap();
    let tshark = |arguments: &[&str]| {
        let output = Command::new("tshark")
            .args(["-n", "-d", "tcp.port==4420,nvme-tcp"])
            .args(["-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE", "-r"])
            .arg(&file)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let faults = tshark(&[
        "-Y",
        "_ws.malformed || tcp.analysis.flags || nvme-tcp.unknown_data",
        "-T",
        "fields",
        "-e",
        "frame.number",
    ]);
    assert_eq!(faults, "", "malformed frames");
    // Values of a digest's status: good is 1, bad is 0.
    for digest in ["nvme-tcp.hdgst.status", "nvme-tcp.ddgst.status"] {
        let statuses = tshark(&["-Y", digest, "-T", "fields", "-e", digest]);
        let mut values: Vec<&str> = statuses.lines().flat_map(|line| line.split(',')).collect();
        assert!(values.len() > 100, "{digest} was checked {} times", values.len());
        values.sort_unstable();
        values.dedup();
        assert_eq!(values, ["1"], "{digest}");
    }
    let types = tshark(&["-Y", "nvme-tcp", "-T", "fields", "-e", "nvme-tcp.type"]);
    let mut kinds: Vec<&str> = types.lines().flat_map(|line| line.split(',')).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 7, "ICReq, ICResp, CapsuleCmd, CapsuleResp, H2CData, C2HData, R2T: {kinds:?}");
}

#[test]
fn commands_complete_out_of_order() {
    let served = Served::ssd(Limits::default());
    let mut host = Host::connect(served.address, Wish::default(), 1);
    let queue = &mut host.io[0];
    let data = contents(3, 128 * LBA_BYTES);
    assert_eq!(queue.write(0, &data), Status::SUCCESS);
    assert_eq!(queue.call(flush_entry(), &[], 0).status(), Status::SUCCESS);
    // One slow read, then quick ones.
    slow_down(&mut served.control(), Operation::Read, Nanos::from_secs(2));
    let mut open = vec![(queue.submit(read_entry(0, 128 * LBA_BYTES), &[], 128 * LBA_BYTES), 0, 128)];
    for at in 0..20 {
        open.push((queue.submit(read_entry(at, LBA_BYTES), &[], LBA_BYTES), at as usize, 1));
    }
    let mut order = Vec::new();
    while order.len() < 21 {
        let done = queue.next_done().unwrap();
        let (_, at, blocks) = *open.iter().find(|(cid, ..)| *cid == done.cid).unwrap();
        let size = LBA_BYTES as usize;
        assert!(done.data == data[at * size..(at + blocks) * size]);
        order.push(done.cid);
    }
    assert_eq!(order.last(), Some(&open[0].0), "all overtake the slow read");
}

#[test]
fn a_wrong_data_digest_costs_one_command() {
    let served = Served::ssd(Limits::default());
    let wish = Wish { digests: Digests::all(), ..Wish::default() };
    let mut host = Host::connect(served.address, wish, 1);
    let queue = &mut host.io[0];
    let cid = queue.submit(write_entry(0, LBA_BYTES), &[], LBA_BYTES);
    let (Pdu::ReadyToTransfer(r2t), _) = queue.receive().unwrap() else { panic!("an R2T was expected") };
    let (command, transfer_tag) = (CommandId(cid), r2t.transfer_tag);
    let pdu = Pdu::H2cData(H2cData { command, transfer_tag, offset: 0, length: LBA_BYTES, last: true });
    // The digest of other data.
    let mut bytes = Vec::new();
    let format = nvme::tcp::Format { digests: Digests::all(), ..Default::default() };
    nvme::tcp::encode(&pdu, 0, &format, &mut bytes);
    bytes.extend_from_slice(&[1; LBA_BYTES as usize]);
    bytes.extend_from_slice(&nvme::tcp::digest(&[2; LBA_BYTES as usize]).to_le_bytes());
    queue.send_raw(&bytes);
    let done = queue.next_done().unwrap();
    let status = done.entry.unwrap().completion_status();
    assert_eq!((status.status, status.do_not_retry), (Status::TRANSIENT_TRANSPORT_ERROR, false));
    assert_eq!(queue.write(0, &contents(1, LBA_BYTES)), Status::SUCCESS);
    assert!(queue.read(0, LBA_BYTES) == contents(1, LBA_BYTES));
}

#[test]
fn violations_are_named_and_others_served_on() {
    let served = Served::null(Limits::default());
    let mut other = Host::connect(served.address, Wish::default(), 1);
    let mut host = Host::connect(served.address, Wish::default(), 1);
    let queue = &mut host.io[0];
    let pdu = H2cData { command: CommandId(1), transfer_tag: 9, offset: 0, length: 4, last: true };
    queue.send(&Pdu::H2cData(pdu), &[0; 4]);
    let (Pdu::C2hTerminate(request), header) = queue.receive().unwrap() else { panic!("C2HTermReq was expected") };
    assert_eq!((request.fatal_error(), request.information), (Some(FatalErrorStatus::InvalidHeaderField), 10));
    assert_eq!(header[0], 6, "the header in error is repeated");
    assert!(queue.receive().is_none(), "the connection is closed");
    assert!(served.log_contains("TTAG"));
    assert_eq!(other.io[0].read(0, LBA_BYTES).len(), LBA_BYTES as usize);
}

#[test]
fn more_connections_than_there_is_room_for() {
    let served = Served::null(Limits { connections: 2, ..Limits::default() });
    let mut host = Host::connect(served.address, Wish::default(), 1);
    let mut third = Queue::open(served.address, Wish::default());
    assert_eq!(third.connect(0, CNTLID_DYNAMIC), Err(Status::CONNECT_CONTROLLER_BUSY));
    assert!(third.receive().is_none());
    drop(third);
    assert_eq!(host.io[0].read(0, LBA_BYTES).len(), LBA_BYTES as usize);
    drop(host);
    // Room again, as soon as the server has seen them go.
    for _ in 0..200 {
        let mut queue = Queue::open(served.address, Wish::default());
        match queue.connect(0, CNTLID_DYNAMIC) {
            Ok(_) => return,
            Err(status) => assert_eq!(status, Status::CONNECT_CONTROLLER_BUSY),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("connections that have gone take room for ever");
}

/// Ten thousand attempts: hang up at once, send rubbish, begin and stop, or fill
/// the room, while a host is served on.
#[test]
fn ten_thousand_connection_attempts() {
    let limits = Limits { connections: 40, handshake: Nanos::from_millis(300), ..Limits::default() };
    let served = Served::null(limits);
    let mut host = Host::connect(served.address, Wish::default(), 1);
    let address = served.address;
    let flood = std::thread::spawn(move || {
        let mut kept = std::collections::VecDeque::new();
        for attempt in 0..10_000_u32 {
            // A full accept queue delays a connection; it is never refused.
            let Ok(mut stream) = TcpStream::connect(address) else { panic!("attempt {attempt} was refused") };
            let _ = match attempt % 4 {
                0 => Ok(()),
                1 => stream.write_all(&attempt.to_le_bytes().repeat(40)),
                2 => stream.write_all(&[0, 0, 128, 0, 128]),
                _ => {
                    kept.push_back(stream);
                    continue;
                }
            };
            if kept.len() > 60 {
                kept.pop_front();
            }
        }
    });
    let mut served_meanwhile = 0;
    while !flood.is_finished() {
        assert_eq!(host.io[0].read(served_meanwhile % 1000, LBA_BYTES).len(), LBA_BYTES as usize);
        served_meanwhile += 1;
    }
    flood.join().unwrap();
    assert!(served_meanwhile > 100, "{served_meanwhile} reads beside the flood");
    let lines = served.log.lock().unwrap().len();
    assert!(lines < 5_000, "{lines} log lines");
    assert_eq!(host.io[0].read(1, LBA_BYTES).len(), LBA_BYTES as usize);
}

#[test]
fn silent_and_slow_hosts_are_dropped() {
    let limits = Limits { handshake: Nanos::from_millis(200), stall: Nanos::from_millis(200), ..Limits::default() };
    let served = Served::null(limits);
    // Nothing at all; a part of ICReq.
    let silent = served.raw();
    let mut slow = served.raw();
    slow.write_all(&[0, 0, 128]).unwrap();
    closes(&silent);
    closes(&slow);
    assert!(served.log_contains("sent no ICReq in time"));
    // A write whose data never comes; a capsule that is never finished.
    let mut host = Host::connect(served.address, Wish::default(), 2);
    host.io[0].submit(write_entry(0, LBA_BYTES), &[], LBA_BYTES);
    assert!(matches!(host.io[0].receive(), Some((Pdu::ReadyToTransfer(_), _))));
    host.io[1].send_raw(&[4, 0, 72, 0, 72, 0, 0]);
    closes(&host.io[0].stream);
    closes(&host.io[1].stream);
    assert!(served.log_contains("does not send what it began or was asked for"));
    // An idle host is left alone: its admin queue was silent for longer than that.
    std::thread::sleep(Duration::from_millis(500));
    let mut host = Host::connect(served.address, Wish::default(), 1);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(host.io[0].read(0, LBA_BYTES).len(), LBA_BYTES as usize);
}

#[test]
fn commands_of_a_host_that_leaves_are_finished() {
    let served = Served::ssd(Limits::default());
    let mut control = served.control();
    let data = contents(5, LBA_BYTES);
    let mut host = Host::connect(served.address, Wish { in_capsule_bytes: 8192, ..Wish::default() }, 1);
    slow_down(&mut control, Operation::Write, Nanos::from_secs(1));
    host.io[0].submit(write_entry(0, LBA_BYTES), &data, 0);
    let wait_for = |control: &mut Control, done: fn(&ControlStatus) -> bool| {
        for _ in 0..1000 {
            let status: ControlStatus = control.ask(&Request::Status).unwrap();
            if done(&status) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never so");
    };
    wait_for(&mut control, |status| status.outstanding == 1);
    drop(host);
    wait_for(&mut control, |status| status.clients.connected == 0);
    wait_for(&mut control, |status| status.outstanding == 0);
    let mut host = Host::connect(served.address, Wish::default(), 1);
    assert!(host.io[0].read(0, LBA_BYTES) == data);
    assert_eq!(served.finish().errors, 0);
}

#[test]
fn power_cuts_drop_connections() {
    let served = Served::ssd(Limits::default());
    let mut control = served.control();
    let mut host = Host::connect(served.address, Wish::default(), 1);
    let kept = contents(8, LBA_BYTES);
    assert_eq!(host.io[0].write(0, &kept), Status::SUCCESS);
    assert_eq!(host.io[0].call(flush_entry(), &[], 0).status(), Status::SUCCESS);
    let _: PowerLoss = control.ask(&Request::PowerCut { survive: Survival::None, off: true }).unwrap();
    assert!(host.io[0].receive().is_none() && host.admin.receive().is_none());
    // Nobody is let in until the power is back.
    let mut refused = served.raw();
    let _ = refused.write_all(&[0; 8]);
    assert!(closes(&refused).is_empty());
    let _: serde_json::Value = control.ask(&Request::PowerOn).unwrap();
    let mut host = Host::connect(served.address, Wish::default(), 1);
    assert!(host.io[0].read(0, LBA_BYTES) == kept, "a flushed write survives");
}

#[test]
fn other_machines_only_with_rules() {
    let everywhere: Listen = "0.0.0.0:0".parse().unwrap();
    let open = SubsystemConfig::new(NQN, "test");
    let refused = Server::bind(&everywhere, open.clone()).err().unwrap();
    assert!(matches!(refused, ServeError::OpenToAll { .. }) && refused.to_string().contains("--allow-host"));
    let restricted = SubsystemConfig { allowed_hosts: vec!["nqn.2014-08.org.example:me".to_owned()], ..open };
    Server::bind(&everywhere, restricted).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever a host sends after ICReq, the server closes or answers, and serves
    /// the next one.
    #[test]
    fn any_bytes(begun in any::<bool>(), pieces in vec(vec(any::<u8>(), 0..300), 0..4), kind in 0..10u8) {
        static SERVED: std::sync::OnceLock<Served> = std::sync::OnceLock::new();
        let served = SERVED.get_or_init(|| Served::null(Limits::default()));
        let mut stream = served.raw();
        if begun {
            stream = Queue::open(served.address, Wish::default()).stream;
        }
        for mut piece in pieces {
            if let [first, _, length, ..] = &mut piece[..] {
                (*first, *length) = (kind, if kind == 4 { 72 } else { 24 });
            }
            if stream.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        closes(&stream);
        let mut host = Host::connect(served.address, Wish::default(), 1);
        prop_assert_eq!(host.io[0].read(0, LBA_BYTES).len(), LBA_BYTES as usize);
    }
}

/// Hosts that stand still at each point of the protocol, more than there are places for: an honest one connects and
/// is served, and one that was there before is as well.
#[test]
fn hosts_that_stand_still_keep_nobody_out() {
    for point in ["connect", "half an ICReq", "no Connect", "half a Connect", "never enabled"] {
        let served = Served::ssd(Limits { connections: 6, ..Limits::default() });
        let mut first = Host::connect(served.address, Wish::default(), 1);
        assert_eq!(first.io[0].write(0, &[1; 4096]), Status::SUCCESS);
        let mut standing: Vec<Box<dyn std::any::Any>> = Vec::new();
        for _ in 0..8 {
            let mut raw = served.raw();
            match point {
                "connect" => {}
                "half an ICReq" => raw.write_all(&[0, 0, 128, 0, 128]).unwrap(),
                _ => {
                    // Beyond the places it may be told at once that there is none.
                    drop(raw);
                    let mut queue = Queue::open(served.address, Wish { flow_control: true, ..Wish::default() });
                    match point {
                        "half a Connect" => queue.send_raw(&[4, 0, 72, 0, 72, 4]),
                        "never enabled" => drop(queue.connect(0, CNTLID_DYNAMIC)),
                        _ => {}
                    }
                    standing.push(Box::new(queue));
                    continue;
                }
            }
            standing.push(Box::new(raw));
        }
        if point == "never enabled" {
            // As long as it may be about to enable its controller, a host keeps its place.
            std::thread::sleep(Duration::from_millis(1200));
        }
        let mut second = Host::connect(served.address, Wish::default(), 1);
        assert_eq!(second.io[0].write(8, &[2; 4096]), Status::SUCCESS, "{point}");
        assert_eq!(first.io[0].read(0, 4096), [1; 4096], "{point}: the first host was hit");
        drop(standing);
    }
}
