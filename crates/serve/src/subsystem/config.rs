//! What a subsystem is told when it is made.

use units::Nanos;

use super::authentication::{HostCredentials, SecretError};
use super::identifiers::Identifiers;

/// Where random bytes come from: the operating system, or a seeded stream in
/// tests. Only challenges and Diffie-Hellman exponents are made of it.
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
    /// Serial number, NGUID, EUI-64 and UUID.
    pub identifiers: Identifiers,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// Largest transfer of one command in bytes; the device's own limit, if that is
    /// smaller, and rounded down to a power of two, counts.
    pub max_transfer_bytes: u32,
    /// Data that the transport takes within a command capsule, in bytes.
    pub in_capsule_bytes: u32,
    /// Entries of a queue, at most.
    pub queue_entries: u16,
    /// I/O queues of a controller, at most.
    pub io_queues: u16,
    /// Controllers at once, at most.
    pub controllers: u16,
    /// Refuse everything that changes the media.
    pub read_only: bool,
    /// Hosts that may connect without authentication, by NQN.
    pub allowed_hosts: Vec<String>,
    /// Hosts that have to authenticate. Where neither list names a host, all may
    /// connect.
    pub credentials: Vec<HostCredentials>,
    /// A connection without a Connect command is closed after this.
    pub connect_timeout: Nanos,
    /// A connection that has to authenticate and has not is closed after this.
    pub authentication_timeout: Nanos,
    /// What SMART reports as composite temperature, in kelvin: the model has no
    /// heat.
    pub temperature_kelvin: u16,
}

impl SubsystemConfig {
    /// The usual settings for a device of this name.
    pub fn new(nqn: impl Into<String>, device: &str) -> Self {
        let nqn = nqn.into();
        Self {
            identifiers: Identifiers::of(device, &nqn),
            nqn,
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            max_transfer_bytes: 1 << 20,
            in_capsule_bytes: 8192,
            queue_entries: 128,
            io_queues: 64,
            controllers: 64,
            read_only: false,
            allowed_hosts: Vec::new(),
            credentials: Vec::new(),
            connect_timeout: Nanos(10_000_000_000),
            authentication_timeout: Nanos(30_000_000_000),
            temperature_kelvin: 300,
        }
    }

    /// The NQN of a device's subsystem, where none is given: of the form with a
    /// UUID (Base 4.5), which is derived from the device's name.
    pub fn default_nqn(device: &str) -> String {
        format!("nqn.2014-08.org.nvmexpress:uuid:{}", Identifiers::of(device, "").uuid_text())
    }

    /// Whether only some hosts may connect.
    pub fn restricts_hosts(&self) -> bool {
        !self.allowed_hosts.is_empty() || !self.credentials.is_empty()
    }

    /// What a host has to authenticate with; `None`: nothing.
    pub(super) fn credentials_of(&self, host: &str) -> Option<&HostCredentials> {
        self.credentials.iter().find(|credentials| credentials.host() == host)
    }

    /// Whether a host may connect, once it has authenticated if it has to.
    pub(super) fn allows(&self, host: &str) -> bool {
        !self.restricts_hosts()
            || self.allowed_hosts.iter().any(|allowed| allowed == host)
            || self.credentials_of(host).is_some()
    }
}

/// A subsystem that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubsystemError {
    /// A fact that NVMe's structures cannot express.
    #[error(transparent)]
    Facts(#[from] nvme::FactsError),
    /// An NQN that is none.
    #[error(
        "`{name}` is not an NVMe Qualified Name; give nqn.YYYY-MM.REVERSE-DOMAIN:NAME, at most 223 bytes, such as nqn.2014-08.org.nvmexpress:uuid:UUID"
    )]
    Nqn {
        /// What was given.
        name: String,
    },
    /// The subsystem's name is the discovery service's.
    #[error("`{}` is the discovery service's own name; give the subsystem another one", nvme::DISCOVERY_NQN)]
    DiscoveryNqn,
    /// A limit that is too small to serve with.
    #[error("{what} is {value}; give at least {least}")]
    Limit {
        /// The limit.
        what: &'static str,
        /// What was given.
        value: u64,
        /// The least that works.
        least: u64,
    },
    /// A secret that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
}
