//! Streams of ordered writes (`docs/nvme-ordering-fields.md`). Each controller has names of its own for them, the device one space
//! of names for all. A stream keeps its number in the device if no other controller has that; so with one host the device's log
//! names the streams as the host does.

use std::collections::BTreeMap;

use nvme::{
    Command, IoOpcode, NamespaceId, QueueId, Status, Stream, StreamAction, SubmissionEntry, WriteCommand, WriteOrder,
};

use super::{ConnectionId, Event, Purpose, Subsystem, io};

/// Names that are never open in the device: for a first and a second stream that the controller does not have.
const UNKNOWN: [Stream; 2] = [Stream(u16::MAX), Stream(u16::MAX - 1)];

/// The streams of all controllers.
#[derive(Default)]
pub(super) struct Streams {
    /// What a controller's streams are called in the device.
    names: BTreeMap<(u16, Stream), Stream>,
    /// By name in the device.
    used: BTreeMap<Stream, Used>,
}

/// A name in the device, which is free when nothing under way uses it and the stream is closed.
#[derive(Default)]
struct Used {
    requests: u32,
    is_closed: bool,
}

/// What a device request has to do with streams, by their names in the device.
#[derive(Clone, Copy, Default)]
pub(super) struct StreamUse {
    streams: [Stream; 2],
    change: Change,
}

/// What a request does to a stream; with whose it is.
#[derive(Clone, Copy, Default)]
enum Change {
    #[default]
    None,
    Opens(u16, Stream),
    Closes(u16, Stream),
    /// One whose controller is gone.
    Abandons,
}

impl Streams {
    /// A controller's command is about to go to the device: its streams get their names there.
    ///
    /// # Errors
    ///
    /// Stream Resource Allocation Failed where there is no name left.
    pub fn begin(&mut self, cntlid: u16, command: &mut Command) -> Result<StreamUse, Status> {
        let mut of_command = StreamUse::default();
        match command {
            Command::Write(WriteCommand { order, .. }) if *order != WriteOrder::NONE => {
                *order = self.in_device(cntlid, order);
                of_command.streams = [order.first.stream, order.second.stream];
            }
            Command::StreamManagement { stream, action, .. } if *stream != Stream::NONE => {
                let host = (cntlid, *stream);
                *stream = match (*action, self.names.get(&host).copied()) {
                    (StreamAction::Close, None) => UNKNOWN[0],
                    (StreamAction::Close, Some(known)) => {
                        self.names.remove(&host);
                        of_command.change = Change::Closes(cntlid, host.1);
                        known
                    }
                    // The device knows what to say to one that is open already.
                    (StreamAction::Open { .. }, Some(known)) => known,
                    (StreamAction::Open { .. }, None) => {
                        let name = self.free_name(*stream).ok_or(Status::STREAM_RESOURCE_ALLOCATION_FAILED)?;
                        self.names.insert(host, name);
                        self.used.insert(name, Used::default());
                        of_command.change = Change::Opens(cntlid, host.1);
                        name
                    }
                };
                of_command.streams[0] = *stream;
            }
            _ => {}
        }
        for stream in of_command.streams {
            if let Some(used) = self.used.get_mut(&stream) {
                used.requests += 1;
            }
        }
        Ok(of_command)
    }

    /// The same order with the device's names.
    pub fn in_device(&self, cntlid: u16, order: &WriteOrder) -> WriteOrder {
        let name = |stream: Stream, unknown: Stream| match stream {
            Stream::NONE => Stream::NONE,
            stream => self.names.get(&(cntlid, stream)).copied().unwrap_or(unknown),
        };
        let mut order = *order;
        // The same stream twice stays so: the device refuses it.
        let is_twice = order.first.stream == order.second.stream;
        order.first.stream = name(order.first.stream, UNKNOWN[0]);
        order.second.stream = name(order.second.stream, UNKNOWN[usize::from(!is_twice)]);
        order
    }

