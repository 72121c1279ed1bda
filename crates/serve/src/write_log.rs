//! The log of what a power cut could take: writes with their bytes, flushes and discards, as the device gets them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use crash::order::{Closing, OrderTuple, WirePlace};
use crash::{Content, Event, FlushId, LogWriter, WriteId};
use nvme::{Command, CommandId, LbaRange, NamespaceId, QueueId, StreamAction, StreamEpoch, WriteCommand, WriteOrder};
use ssd::{Completion, Device, PowerCut, Submission, Wrapper};
use units::Nanos;

/// Such a log. Clones are one log.
///
/// Each entry is one write to the file at the moment when the device gets or completes a command: the file's length tells whoever
/// looks at it in between how far the device is. A deallocation counts as zeroes: a device may also keep what was there (NVM 3.2.3),
/// but then nothing is lost either. Namespaces follow each other as if they were one device. The first failure of the
/// file ends the log, not the device: it is what [`WriteLog::finish`] returns.
#[derive(Clone)]
pub struct WriteLog(Rc<RefCell<Sink>>);

struct Sink {
    to: Result<LogWriter<Box<dyn Write>>, Option<io::Error>>,
    writes: u64,
    flushes: u64,
}

impl Sink {
    fn append(&mut self, at: Nanos, event: &Event) {
        if let Ok(writer) = &mut self.to
            && let Err(error) = writer.append(at, event)
        {
            self.to = Err(Some(error));
        }
    }
}

impl WriteLog {
    /// Logs what `device` gets from now on to a file, which must not be buffered; the device to be used.
    ///
    /// # Errors
    /// For a device with zones: what their write pointers promise is no rule that the log knows. And what the file says.
    pub fn wrap(to: Box<dyn Write>, device: Box<dyn Device>) -> io::Result<(Self, Box<dyn Device>)> {
        let identity = device.identity();
        if identity.zoned.is_some() {
            let why = "a log of writes for power cuts is for devices without zones";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let lba_bytes = u64::from(identity.lba_bytes);
        let mut firsts_bytes = vec![0];
        for blocks in &identity.namespace_blocks {
            firsts_bytes.push(firsts_bytes.last().copied().unwrap_or(0) + blocks * lba_bytes);
        }
        let capacity_bytes = firsts_bytes.last().copied().unwrap_or(0);
        let writer = LogWriter::new(to, capacity_bytes, identity.lba_bytes)?;
        let log = Self(Rc::new(RefCell::new(Sink { to: Ok(writer), writes: 0, flushes: 0 })));
        let logged = Logged { device, log: log.clone(), firsts_bytes, lba_bytes, outstanding: BTreeMap::new() };
        Ok((log, Box::new(logged)))
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first failure of its file.
    pub fn finish(&self) -> io::Result<()> {
        match std::mem::replace(&mut self.0.borrow_mut().to, Err(None)) {
            Ok(_) | Err(None) => Ok(()),
            Err(Some(error)) => Err(error),
        }
    }
}

/// What the completion of a command completes.
enum Outstanding {
    Writes(Vec<WriteId>),
    Flush(FlushId),
    /// A stream is then open, or closed.
    Stream(Event),
}

struct Logged {
    device: Box<dyn Device>,
    log: WriteLog,
    /// Where each namespace begins, and at last the end.
    firsts_bytes: Vec<u64>,
    lba_bytes: u64,
    /// Bounded by the device's queues.
    outstanding: BTreeMap<(QueueId, CommandId), Outstanding>,
}

impl Logged {
    /// Logs writes to these ranges; of `data` there is one range.
    fn writes(
        &self,
        at: Nanos,
        nsid: NamespaceId,
        ranges: &[LbaRange],
        data: Option<&[u8]>,
        (fua, order): (bool, OrderTuple),
    ) -> Outstanding {
        let namespace = (nsid.0 as usize).wrapping_sub(1);
        let mut ids = Vec::new();
        if let (Some(first), Some(end)) = (self.firsts_bytes.get(namespace), self.firsts_bytes.get(namespace + 1)) {
            let mut sink = self.log.0.borrow_mut();
            for range in ranges {
                let offset_bytes = first.saturating_add(range.start.0.saturating_mul(self.lba_bytes));
                let len_bytes = u64::from(range.count) * self.lba_bytes;
                // The device refuses what is not inside, and nothing of it happens.
                if len_bytes == 0 || offset_bytes.saturating_add(len_bytes) > *end {
                    continue;
                }
                let content = match data {
                    Some(bytes) if bytes.len() as u64 == len_bytes => Content::Bytes(bytes.into()),
                    _ => Content::Zeroes(len_bytes),
                };
                let id = WriteId(sink.writes);
                sink.writes += 1;
                sink.append(at, &Event::Write { id, offset_bytes, content, fua, order });
                ids.push(id);
            }
        }
        Outstanding::Writes(ids)
    }
}

/// What a write says of order.
fn tuple(queue: QueueId, order: &WriteOrder) -> OrderTuple {
    if *order == WriteOrder::NONE {
        return OrderTuple::NONE;
    }
    let place = |place: StreamEpoch| WirePlace { stream: place.stream.0, epoch: place.epoch.0 };
    let closing = match order.closing {
        nvme::Closing::None => Closing::None,
        nvme::Closing::ByArrival => Closing::ByArrival,
        nvme::Closing::Counted { first_blocks, second_blocks } => Closing::Counted { first_blocks, second_blocks },
    };
    OrderTuple { queue: queue.0, first: place(order.first), second: place(order.second), closing }
}

impl Wrapper for Logged {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let outstanding = match &submission.command {
            Command::Write(WriteCommand { nsid, range, fua, order, .. }) => {
                let data = Some(submission.data.as_deref().unwrap_or_default());
                let how = (*fua, tuple(submission.queue, order));
                Some(self.writes(now, *nsid, &[*range], data, how))
            }
            Command::WriteZeroes { nsid, range, fua, .. } => {
                Some(self.writes(now, *nsid, &[*range], None, (*fua, OrderTuple::NONE)))
            }
            Command::Deallocate { nsid, ranges } => {
                Some(self.writes(now, *nsid, ranges, None, (false, OrderTuple::NONE)))
            }
            Command::StreamManagement { stream, action, .. } => Some(Outstanding::Stream(match action {
                StreamAction::Open { first } => Event::StreamOpened { stream: stream.0, first: first.0 },
                StreamAction::Close => Event::StreamClosed(stream.0),
            })),
            Command::Flush { .. } => {
                let mut sink = self.log.0.borrow_mut();
                let id = FlushId(sink.flushes);
                sink.flushes += 1;
                sink.append(now, &Event::FlushSubmitted(id));
                Some(Outstanding::Flush(id))
            }
            _ => None,
        };
        if let Some(outstanding) = outstanding {
            self.outstanding.insert((submission.queue, submission.cid), outstanding);
        }
        self.device.submit(now, submission);
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.device.advance(now, completions);
        for done in completions.iter().skip(before) {
            let Some(outstanding) = self.outstanding.remove(&(done.queue, done.cid)) else { continue };
            // What failed may have happened, and promises nothing.
            if !done.status.is_success() {
                continue;
            }
            let mut sink = self.log.0.borrow_mut();
            match outstanding {
                Outstanding::Writes(ids) => {
                    for id in ids {
                        sink.append(done.at, &Event::Completed(id));
                    }
                }
                Outstanding::Flush(id) => sink.append(done.at, &Event::FlushCompleted(id)),
                Outstanding::Stream(event) => sink.append(done.at, &event),
            }
        }
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.outstanding.clear();
        self.device.power_cut(now)
    }
}
