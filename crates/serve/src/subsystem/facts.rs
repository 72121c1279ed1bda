//! What the subsystem says about its device: Identify's pages, made once.

use nvme::{
    CommandSet, ControllerFacts, EventConfiguration, FactsError, IdentifyCommandSet, IdentifyController,
    IdentifyIndependentNamespace, IdentifyNamespace, IdentifyNvmController, IdentifyZonedController,
    IdentifyZonedNamespace, LogPage, NamespaceFacts, NamespaceId, NamespaceIdentifier, Oncs, OrderingCapability,
    VERSION_2_0, ZonedFacts, ZrwaFacts,
};
use ssd::{Identity, ZonedIdentity};
use zerocopy::{FromZeros, IntoBytes};

use super::config::{SubsystemConfig, SubsystemError};

/// Keep Alive Support: the timeout's granularity in units of 100 ms.
pub(super) const KEEP_ALIVE_GRANULARITY_100MS: u16 = 10;
/// Asynchronous Event Requests that a controller holds at once.
pub(super) const EVENT_REQUESTS_MAX: usize = 4;
/// Entries of the Error Information log.
pub(super) const ERROR_LOG_ENTRIES: usize = 64;
/// Entries of an admin queue, as the discovery log states them. Linux asks for 32.
pub(super) const ADMIN_QUEUE_ENTRIES: u16 = 128;

/// CMIC bit 1: the subsystem may have several controllers.
const MULTIPLE_CONTROLLERS: u8 = 1 << 1;
/// NMIC bit 0: the namespace may be attached to several controllers.
const SHARED: u8 = 1 << 0;
/// NSATTR bit 0: currently write protected.
const WRITE_PROTECTED: u8 = 1 << 0;
/// CTRATT bits 0 and 6: 128-bit Host Identifier; Traffic Based Keep Alive.
const CONTROLLER_ATTRIBUTES: u32 = 1 << 0 | 1 << 6;
/// CNTRLTYPE of a discovery controller.
const DISCOVERY_CONTROLLER: u8 = 2;
/// FRMW: one slot, and it is read only.
const FIRMWARE_UPDATES: u8 = 1 << 1 | 1 << 0;
/// LPA bit 1: Commands Supported and Effects.
const COMMAND_EFFECTS_LOG: u8 = 1 << 1;
/// LPA bits 1, 2 and 5: Commands Supported and Effects; offsets and 32-bit lengths;
/// Supported Log Pages.
const LOG_PAGE_ATTRIBUTES: u8 = COMMAND_EFFECTS_LOG | 1 << 2 | 1 << 5;
/// SGLS bits 1:0, 20, 21: SGLs without alignment rules; an address that is an
/// offset into the capsule; Transport SGL Data Blocks.
const SGL_SUPPORT: u32 = 1 | 1 << 20 | 1 << 21;
/// OFCS bit 0: Disconnect.
const OPTIONAL_FABRICS_COMMANDS: u16 = 1 << 0;
/// Size of a submission queue entry, and the unit of IOCCSZ and IORCSZ.
const ENTRY_BYTES: u32 = 64;
const CAPSULE_UNIT_BYTES: u32 = 16;

/// The pages of a namespace.
struct Namespace {
    identify: IdentifyNamespace,
    independent: IdentifyIndependentNamespace,
    zoned: Option<IdentifyZonedNamespace>,
    identifiers: [u8; 4096],
}

/// What the subsystem says about its device.
pub(super) struct Facts {
    pub(super) identity: Identity,
    pub(super) max_transfer_bytes: u32,
    pub(super) queue_entries: u16,
    pub(super) io_queues: u16,
    pub(super) read_only: bool,
    io_controller: IdentifyController,
    discovery_controller: IdentifyController,
    zoned_controller: Option<IdentifyZonedController>,
    namespaces: Vec<Namespace>,
}

