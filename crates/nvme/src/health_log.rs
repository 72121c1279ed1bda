//! The SMART / Health Information log page (LID 02h; Base 5.16.1.3, figure 207).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

bitflags::bitflags! {
    /// Critical Warning.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct CriticalWarning: u8 {
        /// Available spare is below its threshold.
        const SPARE = 1 << 0;
        /// A temperature is beyond a threshold.
        const TEMPERATURE = 1 << 1;
        /// Reliability is degraded by media or internal errors.
        const RELIABILITY = 1 << 2;
        /// All media are read only.
        const READ_ONLY = 1 << 3;
        /// The backup of volatile memory failed.
        const VOLATILE_MEMORY_BACKUP = 1 << 4;
    }
}

/// The log page. Counters of 128 bits are little-endian.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct HealthLog {
    /// Critical Warning.
    pub critical_warning: u8,
    /// Composite Temperature in kelvin.
    pub temperature: U16,
    /// Available Spare in percent.
    pub avail_spare: u8,
    /// Available Spare Threshold in percent.
    pub spare_thresh: u8,
    /// Percentage Used.
    pub percent_used: u8,
    /// Endurance Group Critical Warning Summary.
    pub endu_grp_crit_warn_sumry: u8,
    /// Reserved.
    pub rsvd7: [u8; 25],
    /// Data Units Read: thousands of 512 bytes, rounded up.
    pub data_units_read: [u8; 16],
    /// Data Units Written, likewise.
    pub data_units_written: [u8; 16],
    /// Host Read Commands.
    pub host_reads: [u8; 16],
    /// Host Write Commands.
    pub host_writes: [u8; 16],
    /// Controller Busy Time in minutes.
    pub ctrl_busy_time: [u8; 16],
    /// Power Cycles.
    pub power_cycles: [u8; 16],
    /// Power On Hours.
    pub power_on_hours: [u8; 16],
    /// Unsafe Shutdowns.
    pub unsafe_shutdowns: [u8; 16],
    /// Media and Data Integrity Errors.
    pub media_errors: [u8; 16],
    /// Number of Error Information Log Entries.
    pub num_err_log_entries: [u8; 16],
    /// Warning Composite Temperature Time in minutes.
    pub warning_temp_time: U32,
    /// Critical Composite Temperature Time in minutes.
    pub critical_comp_time: U32,
    /// Temperature Sensors 1 to 8 in kelvin; 0: none.
    pub temp_sensor: [U16; 8],
    /// Thermal Management Temperature 1 Transition Count.
    pub thm_temp1_trans_count: U32,
    /// Thermal Management Temperature 2 Transition Count.
    pub thm_temp2_trans_count: U32,
    /// Total Time For Thermal Management Temperature 1 in seconds.
    pub thm_temp1_total_time: U32,
    /// Total Time For Thermal Management Temperature 2 in seconds.
    pub thm_temp2_total_time: U32,
    /// Reserved.
    pub rsvd232: [u8; 280],
}

const _: () = assert!(size_of::<HealthLog>() == HealthLog::BYTES);

/// What a modelled device counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthFacts {
    /// Critical Warning.
    pub warning: CriticalWarning,
    /// Composite temperature in kelvin.
    pub temperature_kelvin: u16,
    /// Bytes that hosts read.
    pub read_bytes: u64,
    /// Bytes that hosts wrote.
    pub written_bytes: u64,
    /// Read commands.
    pub read_commands: u64,
    /// Write commands.
    pub write_commands: u64,
    /// Whole minutes in which commands were outstanding.
    pub busy_minutes: u64,
    /// Power cycles.
    pub power_cycles: u64,
    /// Whole hours with power.
    pub power_on_hours: u64,
    /// Losses of power without a shutdown before.
    pub unsafe_shutdowns: u64,
    /// Commands that ended with a media error.
    pub media_errors: u64,
    /// Entries that the Error Information log ever had.
    pub error_log_entries: u64,
}

/// A data unit: a thousand units of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

impl HealthLog {
    /// Its size on the wire.
    pub const BYTES: usize = 512;

    /// The page. The model knows no wear by itself: all spare is available and no
    /// endurance is used.
    pub fn of(facts: &HealthFacts) -> Self {
        let wide = |value: u64| u128::from(value).to_le_bytes();
        let mut log = Self::new_zeroed();
        log.critical_warning = facts.warning.bits();
        log.temperature = facts.temperature_kelvin.into();
        log.avail_spare = 100;
        log.spare_thresh = 10;
        log.data_units_read = wide(facts.read_bytes.div_ceil(DATA_UNIT_BYTES));
        log.data_units_written = wide(facts.written_bytes.div_ceil(DATA_UNIT_BYTES));
        log.host_reads = wide(facts.read_commands);
        log.host_writes = wide(facts.write_commands);
        log.ctrl_busy_time = wide(facts.busy_minutes);
        log.power_cycles = wide(facts.power_cycles);
        log.power_on_hours = wide(facts.power_on_hours);
        log.unsafe_shutdowns = wide(facts.unsafe_shutdowns);
        log.media_errors = wide(facts.media_errors);
        log.num_err_log_entries = wide(facts.error_log_entries);
        log
    }
}
