//! Completion status (Base 3.3.3.2.1).

/// Status Code Type and Status Code, as in the completion queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// Status Code Type (SCT), 3 bits.
    pub code_type: u8,
    /// Status Code (SC).
    pub code: u8,
}

impl Status {
    /// Successful Completion.
    pub const SUCCESS: Self = Self::generic(0x00);
    /// Invalid Command Opcode.
    pub const INVALID_OPCODE: Self = Self::generic(0x01);
    /// Invalid Field in Command.
    pub const INVALID_FIELD: Self = Self::generic(0x02);
    /// Internal Error.
    pub const INTERNAL_ERROR: Self = Self::generic(0x06);
    /// Command Abort Requested.
    pub const ABORT_REQUESTED: Self = Self::generic(0x07);
    /// Command Aborted due to Power Loss Notification.
    pub const ABORTED_POWER_LOSS: Self = Self::generic(0x05);
    /// Invalid Namespace or Format.
    pub const INVALID_NAMESPACE: Self = Self::generic(0x0b);
    /// LBA Out of Range.
    pub const LBA_OUT_OF_RANGE: Self = Self::generic(0x80);
    /// Capacity Exceeded.
    pub const CAPACITY_EXCEEDED: Self = Self::generic(0x81);
    /// Write Fault.
    pub const WRITE_FAULT: Self = Self { code_type: 2, code: 0x80 };
    /// Unrecovered Read Error.
    pub const UNRECOVERED_READ: Self = Self { code_type: 2, code: 0x81 };

    const fn generic(code: u8) -> Self {
        Self { code_type: 0, code }
    }

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}
