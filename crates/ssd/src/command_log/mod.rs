//! The stream of commands as a device got it.
//!
//! A [`CommandLog`] wraps a device at its boundary and writes one
//! [`CommandRecord`] for each command once it has completed, whoever the host is:
//! the modelled block layer in a simulation, or a real kernel behind a
//! front-end. What two hosts asked of one device can then be compared command
//! by command.

mod device;
mod reader;
mod record;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

pub use reader::{CommandLogError, read};
pub use record::{CommandRecord, RecordError};

use crate::Device;
use device::LoggedDevice;

/// The first line of a log: the names of the columns.
pub const HEADER: &str = "sequence\tsubmitted_ns\tcompleted_ns\tqueue\tcid\topcode\tnsid\tlba\tblocks\tflags\tstatus";

/// A log of commands. Clones are one log.
///
/// The first fault of the writer ends the log, not the device: it is what
/// [`CommandLog::finish`] returns.
#[derive(Clone)]
pub struct CommandLog(Rc<RefCell<Sink>>);

struct Sink {
    to: Target,
    lines: u64,
}

enum Target {
    Writer(Box<dyn Write>),
    Memory { records: Vec<CommandRecord>, limit: usize, left_out: u64 },
    Failed(Option<io::Error>),
}

impl CommandLog {
    /// A log that is written as text: [`HEADER`] and one line a command, in the
    /// order of completion. Give it a buffered writer.
    pub fn to_writer(mut writer: Box<dyn Write>) -> Self {
        let to = match writeln!(writer, "{HEADER}") {
            Ok(()) => Target::Writer(writer),
            Err(error) => Target::Failed(Some(error)),
        };
        Self(Rc::new(RefCell::new(Sink { to, lines: 0 })))
    }

    /// A log of the first `limit` commands to complete, kept in memory.
    pub fn in_memory(limit: usize) -> Self {
        let to = Target::Memory { records: Vec::new(), limit, left_out: 0 };
        Self(Rc::new(RefCell::new(Sink { to, lines: 0 })))
    }

    /// The device with this log at its boundary; it is the same device to its user.
    pub fn wrap(&self, device: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(LoggedDevice::new(device, self.clone()))
    }

    /// Ends the log and writes what is buffered; the number of commands in it.
    /// Commands that complete later are not logged.
    pub fn finish(&self) -> io::Result<u64> {
        let mut sink = self.0.borrow_mut();
        match std::mem::replace(&mut sink.to, Target::Failed(None)) {
            Target::Writer(mut writer) => writer.flush()?,
            Target::Memory { .. } | Target::Failed(None) => {}
            Target::Failed(Some(error)) => return Err(error),
        }
        Ok(sink.lines)
    }

    /// Takes what is kept in memory, by time of submission, and how many
    /// commands were left out beyond the limit. Empty for a log that is written.
    pub fn take(&self) -> (Vec<CommandRecord>, u64) {
        match &mut self.0.borrow_mut().to {
            Target::Memory { records, left_out, .. } => {
                let mut records = std::mem::take(records);
                records.sort_by_key(|record| record.sequence);
                (records, std::mem::take(left_out))
            }
            Target::Writer(_) | Target::Failed(_) => (Vec::new(), 0),
        }
    }

    fn add(&self, record: CommandRecord) {
        let mut sink = self.0.borrow_mut();
        match &mut sink.to {
            Target::Writer(writer) => match writeln!(writer, "{record}") {
                Ok(()) => sink.lines += 1,
                Err(error) => sink.to = Target::Failed(Some(error)),
            },
            Target::Memory { records, limit, left_out } => {
                if records.len() < *limit {
                    records.push(record);
                    sink.lines += 1;
                } else {
                    *left_out += 1;
                }
            }
            Target::Failed(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
    use trace::RequestId;
    use units::Nanos;

    use super::*;
    use crate::{NullDevice, Submission};

    fn submission(cid: u16, command: Command) -> Submission {
        Submission { queue: QueueId(1), cid: CommandId(cid), command, data: None, request: RequestId(0) }
    }

    fn write(start: u64) -> Command {
        Command::write(NamespaceId::FIRST, LbaRange { start: Lba(start), count: 8 }, true)
    }

    /// A writer that can be looked at while the log has it.
    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_went_through_is_written_and_read_back() {
        let text = Shared::default();
        let log = CommandLog::to_writer(Box::new(text.clone()));
        let mut device = log.wrap(Box::new(NullDevice::new(1000, 512, Nanos(100))));
        let mut done = Vec::new();
        device.submit(Nanos(5), submission(7, write(16)));
        device.submit(Nanos(6), submission(8, Command::Flush { nsid: NamespaceId::FIRST }));
        device.advance(Nanos(105), &mut done);
        device.submit(Nanos(106), submission(7, write(2000)));
        assert_eq!(done.len(), 1);
        device.power_cut(Nanos(107));
        assert_eq!(log.finish().unwrap(), 3);
        let written = text.0.borrow().clone();
        let records = read("log", written.as_slice(), 100).unwrap();
        assert_eq!(records.len(), 3);
        assert_eq!(records[0].command, write(16));
        assert_eq!((records[0].submitted_at, records[0].completed_at), (Nanos(5), Some(Nanos(105))));
        assert_eq!(records[0].latency(), Some(Nanos(100)));
        assert!(records[0].status.unwrap().is_success());
        // What was in the device when the power went never completed.
        assert_eq!((records[1].completed_at, records[1].status), (None, None));
        assert_eq!(records[2].sequence, 2);
    }

    #[test]
    fn memory_is_bounded() {
        let log = CommandLog::in_memory(2);
        let mut device = log.wrap(Box::new(NullDevice::new(1000, 512, Nanos(100))));
        let mut done = Vec::new();
        for cid in 0..5 {
            device.submit(Nanos(5), submission(cid, write(u64::from(cid) * 8)));
        }
        device.advance(Nanos(105), &mut done);
        assert_eq!(done.len(), 5);
        let (records, left_out) = log.take();
        assert_eq!((records.len(), left_out), (2, 3));
    }

    #[test]
    fn a_full_disk_ends_the_log_and_not_the_device() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = CommandLog::to_writer(Box::new(Full));
        let mut device = log.wrap(Box::new(NullDevice::new(1000, 512, Nanos(100))));
        let mut done = Vec::new();
        device.submit(Nanos(5), submission(7, write(16)));
        device.advance(Nanos(105), &mut done);
        assert_eq!(done.len(), 1);
        assert_eq!(log.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
