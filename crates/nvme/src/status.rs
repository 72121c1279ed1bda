//! Completion status (Base 3.3.3.2.1).

use std::fmt;

/// Status Code Type and Status Code, as in the completion queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// Status Code Type (SCT), 3 bits.
    pub code_type: u8,
    /// Status Code (SC).
    pub code: u8,
}

/// The Status Code Types (Base figure 93).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StatusCodeType {
    /// Generic Command Status.
    Generic = 0,
    /// Command Specific Status.
    CommandSpecific = 1,
    /// Media and Data Integrity Errors.
    MediaAndDataIntegrity = 2,
    /// Path Related Status.
    PathRelated = 3,
}

/// Declares the statuses with the specification's wording, once.
macro_rules! statuses {
    ($($kind:ident { $($name:ident = $code:literal, $text:literal;)* })*) => {
        impl Status {
            $($(
                #[doc = concat!($text, ".")]
                pub const $name: Self = Self::new(StatusCodeType::$kind, $code);
            )*)*

            /// Every status this crate names, with the specification's wording.
            pub const NAMED: &[(Self, &str)] = &[$($((Self::$name, $text),)*)*];
        }
    };
}

statuses! {
    // Base figures 94 and 95; NVM figures 16 and 17.
    Generic {
    SUCCESS = 0x00, "Successful Completion";
    INVALID_OPCODE = 0x01, "Invalid Command Opcode";
    INVALID_FIELD = 0x02, "Invalid Field in Command";
    COMMAND_ID_CONFLICT = 0x03, "Command ID Conflict";
    DATA_TRANSFER_ERROR = 0x04, "Data Transfer Error";
    ABORTED_POWER_LOSS = 0x05, "Commands Aborted due to Power Loss Notification";
    INTERNAL_ERROR = 0x06, "Internal Error";
    ABORT_REQUESTED = 0x07, "Command Abort Requested";
    ABORTED_SQ_DELETION = 0x08, "Command Aborted due to SQ Deletion";
    ABORTED_FAILED_FUSED = 0x09, "Command Aborted due to Failed Fused Command";
    ABORTED_MISSING_FUSED = 0x0a, "Command Aborted due to Missing Fused Command";
    INVALID_NAMESPACE = 0x0b, "Invalid Namespace or Format";
    COMMAND_SEQUENCE_ERROR = 0x0c, "Command Sequence Error";
    INVALID_SGL_SEGMENT = 0x0d, "Invalid SGL Segment Descriptor";
    INVALID_SGL_COUNT = 0x0e, "Invalid Number of SGL Descriptors";
    DATA_SGL_LENGTH_INVALID = 0x0f, "Data SGL Length Invalid";
    METADATA_SGL_LENGTH_INVALID = 0x10, "Metadata SGL Length Invalid";
    SGL_TYPE_INVALID = 0x11, "SGL Descriptor Type Invalid";
    INVALID_CMB_USE = 0x12, "Invalid Use of Controller Memory Buffer";
    PRP_OFFSET_INVALID = 0x13, "PRP Offset Invalid";
    ATOMIC_WRITE_UNIT_EXCEEDED = 0x14, "Atomic Write Unit Exceeded";
    OPERATION_DENIED = 0x15, "Operation Denied";
    SGL_OFFSET_INVALID = 0x16, "SGL Offset Invalid";
    HOST_ID_INCONSISTENT = 0x18, "Host Identifier Inconsistent Format";
    KEEP_ALIVE_EXPIRED = 0x19, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0x1a, "Keep Alive Timeout Invalid";
    ABORTED_PREEMPT = 0x1b, "Command Aborted due to Preempt and Abort";
    SANITIZE_FAILED = 0x1c, "Sanitize Failed";
    SANITIZE_IN_PROGRESS = 0x1d, "Sanitize In Progress";
    SGL_GRANULARITY_INVALID = 0x1e, "SGL Data Block Granularity Invalid";
    NOT_SUPPORTED_IN_CMB = 0x1f, "Command Not Supported for Queue in CMB";
    NAMESPACE_WRITE_PROTECTED = 0x20, "Namespace is Write Protected";
    COMMAND_INTERRUPTED = 0x21, "Command Interrupted";
    TRANSIENT_TRANSPORT_ERROR = 0x22, "Transient Transport Error";
    PROHIBITED_BY_LOCKDOWN = 0x23, "Command Prohibited by Command and Feature Lockdown";
    MEDIA_NOT_READY = 0x24, "Admin Command Media Not Ready";
    LBA_OUT_OF_RANGE = 0x80, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0x81, "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0x82, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0x83, "Reservation Conflict";
    FORMAT_IN_PROGRESS = 0x84, "Format In Progress";
    }

    // Base figure 96; NVM figure 18.
    CommandSpecific {
    COMPLETION_QUEUE_INVALID = 0x00, "Completion Queue Invalid";
    INVALID_QUEUE_IDENTIFIER = 0x01, "Invalid Queue Identifier";
    INVALID_QUEUE_SIZE = 0x02, "Invalid Queue Size";
    ABORT_LIMIT_EXCEEDED = 0x03, "Abort Command Limit Exceeded";
    ASYNC_EVENT_LIMIT_EXCEEDED = 0x05, "Asynchronous Event Request Limit Exceeded";
    INVALID_FIRMWARE_SLOT = 0x06, "Invalid Firmware Slot";
    INVALID_FIRMWARE_IMAGE = 0x07, "Invalid Firmware Image";
    INVALID_INTERRUPT_VECTOR = 0x08, "Invalid Interrupt Vector";
    INVALID_LOG_PAGE = 0x09, "Invalid Log Page";
    INVALID_FORMAT = 0x0a, "Invalid Format";
    INVALID_QUEUE_DELETION = 0x0c, "Invalid Queue Deletion";
    FEATURE_NOT_SAVEABLE = 0x0d, "Feature Identifier Not Saveable";
    FEATURE_NOT_CHANGEABLE = 0x0e, "Feature Not Changeable";
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x0f, "Feature Not Namespace Specific";
    OVERLAPPING_RANGE = 0x14, "Overlapping Range";
    NAMESPACE_INSUFFICIENT_CAPACITY = 0x15, "Namespace Insufficient Capacity";
    NAMESPACE_ID_UNAVAILABLE = 0x16, "Namespace Identifier Unavailable";
    NAMESPACE_ALREADY_ATTACHED = 0x18, "Namespace Already Attached";
    NAMESPACE_IS_PRIVATE = 0x19, "Namespace Is Private";
    NAMESPACE_NOT_ATTACHED = 0x1a, "Namespace Not Attached";
    INVALID_CONTROLLER_ID = 0x1f, "Invalid Controller Identifier";
    STREAM_RESOURCE_ALLOCATION_FAILED = 0x7f, "Stream Resource Allocation Failed";
    CONFLICTING_ATTRIBUTES = 0x80, "Conflicting Attributes";
    INVALID_PROTECTION_INFORMATION = 0x81, "Invalid Protection Information";
    WRITE_TO_READ_ONLY_RANGE = 0x82, "Attempted Write to Read Only Range";
    COMMAND_SIZE_LIMIT_EXCEEDED = 0x83, "Command Size Limit Exceeded";
    COMMAND_SET_NOT_SUPPORTED = 0x29, "I/O Command Set Not Supported";
    COMMAND_SET_NOT_ENABLED = 0x2a, "I/O Command Set Not Enabled";
    COMMAND_SET_COMBINATION_REJECTED = 0x2b, "I/O Command Set Combination Rejected";
    INVALID_COMMAND_SET = 0x2c, "Invalid I/O Command Set";
    // ZNS figure 11; the first two from TP 4076.
    INVALID_ZONE_OPERATION_REQUEST = 0xb6, "Invalid Zone Operation Request";
    ZRWA_RESOURCES_UNAVAILABLE = 0xb7, "ZRWA Resources Unavailable";
    ZONE_BOUNDARY_ERROR = 0xb8, "Zone Boundary Error";
    ZONE_IS_FULL = 0xb9, "Zone Is Full";
    ZONE_IS_READ_ONLY = 0xba, "Zone Is Read Only";
    ZONE_IS_OFFLINE = 0xbb, "Zone Is Offline";
    ZONE_INVALID_WRITE = 0xbc, "Zone Invalid Write";
    TOO_MANY_ACTIVE_ZONES = 0xbd, "Too Many Active Zones";
    TOO_MANY_OPEN_ZONES = 0xbe, "Too Many Open Zones";
    INVALID_ZONE_STATE_TRANSITION = 0xbf, "Invalid Zone State Transition";
    }

    // Base figure 98; NVM figure 19.
    MediaAndDataIntegrity {
    WRITE_FAULT = 0x80, "Write Fault";
    UNRECOVERED_READ = 0x81, "Unrecovered Read Error";
    GUARD_CHECK_ERROR = 0x82, "End-to-end Guard Check Error";
    APPLICATION_TAG_CHECK_ERROR = 0x83, "End-to-end Application Tag Check Error";
    REFERENCE_TAG_CHECK_ERROR = 0x84, "End-to-end Reference Tag Check Error";
    COMPARE_FAILURE = 0x85, "Compare Failure";
    ACCESS_DENIED = 0x86, "Access Denied";
    UNWRITTEN_BLOCK = 0x87, "Deallocated or Unwritten Logical Block";
    STORAGE_TAG_CHECK_ERROR = 0x88, "End-to-End Storage Tag Check Error";
    }
}

