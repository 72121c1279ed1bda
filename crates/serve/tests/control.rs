//! The control socket of a server with NBD clients: power cuts, faults, statistics,
//! and that no client of it holds up serving.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::Client as NbdClient;
use proptest::prelude::*;
use serde_json::Value;
use serve::control::{Client, ClientError, Request, Status};
use serve::nbd::{Listen, Server};
use serve::{PowerLoss, ServeOptions, ServeReport, Stop, Survival};
use ssd::faults::{Effect, Fault, FaultReport, Operation};
use ssd::{Contents, Device, Ssd, SsdConfig};
use units::Nanos;

const BLOCK: usize = 4096;
const EIO: u32 = 5;
const FUA: u16 = 1;
const FLUSH: u16 = 3;

/// A server with both sockets in a directory of its own.
struct Served {
    dir: tempfile::TempDir,
    stop: Stop,
    thread: Option<JoinHandle<ServeReport>>,
}

impl Served {
    fn start(device: impl FnOnce() -> Box<dyn Device> + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::bind(&Listen::Unix(dir.path().join("nbd"))).unwrap();
        let stop = Stop::new().unwrap();
        let asked = stop.try_clone().unwrap();
        let control = dir.path().join("control");
        let thread = std::thread::spawn(move || {
            let options = ServeOptions {
                calibrate: false,
                control: Some(control),
                log: Box::new(|_| {}),
                ..ServeOptions::default()
            };
            server.run(device(), &options, &asked).unwrap()
        });
        Self { dir, stop, thread: Some(thread) }
    }

    fn null() -> Self {
        Self::start(|| Box::new(crate::common::null_device(8)))
    }

    /// An SSD that keeps in its cache what does not fill a programming unit.
    fn ssd(contents: Contents) -> Self {
        Self::start(move || {
            let mut config = SsdConfig::reference();
            config.buffer.destage_after = Nanos::from_secs(3600);
            let mut device = Ssd::new(&config).unwrap();
            device.keep_contents(&contents, true).unwrap();
            device.recover_from_flash();
            Box::new(device)
        })
    }

