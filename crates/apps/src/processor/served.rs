//! Requests to a file system in user space.

use std::io;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use fuse::{Mount, Operation, SingleFile, Transport};
use rustix::event::{PollFd, PollFlags, poll};

use super::{FILE_BYTES, Fixture, Job, PAGE_BYTES, switches, time};

pub(super) const READ: Job = Job {
    name: "fuse-read-4k",
    operation: "a read of 4 KiB, past the page cache, from a FUSE server of the same processor",
    operations: 200,
    round: |fixture, operations| read(fixture, operations, PAGE_BYTES),
};

pub(super) const READ_LARGE: Job = Job {
    name: "fuse-read-64k",
    operation: "a read of 64 KiB, past the page cache, from a FUSE server of the same processor",
    operations: 200,
    round: |fixture, operations| read(fixture, operations, 16 * PAGE_BYTES),
};

/// System calls on the way of a read and of its answer: the reader's; the server's poll and read. Its writev ends beside what the
/// reader does next, where each has a processor.
pub const FUSE_SYSTEM_CALLS: u32 = 3;
/// Each of the two waits for the other.
pub const FUSE_SWITCHES: u32 = 2;

const NAME: &str = "file";

fn read(_: &Fixture, operations: u32, bytes: usize) -> io::Result<Duration> {
    let mut transport = Transport::open(false).map_err(absent)?;
    let mount = Mount::new(transport.device()).map_err(absent)?;
    switches::on_one_processor(|| {
        let server = thread::spawn(move || serve(&mut transport));
        // Whatever happens, the file system goes before its server is waited for.
        let elapsed = (|| {
            let file = mount.open(NAME, true)?;
            let mut buffer = vec![0; bytes];
            time(|| (0..operations).try_for_each(|_| file.read_exact_at(&mut buffer, 0)))
        })();
        drop(mount);
        server.join().map_err(|_| io::Error::other("the server panicked"))??;
        elapsed
    })
}

/// Told apart from what is broken: [`super::run`] leaves out what a machine does not have.
fn absent(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("no FUSE file system can be mounted here: {why}"))
}

/// Answers until the file system is gone. One wait and one request at a time, so that each costs the same calls.
fn serve(transport: &mut Transport) -> io::Result<()> {
    let file =
        SingleFile { name: NAME.to_owned(), size_bytes: FILE_BYTES, block_bytes: PAGE_BYTES as u32, read_only: true };
    let zeros = vec![0; 16 * PAGE_BYTES];
    while transport.is_connected() {
        poll(&mut [PollFd::new(&transport.device(), PollFlags::IN)], None)?;
        transport.device_is_readable();
        let Some(incoming) = transport.receive().map_err(io::Error::other)? else { continue };
        let to = incoming.reply_to;
        let answer = match (file.answer(incoming.node, &incoming.operation), incoming.operation) {
            (Some(answer), _) => answer,
            (None, operation) if !operation.is_answered() => continue,
            (None, Operation::Read { length, .. }) => {
                let length = (length as usize).min(zeros.len());
                transport.reply(to, Ok(&zeros[..length]));
                continue;
            }
            (None, _) => Err(rustix::io::Errno::ROFS.raw_os_error()),
        };
        transport.reply(to, answer.as_ref().map(fuse::Body::as_bytes).map_err(|number| *number));
    }
    transport.send().map_err(io::Error::other)
}