    /// A device request has ended.
    pub fn end(&mut self, of_command: &StreamUse, succeeded: bool) {
        let [stream, _] = of_command.streams;
        let is_closed = match of_command.change {
            Change::None => false,
            Change::Opens(cntlid, host) => {
                if !succeeded && self.names.get(&(cntlid, host)) == Some(&stream) {
                    self.names.remove(&(cntlid, host));
                }
                !succeeded
            }
            Change::Closes(cntlid, host) => {
                if !succeeded {
                    self.names.entry((cntlid, host)).or_insert(stream);
                }
                succeeded
            }
            Change::Abandons => succeeded,
        };
        for stream in of_command.streams {
            if let Some(used) = self.used.get_mut(&stream) {
                used.requests = used.requests.saturating_sub(1);
                used.is_closed |= is_closed;
                if used.is_closed && used.requests == 0 {
                    self.used.remove(&stream);
                }
            }
        }
    }

    /// A controller was reset or has ended: its streams, to be closed in the device.
    pub fn abandon(&mut self, cntlid: u16) -> Vec<(Stream, StreamUse)> {
        let of_it: Vec<_> = self.names.range((cntlid, Stream(0))..=(cntlid, Stream(u16::MAX))).collect();
        let hosts: Vec<_> = of_it.iter().map(|(host, _)| **host).collect();
        let mut closing = Vec::with_capacity(hosts.len());
        for host in hosts {
            let Some(stream) = self.names.remove(&host) else { continue };
            if let Some(used) = self.used.get_mut(&stream) {
                used.requests += 1;
            }
            closing.push((stream, StreamUse { streams: [stream, Stream::NONE], change: Change::Abandons }));
        }
        closing
    }

    /// The device has lost its power, and with it every stream.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A name that nobody uses, `wanted` if that is one.
    fn free_name(&self, wanted: Stream) -> Option<Stream> {
        let is_free = |name: &Stream| !self.used.contains_key(name) && !UNKNOWN.contains(name);
        Some(wanted).filter(is_free).or_else(|| (1..UNKNOWN[1].0).map(Stream).find(is_free))
    }
}

impl Subsystem {
    /// Whether the device must get a command in the order in which the host queued it: a barrier closes epochs by arrival, and
    /// a command's data may take longer to come than the next command.
    pub fn is_ordered(&self, id: ConnectionId, entry: &SubmissionEntry) -> bool {
        let names_streams = entry.opc == IoOpcode::StreamManagement as u8
            || io::order(&self.facts, entry).is_some_and(|order| order.is_ordered());
        names_streams && self.queue_of(id).is_some_and(|queue| queue != QueueId(0))
    }

    /// A controller was reset, has ended, or has no I/O queue left: its streams are closed. What the device accepted keeps its
    /// order, and what waits in them is aborted.
    pub(super) fn close_streams(&mut self, cntlid: u16) {
        for (stream, streams) in self.streams.abandon(cntlid) {
            let command = Command::StreamManagement { nsid: NamespaceId::ALL, stream, action: StreamAction::Close };
            let request = self.device_request(0, command, None, Purpose::CloseStream(streams));
            self.events.push(Event::Submit(request));
        }
    }

    /// A command has failed that the device does not see. If it was an ordered write, its epochs will never be complete.
    pub(super) fn break_streams(&mut self, id: ConnectionId, entry: &SubmissionEntry) {
        let queue = self.connections.get(&id).and_then(|connection| connection.queue.as_ref());
        if let Some(queue) = queue.filter(|queue| queue.id != QueueId(0))
            && let Some(order) = io::order(&self.facts, entry)
        {
            self.events.push(Event::BreakStreams(self.streams.in_device(queue.cntlid, &order)));
        }
    }
}

#[cfg(test)]
mod tests {
    use nvme::{Epoch, Lba, LbaRange, StreamEpoch};

    use super::*;

    fn manage(stream: u16, action: StreamAction) -> Command {
        Command::StreamManagement { nsid: NamespaceId::FIRST, stream: Stream(stream), action }
    }

