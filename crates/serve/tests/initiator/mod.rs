//! A small NVMe/TCP host: PDUs by hand over a socket, each byte recorded.
#![allow(dead_code, clippy::unwrap_used)]

pub mod pcap;
pub mod served;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nvme::tcp::{
    Alignment, Digests, Direction, Format, H2cData, InitializeRequest, Pdu, ReadyToTransfer, decode, digest, encode,
};
use nvme::{
    CNTLID_DYNAMIC, Command, CommandId, CompletionEntry, ConnectData, FabricsCommand, Lba, LbaRange, NamespaceId,
    Property, QueueId, SglDescriptor, SglDescriptorType, Status, SubmissionEntry,
};
use zerocopy::IntoBytes;

pub const NQN: &str = "nqn.2014-08.org.example:test";
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5f3b2f4e-0000-4000-8000-000000000007";
pub const LBA_BYTES: u32 = 4096;
/// CC: enabled, entries of 64 and 16 bytes.
const ENABLE: u64 = 4 << 20 | 6 << 16 | 1;

/// How a host wants its connections.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub digests: Digests,
    pub alignment: u8,
    pub max_r2t: u32,
    pub flow_control: bool,
    /// Writes up to this size travel in their capsules.
    pub in_capsule_bytes: u32,
}

impl Default for Wish {
    fn default() -> Self {
        Self { digests: Digests::empty(), alignment: 0, max_r2t: 1, flow_control: true, in_capsule_bytes: 0 }
    }
}

/// One queue's connection.
pub struct Queue {
    pub stream: TcpStream,
    wish: Wish,
    sends: Format,
    receives: Format,
    pub max_h2c_data_bytes: u32,
    next_cid: u16,
    /// Data of writes that the controller has not asked for, by command.
    unsent: BTreeMap<u16, Vec<u8>>,
    /// Data of reads that are not complete, by command.
    reading: BTreeMap<u16, Vec<u8>>,
    /// R2Ts seen.
    pub r2ts: u32,
    /// Successes that came with the data alone.
    pub successes_in_data: u32,
    pub record: pcap::Record,
}

/// A command's end: its completion (`None` where the data said it all) and data.
pub struct Done {
    pub cid: u16,
    pub entry: Option<CompletionEntry>,
    pub data: Vec<u8>,
}

impl Done {
    pub fn status(&self) -> Status {
        self.entry.map_or(Status::SUCCESS, |entry| entry.completion_status().status)
    }
}