impl Facts {
    pub(super) fn new(config: &SubsystemConfig, identity: &Identity) -> Result<Self, SubsystemError> {
        if !nvme::is_nqn(&config.nqn) {
            return Err(SubsystemError::Nqn { name: config.nqn.clone() });
        }
        if config.nqn == nvme::DISCOVERY_NQN {
            return Err(SubsystemError::DiscoveryNqn);
        }
        for host in config.allowed_hosts.iter().map(String::as_str).chain(config.credentials.iter().map(|c| c.host())) {
            if !nvme::is_nqn(host) {
                return Err(SubsystemError::Nqn { name: host.to_owned() });
            }
        }
        let limit = |what, value: u64, least: u64| {
            if value < least { Err(SubsystemError::Limit { what, value, least }) } else { Ok(()) }
        };
        limit("the number of entries of a queue", config.queue_entries.into(), 2)?;
        limit("the number of I/O queues", config.io_queues.into(), 1)?;
        limit("the number of controllers", config.controllers.into(), 1)?;
        // Linux 6.12 takes the largest append of a multipath zoned disk from the largest transfer (nvme_update_ns_info) and
        // refuses the larger ones itself (blk_check_zone_append): Btrfs then fails with EIO. No transfer is larger.
        let append_limit = identity.zoned.as_ref().map_or(u32::MAX, |zoned| zoned.append_limit_bytes);
        let largest = config.max_transfer_bytes.min(identity.max_transfer_bytes).min(append_limit.max(8192));
        limit("the largest transfer in bytes", largest.into(), 8192)?;
        let max_transfer_bytes = 1 << largest.ilog2();
        let io_controller = io_controller(config, identity, max_transfer_bytes)?;
        let mut discovery_controller = IdentifyController::of(&ControllerFacts {
            subnqn: nvme::DISCOVERY_NQN.to_owned(),
            capacity_bytes: 0,
            namespaces: 0,
            oncs: Oncs::empty(),
            volatile_write_cache: false,
            ..controller_facts(config, identity, max_transfer_bytes)
        })?;
        discovery_controller.cntrltype = DISCOVERY_CONTROLLER;
        discovery_controller.oaes = EventConfiguration::DISCOVERY_LOG.bits().into();
        discovery_controller.vwc = 0;
        common(&mut discovery_controller);
        discovery_controller.lpa = LOG_PAGE_ATTRIBUTES & !COMMAND_EFFECTS_LOG;
        let zoned_controller = identity.zoned.as_ref().map(|zoned| zoned_controller(zoned, max_transfer_bytes));
        let namespaces =
            (1..).zip(&identity.namespace_blocks).map(|(nsid, blocks)| namespace(config, identity, nsid, *blocks));
        Ok(Self {
            identity: identity.clone(),
            max_transfer_bytes,
            queue_entries: config.queue_entries,
            io_queues: config.io_queues,
            read_only: config.read_only,
            io_controller,
            discovery_controller,
            zoned_controller: zoned_controller.transpose()?,
            namespaces: namespaces.collect::<Result<_, _>>()?,
        })
    }

    /// Size of a namespace in logical blocks.
    pub(super) fn blocks(&self, nsid: NamespaceId) -> Option<u64> {
        let index = (nsid.0 as usize).checked_sub(1)?;
        self.identity.namespace_blocks.get(index).copied()
    }

    /// The command set of every namespace.
    pub(super) fn command_set(&self) -> CommandSet {
        if self.identity.zoned.is_some() { CommandSet::Zoned } else { CommandSet::Nvm }
    }

    /// Whether controllers may be told to support a command set.
    pub(super) fn supports(&self, set: CommandSet) -> bool {
        set == CommandSet::Nvm || set == self.command_set()
    }

    /// Namespaces, ascending.
    pub(super) fn nsids(&self) -> impl Iterator<Item = NamespaceId> {
        (1..).map(NamespaceId).take(self.namespaces.len())
    }

    fn namespace(&self, nsid: NamespaceId) -> Option<&Namespace> {
        self.namespaces.get((nsid.0 as usize).checked_sub(1)?)
    }

    pub(super) fn io_controller(&self, cntlid: u16) -> IdentifyController {
        IdentifyController { cntlid: cntlid.into(), ..self.io_controller.clone() }
    }

    pub(super) fn discovery_controller(&self, cntlid: u16) -> IdentifyController {
        IdentifyController { cntlid: cntlid.into(), ..self.discovery_controller.clone() }
    }

