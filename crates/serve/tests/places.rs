//! Places for clients are for those who use them: whoever stalls, at whatever point of the protocol, cannot keep an
//! honest client out, and an honest one that is slow keeps its place.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::{Client, Served, Setting, request};
use serve::nbd::{Limits, Listen, Server};
use serve::{ServeOptions, Stop};
use ssd::NullDevice;
use units::Nanos;

const WRITE: u16 = 1;

fn served(connections: usize) -> Served {
    Served::null(Setting { limits: Limits { connections, ..Limits::default() }, ..Setting::default() }, 64)
}

/// How far a client goes before it stands still.
const POINTS: [&str; 8] = ["connect", "flags", "option header", "option data", "go", "header", "payload", "deaf"];

/// A client that stands still there, or as far before as the server lets it.
fn stall(served: &Served, point: &str) -> UnixStream {
    let mut stream = served.connect();
    let _ = stand_still(&mut stream, point);
    stream
}

fn stand_still(stream: &mut UnixStream, point: &str) -> std::io::Result<()> {
    if point == "connect" {
        return Ok(());
    }
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(&3_u32.to_be_bytes())?;
    match point {
        "flags" => return Ok(()),
        "option header" => return stream.write_all(b"IHAVEOPT\0"),
        "option data" => return stream.write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x20 begun"),
        _ => {}
    }
    stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0")?;
    stream.read_exact(&mut [0; 10])?;
    match point {
        "go" => Ok(()),
        "header" => stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20)[..13]),
        "payload" => {
            stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20))?;
            stream.write_all(&[7; 5000])
        }
        // Asks for more than any socket holds, and reads none of it.
        _ => stream.write_all(&request(0, 0, 1, 0, 4 << 20).repeat(8)),
    }
}

#[test]
fn whoever_stalls_at_whatever_point_keeps_nobody_out() {
    for point in POINTS {
        let served = served(4);
        let mut honest = Client::go(&served);
        assert_eq!(honest.write(0, 0, &[1; 4096]), 0);
        let mut stalled: Vec<UnixStream> = (0..6).map(|_| stall(&served, point)).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        // A newcomer may be turned away in the first second, while a stall may yet be a pause.
        let mut newcomer = loop {
            assert!(Instant::now() < deadline, "{point}: no place for an honest client");
            assert_eq!(honest.call(0, 0, 0, 4096).0, 0, "{point}: the honest client was hit");
            if let Some(client) = try_go(&served) {
                break client;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(newcomer.write(0, 8192, &[2; 4096]), 0, "{point}");
        // More of them, all the while.
        for _ in 0..3 {
            stalled.push(stall(&served, point));
            assert_eq!(honest.call(0, 0, 0, 4096).0, 0, "{point}: the honest client was hit");
            assert_eq!(newcomer.call(0, 0, 8192, 4096), (0, vec![2; 4096]), "{point}: the newcomer was hit");
        }
        drop(stalled);
    }
}

/// An honest client, if there is a place.
fn try_go(served: &Served) -> Option<Client> {
    let mut stream = served.connect();
    stream.read_exact(&mut [0; 18]).ok()?;
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").ok()?;
    stream.read_exact(&mut [0; 10]).ok()?;
    Some(Client { stream })
}

/// Slow all the way: a request in pieces of some bytes with pauses, while stalled clients fight for places.
#[test]
fn a_slow_client_in_the_middle_of_a_write_keeps_its_place() {
    let served = served(4);
    let mut slow = Client::go(&served);
    let data: Vec<u8> = (0..6000).map(|i| i as u8).collect();
    let message = [&request(WRITE, 0, 5, 0, 6144)[..], &data, &[0; 144]].concat();
    let mut stalled = Vec::new();
    for (index, piece) in message.chunks(220).enumerate() {
        slow.stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(120));
        if index % 3 == 0 {
            stalled.push(stall(&served, POINTS[index % POINTS.len()]));
            if index % 2 == 0 {
                stalled.extend(try_go(&served).map(|mut client| {
                    let _ = client.stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20));
                    client.stream
                }));
            }
        }
    }
    assert_eq!(slow.reply(0).error, 0, "{:?}", served.log.lock().unwrap());
    assert_eq!(slow.call(0, 0, 0, 6144).1[..6000], data);
}

