//! Admin commands (Base 5) of I/O controllers and discovery controllers.

use nvme::{
    AdminOpcode, Cns, CommandEffects, CommandEffectsLog, CommandId, CommandSet, DiscoveryFacts, DiscoveryLogEntry,
    DiscoveryLogHeader, Feature, FirmwareSlotLog, GetFeatures, GetLogPage, IoOpcode, LogPage, NamespaceId,
    NamespaceList, Oncs, QueueId, Status, SubmissionEntry, SubsystemType, SupportedLogPages,
};
use units::Nanos;
use zerocopy::IntoBytes;

use super::controller::Controller;
use super::execution::{Completion, Failure};
use super::facts::{ADMIN_QUEUE_ENTRIES, Facts, empty_page};
use super::features::Setting;
use super::{ConnectionId, Event, Step, Subsystem, Transfer};

/// Size of an Identify data structure.
const IDENTIFY_BYTES: u32 = 4096;

/// What an admin command transfers; one that asks for more than MDTS transfers
/// nothing and will be refused.
pub(super) fn transfer(entry: &SubmissionEntry, max_transfer_bytes: u32) -> Transfer {
    match AdminOpcode::try_from(entry.opc) {
        Ok(AdminOpcode::Fabrics) => super::connect::transfer(entry, max_transfer_bytes),
        Ok(AdminOpcode::Identify) => Transfer::ControllerToHost { bytes: IDENTIFY_BYTES },
        Ok(AdminOpcode::GetLogPage) => match u32::try_from(GetLogPage::decode(entry).bytes) {
            Ok(bytes) if bytes <= max_transfer_bytes => Transfer::ControllerToHost { bytes },
            _ => Transfer::None,
        },
        Ok(AdminOpcode::GetFeatures) => match GetFeatures::decode(entry) {
            Ok(GetFeatures { feature: Feature::HostIdentifier, select, cdw11 })
                if select != nvme::FeatureSelect::Supported && cdw11 & 1 != 0 =>
            {
                Transfer::ControllerToHost { bytes: 16 }
            }
            _ => Transfer::None,
        },
        _ => Transfer::None,
    }
}

