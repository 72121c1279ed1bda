//! `plumb serve` where the machine gives it a hard time: nobody reads its log, its disk is full, memory is bounded,
//! descriptors run out. It serves on, says what is wrong, and its exit status tells.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::Scratch;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const ENOSPC: u32 = 28;
const PATIENCE: Duration = Duration::from_secs(120);

/// A client in the transmission phase.
struct Nbd(UnixStream);

impl Nbd {
    fn connect(socket: &Path) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(client) = Self::try_connect(socket) {
                return client;
            }
            assert!(Instant::now() < deadline, "nobody serves at {}", socket.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_connect(socket: &Path) -> Option<Self> {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.read_exact(&mut [0; 18]).ok()?;
        // No zeroes, fixed newstyle; NBD_OPT_EXPORT_NAME of the default export.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").ok()?;
        stream.read_exact(&mut [0; 10]).ok()?;
        Some(Self(stream))
    }

    /// One request; its error.
    fn call(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        let mut message = 0x2560_9513_u32.to_be_bytes().to_vec();
        message.extend([0, 0]);
        message.extend(command.to_be_bytes());
        message.extend(7_u64.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(length.to_be_bytes());
        message.extend(data);
        self.0.write_all(&message).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if command == READ && error == 0 {
            self.0.read_exact(&mut vec![0; length as usize]).unwrap();
        }
        error
    }

    fn write(&mut self, offset: u64, byte: u8, length: usize) -> u32 {
        self.call(WRITE, offset, length as u32, &vec![byte; length])
    }
}

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(command: &mut Command, socket: PathBuf) -> Self {
        Self { child: command.stdin(Stdio::null()).spawn().unwrap(), socket }
    }

    fn client(&self) -> Nbd {
        Nbd::connect(&self.socket)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end.
    #[track_caller]
    fn end(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not end");
    }

    /// VmRSS in bytes.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(scratch: &Scratch, arguments: &[&str]) -> Command {
    let all = [&["serve", "--device", "optane-905p-960gb", "--nbd", "unix:nbd", "--no-calibration"][..], arguments];
    scratch.command(&all.concat())
}

fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A pipe that takes nothing more, and the end that keeps it open.
fn full_pipe() -> (OwnedFd, Stdio) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // 16 pages, the default; a smaller pipe would have this test wait for ever, so it is asked for no more.
    writer.write_all(&[b'x'; 65_536]).unwrap();
    (reader.into(), writer.into())
}

/// Hundreds of clients that break the protocol, each of which is a line of the log.
fn bad_clients(socket: &Path) {
    for _ in 0..700 {
        let Ok(mut stream) = UnixStream::connect(socket) else { continue };
        let _ = stream.write_all(&[0xff; 64]);
    }
}

#[test]
fn nobody_reads_its_log() {
    let scratch = Scratch::new();
    let (_held, stuck) = full_pipe();
    let full = File::options().write(true).open("/dev/full").unwrap().into();
    for stderr in [stuck, closed_pipe(), full] {
        let socket = scratch.path("nbd");
        let server = Server::start(serve(&scratch, &[]).stdout(Stdio::null()).stderr(stderr), socket.clone());
        let mut honest = server.client();
        bad_clients(&socket);
        assert_eq!(honest.write(0, 1, 4096), 0);
        assert_eq!(server.client().call(FLUSH, 0, 0, &[]), 0);
        server.signal("-TERM");
        assert_eq!(server.end().code(), Some(0));
    }
}

/// A log that is a pipe would hold the server up: when it opens it, and whenever the reader is slow.
#[test]
fn a_command_log_or_trace_that_waits_for_a_reader_is_refused() {
    let scratch = Scratch::new();
    let made = Command::new("mkfifo").arg(scratch.path("fifo")).status().unwrap();
    assert!(made.success());
    let file = scratch.path("file");
    for option in ["--command-log", "--trace"] {
        let server =
            Server::start(serve(&scratch, &[option, "fifo"]).stderr(File::create(&file).unwrap()), scratch.path("nbd"));
        assert_eq!(server.end().code(), Some(1), "{option}");
        let said = std::fs::read_to_string(&file).unwrap();
        assert!(said.contains("fifo is a pipe or socket"), "{option}: {said}");
        // With a reader, too: it may stop.
        let _reader = File::options().read(true).write(true).open(scratch.path("fifo")).unwrap();
        assert_eq!(
            Server::start(serve(&scratch, &[option, "fifo"]).stderr(Stdio::null()), scratch.path("nbd")).end().code(),
            Some(1)
        );
    }
}

#[test]
fn nobody_takes_its_report() {
    let scratch = Scratch::new();
    let log = || File::create(scratch.path("log")).unwrap();
    for json in [&[][..], &["--json"]] {
        let server = Server::start(serve(&scratch, json).stdout(closed_pipe()).stderr(log()), scratch.path("nbd"));
        assert_eq!(server.client().write(0, 1, 4096), 0);
        server.signal("-TERM");
        assert_eq!(server.end().code(), Some(1), "a server does not die of its report");
        let said = std::fs::read_to_string(scratch.path("log")).unwrap();
        assert!(said.contains("nobody took the report from standard output: Broken pipe"), "{said}");

        let full = File::options().write(true).open("/dev/full").unwrap();
        let server = Server::start(serve(&scratch, json).stdout(full).stderr(Stdio::null()), scratch.path("nbd"));
        drop(server.client());
        server.signal("-TERM");
        assert_eq!(server.end().code(), Some(1));
    }
    let (_held, stuck) = full_pipe();
    let server = Server::start(serve(&scratch, &[]).stdout(stuck).stderr(Stdio::null()), scratch.path("nbd"));
    drop(server.client());
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(1), "a report that nobody takes is not waited for without end");
}

