//! The protocol byte by byte, against doc/proto.md: every answer a real client
//! would rarely provoke.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{Client, Served, Setting, info_request, request};
use serve::nbd::Limits;
use ssd::{Contents, NullDevice, Ssd, SsdConfig};
use units::{ByteSize, Nanos};

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const FUA: u16 = 1 << 0;
const DF: u16 = 1 << 2;
const MIB: u64 = 1 << 20;

fn kinds(replies: &[crate::common::OptionReply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

#[test]
fn options_are_answered_or_refused() {
    let served = Served::null(Setting::default(), 8);
    let mut client = Client::greet(&served);

    let list = client.option(3, &[]);
    assert_eq!(kinds(&list), [2, 1]);
    assert_eq!(list[0].data[..7], *b"\0\0\0\x03ns1");
    assert_eq!(kinds(&client.option(3, b"x")), [(1 << 31) + 3], "NBD_REP_ERR_INVALID");

    // Unknown, NBD_OPT_PEEK_EXPORT, meta contexts, extended headers.
    for option in [0, 4, 9, 10, 11, 12_345] {
        assert_eq!(kinds(&client.option(option, b"data")), [(1 << 31) + 1], "NBD_REP_ERR_UNSUP for {option}");
    }
    assert_eq!(kinds(&client.option(5, &[])), [(1 << 31) + 2], "NBD_REP_ERR_POLICY for NBD_OPT_STARTTLS");

    let unknown = client.option(6, &info_request("other", &[]));
    assert_eq!(kinds(&unknown), [(1 << 31) + 6], "NBD_REP_ERR_UNKNOWN");
    for malformed in [&b""[..], b"\0\0\0\x09ns1\0\0", b"\0\0\0\0\0\x02\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0\0\0\0"] {
        assert_eq!(kinds(&client.option(6, malformed)), [(1 << 31) + 3], "{malformed:?}");
    }

    // Everything asked for, by the export's own name.
    let info = client.option(6, &info_request("ns1", &[3, 1, 2, 99]));
    assert_eq!(kinds(&info), [3, 3, 3, 3, 1]);
    let mut export = vec![0, 0];
    export.extend_from_slice(&(8 * MIB).to_be_bytes());
    // HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN.
    export.extend_from_slice(&(1u16 | 4 | 8 | 32 | 64 | 256).to_be_bytes());
    assert_eq!(info[0].data, export);
    let mut sizes = vec![0, 3];
    for bytes in [512u32, 4096, 32 << 20] {
        sizes.extend_from_slice(&bytes.to_be_bytes());
    }
    assert_eq!(info[1].data, sizes);
    assert_eq!(info[2].data, b"\0\x01ns1");
    assert!(info[3].data.starts_with(b"\0\x02"));

    // NBD_FLAG_SEND_DF appears with structured replies.
    assert_eq!(kinds(&client.option(8, &[])), [1]);
    let info = client.option(6, &info_request("", &[]));
    assert_eq!(info[0].data[11] & (1 << 7), 1 << 7);

    assert_eq!(kinds(&client.option(2, &[])), [1]);
    assert!(client.is_closed());
    let report = served.stop();
    assert_eq!((report.clients.accepted, report.clients.dropped), (1, 0));
}

#[test]
fn export_name_with_and_without_zeroes() {
    let served = Served::null(Setting::default(), 8);
    for (flags, length) in [(1u32, 134), (3, 10)] {
        let mut stream = served.connect();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&flags.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..8], (8 * MIB).to_be_bytes());
        let mut client = Client { stream };
        assert_eq!(client.call(0, 0, 0, 512), (0, vec![0; 512]));
    }
    let mut client = Client::greet(&served);
    client.send_option(1, b"nothing");
    assert!(client.is_closed());
    served.wait_for_log("`nothing`, which is not exported");
}