impl Subsystem {
    /// An admin command other than a Fabrics one.
    pub(super) fn admin(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        cntlid: u16,
        entry: &SubmissionEntry,
    ) -> Result<Step, Failure> {
        let opcode = AdminOpcode::try_from(entry.opc).map_err(Status::from)?;
        let controller = self.controllers.get_mut(&cntlid).ok_or(Status::INTERNAL_ERROR)?;
        if !supports(opcode, controller.is_discovery()) {
            return Err(Status::INVALID_OPCODE.into());
        }
        if !controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        if entry.fuse() != 0 || entry.psdt() == 0b11 {
            return Err(Status::INVALID_FIELD.into());
        }
        let complete = match opcode {
            AdminOpcode::Identify => Completion::data(identify(&self.facts, controller, cntlid, entry)?),
            AdminOpcode::GetLogPage => self.log_page(now, id, cntlid, entry)?,
            AdminOpcode::GetFeatures | AdminOpcode::SetFeatures => {
                let mut setting = Setting {
                    facts: &self.facts,
                    discovery: controller.is_discovery(),
                    has_io_queues: !controller.io_queues.is_empty(),
                    host_id: &controller.host_id,
                    keep_alive: &mut controller.keep_alive,
                };
                match opcode {
                    AdminOpcode::GetFeatures => controller.features.get(entry, &setting)?,
                    _ => controller.features.set(entry, &mut setting)?,
                }
            }
            AdminOpcode::KeepAlive => Completion::default(),
            AdminOpcode::AsynchronousEventRequest => {
                return match controller.events.hold(entry.command_id()) {
                    true => Ok(Step::Held),
                    false => Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.into()),
                };
            }
            AdminOpcode::Abort => self.abort(id, cntlid, entry),
            _ => return Err(Status::INVALID_OPCODE.into()),
        };
        Ok(Step::Complete(complete))
    }

    /// Abort (Base 5.1): a held Asynchronous Event Request can be; what the device
    /// has is not called back, and Dword 0 bit 0 says so.
    fn abort(&mut self, id: ConnectionId, cntlid: u16, entry: &SubmissionEntry) -> Completion {
        let (queue, cid) = (entry.cdw10.get() as u16, CommandId((entry.cdw10.get() >> 16) as u16));
        let controller = self.controllers.get_mut(&cntlid);
        let held = queue == 0 && controller.is_some_and(|controller| controller.events.release(cid));
        if held {
            let answer = self.answer(id, QueueId(0), cid, Err(Status::ABORT_REQUESTED.into()));
            self.events.push(Event::Answer(id, answer));
        }
        Completion::dword(u32::from(!held))
    }

    fn log_page(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        cntlid: u16,
        entry: &SubmissionEntry,
    ) -> Result<Completion, Failure> {
        let command = GetLogPage::decode(entry);
        let local = self.connections.get(&id).map(|connection| connection.local);
        let controller = self.controllers.get_mut(&cntlid).ok_or(Status::INTERNAL_ERROR)?;
        let page = LogPage::from_code(command.identifier).ok_or(Status::INVALID_LOG_PAGE)?;
        if !self.facts.log_pages(controller.is_discovery()).any(|supported| supported == page) {
            return Err(Status::INVALID_LOG_PAGE.into());
        }
        if command.bytes > u64::from(self.facts.max_transfer_bytes)
            || command.index_offset
            || !command.offset.is_multiple_of(4)
        {
            return Err(Status::INVALID_FIELD.into());
        }
        let clear = !command.retain_event;
        let log = match page {
            LogPage::SupportedLogPages => {
                SupportedLogPages::of(self.facts.log_pages(controller.is_discovery())).as_bytes().to_vec()
            }
            LogPage::ErrorInformation => controller.errors.log(),
            LogPage::Health => {
                // The namespaces have no health of their own (LPA bit 0 is 0).
                if ![NamespaceId(0), NamespaceId::ALL].contains(&command.nsid) {
                    return Err(Status::INVALID_FIELD.into());
                }
                let errors = controller.errors.count();
                self.health.log(now, self.config.temperature_kelvin, errors).as_bytes().to_vec()
            }
            LogPage::FirmwareSlot => FirmwareSlotLog::of(self.facts.firmware()).as_bytes().to_vec(),
            LogPage::ChangedNamespaceList => controller.events.changed_namespaces(clear).as_bytes().to_vec(),
            LogPage::CommandsSupportedAndEffects => {
                let set = CommandSet::from_code(command.command_set).filter(|set| self.facts.supports(*set));
                effects(&self.facts, set.ok_or(Status::INVALID_FIELD)?).as_bytes().to_vec()
            }
            LogPage::ChangedZoneList => {
                if self.facts.blocks(command.nsid).is_none() {
                    return Err(Status::INVALID_NAMESPACE.into());
                }
                controller.events.changed_zones(command.nsid, clear).as_bytes().to_vec()
            }
            LogPage::Discovery => {
                let host = controller.host.clone();
                self.discovery_log(&host, local.ok_or(Status::INTERNAL_ERROR)?)?
            }
            LogPage::FeatureIdentifiers => return Err(Status::INVALID_LOG_PAGE.into()),
        };
        // An offset beyond the page is an error (Base 5.16); reading past its end is
        // not, and gives zeroes.
        let offset = usize::try_from(command.offset).ok().filter(|offset| *offset <= log.len());
        let rest = log.get(offset.ok_or(Status::INVALID_FIELD)?..).unwrap_or_default();
        let mut data = rest.to_vec();
        data.resize(command.bytes as usize, 0);
        if clear && let Some(controller) = self.controllers.get_mut(&cntlid) {
            controller.events.log_page_read(command.identifier);
        }
        Ok(Completion::data(data))
    }

    /// The Discovery log page for a host that connected to `local`.
    fn discovery_log(&self, host: &str, local: std::net::SocketAddr) -> Result<Vec<u8>, Failure> {
        let entry = |kind, nqn| {
            let facts =
                DiscoveryFacts { kind, nqn, address: local, port_id: 1, admin_queue_entries: ADMIN_QUEUE_ENTRIES };
            DiscoveryLogEntry::of(&facts).map_err(|_| Failure::from(Status::INTERNAL_ERROR))
        };
        let mut entries = vec![entry(SubsystemType::CurrentDiscovery, nvme::DISCOVERY_NQN)?];
        if self.config.allows(host) {
            entries.push(entry(SubsystemType::Nvm, &self.config.nqn)?);
        }
        let mut log = DiscoveryLogHeader::new(self.generation, entries.len() as u64).as_bytes().to_vec();
        log.extend(entries.iter().flat_map(|entry| entry.as_bytes()));
        Ok(log)
    }
}

/// Admin commands of each kind of controller (Base figure 28).
fn supports(opcode: AdminOpcode, discovery: bool) -> bool {
    match opcode {
        AdminOpcode::GetLogPage
        | AdminOpcode::Identify
        | AdminOpcode::SetFeatures
        | AdminOpcode::GetFeatures
        | AdminOpcode::AsynchronousEventRequest
        | AdminOpcode::KeepAlive
        | AdminOpcode::Fabrics => true,
        AdminOpcode::Abort => !discovery,
        _ => false,
    }
}

