//! The NVM Express vocabulary, in the specification's own terms.
//!
//! [`Command`] and [`Status`] are what Plumb's layers pass to each other; the
//! wire structures beside them are what travels over a network. Section numbers
//! refer to the NVM Express Base Specification 2.0c ("Base"), the NVM Command
//! Set Specification 1.0c ("NVM") and the Zoned Namespace Command Set
//! Specification 1.1 ("ZNS"). Fields carry the specification's names in
//! lower case; all integers on the wire are little-endian.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod asynchronous_event;
pub mod authentication;
mod changed_zone_list;
mod command;
mod completion_entry;
mod dataset_management;
mod discovery;
mod fabrics;
mod feature;
mod health_log;
mod identify;
mod identify_command_set;
mod identify_controller;
mod identify_namespace;
mod identify_nvm;
mod identify_zoned;
mod log_page;
mod namespace_identification;
mod opcode;
mod ordering;
mod property;
mod sgl;
mod status;
mod submission_entry;
pub mod tcp;
mod wire;
mod zone;
mod zone_report;

pub use asynchronous_event::{AsynchronousEvent, EventConfiguration};
pub use changed_zone_list::ChangedZoneList;
pub use command::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, WriteCommand};
pub use completion_entry::{CompletionEntry, CompletionStatus};
pub use dataset_management::DatasetManagementRange;
pub use discovery::{DiscoveryFacts, DiscoveryLogEntry, DiscoveryLogHeader, SubsystemType, TransportType};
pub use fabrics::{
    CNTLID_DYNAMIC, ConnectData, ConnectResult, DISCOVERY_NQN, FabricsCommand, FabricsType, NQN_BYTES_MAX,
    SecurityFields, is_nqn, nqn_of,
};
pub use feature::{Feature, FeatureCapabilities, FeatureSelect, GetFeatures, SetFeatures};
pub use health_log::{CriticalWarning, HealthFacts, HealthLog};
pub use identify::{Cns, FactsError, NamespaceList};
pub use identify_command_set::{CommandSet, IdentifyCommandSet, NamespaceDescriptors};
pub use identify_controller::{ControllerFacts, IdentifyController, Oncs, PowerStateDescriptor, Vwc};
pub use identify_namespace::{IdentifyNamespace, LbaFormat, NamespaceFacts};
pub use identify_nvm::{IdentifyIndependentNamespace, IdentifyNvmController, IdentifyNvmNamespace};
pub use identify_zoned::{IdentifyZonedController, IdentifyZonedNamespace, ZoneFormat, ZonedFacts, ZrwaFacts};
pub use log_page::{
    CommandEffects, CommandEffectsLog, ErrorLogEntry, FirmwareSlotLog, GetLogPage, LogPage, SupportedLogPages,
};
pub use namespace_identification::NamespaceIdentifier;
pub use opcode::{AdminOpcode, IoOpcode, UnknownOpcode};
pub use ordering::{Close, Closing, Epoch, OrderingCapability, Stream, StreamAction, StreamEpoch, WriteOrder};
pub use property::{
    Capabilities, Configuration, ControllerStatus, Property, ShutdownNotification, ShutdownStatus, VERSION_2_0,
};
pub use sgl::{SglDescriptor, SglDescriptorType};
pub use status::{Status, StatusCodeType};
pub use submission_entry::SubmissionEntry;
pub use wire::EncodeError;
pub use zone::{ZoneReceiveAction, ZoneReportFilter, ZoneSendAction, ZoneState};
pub use zone_report::{ZoneAttributes, ZoneDescriptor, ZoneReportHeader};