#[test]
fn data_comes_back_and_zeroes_and_trims_take() {
    let served = Served::null(Setting::default(), 64);
    let mut client = Client::go(&served);
    // Larger than one command, one socket buffer and one payload step.
    let data: Vec<u8> = (0..9 * MIB + 512).map(|byte| (byte * 31 / 7) as u8).collect();
    assert_eq!(client.write(0, 1536, &data), 0);
    assert_eq!(client.call(3, 0, 0, 0).0, 0);
    let (error, back) = client.call(0, 0, 1536, data.len() as u32);
    assert!(error == 0 && back == data);

    assert_eq!(client.call(4, FUA, 1536, 512).0, 0, "NBD_CMD_TRIM");
    assert_eq!(client.call(6, FUA, 2048, 1024).0, 0, "NBD_CMD_WRITE_ZEROES");
    assert_eq!(client.call(6, 1 << 1, 3072, 512).0, 0, "NBD_CMD_FLAG_NO_HOLE");
    let (_, back) = client.call(0, 0, 1536, 2560);
    assert_eq!(back[..2048], [0; 2048]);
    assert_eq!(back[2048..], data[2048..2560]);
    // Zeroing is not bounded by the maximum block size.
    assert_eq!(client.call(6, 0, 0, 64 << 20).0, 0);
    assert_eq!(client.call(0, 0, 4096, 4096), (0, vec![0; 4096]));

    client.send(2, 0, 0, 0, 0);
    assert!(client.is_closed());
}

#[test]
fn requests_that_break_the_rules() {
    let served = Served::null(Setting::default(), 8);
    let mut client = Client::go(&served);
    let end = 8 * MIB;
    for (command, flags, offset, length, error) in [
        (0, 0, 1, 512, EINVAL),
        (0, 0, 0, 100, EINVAL),
        (0, 0, 0, 0, EINVAL),
        (0, 0, end, 512, EINVAL),
        (0, 0, u64::MAX - 511, 512, EINVAL),
        (0, 0, 0, (32 << 20) + 512, EINVAL),
        (0, DF, 0, 512, EINVAL),
        (0, 1 << 9, 0, 512, EINVAL),
        (4, 0, end - 512, 1024, ENOSPC),
        (6, 0, end, 512, ENOSPC),
        (6, 1 << 4, 0, 512, EINVAL),
        (5, 0, 0, 512, EINVAL),
        (7, 0, 0, 512, EINVAL),
        (99, 0, 0, 512, EINVAL),
        (3, FUA, 0, 0, 0),
        (0, FUA, 0, 512, 0),
    ] {
        assert_eq!(client.call(command, flags, offset, length).0, error, "{command} {flags} {offset} {length}");
    }
    // A refused write's payload is skipped, and the next request understood.
    assert_eq!(client.write(0, 3, &[1; 512]), EINVAL);
    assert_eq!(client.write(0, end - 512, &[1; 1024]), ENOSPC);
    assert_eq!(client.write(DF, 0, &[1; 512]), EINVAL);
    assert_eq!(client.write(0, 0, &vec![1; (32 << 20) + 512]), EINVAL);
    assert_eq!(client.call(0, 0, 0, 512), (0, vec![0; 512]));
}

#[test]
fn read_only_refuses_changes() {
    let served = Served::null(Setting { read_only: true, ..Setting::default() }, 8);
    let mut client = Client::greet(&served);
    let info = client.option(7, &info_request("", &[]));
    assert_eq!(info[0].data[11] & 2, 2, "NBD_FLAG_READ_ONLY");
    assert_eq!(client.write(0, 0, &[1; 4096]), EPERM);
    assert_eq!(client.call(4, 0, 0, 512).0, EPERM);
    assert_eq!(client.call(6, 0, 0, 512).0, EPERM);
    assert_eq!(client.call(3, 0, 0, 0).0, 0);
    assert_eq!(client.call(0, 0, 0, 4096), (0, vec![0; 4096]));
}