    /// CNS 00h, and CNS 05h of the NVM Command Set's own page is empty.
    pub(super) fn identify_namespace(&self, nsid: NamespaceId) -> Option<&[u8]> {
        self.namespace(nsid).map(|namespace| namespace.identify.as_bytes())
    }

    pub(super) fn independent_namespace(&self, nsid: NamespaceId) -> Option<&[u8]> {
        self.namespace(nsid).map(|namespace| namespace.independent.as_bytes())
    }

    pub(super) fn zoned_namespace(&self, nsid: NamespaceId) -> Option<&[u8]> {
        self.namespace(nsid)?.zoned.as_ref().map(IntoBytes::as_bytes)
    }

    pub(super) fn identification_descriptors(&self, nsid: NamespaceId) -> Option<&[u8]> {
        self.namespace(nsid).map(|namespace| &namespace.identifiers[..])
    }

    /// CNS 06h.
    pub(super) fn command_set_controller(&self, set: CommandSet) -> Option<Vec<u8>> {
        match set {
            CommandSet::Nvm => Some(IdentifyNvmController::unlimited().as_bytes().to_vec()),
            CommandSet::Zoned => self.zoned_controller.as_ref().map(|page| page.as_bytes().to_vec()),
            CommandSet::KeyValue => None,
        }
    }

    /// CNS 1Ch: one combination, everything that there is.
    pub(super) fn command_sets(&self) -> IdentifyCommandSet {
        match self.command_set() {
            CommandSet::Zoned => IdentifyCommandSet::of(&[CommandSet::Nvm, CommandSet::Zoned]),
            set => IdentifyCommandSet::of(&[set]),
        }
    }

    pub(super) fn firmware(&self) -> [u8; 8] {
        self.io_controller.fr
    }

    pub(super) fn oncs(&self) -> Oncs {
        Oncs::from_bits_truncate(self.io_controller.oncs.get())
    }

    /// Notices and critical warnings that a controller of this kind can send.
    pub(super) fn events(&self, discovery: bool) -> EventConfiguration {
        let page = if discovery { &self.discovery_controller } else { &self.io_controller };
        let notices = EventConfiguration::from_bits_truncate(page.oaes.get());
        if discovery { notices } else { notices | EventConfiguration::HEALTH }
    }

    /// Log pages of an I/O controller or a discovery controller.
    pub(super) fn log_pages(&self, discovery: bool) -> impl Iterator<Item = LogPage> {
        let (zoned, all) = (self.identity.zoned.is_some(), LogPage::ALL);
        all.iter().copied().filter(move |page| match page {
            LogPage::SupportedLogPages | LogPage::ErrorInformation => true,
            LogPage::Discovery => discovery,
            LogPage::ChangedZoneList => !discovery && zoned,
            LogPage::FeatureIdentifiers => false,
            LogPage::Health
            | LogPage::FirmwareSlot
            | LogPage::ChangedNamespaceList
            | LogPage::CommandsSupportedAndEffects => !discovery,
        })
    }
}

fn controller_facts(config: &SubsystemConfig, identity: &Identity, max_transfer_bytes: u32) -> ControllerFacts {
    let blocks = identity.namespace_blocks.iter().fold(0_u64, |sum, blocks| sum.saturating_add(*blocks));
    let mut oncs = Oncs::COMPARE | Oncs::WRITE_ZEROES | Oncs::SAVE_SELECT;
    oncs.set(Oncs::DATASET_MANAGEMENT, identity.supports_deallocate);
    ControllerFacts {
        serial: config.identifiers.serial.clone(),
        model: identity.model.chars().take(40).collect(),
        firmware: config.firmware.clone(),
        subnqn: config.nqn.clone(),
        capacity_bytes: blocks.saturating_mul(identity.lba_bytes.into()),
        namespaces: identity.namespace_blocks.len() as u32,
        max_transfer_bytes: Some(max_transfer_bytes),
        queue_depth: config.queue_entries,
        oncs,
        volatile_write_cache: identity.volatile_write_cache,
    }
}

