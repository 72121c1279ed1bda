//! Lines for an operator, who may be slow, gone, or out of disk.
//!
//! A server must not wait for whoever reads its log: a terminal stopped by Ctrl-S, a pipe that nobody empties, a
//! file on the very disk that it serves. So a thread of its own writes the lines, and the server only queues them;
//! beyond a bound they are dropped and counted, and the count is the first thing said when there is room again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use units::printable;

/// Bytes of lines that wait to be written.
const QUEUED_BYTES: usize = 256 << 10;
/// The thread only makes system calls.
const STACK_BYTES: usize = 128 << 10;
/// How long the end of a log is waited for where nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

/// A stream of lines that never blocks who writes them. Dropping it waits a second for what is queued.
pub struct LineWriter {
    shared: Arc<Shared>,
}

/// How the lines of a [`LineWriter`] fared.
#[derive(Debug)]
pub struct Written {
    /// Lines that were not written.
    pub lost: u64,
    /// Whether the last line has been written, or will never be.
    pub is_over: bool,
    /// Why lines were not written, where the system said so.
    pub error: Option<io::Error>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were dropped.
    lost: u64,
    /// Of those, the ones that nobody has been told of.
    unsaid: u64,
    error: Option<io::Error>,
    writing: bool,
    over: bool,
}

impl LineWriter {
    /// Lines to standard error.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors or threads.
    pub fn stderr() -> io::Result<Self> {
        // Not through `io::Stderr`, whose lock a writer that is stuck would hold.
        Self::to(io::stderr().as_fd().try_clone_to_owned()?)
    }

    /// Lines to standard output.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors or threads.
    pub fn stdout() -> io::Result<Self> {
        Self::to(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Lines to a descriptor.
    ///
    /// # Errors
    ///
    /// When the process is out of threads.
    pub fn to(descriptor: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (theirs, file) = (Arc::clone(&shared), File::from(descriptor));
        thread::Builder::new().name("lines".to_owned()).stack_size(STACK_BYTES).spawn(move || theirs.write(&file))?;
        Ok(Self { shared })
    }

    /// Queues a line, which is made fit for a terminal; without room it is dropped.
    pub fn line(&self, text: &str) {
        let mut line = printable(text).into_owned().into_bytes();
        line.push(b'\n');
        let mut state = self.shared.lock();
        if state.bytes + line.len() > QUEUED_BYTES && !state.lines.is_empty() {
            state.lost += 1;
            state.unsaid += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written, at most so long.
    pub fn finish(&self, patience: Duration) -> Written {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        loop {
            let is_over = state.lines.is_empty() && !state.writing;
            let left = deadline.saturating_duration_since(Instant::now());
            if is_over || left.is_zero() {
                return Written { lost: state.lost, is_over, error: state.error.take() };
            }
            (state, _) = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.finish(PATIENCE);
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes what is queued, one line after another.
    fn write(&self, file: &File) {
        let mut state = self.lock();
        loop {
            let Some(line) = state.lines.pop_front() else {
                if state.over {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.bytes -= line.len();
            state.writing = true;
            let unsaid = std::mem::take(&mut state.unsaid);
            drop(state);
            // Lines were dropped behind those that are queued, so this stands a little early.
            let notice = format!("{unsaid} lines of this log were lost, which nobody took in time\n");
            let said = if unsaid > 0 { write_all(file, notice.as_bytes()) } else { Ok(()) };
            let written = write_all(file, &line);
            state = self.lock();
            state.writing = false;
            if said.is_err() {
                state.unsaid += unsaid;
            }
            if let Err(error) = written {
                state.lost += 1;
                state.unsaid += 1;
                state.error = Some(error);
            }
            self.changed.notify_all();
        }
    }
}

/// Writes all of it, however long that takes, whether or not somebody has made the descriptor non-blocking.
fn write_all(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // An interruption only makes the loop try again.
                let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    #[test]
    fn a_reader_who_does_not_read_costs_lines_and_no_time() {
        let (reader, writer) = io::pipe().unwrap();
        let lines = LineWriter::to(writer.into()).unwrap();
        let before = Instant::now();
        for number in 0..20_000 {
            lines.line(&format!("line {number} of a flood, long enough to fill a pipe and the queue behind it"));
        }
        assert!(before.elapsed() < Duration::from_secs(20), "a line took as long as its reader");
        let stuck = lines.finish(Duration::from_millis(50));
        assert!(!stuck.is_over && stuck.lost > 1000, "{stuck:?}");
        // Somebody reads again, and is told.
        let mut reader = BufReader::new(reader);
        let drained = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        let after = lines.finish(Duration::from_secs(60));
        assert!(after.is_over, "{after:?}");
        lines.line("the end");
        drop(lines);
        let text = drained.join().unwrap();
        let told: u64 = text
            .lines()
            .filter_map(|line| line.strip_suffix(" lines of this log were lost, which nobody took in time"))
            .map(|count| count.parse::<u64>().unwrap())
            .sum();
        assert_eq!(told, stuck.lost);
        assert_eq!(text.lines().filter(|line| line.starts_with("line ")).count() as u64, 20_000 - stuck.lost);
        assert!(text.ends_with("the end\n"));
    }

    #[test]
    fn a_reader_who_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let lines = LineWriter::to(writer.into()).unwrap();
        lines.line("for nobody");
        let written = lines.finish(Duration::from_secs(60));
        assert!(written.is_over && written.lost == 1);
        assert_eq!(written.error.map(|error| error.kind()), Some(ErrorKind::BrokenPipe));
    }

    #[test]
    fn a_line_stays_one_line() {
        let (reader, writer) = io::pipe().unwrap();
        let lines = LineWriter::to(writer.into()).unwrap();
        lines.line("client `x\nready at nbd://evil` \u{1b}[2J");
        drop(lines);
        let read: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert_eq!(read, [r"client `x\nready at nbd://evil` \u{1b}[2J"]);
    }

    /// Somebody else may have made the open file non-blocking: it is shared.
    #[test]
    fn a_descriptor_that_does_not_block() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let lines = LineWriter::to(writer.into()).unwrap();
        let text = "x".repeat(100_000);
        for _ in 0..2 {
            lines.line(&text);
        }
        lines.line("end");
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        assert!(lines.finish(Duration::from_secs(60)).is_over);
        drop(lines);
        assert_eq!(reading.join().unwrap().len(), 200_002 + 4);
    }
}