#[test]
fn structured_replies() {
    let served = Served::null(Setting::default(), 8);
    let mut client = Client::greet(&served);
    client.option(8, &[]);
    client.option(7, &info_request("", &[]));
    assert_eq!(client.write(FUA, 1024, &[0xa5; 512]), 0, "simple replies remain for writes");

    client.send(0, DF, 0x0123, 1024, 512);
    let mut chunk = [0; 20 + 8 + 512];
    client.stream.read_exact(&mut chunk).unwrap();
    assert_eq!(chunk[..4], 0x668e_33ef_u32.to_be_bytes());
    assert_eq!(chunk[4..8], [0, 1, 0, 1], "NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_OFFSET_DATA");
    assert_eq!(chunk[8..16], 0x0123_u64.to_be_bytes());
    assert_eq!(chunk[16..20], 520u32.to_be_bytes());
    assert_eq!(chunk[20..28], 1024u64.to_be_bytes());
    assert_eq!(chunk[28..], [0xa5; 512]);

    client.send(0, 0, 5, 7, 512);
    let mut chunk = [0; 26];
    client.stream.read_exact(&mut chunk).unwrap();
    assert_eq!(chunk[4..8], [0, 1, 0x80, 1], "NBD_REPLY_TYPE_ERROR");
    assert_eq!(chunk[20..], [0, 0, 0, EINVAL as u8, 0, 0]);
}

