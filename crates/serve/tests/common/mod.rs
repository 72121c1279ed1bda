//! A server in a thread, and a client that speaks NBD byte by byte.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serve::nbd::{Limits, Listen, Server};
use serve::{ServeOptions, ServeReport, Stop};
use ssd::{Device, NullDevice};
use units::Nanos;

pub const LBA_BYTES: u32 = 512;

/// A running server on a socket in a directory of its own.
pub struct Served {
    pub socket: PathBuf,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Stop,
    thread: Option<JoinHandle<ServeReport>>,
    _dir: tempfile::TempDir,
}

/// What tests vary.
#[derive(Clone, Default)]
pub struct Setting {
    pub read_only: bool,
    pub calibrate: bool,
    pub limits: Limits,
}

impl Served {
    pub fn start(setting: Setting, device: impl FnOnce() -> Box<dyn Device> + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nbd.sock");
        let server = Server::bind(&Listen::Unix(socket.clone())).unwrap().with_limits(setting.limits);
        let stop = Stop::new().unwrap();
        let (asked, log) = (stop.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let lines = Arc::clone(&log);
        let thread = std::thread::spawn(move || {
            let options = ServeOptions {
                read_only: setting.read_only,
                calibrate: setting.calibrate,
                log: Box::new(move |line| lines.lock().unwrap().push(line.to_owned())),
                ..ServeOptions::default()
            };
            server.run(device(), &options, &asked).unwrap()
        });
        Self { socket, log, stop, thread: Some(thread), _dir: dir }
    }

    /// A fast device of `mib` MiB.
    pub fn null(setting: Setting, mib: u64) -> Self {
        Self::start(setting, move || Box::new(null_device(mib)))
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    pub fn log_contains(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// Waits until the log has a line with `text`.
    pub fn wait_for_log(&self, text: &str) {
        for _ in 0..500 {
            if self.log_contains(text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no log line with `{text}`: {:?}", self.log.lock().unwrap());
    }

    pub fn stop(mut self) -> ServeReport {
        self.stop.ask();
        let report = self.thread.take().unwrap().join().unwrap();
        assert!(!self.socket.exists(), "the socket file is removed");
        report
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap();
            }
        }
    }
}

pub fn null_device(mib: u64) -> NullDevice {
    NullDevice::new((mib << 20) / u64::from(LBA_BYTES), LBA_BYTES, Nanos::from_micros(5))
}

/// Runs a tool, or says that it is not there.
pub fn tool(name: &str, arguments: &[&str]) -> Option<Output> {
    let result = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    match result {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {name} is not installed");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Runs a tool that must succeed; its standard output, or `None` where it is
/// not installed.
pub fn must(name: &str, arguments: &[&str]) -> Option<String> {
    let output = tool(name, arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{text}\n{errors}", output.status);
    Some(text)
}

/// A client past the greeting, in the option phase.
pub struct Client {
    pub stream: UnixStream,
}

/// A reply to an option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestReply {
    pub cookie: u64,
    pub error: u32,
    pub data: Vec<u8>,
}

impl Client {
    pub fn greet(served: &Served) -> Self {
        Self::greet_stream(served.connect())
    }

    pub fn greet_stream(mut stream: UnixStream) -> Self {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3], "NBD_FLAG_FIXED_NEWSTYLE, NBD_FLAG_NO_ZEROES");
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        Self { stream }
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut message = b"IHAVEOPT".to_vec();
        message.extend_from_slice(&option.to_be_bytes());
        message.extend_from_slice(&(data.len() as u32).to_be_bytes());
        message.extend_from_slice(data);
        self.stream.write_all(&message).unwrap();
    }

    pub fn option_reply(&mut self, option: u32) -> OptionReply {
        let mut header = [0; 20];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        assert_eq!(header[8..12], option.to_be_bytes());
        let kind = u32::from_be_bytes(header[12..16].try_into().unwrap());
        let mut data = vec![0; u32::from_be_bytes(header[16..].try_into().unwrap()) as usize];
        self.stream.read_exact(&mut data).unwrap();
        OptionReply { kind, data }
    }

    /// Sends an option and collects replies to the final one (an
    /// acknowledgement or an error).
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option);
            let last = reply.kind == 1 || reply.kind >= 1 << 31;
            replies.push(reply);
            if last {
                return replies;
            }
        }
    }

    /// Enters the transmission phase with NBD_OPT_GO.
    pub fn go(served: &Served) -> Self {
        let mut client = Self::greet(served);
        let replies = client.option(7, &info_request("", &[]));
        assert_eq!(replies.last().unwrap().kind, 1);
        client
    }

    pub fn send(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32) {
        self.stream.write_all(&request(command, flags, cookie, offset, length)).unwrap();
    }

    /// Reads a simple reply with `length` bytes of data if it is a success.
    pub fn reply(&mut self, length: usize) -> RequestReply {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(header[8..].try_into().unwrap());
        let mut data = vec![0; if error == 0 { length } else { 0 }];
        self.stream.read_exact(&mut data).unwrap();
        RequestReply { cookie, error, data }
    }

    /// One request and its answer: the error value (0 for success) and data.
    pub fn call(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> (u32, Vec<u8>) {
        self.send(command, flags, 7, offset, length);
        let reply = self.reply(if command == 0 { length as usize } else { 0 });
        assert_eq!(reply.cookie, 7);
        (reply.error, reply.data)
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        let mut message = request(1, flags, 9, offset, data.len() as u32).to_vec();
        message.extend_from_slice(data);
        self.stream.write_all(&message).unwrap();
        self.reply(0).error
    }

    /// Whether the server closes the connection (after unread replies).
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok_and(|_| true)
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..].copy_from_slice(&length.to_be_bytes());
    bytes
}

pub fn info_request(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    for kind in wanted {
        data.extend_from_slice(&kind.to_be_bytes());
    }
    data
}