/// Statuses of Fabrics commands (Base figure 97), whose codes mean something else
/// for other commands.
impl Status {
    /// Connect Incompatible Format; for I/O commands Conflicting Attributes.
    pub const CONNECT_INCOMPATIBLE_FORMAT: Self = Self::new(StatusCodeType::CommandSpecific, 0x80);
    /// Connect Controller Busy.
    pub const CONNECT_CONTROLLER_BUSY: Self = Self::new(StatusCodeType::CommandSpecific, 0x81);
    /// Connect Invalid Parameters.
    pub const CONNECT_INVALID_PARAMETERS: Self = Self::new(StatusCodeType::CommandSpecific, 0x82);
    /// Connect Restart Discovery.
    pub const CONNECT_RESTART_DISCOVERY: Self = Self::new(StatusCodeType::CommandSpecific, 0x83);
    /// Connect Invalid Host.
    pub const CONNECT_INVALID_HOST: Self = Self::new(StatusCodeType::CommandSpecific, 0x84);
    /// Invalid Queue Type (of Disconnect).
    pub const INVALID_QUEUE_TYPE: Self = Self::new(StatusCodeType::CommandSpecific, 0x85);
    /// Discover Restart.
    pub const DISCOVER_RESTART: Self = Self::new(StatusCodeType::CommandSpecific, 0x90);
    /// Authentication Required.
    pub const AUTHENTICATION_REQUIRED: Self = Self::new(StatusCodeType::CommandSpecific, 0x91);
}

impl Status {
    const fn new(code_type: StatusCodeType, code: u8) -> Self {
        Self { code_type: code_type as u8, code }
    }

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// The specification's wording, where this crate knows the status.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(status, _)| *status == self).map(|(_, name)| *name)
    }
}

/// `LBA Out of Range (0/80h)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:x}/{:02x}h)", self.name().unwrap_or("Status"), self.code_type, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_is_named_twice() {
        for (index, (status, name)) in Status::NAMED.iter().enumerate() {
            assert!(Status::NAMED[..index].iter().all(|(other, wording)| other != status && wording != name), "{name}");
            assert_eq!(status.name(), Some(*name));
        }
    }

    #[test]
    fn shown_with_its_codes() {
        assert_eq!(Status::LBA_OUT_OF_RANGE.to_string(), "LBA Out of Range (0/80h)");
        assert_eq!(Status { code_type: 7, code: 1 }.to_string(), "Status (7/01h)");
    }
}
