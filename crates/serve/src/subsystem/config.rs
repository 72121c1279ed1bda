//! What a subsystem is told when it is made.

use units::Nanos;

/// Where random bytes come from: the operating system, or a seeded stream in
/// tests. Only nonces, Diffie-Hellman exponents and identifiers are made of it.
pub trait Entropy {
    /// Fills `bytes`.
    fn fill(&mut self, bytes: &mut [u8]);
}

impl<F: FnMut(&mut [u8])> Entropy for F {
    fn fill(&mut self, bytes: &mut [u8]) {
        self(bytes);
    }
}

/// What a subsystem is told when it is made.
#[derive(Clone, Debug)]
pub struct SubsystemConfig {
    /// The subsystem's NVMe Qualified Name.
    pub nqn: String,
    /// Name of the device, of which serial number, NGUID, EUI-64 and UUID are
    /// derived: the same name gives the same identifiers.
    pub device: String,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// Largest transfer of one command in bytes: a power of two of at least 8 KiB.
    pub max_transfer_bytes: u32,
    /// Data that the transport takes within a command capsule, in bytes.
    pub in_capsule_bytes: u32,
    /// Entries of a queue, at most.
    pub queue_depth: u16,
    /// I/O queues of a controller, at most.
    pub io_queues: u16,
    /// Controllers at once, at most.
    pub controllers: u16,
    /// Refuse everything that changes the media.
    pub read_only: bool,
    /// Hosts that may connect, by NQN; `None`: all.
    pub allowed_hosts: Option<Vec<String>>,
    /// A connection without a Connect command is closed after this.
    pub connect_timeout: Nanos,
}

impl SubsystemConfig {
    /// The usual settings for a device of this name.
    pub fn new(nqn: impl Into<String>, device: impl Into<String>) -> Self {
        Self {
            nqn: nqn.into(),
            device: device.into(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            max_transfer_bytes: 1 << 20,
            in_capsule_bytes: 8192,
            queue_depth: 128,
            io_queues: 64,
            controllers: 64,
            read_only: false,
            allowed_hosts: None,
            connect_timeout: Nanos(10_000_000_000),
        }
    }
}

/// A subsystem that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubsystemError {
    /// A fact that NVMe's structures cannot express.
    #[error(transparent)]
    Facts(#[from] nvme::FactsError),
}
