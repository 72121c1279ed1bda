//! Connections as a capture file, for judges that read nothing else (pcap,
//! draft-ietf-opsawg-pcap; LINKTYPE_IPV4).
#![allow(dead_code)]

/// LINKTYPE_IPV4.
const LINK_TYPE: u32 = 228;
/// Most bytes of a segment; larger than any MTU, as loopback's are.
const SEGMENT_BYTES: usize = 32_000;
/// The well-known port that makes a dissector look.
const CONTROLLER_PORT: u16 = 4420;

/// What a connection said, in order.
#[derive(Default, Clone)]
pub struct Record(Vec<(bool, Vec<u8>)>);

impl Record {
    pub fn host_said(&mut self, bytes: &[u8]) {
        self.0.push((true, bytes.to_vec()));
    }

    pub fn controller_said(&mut self, bytes: &[u8]) {
        self.0.push((false, bytes.to_vec()));
    }
}

/// The capture of whole connections, each with a port of its own.
pub fn capture(connections: &[&Record]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 1 << 18, LINK_TYPE] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    let mut time_us = 0;
    for (at, record) in connections.iter().enumerate() {
        let host = 50_000 + at as u16;
        let mut sequence = [1000_u32, 2000];
        let mut packet = |from_host: bool, flags: u8, payload: &[u8], sequence: &mut [u32; 2]| {
            let (mine, theirs) = if from_host { (0, 1) } else { (1, 0) };
            let ports = if from_host { (host, CONTROLLER_PORT) } else { (CONTROLLER_PORT, host) };
            let mut tcp = Vec::new();
            tcp.extend_from_slice(&ports.0.to_be_bytes());
            tcp.extend_from_slice(&ports.1.to_be_bytes());
            tcp.extend_from_slice(&sequence[mine].to_be_bytes());
            let acknowledged = if flags == SYN { 0 } else { sequence[theirs] };
            tcp.extend_from_slice(&acknowledged.to_be_bytes());
            // Header of 20 bytes, flags, window, checksum (not checked), urgent.
            tcp.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            tcp.extend_from_slice(payload);
            let length = 20 + tcp.len() as u16;
            let mut ip = vec![0x45, 0];
            ip.extend_from_slice(&length.to_be_bytes());
            ip.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
            let (one, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
            ip.extend_from_slice(if from_host { &one } else { &other });
            ip.extend_from_slice(if from_host { &other } else { &one });
            time_us += 10;
            for word in [time_us / 1_000_000, time_us % 1_000_000, length.into(), length.into()] {
                file.extend_from_slice(&u32::to_le_bytes(word));
            }
            file.extend_from_slice(&ip);
            file.extend_from_slice(&tcp);
            sequence[mine] += payload.len() as u32 + u32::from(flags & SYN != 0);
        };
        packet(true, SYN, &[], &mut sequence);
        packet(false, SYN | ACK, &[], &mut sequence);
        packet(true, ACK, &[], &mut sequence);
        for (from_host, bytes) in &record.0 {
            for segment in bytes.chunks(SEGMENT_BYTES) {
                packet(*from_host, ACK | PUSH, segment, &mut sequence);
                // Acknowledged at once, or a judge takes what follows for gaps.
                packet(!*from_host, ACK, &[], &mut sequence);
            }
        }
    }
    file
}

const SYN: u8 = 0x02;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;