/// What is the same for both kinds of controller.
fn common(page: &mut IdentifyController) {
    page.ver = VERSION_2_0.into();
    page.ctratt = CONTROLLER_ATTRIBUTES.into();
    page.acl = 3;
    page.aerl = EVENT_REQUESTS_MAX as u8 - 1;
    page.elpe = ERROR_LOG_ENTRIES as u8 - 1;
    page.lpa = LOG_PAGE_ATTRIBUTES;
    page.kas = KEEP_ALIVE_GRANULARITY_100MS.into();
    page.sgls = SGL_SUPPORT.into();
    // Response capsules carry no data.
    page.iorcsz = 1.into();
    page.msdbd = 1;
    page.ofcs = OPTIONAL_FABRICS_COMMANDS.into();
}

fn io_controller(
    config: &SubsystemConfig,
    identity: &Identity,
    max_transfer_bytes: u32,
) -> Result<IdentifyController, FactsError> {
    let mut page = IdentifyController::of(&controller_facts(config, identity, max_transfer_bytes))?;
    common(&mut page);
    page.cmic = MULTIPLE_CONTROLLERS;
    let mut notices = EventConfiguration::NAMESPACE_ATTRIBUTE;
    notices.set(EventConfiguration::ZONE_DESCRIPTOR, identity.zoned.is_some());
    page.oaes = notices.bits().into();
    page.frmw = FIRMWARE_UPDATES;
    page.mnan = page.nn;
    page.ioccsz = ((ENTRY_BYTES + config.in_capsule_bytes) / CAPSULE_UNIT_BYTES).into();
    let descriptor = identity.ordering.map_or_else(OrderingCapability::none, |ordering| {
        OrderingCapability::version_1(ordering.streams, ordering.epochs, ordering.delayed_blocks)
    });
    page.vs[..size_of::<OrderingCapability>()].copy_from_slice(descriptor.as_bytes());
    Ok(page)
}

fn zoned_controller(zoned: &ZonedIdentity, max_transfer_bytes: u32) -> Result<IdentifyZonedController, FactsError> {
    let limit = zoned.append_limit_bytes;
    IdentifyZonedController::of((limit < max_transfer_bytes).then_some(limit))
}

fn namespace(config: &SubsystemConfig, identity: &Identity, nsid: u32, blocks: u64) -> Result<Namespace, FactsError> {
    let mut identify = IdentifyNamespace::of(&NamespaceFacts {
        blocks,
        used_blocks: blocks,
        lba_bytes: identity.lba_bytes,
        preferred_write_blocks: 0,
        deallocated_reads_zeroes: identity.supports_deallocate,
    })?;
    identify.nmic = SHARED;
    if config.read_only {
        identify.nsattr = WRITE_PROTECTED;
    }
    let ids = &config.identifiers;
    identify.nguid = ids.nguid(nsid);
    identify.eui64 = ids.eui64(nsid);
    let set = if identity.zoned.is_some() { CommandSet::Zoned } else { CommandSet::Nvm };
    let zoned = identity.zoned.as_ref().map(|zoned| {
        let zrwa = zoned.zrwa.map(|zrwa| ZrwaFacts {
            size_blocks: zrwa.size_blocks.try_into().unwrap_or(u16::MAX),
            commit_granularity_blocks: zrwa.commit_granularity_blocks.try_into().unwrap_or(u16::MAX),
            zones_max: zrwa.zones_max,
        });
        IdentifyZonedNamespace::of(&ZonedFacts {
            zone_blocks: zoned.zone_blocks,
            max_open: zoned.max_open,
            max_active: zoned.max_active,
            reads_across_zones: zoned.reads_across_zones,
            descriptor_extension_bytes: zoned.descriptor_extension_bytes,
            zrwa,
        })
    });
    Ok(Namespace {
        independent: IdentifyIndependentNamespace::of(&identify, identity.rotational),
        zoned: zoned.transpose()?,
        identifiers: NamespaceIdentifier::list(&[
            NamespaceIdentifier::Eui64(ids.eui64(nsid)),
            NamespaceIdentifier::Nguid(ids.nguid(nsid)),
            NamespaceIdentifier::Uuid(ids.uuid(nsid)),
            NamespaceIdentifier::CommandSet(set),
        ]),
        identify,
    })
}

/// An Identify page without content.
pub(super) fn empty_page() -> Vec<u8> {
    nvme::IdentifyNvmNamespace::new_zeroed().as_bytes().to_vec()
}