#[test]
fn no_name_of_a_client_forges_a_line() {
    let scratch = Scratch::new();
    let server = Server::start(
        serve(&scratch, &[]).stdout(Stdio::null()).stderr(File::create(scratch.path("log")).unwrap()),
        scratch.path("nbd"),
    );
    drop(server.client());
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    let name = b"x\nready at nbd://evil\x1b[2J\x9b\xe2\x80\xae";
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01").unwrap();
    stream.write_all(&(name.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(name).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(0));
    let log = std::fs::read(scratch.path("log")).unwrap();
    assert!(!log.iter().any(|byte| *byte < b' ' && *byte != b'\n' || *byte == 0x9b), "{log:?}");
    let log = String::from_utf8(log).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("ready at ")).count(), 1, "{log}");
    assert!(log.contains(r"asks for `x\nready at nbd://evil\u{1b}[2J\x9b\u{202e}`"), "{log}");
}

/// Starts the server where `DISK` is a file system of so many bytes of its own.
fn on_small_disk(scratch: &Scratch, bytes: u64, arguments: &str) -> Option<Server> {
    std::fs::create_dir_all(scratch.path("small")).unwrap();
    let script = format!("mount -t tmpfs -o size={bytes} plumb small || exit 77; exec \"$PLUMB\" serve {arguments}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]).env("PLUMB", env!("CARGO_BIN_EXE_plumb"));
    command.current_dir(scratch.path(".")).stdout(Stdio::null()).stderr(File::create(scratch.path("log")).unwrap());
    let mut server = Server::start(&mut command, scratch.path("nbd"));
    let deadline = Instant::now() + PATIENCE;
    while Nbd::try_connect(&server.socket).is_none() {
        if server.child.try_wait().unwrap().is_some_and(|status| status.code() == Some(77)) {
            println!("skipped: no tmpfs can be mounted in a namespace of its own here");
            return None;
        }
        assert!(Instant::now() < deadline, "{}", std::fs::read_to_string(scratch.path("log")).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(server)
}

/// A drive with a volatile cache, one with power-loss protection, a rotating one and a card: their image's disk is
/// full. No client is told that anything is safe which is not, the log says so, and so does the exit status.
#[test]
fn an_image_on_a_full_disk_is_never_silent() {
    for device in ["samsung-980pro-1tb", "optane-905p-960gb", "intel-s3500-480gb", "hdd-7200-1tb", "microsd-evo-128gb"]
    {
        let scratch = Scratch::new();
        let arguments = format!("--device {device} --nbd unix:nbd --no-calibration --image small/disk");
        let Some(server) = on_small_disk(&scratch, 1 << 20, &arguments) else { return };
        let mut client = server.client();
        let mut errors = 0;
        for block in 0..64 {
            errors += u32::from(client.write(block << 20, 7, 65_536) != 0);
        }
        let first = client.call(FLUSH, 0, 0, &[]);
        let second = client.call(FLUSH, 0, 0, &[]);
        // A card and a protected drive fail the writes themselves; then a flush has nothing to promise.
        assert!(errors > 0 || (first != 0 && second != 0), "{device}: {errors} errors, flushes {first} and {second}");
        if first != 0 {
            assert_ne!(client.write(40 << 20, 8, 65_536), 0, "{device}: takes more than it can keep");
            assert_ne!(second, 0, "{device}: a second flush promises what the first could not");
        }
        server.signal("-TERM");
        assert_eq!(server.end().code(), Some(1), "{device}");
        let log = std::fs::read_to_string(scratch.path("log")).unwrap();
        assert!(log.contains("error: cannot write") && log.contains("small/disk"), "{device}:\n{log}");
        assert!(log.lines().last().unwrap().starts_with("Error: "), "{device}:\n{log}");
        assert!(log.lines().count() < 20, "{device}: more than once for each kind:\n{log}");
    }
}

/// Somebody makes room in time: nothing was lost, and the end is a good one.
#[test]
fn an_image_takes_what_it_could_not_once_there_is_room() {
    let scratch = Scratch::new();
    let arguments = "--device samsung-980pro-1tb --nbd unix:nbd --no-calibration --image small/disk";
    std::fs::create_dir_all(scratch.path("small")).unwrap();
    let Some(server) = on_small_disk(&scratch, 1 << 20, arguments) else { return };
    // In the server's own mount namespace.
    let root = PathBuf::from(format!("/proc/{}/cwd/small", server.child.id()));
    std::fs::write(root.join("ballast"), vec![1; 900 << 10]).unwrap();
    let mut client = server.client();
    for block in 0..8 {
        client.write(block << 20, 7, 65_536);
    }
    assert_ne!(client.call(FLUSH, 0, 0, &[]), 0);
    std::fs::remove_file(root.join("ballast")).unwrap();
    assert_eq!(client.call(FLUSH, 0, 0, &[]), 0);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.write(9 << 20, 9, 4096), 0);
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(0), "{}", std::fs::read_to_string(scratch.path("log")).unwrap());
    assert!(std::fs::read_to_string(scratch.path("log")).unwrap().contains("takes writes again"));
}

/// The command log and the trace fill their disk: said when it happens, and by the exit status.
#[test]
fn logs_on_a_full_disk() {
    let scratch = Scratch::new();
    let arguments =
        "--device optane-905p-960gb --nbd unix:nbd --no-calibration --command-log small/log --trace small/trace";
    let Some(server) = on_small_disk(&scratch, 16 << 10, arguments) else { return };
    let mut client = server.client();
    for block in 0..2000 {
        assert_eq!(client.write(block << 12, 7, 4096), 0);
    }
    let log = || std::fs::read_to_string(scratch.path("log")).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !log().contains("error: cannot write small/log") {
        assert!(Instant::now() < deadline, "{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(1));
    for part in ["Error: cannot write small/log", "Error: cannot write small/trace"] {
        assert!(log().contains(part), "{}", log());
    }
}

#[test]
fn memory_is_bounded_and_given_back() {
    const MIB: usize = 1 << 20;
    let scratch = Scratch::new();
    let log = File::create(scratch.path("log")).unwrap();
    let mut command = serve(&scratch, &["--memory", "96MiB"]);
    let server = Server::start(command.stdout(Stdio::null()).stderr(log), scratch.path("nbd"));
    let mut client = server.client();
    assert_eq!(client.write(0, 1, MIB), 0);
    let before = server.resident_bytes();
    let written = (1..200).take_while(|block| client.write(block * MIB as u64, 1, MIB) == 0).count();
    assert!((70..=96).contains(&written), "{written} MiB of 96 fit");
    assert_eq!(client.write(150 << 20, 1, MIB), ENOSPC);
    // What is there can be overwritten, and read.
    assert_eq!((client.write(0, 2, MIB), client.call(READ, 0, MIB as u32, &[])), (0, 0));
    let full = server.resident_bytes();
    assert!(full > before + 60 * MIB as u64, "{full} after {before}");
    assert_eq!(client.call(TRIM, 0, 300 << 20, &[]), 0);
    assert_eq!(client.call(FLUSH, 0, 0, &[]), 0);
    let deadline = Instant::now() + PATIENCE;
    while server.resident_bytes() > before + 24 * MIB as u64 {
        assert!(Instant::now() < deadline, "{} of {full} after a trim; {before} at first", server.resident_bytes());
        // A turn of the loop.
        assert_eq!(client.call(READ, 0, 4096, &[]), 0);
        std::thread::sleep(Duration::from_millis(20));
    }
    for block in 0..40 {
        assert_eq!(client.write(block * MIB as u64, 1, MIB), 0, "what was trimmed can be written again");
    }
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(0));
    let log = std::fs::read_to_string(scratch.path("log")).unwrap();
    for part in ["at most 96MiB", "90 %", "no space: 1 writes were refused"] {
        assert!(log.contains(part), "no `{part}` in\n{log}");
    }
}

/// Without descriptors nobody new can be accepted: no turn of the loop is wasted on it, those who are there are
/// served, and so is the next one when somebody has gone.
#[test]
fn descriptors_run_out() {
    let scratch = Scratch::new();
    let script = "ulimit -n 24; exec \"$PLUMB\" serve --device optane-905p-960gb --nbd unix:nbd --no-calibration";
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PLUMB", env!("CARGO_BIN_EXE_plumb")).current_dir(scratch.path("."));
    command.stdout(Stdio::null()).stderr(File::create(scratch.path("log")).unwrap());
    let server = Server::start(&mut command, scratch.path("nbd"));
    let mut honest = server.client();
    assert_eq!(honest.write(0, 1, 4096), 0);
    let mut busy: Vec<Nbd> = Vec::new();
    let waiting: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&server.socket).unwrap()).collect();
    for _ in 0..3 {
        let mut client = server.client();
        assert_eq!(client.write(0, 1, 4096), 0);
        busy.push(client);
    }
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        // From the third field on: the state; the 14th and 15th are utime and stime.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    assert!(ticks() - before < 50, "{} ticks of processor time in two idle seconds", ticks() - before);
    assert_eq!(honest.call(READ, 0, 4096, &[]), 0);
    drop(waiting);
    assert_eq!(server.client().call(READ, 0, 4096, &[]), 0);
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(0));
}

/// Asked to stop while it still measures what serving costs, and while a second server wants the same image.
#[test]
fn early_and_twice() {
    let scratch = Scratch::new();
    let arguments = ["serve", "--device", "optane-905p-960gb", "--nbd", "unix:nbd", "--image", "disk"];
    for pause_ms in [0, 50, 200, 400] {
        let mut command = scratch.command(&arguments);
        let log = File::create(scratch.path("log")).unwrap();
        let mut server = Server::start(command.stdout(Stdio::null()).stderr(log), scratch.path("nbd"));
        // Signals are caught from the first line on.
        while std::fs::read_to_string(scratch.path("log")).unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
            assert!(server.child.try_wait().unwrap().is_none());
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        scratch
            .plumb(&["serve", "--device", "optane-905p-960gb", "--nbd", "unix:other", "--image", "disk"])
            .fails(2, &["disk is in use by another process"]);
        server.signal("-TERM");
        assert_eq!(server.end().code(), Some(0));
    }
}