/// Also without a fight for places nobody stands still for ever, and a byte now and then does not help.
#[test]
fn stalls_end_and_idle_clients_stay() {
    let limits = Limits { stall: Nanos::from_millis(300), ..Limits::default() };
    let served = Served::null(Setting { limits, ..Setting::default() }, 64);
    let mut idle = Client::go(&served);
    assert_eq!(idle.call(0, 0, 0, 512).0, 0);
    let mut stopped = Client { stream: stall(&served, "payload") };
    let deaf = stall(&served, "deaf");
    let mut trickle = Client { stream: stall(&served, "header") };
    let trickling = std::thread::spawn(move || {
        for _ in 0..400 {
            std::thread::sleep(Duration::from_millis(25));
            if trickle.stream.write_all(&[0]).is_err() {
                return true;
            }
        }
        false
    });
    assert!(stopped.is_closed());
    served.wait_for_log("does not finish what it began");
    served.wait_for_log("does not read its replies");
    assert!(trickling.join().unwrap(), "a byte now and then kept a place");
    drop(deaf);
    assert_eq!(idle.call(0, 0, 0, 512).0, 0);
    assert!(served.stop().clients.dropped >= 3);
}

/// A client in a fight for places that is merely idle: whoever has asked for something lately stays.
#[test]
fn the_log_of_a_flood_is_short() {
    let served = served(4);
    for _ in 0..2000 {
        let mut stream = UnixStream::connect(&served.socket).unwrap();
        let _ = stream.write_all(&[0xff; 40]);
    }
    let mut client = loop {
        if let Some(client) = try_go(&served) {
            break client;
        }
    };
    assert_eq!(client.call(0, 0, 0, 512).0, 0);
    let lines = served.log.lock().unwrap().len();
    assert!(lines < 1000, "{lines} lines of 2000 bad clients");
    served.stop();
}

/// A TCP connection to a port of this machine, from another of its addresses.
fn connect_from(source: Ipv4Addr, port: u16) -> TcpStream {
    let address = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    let (from, to) = (address(source, 0), address(Ipv4Addr::LOCALHOST, port));
    // SAFETY: socket takes no pointer; its result is checked before it is owned.
    let descriptor = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    assert!(descriptor >= 0);
    // SAFETY: the descriptor is open and nobody else's.
    let stream = unsafe { TcpStream::from_raw_fd(descriptor) };
    // SAFETY: pointer and length describe `from`, which lives through the call.
    let bound = unsafe { libc::bind(descriptor, (&raw const from).cast(), length) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: pointer and length describe `to`, which lives through the call.
    let connected = unsafe { libc::connect(descriptor, (&raw const to).cast(), length) };
    assert_eq!(connected, 0, "{}", std::io::Error::last_os_error());
    stream
}

/// Everybody in it says nothing, and there are many more of them than places.
#[test]
fn a_flood_from_one_address_pushes_out_nobody_from_another() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Server::bind(&Listen::Tcp { host: "127.0.0.1".to_owned(), port: 0 }).unwrap().with_limits(limits);
    let port: u16 = server.uri().trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap();
    let stop = Stop::new().unwrap();
    let asked = stop.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        let options = ServeOptions { calibrate: false, ..ServeOptions::default() };
        server.run(Box::new(NullDevice::new(64, 4096, Nanos(1000))), &options, &asked).unwrap()
    });
    let mut honest = connect_from(Ipv4Addr::new(127, 0, 0, 2), port);
    honest.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    honest.read_exact(&mut [0; 18]).unwrap();
    let mut flood: Vec<TcpStream> = (0..40).map(|_| connect_from(Ipv4Addr::LOCALHOST, port)).collect();
    // The last of them is in, so all were.
    flood.last_mut().unwrap().read_exact(&mut [0; 18]).unwrap();
    honest.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    honest.read_exact(&mut [0; 10]).unwrap();
    drop((honest, flood));
    stop.ask();
    assert!(thread.join().unwrap().clients.dropped >= 37);
}
