//! A host at queue depth one, for calibration: it connects, enables a controller
//! and reads.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use nvme::tcp::{Alignment, Digests, Direction, Format, InitializeRequest, PDU_FORMAT_VERSION, Pdu, decode, encode};
use nvme::{
    CNTLID_DYNAMIC, Command, CommandId, CompletionEntry, ConnectData, FabricsCommand, Lba, LbaRange, NamespaceId,
    Property, QueueId, SglDescriptor, SglDescriptorType, Status, SubmissionEntry,
};
use units::Nanos;
use zerocopy::IntoBytes;

use crate::socket::Socket;

/// A client that gets no answer for so long is on a machine too busy to
/// calibrate on.
const TIMEOUT_MS: libc::c_int = 5_000;
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const HOST_ID: [u8; 16] = [1; 16];
const QUEUE_ENTRIES: u16 = 32;
/// CC: enabled, entries of 64 and 16 bytes (Base figure 46).
const ENABLE: u64 = 4 << 20 | 6 << 16 | 1;

/// One queue.
struct Queue {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Queue {
    /// Begins a connection.
    fn open(socket: Socket) -> io::Result<Self> {
        let mut queue = Self { socket, buffer: Vec::new() };
        let (alignment, digests) = (Alignment::default(), Digests::empty());
        let request = InitializeRequest { format_version: PDU_FORMAT_VERSION, alignment, digests, max_r2t: 1 };
        queue.send(&Pdu::InitializeRequest(request), &[])?;
        match queue.receive()?.0 {
            Pdu::InitializeResponse(_) => Ok(queue),
            other => Err(unexpected(&other)),
        }
    }

    fn send(&mut self, pdu: &Pdu, data: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        encode(pdu, data.len() as u32, &Format::default(), &mut self.buffer);
        self.buffer.extend_from_slice(data);
        (&self.socket).write_all(&self.buffer)
    }

    /// The next PDU; its data is dropped.
    fn receive(&mut self) -> io::Result<(Pdu, u32)> {
        // Hosts sleep until the socket has something.
        wait_readable(&self.socket)?;
        self.buffer.clear();
        loop {
            let decoded = decode(&self.buffer, Direction::ControllerToHost, &Format::default());
            if let Some((pdu, layout)) = decoded.map_err(io::Error::other)? {
                self.buffer.resize(layout.pdu_bytes() as usize, 0);
                (&self.socket).read_exact(&mut self.buffer[layout.header_bytes..])?;
                return Ok((pdu, layout.data_bytes));
            }
            // All headers that a controller sends but ICResp are 24 bytes long.
            let have = self.buffer.len();
            self.buffer.resize(if have == 0 { 24 } else { 128 }, 0);
            (&self.socket).read_exact(&mut self.buffer[have..])?;
        }
    }

    /// One command and its completion, with its data dropped.
    fn command(&mut self, entry: SubmissionEntry, data: &[u8]) -> io::Result<CompletionEntry> {
        self.send(&Pdu::CapsuleCommand(entry), data)?;
        loop {
            match self.receive()?.0 {
                Pdu::C2hData(data) if !data.success => {}
                Pdu::CapsuleResponse(entry) if entry.completion_status().status == Status::SUCCESS => return Ok(entry),
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn connect(&mut self, queue: u16, cntlid: u16, subnqn: &str) -> io::Result<u16> {
        let command = FabricsCommand::Connect {
            format: 0,
            queue: QueueId(queue),
            size_zero_based: QUEUE_ENTRIES - 1,
            disable_flow_control: false,
            keep_alive_ms: 0,
        };
        let data = ConnectData::new(HOST_ID, cntlid, subnqn, HOST_NQN);
        let length = ConnectData::BYTES as u32;
        let dptr = SglDescriptor::new(SglDescriptorType::DataBlock, SglDescriptor::SUBTYPE_OFFSET, 0, length);
        let entry = SubmissionEntry { dptr, ..command.encode(CommandId(0)) };
        Ok(self.command(entry, data.as_bytes())?.dw0.get() as u16)
    }
}

/// Connects over two sockets and reads a block of `bytes` so many times; gives
/// the round-trip times.
pub(super) fn round_trips(admin: Socket, io: Socket, subnqn: &str, bytes: u32, count: usize) -> io::Result<Vec<Nanos>> {
    let mut admin = Queue::open(admin)?;
    let cntlid = admin.connect(0, CNTLID_DYNAMIC, subnqn)?;
    let enable = FabricsCommand::PropertySet { offset: Property::Configuration as u32, wide: false, value: ENABLE };
    admin.command(enable.encode(CommandId(1)), &[])?;
    let mut io = Queue::open(io)?;
    io.connect(1, cntlid, subnqn)?;
    let range = LbaRange { start: Lba(0), count: 1 };
    let read = Command::Read { nsid: NamespaceId::FIRST, range, fua: false };
    let mut times = Vec::with_capacity(count);
    for cid in 0..count {
        let (mut entry, _) = read.encode(CommandId(cid as u16)).map_err(io::Error::other)?;
        entry.flags = 0x40;
        entry.dptr = SglDescriptor::new(SglDescriptorType::TransportDataBlock, 0xa, 0, bytes);
        let sent = Instant::now();
        io.command(entry, &[])?;
        times.push(Nanos(sent.elapsed().as_nanos() as u64));
    }
    Ok(times)
}

fn unexpected(pdu: &Pdu) -> io::Error {
    io::Error::other(format!("unexpected {pdu:?}"))
}

fn wait_readable(socket: &Socket) -> io::Result<()> {
    let mut descriptor = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call; its descriptor is open.
    match unsafe { libc::poll(&raw mut descriptor, 1, TIMEOUT_MS) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        count if count < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
