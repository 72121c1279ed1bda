//! The output of `strace -f -y -e trace=desc,process` (strace(1)).
//!
//! `-y`, which prints descriptors with their paths, is needed; `-f`, `-o`, `-t`, `-tt`,
//! `-ttt`, `-r` and `-T` make no difference. Without the calls that open, seek and
//! duplicate, positions are taken to begin at 0. Not in such a trace are io_uring, what is
//! done through mappings (all of a mapping counts as accessed once), and the places of
//! appended data, which are left out.

mod call;
mod descriptors;

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;

use call::{Call, Line, descriptor, number};
use descriptors::{Descriptors, Position};

use super::error::TraceError;
use super::parsed::{Collector, Parsed};
use crate::{ByteRange, IoKind};

/// `strace` shortens strings; a longer line is some other file's.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Threads with a call that is not finished, at once.
const MAX_UNFINISHED: usize = 1 << 16;

/// Reads strace's output. `path` is for the messages; relative names are from `folder` on
/// (`-y` prints full ones).
///
/// # Errors
/// [`TraceError::Line`] if no line of it is one of strace's with `-y`; [`TraceError::File`]
/// if reading fails. Single lines that are not understood are counted and left out.
pub fn parse(mut input: impl BufRead, path: &Path, folder: &Path) -> Result<Parsed, TraceError> {
    let mut state = State { collector: Collector::new("strace"), descriptors: Descriptors::default(), folder };
    let mut unfinished: HashMap<u32, String> = HashMap::new();
    let mut bytes = Vec::new();
    let mut understood = 0_u64;
    loop {
        bytes.clear();
        let taken = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        if taken.map_err(TraceError::file(path, "reading strace's output"))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let (thread, line) = call::line(text.trim_end());
        let whole = match line {
            Line::Complete(text) => text.to_owned(),
            Line::Unfinished(text) => {
                state.descriptors.begins(thread, text);
                if unfinished.len() < MAX_UNFINISHED {
                    unfinished.insert(thread, text.to_owned());
                }
                continue;
            }
            Line::Resumed(rest) => {
                state.descriptors.ends(thread);
                match unfinished.remove(&thread) {
                    Some(begin) => begin + rest,
                    None => {
                        state.collector.skip();
                        continue;
                    }
                }
            }
            Line::Ended => {
                unfinished.remove(&thread);
                state.descriptors.exited(thread);
                continue;
            }
            Line::Signal => continue,
            Line::Other => {
                if !text.trim().is_empty() {
                    state.collector.skip();
                }
                continue;
            }
        };
        match Call::parse(&whole) {
            Some(call) => {
                understood += 1;
                if state.call(thread, &call).is_none() {
                    state.collector.skip();
                }
            }
            None => state.collector.skip(),
        }
    }
    if understood == 0 {
        let why = "no line of it is a system call as `strace -f -y` prints them".to_owned();
        return Err(TraceError::Line { path: path.to_owned(), line: 1, why });
    }
    Ok(state.collector.finish())
}

struct State<'a> {
    collector: Collector,
    descriptors: Descriptors,
    folder: &'a Path,
}