impl Queue {
    /// Connects and negotiates.
    pub fn open(address: SocketAddr, wish: Wish) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut queue = Self {
            stream,
            wish,
            sends: Format::default(),
            receives: Format::default(),
            max_h2c_data_bytes: 0,
            next_cid: 0,
            unsent: BTreeMap::new(),
            reading: BTreeMap::new(),
            r2ts: 0,
            successes_in_data: 0,
            record: pcap::Record::default(),
        };
        let alignment = Alignment::from_field(wish.alignment).unwrap();
        let Wish { digests, max_r2t, .. } = wish;
        queue.send(&Pdu::InitializeRequest(InitializeRequest { format_version: 0, alignment, digests, max_r2t }), &[]);
        let (pdu, _) = queue.receive().unwrap();
        let Pdu::InitializeResponse(response) = pdu else { panic!("{pdu:?}") };
        queue.sends = Format { digests: response.digests, alignment: response.alignment };
        queue.receives = Format { digests: response.digests, alignment };
        queue.max_h2c_data_bytes = response.max_h2c_data_bytes;
        queue
    }

    pub fn send(&mut self, pdu: &Pdu, data: &[u8]) {
        let mut bytes = Vec::new();
        let follows = encode(pdu, data.len() as u32, &self.sends, &mut bytes);
        bytes.extend_from_slice(data);
        if follows.digest {
            bytes.extend_from_slice(&digest(data).to_le_bytes());
        }
        self.send_raw(&bytes);
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.record.host_said(bytes);
        self.stream.write_all(bytes).unwrap();
    }

    /// The next PDU and its data; `None` when the controller has closed.
    pub fn receive(&mut self) -> Option<(Pdu, Vec<u8>)> {
        let mut bytes = Vec::new();
        let direction = Direction::ControllerToHost;
        let (pdu, layout) = loop {
            if let Some(decoded) = decode(&bytes, direction, &self.receives).unwrap() {
                break decoded;
            }
            let mut byte = [0];
            if self.stream.read(&mut byte).unwrap() == 0 {
                assert!(bytes.is_empty(), "closed in the middle of a PDU");
                return None;
            }
            bytes.push(byte[0]);
        };
        let header = bytes.len();
        bytes.resize(layout.pdu_bytes() as usize, 0);
        self.stream.read_exact(&mut bytes[header..]).unwrap();
        self.record.controller_said(&bytes);
        let data = bytes[layout.data_offset..][..layout.data_bytes as usize].to_vec();
        if layout.data_digest {
            assert_eq!(bytes[bytes.len() - 4..], digest(&data).to_le_bytes(), "data digest");
        }
        Some((pdu, data))
    }

    /// Sends a command with `data` for the controller, or room for `room` bytes.
    pub fn submit(&mut self, mut entry: SubmissionEntry, data: &[u8], room: u32) -> u16 {
        let cid = self.next_cid;
        self.next_cid = self.next_cid.wrapping_add(1);
        entry.cid = cid.into();
        entry.flags = 0x40;
        let in_capsule = !data.is_empty() && data.len() <= self.wish.in_capsule_bytes.max(1024) as usize;
        let in_capsule = in_capsule && (entry.opc == 0x7f || self.wish.in_capsule_bytes > 0);
        let length = data.len() as u32 + room;
        entry.dptr = if in_capsule {
            SglDescriptor::new(SglDescriptorType::DataBlock, SglDescriptor::SUBTYPE_OFFSET, 0, length)
        } else {
            SglDescriptor::new(SglDescriptorType::TransportDataBlock, 0xa, 0, length)
        };
        self.send(&Pdu::CapsuleCommand(entry), if in_capsule { data } else { &[] });
        if !in_capsule && !data.is_empty() {
            self.unsent.insert(cid, data.to_vec());
        }
        cid
    }

    fn satisfy(&mut self, r2t: ReadyToTransfer) {
        self.r2ts += 1;
        let data = self.unsent.get(&r2t.command.0).unwrap().clone();
        let (mut offset, end) = (r2t.offset, r2t.offset + r2t.length);
        while offset < end {
            let length = self.max_h2c_data_bytes.min(end - offset);
            let (command, transfer_tag) = (r2t.command, r2t.transfer_tag);
            let pdu = Pdu::H2cData(H2cData { command, transfer_tag, offset, length, last: offset + length == end });
            self.send(&pdu, &data[offset as usize..][..length as usize]);
            offset += length;
        }
    }

    /// The next command to end, whichever; `None` when the controller has closed.
    pub fn next_done(&mut self) -> Option<Done> {
        loop {
            match self.receive()? {
                (Pdu::ReadyToTransfer(r2t), _) => self.satisfy(r2t),
                (Pdu::C2hData(transfer), data) => {
                    let cid = transfer.command.0;
                    let so_far = self.reading.entry(cid).or_default();
                    assert_eq!(so_far.len(), transfer.offset as usize);
                    so_far.extend_from_slice(&data);
                    if transfer.success {
                        assert!(!self.wish.flow_control);
                        self.successes_in_data += 1;
                        return Some(Done { cid, entry: None, data: self.reading.remove(&cid).unwrap() });
                    }
                }
                (Pdu::CapsuleResponse(entry), _) => {
                    let cid = entry.cid.get();
                    self.unsent.remove(&cid);
                    let data = self.reading.remove(&cid).unwrap_or_default();
                    return Some(Done { cid, entry: Some(entry), data });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// One command and its end.
    pub fn call(&mut self, entry: SubmissionEntry, data: &[u8], room: u32) -> Done {
        let cid = self.submit(entry, data, room);
        let done = self.next_done().unwrap();
        assert_eq!(done.cid, cid);
        done
    }

    /// Connects the queue to a controller; its identifier, or why not.
    pub fn connect(&mut self, queue: u16, cntlid: u16) -> Result<u16, Status> {
        let command = FabricsCommand::Connect {
            format: 0,
            queue: QueueId(queue),
            size_zero_based: 31,
            disable_flow_control: !self.wish.flow_control,
            keep_alive_ms: 0,
        };
        let data = ConnectData::new([7; 16], cntlid, NQN, HOST_NQN);
        let done = self.call(command.encode(CommandId(0)), data.as_bytes(), 0);
        match done.status() {
            Status::SUCCESS => Ok(done.entry.unwrap().dw0.get() as u16),
            status => Err(status),
        }
    }

    pub fn write(&mut self, lba: u64, data: &[u8]) -> Status {
        self.call(write_entry(lba, data.len() as u32), data, 0).status()
    }

    pub fn read(&mut self, lba: u64, bytes: u32) -> Vec<u8> {
        let done = self.call(read_entry(lba, bytes), &[], bytes);
        assert_eq!(done.status(), Status::SUCCESS);
        done.data
    }
}

fn range(lba: u64, bytes: u32) -> LbaRange {
    LbaRange { start: Lba(lba), count: bytes / LBA_BYTES }
}

pub fn write_entry(lba: u64, bytes: u32) -> SubmissionEntry {
    let command = Command::write(NamespaceId::FIRST, range(lba, bytes), false);
    command.encode(CommandId(0)).unwrap().0
}

pub fn read_entry(lba: u64, bytes: u32) -> SubmissionEntry {
    let command = Command::Read { nsid: NamespaceId::FIRST, range: range(lba, bytes), fua: false };
    command.encode(CommandId(0)).unwrap().0
}

pub fn flush_entry() -> SubmissionEntry {
    Command::Flush { nsid: NamespaceId::FIRST }.encode(CommandId(0)).unwrap().0
}

/// A host with an enabled controller and I/O queues.
pub struct Host {
    pub admin: Queue,
    pub io: Vec<Queue>,
}

impl Host {
    pub fn connect(address: SocketAddr, wish: Wish, queues: u16) -> Self {
        let mut admin = Queue::open(address, Wish { flow_control: true, ..wish });
        let cntlid = admin.connect(0, CNTLID_DYNAMIC).unwrap();
        let enable = FabricsCommand::PropertySet { offset: Property::Configuration as u32, wide: false, value: ENABLE };
        assert_eq!(admin.call(enable.encode(CommandId(0)), &[], 0).status(), Status::SUCCESS);
        let get = FabricsCommand::PropertyGet { offset: Property::Status as u32, wide: false };
        let ready = admin.call(get.encode(CommandId(0)), &[], 0);
        assert_eq!(ready.entry.unwrap().dw0.get() & 1, 1, "CSTS.RDY");
        let io = (1..=queues)
            .map(|queue| {
                let mut io = Queue::open(address, wish);
                io.connect(queue, cntlid).unwrap();
                io
            })
            .collect();
        Self { admin, io }
    }
}