    fn named(command: &Command) -> [u16; 2] {
        match command {
            Command::StreamManagement { stream, .. } => [stream.0, 0],
            Command::Write(WriteCommand { order, .. }) => [order.first.stream.0, order.second.stream.0],
            other => panic!("{other:?}"),
        }
    }

    /// What the device gets, and what is to be told of its end.
    fn begin(streams: &mut Streams, cntlid: u16, mut command: Command) -> ([u16; 2], StreamUse) {
        let of_command = streams.begin(cntlid, &mut command).unwrap();
        (named(&command), of_command)
    }

    fn write(first: u16, second: u16) -> Command {
        let at = |stream| StreamEpoch { stream: Stream(stream), epoch: Epoch(0) };
        let order = WriteOrder { first: at(first), second: at(second), ..WriteOrder::NONE };
        Command::ordered_write(NamespaceId::FIRST, LbaRange { start: Lba(0), count: 1 }, false, order)
    }

    const OPEN: StreamAction = StreamAction::Open { first: Epoch(0) };

    #[test]
    fn controllers_do_not_meet_in_the_device() {
        let mut streams = Streams::default();
        let (name, open) = begin(&mut streams, 1, manage(7, OPEN));
        streams.end(&open, true);
        assert_eq!(name, [7, 0]);
        let (other, open) = begin(&mut streams, 2, manage(7, OPEN));
        streams.end(&open, true);
        assert_ne!(other, [7, 0]);
        assert_eq!(begin(&mut streams, 1, write(7, 8)).0, [7, UNKNOWN[1].0]);
        assert_eq!(begin(&mut streams, 2, write(9, 7)).0, [UNKNOWN[0].0, other[0]]);
        assert_eq!(begin(&mut streams, 2, write(9, 9)).0, [UNKNOWN[0].0; 2]);
        assert_eq!(begin(&mut streams, 3, manage(7, StreamAction::Close)).0, [UNKNOWN[0].0, 0]);
        assert_eq!(begin(&mut streams, 1, manage(0, OPEN)).0, [0, 0]);
        let closing: Vec<_> = streams.abandon(1).iter().map(|(stream, _)| stream.0).collect();
        assert_eq!(closing, [7]);
        assert_eq!(begin(&mut streams, 1, write(7, 0)).0, [UNKNOWN[0].0, 0]);
        assert_eq!(begin(&mut streams, 2, write(7, 0)).0, [other[0], 0]);
    }

    /// A write that the device still has must not find another stream under its name.
    #[test]
    fn a_name_is_used_again_when_nothing_under_way_has_it() {
        let mut streams = Streams::default();
        let (_, open) = begin(&mut streams, 1, manage(7, OPEN));
        streams.end(&open, true);
        let (_, writing) = begin(&mut streams, 1, write(7, 0));
        let (_, closing) = begin(&mut streams, 1, manage(7, StreamAction::Close));
        streams.end(&closing, true);
        let (name, open) = begin(&mut streams, 1, manage(7, OPEN));
        assert_ne!(name, [7, 0]);
        streams.end(&writing, false);
        // The device had no room: the name is free again, and the host has no such stream.
        streams.end(&open, false);
        assert_eq!(begin(&mut streams, 1, write(7, 0)).0, [UNKNOWN[0].0, 0]);
        assert_eq!(begin(&mut streams, 1, manage(7, OPEN)).0, [7, 0]);
        assert_eq!(begin(&mut streams, 1, manage(u16::MAX, OPEN)).0, [1, 0]);
    }

    #[test]
    fn there_is_an_end_of_names() {
        let mut streams = Streams::default();
        for name in 1..UNKNOWN[1].0 {
            streams.begin(1, &mut manage(name, OPEN)).unwrap();
        }
        let refused = streams.begin(2, &mut manage(1, OPEN)).err();
        assert_eq!(refused, Some(Status::STREAM_RESOURCE_ALLOCATION_FAILED));
        streams.clear();
        assert!(streams.begin(2, &mut manage(1, OPEN)).is_ok());
    }
}
