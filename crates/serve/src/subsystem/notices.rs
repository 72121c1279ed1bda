//! What happens to controllers without a command: power, changes behind their back,
//! silence, and how their hosts are told.

use nvme::{AsynchronousEvent, CriticalWarning, Lba, NamespaceId, QueueId, ShutdownStatus, Status};
use units::Nanos;

use super::controller::{Controller, Kind};
use super::execution::Completion;
use super::{CloseReason, Event, Purpose, Subsystem};

impl Subsystem {
    /// The device has lost its power: nobody will hear again of its requests under
    /// way. Their commands are answered, by the next [`poll`](Self::poll), with
    /// Commands Aborted due to Power Loss Notification.
    pub fn power_lost(&mut self, now: Nanos) {
        self.powered = false;
        let shut_down = |controller: &Controller| controller.status.shutdown == ShutdownStatus::Complete;
        let mut io = self.controllers.values().filter(|controller| controller.kind == Kind::Io);
        self.health.power_lost(io.all(shut_down));
        self.streams.clear();
        for purpose in std::mem::take(&mut self.requests).into_values() {
            match purpose {
                Purpose::Shutdown { cntlid } => self.shutdown_done(cntlid, false),
                Purpose::CloseStream(_) => {}
                Purpose::Command { connection: id, entry, .. } => {
                    self.health.ended(now);
                    let alive = self.connections.get(&id).is_some_and(|connection| !connection.closing);
                    if let Some(queue) = self.queue_of(id).filter(|_| alive) {
                        let status = Status::ABORTED_POWER_LOSS;
                        self.log_failure(id, &entry, status);
                        let answer = self.answer(id, queue, entry.command_id(), Err(status.into()));
                        self.events.push(Event::Answer(id, answer));
                    }
                }
            }
        }
    }

    /// The device has its power back.
    pub fn power_restored(&mut self, now: Nanos) {
        let _ = now;
        self.powered = true;
        self.health.power_restored();
    }

    /// Zones changed without a host's command (a zone went read-only or offline,
    /// or was finished): hosts that enabled the event are told (ZNS 4.1.4.1).
    pub fn zones_changed(&mut self, now: Nanos, nsid: NamespaceId, zones: &[Lba]) {
        let _ = now;
        if self.facts.identity.zoned.is_none() || self.facts.blocks(nsid).is_none() || zones.is_empty() {
            return;
        }
        for controller in self.io_controllers() {
            controller.events.zones_changed(nsid, zones);
            controller.happened(AsynchronousEvent::ZONE_CHANGED);
        }
    }

    /// A namespace's attributes changed (Base 5.16.1.5).
    pub fn namespace_changed(&mut self, now: Nanos, nsid: NamespaceId) {
        let _ = now;
        if self.facts.blocks(nsid).is_none() {
            return;
        }
        for controller in self.io_controllers() {
            controller.events.namespace_changed(nsid);
            controller.happened(AsynchronousEvent::NAMESPACE_CHANGED);
        }
    }

    /// SMART's Critical Warning is now `warning`; hosts that enabled the event of a
    /// bit that has come are told.
    pub fn set_critical_warning(&mut self, now: Nanos, warning: CriticalWarning) {
        let _ = now;
        let new = warning.difference(self.health.warning);
        self.health.warning = warning;
        for controller in self.io_controllers() {
            let told = [
                (CriticalWarning::SPARE, AsynchronousEvent::SPARE),
                (CriticalWarning::TEMPERATURE, AsynchronousEvent::TEMPERATURE),
                (CriticalWarning::RELIABILITY, AsynchronousEvent::RELIABILITY),
                (CriticalWarning::READ_ONLY, AsynchronousEvent::RELIABILITY),
                (CriticalWarning::VOLATILE_MEMORY_BACKUP, AsynchronousEvent::RELIABILITY),
            ];
            for (_, event) in told.into_iter().filter(|(bit, _)| new.contains(*bit)) {
                controller.happened(event);
            }
        }
    }

    /// The device can no longer be used: every I/O controller has Controller Fatal
    /// Status, and takes nothing but properties until it is reset (Base 9.5).
    pub fn fail(&mut self, now: Nanos) {
        let _ = now;
        for controller in self.io_controllers() {
            controller.status.fatal = true;
            controller.happened(AsynchronousEvent::PERSISTENT_INTERNAL_ERROR);
        }
    }

    /// Changes which hosts may connect; discovery controllers tell theirs that the
    /// log page has changed. Hosts that are connected stay.
    pub fn set_allowed_hosts(&mut self, now: Nanos, hosts: Vec<String>) {
        let _ = now;
        self.config.allowed_hosts = hosts;
        self.generation += 1;
        for controller in self.controllers.values_mut().filter(|controller| controller.is_discovery()) {
            controller.happened(AsynchronousEvent::DISCOVERY_CHANGED);
        }
    }

    fn io_controllers(&mut self) -> impl Iterator<Item = &mut Controller> {
        self.controllers.values_mut().filter(|controller| !controller.is_discovery())
    }

    /// A controller whose host has gone silent: Controller Fatal Status, and all of
    /// its connections are closed (Base 3.9).
    pub(super) fn give_up(&mut self, cntlid: u16) {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return };
        controller.status.fatal = true;
        let admin = controller.admin;
        for connection in self.queue_connections(cntlid).into_iter().chain([admin]) {
            self.close(connection, CloseReason::KeepAliveExpired);
        }
    }

    /// Completes Asynchronous Event Requests that have an event.
    pub(super) fn tell_events(&mut self) {
        for cntlid in self.controllers.keys().copied().collect::<Vec<_>>() {
            while let Some(controller) = self.controllers.get_mut(&cntlid)
                && let admin = controller.admin
                && let Some((cid, event)) = controller.events.next()
            {
                let answer = self.answer(admin, QueueId(0), cid, Ok(Completion::dword(event.dword())));
                self.events.push(Event::Answer(admin, answer));
            }
        }
    }

    /// The flush of a shutdown has ended; a shutdown that lost data is no shutdown.
    pub(super) fn shutdown_done(&mut self, cntlid: u16, flushed: bool) {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return };
        if controller.status.shutdown != ShutdownStatus::Occurring {
            return;
        }
        match flushed {
            true => controller.status.shutdown = ShutdownStatus::Complete,
            false => controller.status.fatal = true,
        }
    }
}