/// Commands Supported and Effects for one command set.
fn effects(facts: &Facts, set: CommandSet) -> CommandEffectsLog {
    let none = CommandEffects::empty();
    let admin = AdminOpcode::ALL.iter().filter(|opcode| supports(**opcode, false)).map(|opcode| (*opcode, none));
    let changes = CommandEffects::CONTENT_CHANGE;
    let mut io = vec![
        (IoOpcode::Flush, none),
        (IoOpcode::Write, changes),
        (IoOpcode::Read, none),
        (IoOpcode::Compare, none),
        (IoOpcode::WriteZeroes, changes),
    ];
    if facts.oncs().contains(Oncs::DATASET_MANAGEMENT) {
        io.push((IoOpcode::DatasetManagement, changes));
    }
    if facts.identity.ordering.is_some() {
        io.push((IoOpcode::StreamManagement, none));
    }
    if set == CommandSet::Zoned {
        io.push((IoOpcode::ZoneManagementSend, changes));
        io.push((IoOpcode::ZoneManagementReceive, none));
        io.push((IoOpcode::ZoneAppend, changes));
    }
    CommandEffectsLog::of(admin, io)
}

/// Identify (Base 5.17).
fn identify(facts: &Facts, controller: &Controller, cntlid: u16, entry: &SubmissionEntry) -> Result<Vec<u8>, Status> {
    let nsid = entry.namespace_id();
    let cns = Cns::from_cdw10(entry.cdw10.get()).ok_or(Status::INVALID_FIELD)?;
    if controller.is_discovery() {
        // A discovery controller has no namespaces (Base 3.1.2.3).
        return match cns {
            Cns::Controller => Ok(facts.discovery_controller(cntlid).as_bytes().to_vec()),
            _ => Err(Status::INVALID_FIELD),
        };
    }
    let active = |set: Option<CommandSet>| {
        // FFFFFFFEh and FFFFFFFFh are no identifiers to go on from (Base 5.17.2.2).
        if nsid.0 >= u32::MAX - 1 {
            return Err(Status::INVALID_NAMESPACE);
        }
        let none = set.is_some_and(|set| set != facts.command_set());
        let nsids = facts.nsids().filter(|_| !none);
        Ok(NamespaceList::after(nsid, nsids).as_bytes().to_vec())
    };
    // CSI is CDW11 bits 31:24.
    let set = CommandSet::from_code((entry.cdw11.get() >> 24) as u8).filter(|set| facts.supports(*set));
    let valid = |page: Option<&[u8]>| page.map(<[u8]>::to_vec).ok_or(Status::INVALID_NAMESPACE);
    match cns {
        Cns::Controller => Ok(facts.io_controller(cntlid).as_bytes().to_vec()),
        // What all namespaces have in common: with one format each, nothing.
        Cns::Namespace if nsid == NamespaceId::ALL => Err(Status::INVALID_NAMESPACE),
        Cns::Namespace => valid(facts.identify_namespace(nsid)),
        Cns::ActiveNamespaceList => active(None),
        Cns::NamespaceIdentificationDescriptors => valid(facts.identification_descriptors(nsid)),
        Cns::IndependentNamespace => valid(facts.independent_namespace(nsid)),
        Cns::CommandSetNamespace => {
            let set = set.ok_or(Status::INVALID_FIELD)?;
            match set {
                // A zoned namespace uses the NVM Command Set too: no protection information.
                CommandSet::Nvm => facts.blocks(nsid).map(|_| empty_page()).ok_or(Status::INVALID_NAMESPACE),
                _ => valid(facts.zoned_namespace(nsid)),
            }
        }
        Cns::CommandSetController => set.and_then(|set| facts.command_set_controller(set)).ok_or(Status::INVALID_FIELD),
        Cns::CommandSetActiveNamespaceList => match set {
            Some(set) => active(Some(set)),
            None => Err(Status::INVALID_FIELD),
        },
        Cns::CommandSet => {
            // CNTID FFFFh is the controller that is asked (Base 5.17.2.21).
            let asked = (entry.cdw10.get() >> 16) as u16;
            match asked == 0xffff || asked == cntlid || asked == 0 {
                true => Ok(facts.command_sets().as_bytes().to_vec()),
                false => Err(Status::INVALID_CONTROLLER_ID),
            }
        }
    }
}