#[test]
fn pipelined_requests_beyond_every_limit_are_all_answered() {
    let limits = Limits { connections: 2, outstanding: 8, request_bytes: 64 << 10, ..Limits::default() };
    let served = Served::null(Setting { limits, ..Setting::default() }, 8);
    let mut client = Client::go(&served);
    let mut sender = client.stream.try_clone().unwrap();
    let count = 5000u64;
    // The sender goes on while replies pile up: nothing is lost and nothing
    // deadlocks, since the server stops reading before its memory grows.
    let thread = std::thread::spawn(move || {
        for cookie in 0..count {
            sender.write_all(&request(0, 0, cookie, cookie % 100 * 512, 32 << 10)).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    let mut seen = vec![false; count as usize];
    for _ in 0..count {
        let reply = client.reply(32 << 10);
        assert_eq!(reply.error, 0);
        assert!(!std::mem::replace(&mut seen[reply.cookie as usize], true), "{} answered twice", reply.cookie);
    }
    thread.join().unwrap();
    let report = served.stop();
    assert_eq!(report.latency.requests, count);
}

#[test]
fn malformed_and_slow_clients_do_not_hold_up_others() {
    let served = Served::null(Setting::default(), 8);
    // Half a greeting, half an option, half a write, and replies never read.
    let mut half_flags = served.connect();
    half_flags.write_all(&[0, 0]).unwrap();
    let mut half_option = Client::greet(&served);
    half_option.stream.write_all(b"IHAVEOPT\0\0\0\x07\0\0").unwrap();
    let mut half_write = Client::go(&served);
    half_write.send(1, 0, 1, 0, 4 << 20);
    half_write.stream.write_all(&[1; 100_000]).unwrap();
    let mut deaf = Client::go(&served);
    deaf.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    for cookie in 0..10_000 {
        if deaf.stream.write_all(&request(0, 0, cookie, 0, 1 << 20)).is_err() {
            break;
        }
    }

    let started = Instant::now();
    let mut good = Client::go(&served);
    for block in 0..100 {
        assert_eq!(good.write(0, block * 512, &[block as u8; 512]), 0);
        assert_eq!(good.call(0, 0, block * 512, 512), (0, vec![block as u8; 512]));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "held up for {:?}", started.elapsed());

    for (message, line) in [
        (&b"\xff\xff\xff\xff"[..], "client flags"),
        (b"\0\0\0\x03IHAVEOPX\0\0\0\x07\0\0\0\0", "option magic"),
        (b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff", "bytes of data"),
    ] {
        let mut stream = served.connect();
        stream.write_all(message).unwrap();
        assert!(Client { stream }.is_closed());
        served.wait_for_log(line);
    }
    let mut wrong = Client::go(&served);
    wrong.stream.write_all(&[0; 28]).unwrap();
    assert!(wrong.is_closed());
    served.wait_for_log("request magic");

    drop(half_write);
    served.wait_for_log("hung up in the middle of a message");
    drop(deaf);
    assert_eq!(good.call(0, 0, 512, 512), (0, vec![1; 512]));
    assert!(served.stop().clients.dropped >= 5);
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let served = Served::null(Setting { limits, ..Setting::default() }, 8);
    let (mut first, mut second) = (Client::go(&served), Client::go(&served));
    // Both have been at work a moment ago, and keep their places.
    for client in [&mut first, &mut second] {
        assert_eq!(client.call(0, 0, 0, 512).0, 0);
    }
    let mut third = Client { stream: served.connect() };
    assert!(third.is_closed());
    served.wait_for_log("turned away");
    drop(second);
    // The place is free once the server has seen the end of file.
    std::thread::sleep(Duration::from_millis(100));
    let mut fourth = Client::go(&served);
    assert_eq!(fourth.call(0, 0, 0, 512).0, 0);
    assert_eq!(first.call(0, 0, 0, 512).0, 0);
}

#[test]
fn each_namespace_is_an_export() {
    let served = Served::start(Setting::default(), || {
        let mut config = SsdConfig::reference();
        let quarter = ByteSize(config.namespaces[0].0 / 4);
        config.namespaces = vec![quarter, ByteSize(quarter.0 * 2)];
        let mut device = Ssd::new(&config).unwrap();
        device.keep_contents(&Contents::Memory, true).unwrap();
        Box::new(device)
    });
    let mut client = Client::greet(&served);
    assert_eq!(client.option(3, &[]).len(), 3);
    let size = |client: &mut Client, name: &str| {
        let info = client.option(6, &info_request(name, &[]));
        u64::from_be_bytes(info[0].data[2..10].try_into().unwrap())
    };
    let first = size(&mut client, "ns1");
    assert_eq!((size(&mut client, ""), size(&mut client, "ns2")), (first, 2 * first));

    let mut clients = ["ns1", "ns2"].map(|name| {
        let mut client = Client::greet(&served);
        assert_eq!(client.option(7, &info_request(name, &[])).last().unwrap().kind, 1);
        client
    });
    for (client, byte) in clients.iter_mut().zip([1, 2]) {
        assert_eq!(client.write(0, 4096, &[byte; 4096]), 0);
    }
    for (client, byte) in clients.iter_mut().zip([1, 2]) {
        assert_eq!(client.call(0, 0, 4096, 4096), (0, vec![byte; 4096]));
    }
    assert_eq!(clients[1].call(0, 0, first, 4096).0, 0);
    assert_eq!(clients[0].call(0, 0, first, 4096).0, EINVAL);
}

#[test]
fn half_open_clients_make_room() {
    let limits = Limits { connections: 1, handshake: Nanos::from_millis(50), ..Limits::default() };
    let served = Served::null(Setting { limits, ..Setting::default() }, 8);
    let mut half_open = Client::greet(&served);
    assert!(half_open.is_closed());
    served.wait_for_log("no complete handshake in time");
    // One that is through the handshake may be silent for longer.
    let mut client = Client::go(&served);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(client.call(0, 0, 0, 512).0, 0);
}

#[test]
fn stopping_answers_what_is_outstanding() {
    let served = Served::start(Setting::default(), || Box::new(NullDevice::new(1024, 512, Nanos::from_millis(300))));
    let mut client = Client::go(&served);
    client.send(0, 0, 3, 0, 512);
    std::thread::sleep(Duration::from_millis(50));
    let thread = std::thread::spawn(move || {
        let reply = client.reply(512);
        (reply.cookie, reply.error, client.is_closed())
    });
    served.stop();
    assert_eq!(thread.join().unwrap(), (3, 0, true));
}
