//! One controller: its association with a host, and its properties.

use std::collections::BTreeMap;

use nvme::{
    AsynchronousEvent, Capabilities, Configuration, ControllerStatus, Property, QueueId, ShutdownNotification,
    ShutdownStatus, Status, VERSION_2_0,
};
use units::Nanos;

use super::ConnectionId;
use super::events::Events;
use super::facts::Facts;
use super::features::Features;
use super::health::ErrorLog;

/// What a controller is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Namespaces and I/O queues.
    Io,
    /// The discovery log page only.
    Discovery,
}

/// A discovery controller whose host gave no keep alive timeout ends after this
/// without a command (Base 3.1.2.3.1).
const DISCOVERY_IDLE: Nanos = Nanos(120_000_000_000);

/// The longest time that hosts wait for CSTS.RDY and shutdowns.
const READY_TIMEOUT_MS: u32 = 15_000;

/// What a Property Set leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Nothing more.
    None,
    /// The controller was reset: its I/O queues are gone.
    Reset,
    /// A shutdown has begun: the caches are to be committed.
    Shutdown,
}

/// One controller.
pub(super) struct Controller {
    pub(super) kind: Kind,
    pub(super) host: String,
    pub(super) host_id: [u8; 16],
    pub(super) admin: ConnectionId,
    pub(super) io_queues: BTreeMap<QueueId, ConnectionId>,
    pub(super) configuration: Configuration,
    pub(super) status: ControllerStatus,
    /// Zero: none.
    pub(super) keep_alive: Nanos,
    pub(super) heard_at: Nanos,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) errors: ErrorLog,
}

impl Controller {
    pub(super) fn is_discovery(&self) -> bool {
        self.kind == Kind::Discovery
    }

    /// Whether it takes commands other than fabrics ones.
    pub(super) fn is_ready(&self) -> bool {
        self.configuration.enable()
            && self.status.ready
            && !self.status.fatal
            && self.status.shutdown == ShutdownStatus::Normal
    }

    /// Whether the I/O command sets other than NVM are enabled (CC.CSS 110b).
    pub(super) fn all_command_sets(&self) -> bool {
        self.configuration.command_set() == 0b110
    }

    /// When it is given up for lack of a sign of life (Base 3.9): any command is
    /// one, since keep alive is traffic based.
    pub(super) fn expires_at(&self) -> Option<Nanos> {
        let timeout = match (self.kind, self.keep_alive) {
            (Kind::Discovery, Nanos::ZERO) => DISCOVERY_IDLE,
            (Kind::Io, Nanos::ZERO) => return None,
            (_, timeout) => timeout,
        };
        Some(self.heard_at + timeout)
    }

    /// Property Get.
    pub(super) fn property(&self, facts: &Facts, offset: u32, wide: bool) -> Result<u64, Status> {
        let property = Property::at(offset).filter(|property| property.is_wide() == wide);
        Ok(match property.ok_or(Status::INVALID_FIELD)? {
            Property::Capabilities => Capabilities {
                queue_entries_max: facts.queue_entries.into(),
                ready_timeout_ms: READY_TIMEOUT_MS,
                command_sets: self.kind == Kind::Io,
            }
            .bits(),
            Property::Version => VERSION_2_0.into(),
            Property::Configuration => self.configuration.0.into(),
            Property::Status => self.status.bits().into(),
            // Controller Ready With Media Timeout, in 500 ms.
            Property::ReadyTimeouts => (READY_TIMEOUT_MS / 500).into(),
            // CAP.NSSRS is 0.
            Property::SubsystemReset => return Err(Status::INVALID_FIELD),
        })
    }

    /// Property Set: only CC can be.
    pub(super) fn set_property(
        &mut self,
        facts: &Facts,
        offset: u32,
        wide: bool,
        value: u64,
    ) -> Result<Effect, Status> {
        let property = Property::at(offset).filter(|property| property.is_wide() == wide);
        if property != Some(Property::Configuration) {
            return Err(Status::INVALID_FIELD);
        }
        let (old, new) = (self.configuration, Configuration(value as u32));
        self.configuration = new;
        match (old.enable(), new.enable()) {
            (false, true) => {
                self.status = ControllerStatus { fatal: !self.accepts(new), ..ControllerStatus::default() };
                self.status.ready = !self.status.fatal;
                Ok(Effect::None)
            }
            (true, false) => {
                self.reset(facts);
                Ok(Effect::Reset)
            }
            _ if new.shutdown() != old.shutdown() => self.notify_shutdown(new.shutdown()),
            _ => Ok(Effect::None),
        }
    }

    /// Whether it can run so: NVM alone or every command set, pages of 4 KiB, round
    /// robin, entries of 64 and 16 bytes. A discovery controller has no I/O queues
    /// and does not look at their entries.
    fn accepts(&self, new: Configuration) -> bool {
        let entries = (new.submission_entry_size(), new.completion_entry_size());
        let io = match self.kind {
            Kind::Io => matches!(new.command_set(), 0 | 0b110) && entries == (6, 4),
            Kind::Discovery => true,
        };
        io && new.page_size() == 0 && new.arbitration() == 0
    }

    fn notify_shutdown(&mut self, notification: ShutdownNotification) -> Result<Effect, Status> {
        match notification {
            // Withdrawing it needs a reset (Base 3.6.1); the status stays.
            ShutdownNotification::None => Ok(Effect::None),
            ShutdownNotification::Reserved => Err(Status::INVALID_FIELD),
            ShutdownNotification::Normal | ShutdownNotification::Abrupt
                if self.status.shutdown != ShutdownStatus::Normal =>
            {
                Ok(Effect::None)
            }
            ShutdownNotification::Normal | ShutdownNotification::Abrupt => {
                self.status.shutdown = ShutdownStatus::Occurring;
                Ok(Effect::Shutdown)
            }
        }
    }

    /// A Controller Level Reset (Base 3.7.2): everything but the association, the
    /// admin queue and the error log is as after Connect.
    fn reset(&mut self, facts: &Facts) {
        self.status = ControllerStatus::default();
        self.features = Features::new(facts);
        let _ = self.events.reset();
    }

    /// An event has happened.
    pub(super) fn happened(&mut self, event: AsynchronousEvent) {
        self.events.happened(event, self.features.events);
    }
}