    fn control_path(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    fn control(&self) -> Client {
        Client::connect(&connect(&self.control_path())).unwrap()
    }

    fn nbd(&self) -> NbdClient {
        let stream = UnixStream::connect(self.dir.path().join("nbd")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = NbdClient::greet_stream(stream);
        assert_eq!(client.option(7, &crate::common::info_request("", &[])).last().unwrap().kind, 1);
        client
    }

    fn join(mut self) -> ServeReport {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The path, once somebody listens there.
fn connect(path: &Path) -> PathBuf {
    for _ in 0..1000 {
        if UnixStream::connect(path).is_ok() {
            return path.to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no control socket at {}", path.display());
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

fn inject(control: &mut Client, fault: Fault) -> u64 {
    let reply: Value = control.ask(&Request::Inject { fault }).unwrap();
    reply["id"].as_u64().unwrap()
}

fn block(client: &mut NbdClient, index: usize) -> Result<u8, u32> {
    let (error, data) = client.call(0, 0, (index * BLOCK) as u64, BLOCK as u32);
    if error != 0 {
        return Err(error);
    }
    assert!(data.iter().all(|byte| *byte == data[0]), "block {index} is torn");
    Ok(data[0])
}

#[test]
fn status_counts_and_faults_hit() {
    let served = Served::null();
    let (mut control, mut nbd) = (served.control(), served.nbd());
    for index in 0..4 {
        assert_eq!(nbd.write(0, index * BLOCK as u64, &[7; BLOCK]), 0);
    }
    let id = inject(
        &mut control,
        Fault {
            operations: vec![Operation::Read],
            nth: 2,
            times: Some(1),
            ..Fault::new(Effect::error(nvme::Status::INTERNAL_ERROR))
        },
    );
    inject(&mut control, Fault::new(Effect::Media { cleared_by_write: true, after: Nanos::ZERO }).on(24, 1));
    assert_eq!((0..4).map(|index| block(&mut nbd, index)).collect::<Vec<_>>(), [Ok(7), Err(EIO), Ok(7), Err(EIO)]);
    let faults: Vec<FaultReport> = control.ask(&Request::Faults).unwrap();
    assert_eq!(faults.iter().map(|fault| (fault.matched, fault.hits)).collect::<Vec<_>>(), [(4, 1), (1, 1)]);
    assert_eq!(nbd.write(0, 3 * BLOCK as u64, &[8; BLOCK]), 0);
    assert_eq!(block(&mut nbd, 3), Ok(8), "written, it can be read");

    let status: Status = control.ask(&Request::Status).unwrap();
    assert_eq!((status.reads, status.writes, status.errors, status.outstanding), (5, 5, 2, 0));
    assert_eq!((status.read_bytes, status.written_bytes), (5 * BLOCK as u64, 5 * BLOCK as u64));
    assert_eq!((status.clients.connected, status.faults, status.fault_hits, status.powered), (1, 2, 2, true));
    assert_eq!(status.latency.requests, 10);
    assert_eq!(status.namespaces[0].bytes, 8 << 20);

    let _: Value = control.ask(&Request::Clear { id: Some(ssd::faults::FaultId(id as u32)) }).unwrap();
    assert!(
        refusal(control.ask::<Value>(&Request::Clear { id: Some(ssd::faults::FaultId(99)) })).contains("no fault 99")
    );
    let cleared: Value = control.ask(&Request::Clear { id: None }).unwrap();
    assert_eq!(cleared["cleared"], 1);
    let bad = Fault { probability: 2.0, ..Fault::new(Effect::ReadOnly) };
    assert!(refusal(control.ask::<Value>(&Request::Inject { fault: bad })).contains("between 0 and 1"));
    assert!(refusal(control.ask::<Value>(&Request::Zones { nsid: 1, from: 0, count: 1 })).contains("no zones"));
}

#[test]
fn delays_and_read_only() {
    let served = Served::null();
    let (mut control, mut nbd) = (served.control(), served.nbd());
    inject(&mut control, Fault { times: Some(1), ..Fault::new(Effect::Delay { added: Nanos::from_millis(30) }) });
    inject(&mut control, Fault::new(Effect::ReadOnly));
    let began = std::time::Instant::now();
    assert_eq!(block(&mut nbd, 0), Ok(0));
    assert!(began.elapsed() >= Duration::from_millis(30), "an answer before its time");
    assert_eq!(nbd.write(0, 0, &[1; BLOCK]), EIO);
    assert_eq!(block(&mut nbd, 0), Ok(0));
}

#[test]
fn power_cuts_choose_what_survives() {
    let cases = [
        (Survival::None, vec![1, 0, 0, 0]),
        (Survival::All, vec![1, 2, 3, 4]),
        (Survival::Prefix { writes: 2 }, vec![1, 2, 3, 0]),
    ];
    for (survive, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let served = Served::ssd(Contents::File(image.clone()));
        let (mut control, mut nbd) = (served.control(), served.nbd());
        assert_eq!(nbd.write(FUA, 0, &[1; BLOCK]), 0);
        for value in 2..5_u8 {
            assert_eq!(nbd.write(0, (usize::from(value) - 1) as u64 * BLOCK as u64, &[value; BLOCK]), 0);
        }
        let dirty: Status = control.ask(&Request::Status).unwrap();
        assert_eq!(dirty.live.write_cache.unwrap().dirty_bytes, 3 * BLOCK as u64);
        let loss: PowerLoss = control.ask(&Request::PowerCut { survive, off: true }).unwrap();
        assert_eq!((loss.orphans, loss.undecided), (0, 3), "{survive:?}");
        assert_eq!(loss.survived, expected[1..].iter().filter(|value| **value > 0).count() as u64);
        assert_eq!(block(&mut nbd, 0), Err(EIO), "no power");
        assert_eq!(nbd.call(FLUSH, 0, 0, 0).0, EIO);
        // The file has what the media has, while the power is off.
        let mut head = vec![0; 4 * BLOCK];
        std::fs::File::open(&image).unwrap().read_exact(&mut head).unwrap();
        assert_eq!(head.chunks(BLOCK).map(|block| block[0]).collect::<Vec<_>>(), expected, "{survive:?}");
        assert!(refusal(control.ask::<Value>(&Request::PowerCut { survive, off: false })).contains("off already"));
        let _: Value = control.ask(&Request::PowerOn).unwrap();
        assert!(refusal(control.ask::<Value>(&Request::PowerOn)).contains("is on"));
        for (index, value) in expected.iter().enumerate() {
            assert_eq!(block(&mut nbd, index), Ok(*value), "{survive:?}, block {index}");
        }
        let after: Status = control.ask(&Request::Status).unwrap();
        assert_eq!(after.live.write_cache.unwrap().dirty_bytes, 0);
    }
}

/// The same seed chooses the same writes.
#[test]
fn random_survivors_repeat() {
    let outcome = |seed| {
        let served = Served::ssd(Contents::Memory);
        let (mut control, mut nbd) = (served.control(), served.nbd());
        for index in 0..40 {
            assert_eq!(nbd.write(0, index * 16 * BLOCK as u64, &[index as u8 + 1; BLOCK]), 0);
        }
        let survive = Survival::Random { seed };
        let _: PowerLoss = control.ask(&Request::PowerCut { survive, off: false }).unwrap();
        (0..40).map(|index| block(&mut nbd, index * 16).unwrap() > 0).collect::<Vec<_>>()
    };
    let first = outcome(3);
    assert_eq!(first, outcome(3));
    assert_ne!(first, outcome(4));
    assert!(first.contains(&true) && first.contains(&false));
}

#[test]
fn a_power_cut_answers_what_never_completes() {
    let served = Served::null();
    let (mut control, mut nbd) = (served.control(), served.nbd());
    inject(&mut control, Fault::new(Effect::Timeout));
    for cookie in 0..5 {
        nbd.send(0, 0, cookie, 0, BLOCK as u32);
    }
    let mut other = served.nbd();
    other.send(0, 0, 9, 0, BLOCK as u32);
    loop {
        let status: Status = control.ask(&Request::Status).unwrap();
        if status.outstanding == 6 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let loss: PowerLoss = control.ask(&Request::PowerCut { survive: Survival::None, off: false }).unwrap();
    assert_eq!(loss.orphans, 6);
    for _ in 0..5 {
        assert_eq!(nbd.reply(BLOCK).error, EIO);
    }
    assert_eq!(other.reply(BLOCK).error, EIO);
    let _: Value = control.ask(&Request::Clear { id: None }).unwrap();
    assert_eq!(block(&mut nbd, 0), Ok(0), "served on after the cut");
}

/// A client that asks and never reads, one that never ends its line, and more than
/// there is room for: serving goes on, and what they make the server hold is bounded.
#[test]
fn slow_and_greedy_clients_hold_up_nobody() {
    let served = Served::null();
    let mut control = served.control();
    let mut nbd = served.nbd();
    let path = served.control_path();
    let deaf = UnixStream::connect(&path).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let request = b"{\"command\":\"status\"}\n".repeat(1000);
    let mut sent = 0;
    // Until the server reads no more: far less than could be sent without bounds.
    while let Ok(count) = (&deaf).write(&request) {
        sent += count;
        assert!(sent < 64 << 20, "the server takes requests for ever");
    }
    let mut endless = UnixStream::connect(&path).unwrap();
    endless.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = endless.write_all(&vec![b'x'; 80 << 10]);
    let mut line = String::new();
    BufReader::new(&endless).read_line(&mut line).unwrap();
    assert!(line.contains("longer than 65536 bytes"), "{line}");
    let crowd: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let _: Status = control.ask(&Request::Status).unwrap();
    for index in 0..50 {
        assert_eq!(block(&mut nbd, index), Ok(0));
    }
    let turned_away = crowd.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        // The end, or before it the reason.
        (&**stream).read(&mut [0]).is_ok()
    });
    assert!(turned_away.count() >= 24);
    drop((crowd, deaf));
    let _: Status = control.ask(&Request::Status).unwrap();
}

/// What a fault holds is let go when serving ends.
#[test]
fn stop_with_commands_that_never_complete() {
    let served = Served::null();
    let (mut control, mut nbd) = (served.control(), served.nbd());
    inject(&mut control, Fault::new(Effect::Timeout));
    nbd.send(0, 0, 1, 0, BLOCK as u32);
    while control.ask::<Status>(&Request::Status).unwrap().outstanding == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _: Value = control.ask(&Request::Stop).unwrap();
    assert_eq!(nbd.reply(BLOCK).error, EIO);
    assert_eq!(served.join().errors, 1);
}

#[test]
fn stop_answers_and_ends() {
    let served = Served::null();
    let mut control = served.control();
    let mut nbd = served.nbd();
    assert_eq!(block(&mut nbd, 0), Ok(0));
    let _: Value = control.ask(&Request::Stop).unwrap();
    let path = served.control_path();
    let report = served.join();
    assert_eq!((report.requests, report.errors), (1, 0));
    assert!(!path.exists(), "the socket's file is removed");
    assert!(report.to_json()["latency"]["requests"] == 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever lines come, each gets one reply, in order, and the server lives.
    #[test]
    fn every_line_gets_a_reply(lines in prop::collection::vec("[ -~]{0,80}|\\{\"command\":\"(status|faults|zones|power-on)\"\\}", 1..20)) {
        let served = Served::null();
        let stream = UnixStream::connect(connect(&served.control_path())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for line in &lines {
            (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        let mut replies = BufReader::new(&stream).lines();
        for line in &lines {
            let reply: Value = serde_json::from_str(&replies.next().unwrap().unwrap()).unwrap();
            let known = line.contains("status") || line.contains("faults\"");
            prop_assert!(reply.get("result").is_some() || !known, "{} to {}", reply, line);
            prop_assert!(reply.get("result").is_some() != reply.get("error").is_some());
        }
    }
}

/// Sixteen clients that say nothing, or begin a line, or never read: the next one is answered all the same.
#[test]
fn silent_clients_make_room() {
    let served = Served::null();
    connect(&served.control_path());
    let mut busy = served.control();
    let silent: Vec<UnixStream> = (0..24)
        .map(|index| {
            let mut stream = UnixStream::connect(served.control_path()).unwrap();
            match index % 3 {
                0 => {}
                1 => stream.write_all(b"{\"command\":").unwrap(),
                _ => stream.write_all(&b"{\"command\":\"status\"}\n".repeat(50)).unwrap(),
            }
            stream
        })
        .collect();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let mut refused = 0;
    loop {
        let _: Status = busy.ask(&Request::Status).unwrap();
        let mut newcomer = Client::connect(&served.control_path()).unwrap();
        match newcomer.ask::<Status>(&Request::Status) {
            Ok(_) => break,
            // In words, where there is no place yet.
            Err(ClientError::Refused(why)) => assert!(why.contains("16 clients"), "{why}"),
            Err(ClientError::Io { .. } | ClientError::Gone) => {}
            Err(error) => panic!("{error}"),
        }
        refused += 1;
        assert!(std::time::Instant::now() < deadline, "turned away {refused} times");
        std::thread::sleep(Duration::from_millis(50));
    }
    let _: Status = busy.ask(&Request::Status).unwrap();
    drop(silent);
}