impl State<'_> {
    /// `None` if the call is about data and yet cannot be placed.
    fn call(&mut self, thread: u32, call: &Call<'_>) -> Option<()> {
        let Some(result) = call.result else { return Some(()) };
        match call.name {
            "open" | "openat" | "openat2" | "creat" => {
                // A terminal or the like: not a file's data.
                let Some((descriptor, path)) = call.returned_descriptor.clone() else { return Some(()) };
                let has = |flag| call.arguments.iter().any(|argument| call::has_flag(argument, flag));
                self.descriptors.open(thread, descriptor, path, has("O_DIRECT"), has("O_APPEND"));
            }
            "dup" | "dup2" | "dup3" => self.descriptors.duplicate(thread, number(call.argument(0)?)?, result),
            "fcntl" | "fcntl64" => {
                let descriptor = number(call.argument(0)?)?;
                match call.argument(1)? {
                    "F_DUPFD" | "F_DUPFD_CLOEXEC" => self.descriptors.duplicate(thread, descriptor, result),
                    "F_SETFL" => {
                        let flags = call.argument(2)?;
                        self.descriptors.set_direct(thread, descriptor, call::has_flag(flags, "O_DIRECT"));
                    }
                    _ => {}
                }
            }
            "close" => self.descriptors.close(thread, number(call.argument(0)?)?),
            "clone" | "clone3" | "fork" | "vfork" => {
                let shares = call.arguments.iter().any(|argument| argument.contains("CLONE_FILES"));
                self.descriptors.fork(thread, u32::try_from(result).ok()?, shares);
            }
            "lseek" | "_llseek" => {
                let position = if call.name == "lseek" { result } else { return None };
                self.descriptors.seek(thread, call.argument(0)?, position);
            }
            "read" | "readv" => self.transfer(thread, call.argument(0)?, None, result, false)?,
            "write" | "writev" => self.transfer(thread, call.argument(0)?, None, result, true)?,
            "pread64" | "pread" | "preadv" | "preadv2" => {
                self.transfer(thread, call.argument(0)?, Some(call.argument(3)?), result, false)?;
            }
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                self.transfer(thread, call.argument(0)?, Some(call.argument(3)?), result, true)?;
            }
            "sendfile" | "sendfile64" => {
                self.transfer(thread, call.argument(1)?, call::pointed(call.argument(2)?), result, false)?;
            }
            "splice" | "copy_file_range" => {
                self.transfer(thread, call.argument(0)?, call::pointed(call.argument(1)?), result, false)?;
                self.transfer(thread, call.argument(2)?, call::pointed(call.argument(3)?), result, true)?;
            }
            "readahead" => {
                let (_, path) = descriptor(call.argument(0)?)?;
                let range = ByteRange::new(number(call.argument(1)?)?, number(call.argument(2)?)?)?;
                self.collector.add(&self.folder.join(path?), IoKind::Readahead, range);
            }
            "mmap" | "mmap2" => {
                // Anonymous memory has the descriptor -1.
                if let Some((_, Some(path))) = descriptor(call.argument(4)?) {
                    let range = ByteRange::new(number(call.argument(5)?)?, number(call.argument(1)?)?)?;
                    self.collector.add(&self.folder.join(path), IoKind::Mapped, range);
                }
            }
            "io_submit" => self.submitted(thread, call.argument(2)?, result)?,
            "io_uring_enter" => return None,
            _ => {}
        }
        Some(())
    }

    /// `length` bytes were read from or written to a descriptor, at its position or at `at`.
    fn transfer(&mut self, thread: u32, argument: &str, at: Option<&str>, length: u64, is_write: bool) -> Option<()> {
        let (number, path) = descriptor(argument)?;
        // Pipes, sockets, terminals: not a file's data.
        let Some(path) = path else { return Some(()) };
        let open = self.descriptors.used(thread, number, &path);
        let start = match at {
            // RWF_APPEND and the current position are -1 for preadv2 and pwritev2.
            Some(at) if at != "-1" => call::number(at)?,
            _ => match open.position {
                Position::At(position) => {
                    open.position = Position::At(position.checked_add(length)?);
                    position
                }
                Position::Appending if is_write => return Some(()),
                Position::Appending => return None,
            },
        };
        let kind = match (is_write, open.is_direct) {
            (false, false) => IoKind::BufferedRead,
            (false, true) => IoKind::DirectRead,
            (true, false) => IoKind::BufferedWrite,
            (true, true) => IoKind::DirectWrite,
        };
        self.collector.add(&self.folder.join(path), kind, ByteRange::new(start, length)?);
        Some(())
    }

    /// `[{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3</a>, aio_buf=…, aio_nbytes=4096, aio_offset=0}, …]`
    fn submitted(&mut self, thread: u32, list: &str, accepted: u64) -> Option<()> {
        let blocks = call::elements(list);
        for block in blocks.into_iter().take(usize::try_from(accepted).ok()?) {
            let field = |name: &str| {
                call::elements(block).into_iter().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
            };
            let is_write = match field("aio_lio_opcode")? {
                "IOCB_CMD_PREAD" | "IOCB_CMD_PREADV" => false,
                "IOCB_CMD_PWRITE" | "IOCB_CMD_PWRITEV" => true,
                _ => continue,
            };
            let length = match field("aio_nbytes") {
                Some(length) if !field("aio_lio_opcode")?.ends_with('V') => number(length)?,
                // Of vectors, strace gives the parts.
                _ => {
                    let parts = call::elements(field("aio_buf")?);
                    let lengths = parts.into_iter().map(|part| {
                        let fields = call::elements(part);
                        number(fields.into_iter().find_map(|field| field.strip_prefix("iov_len="))?)
                    });
                    lengths.sum::<Option<u64>>()?
                }
            };
            self.transfer(thread, field("aio_fildes")?, Some(field("aio_offset").unwrap_or("0")), length, is_write)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
