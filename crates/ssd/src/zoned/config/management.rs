//! Which designs of zone management a device follows, and their laws.

use serde::{Deserialize, Serialize};
use units::{ByteSize, Nanos};

/// What a reset does to the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResetDesign {
    /// Erases every block of the zone before it completes.
    #[default]
    Full,
    /// Erases the written blocks before it completes.
    Partial,
    /// Gives the flash back unerased; the writer that gets it next erases it.
    Lazy,
    /// Completes at once; the flash is erased when the device is idle.
    Background,
    /// Takes the time that `management.reset_law` says, one at a time in the
    /// device, and holds programs back for part of it.
    Measured,
}

/// Which flash a zone gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingDesign {
    /// Always the same.
    #[default]
    Static,
    /// At its first write, the least erased that is free.
    OnDemand,
}

/// What a finish does to the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishDesign {
    /// Pads the rest of the zone in one go.
    #[default]
    Blocking,
    /// Pads the rest in chunks of `finish_chunk`, host I/O between them.
    Chunked,
    /// Notes in the map that the zone is full.
    Metadata,
    /// Pads as one more writer that shares the buffer in turns.
    Measured,
}

/// Which page an append's flash time is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppendTiming {
    /// Where its data goes (ConfZNS++).
    #[default]
    AtWritePointer,
    /// The zone's first page, whatever the data's place (ConfZNS before ConfZNS++).
    AtZoneStart,
}

/// The designs of zone management.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Management {
    /// What a reset does.
    pub reset: ResetDesign,
    /// Whether erases of a reset give way to host I/O and go on after it.
    pub erase_suspend: bool,
    /// Which flash a zone gets.
    pub mapping: MappingDesign,
    /// What a finish does.
    pub finish: FinishDesign,
    /// Padding of one step of a chunked finish.
    pub finish_chunk: ByteSize,
    /// Which page an append's time is charged to.
    pub append: AppendTiming,
    /// Time without a host command after which a background reset erases.
    pub idle_after: Nanos,
    /// The law of the measured reset.
    pub reset_law: Option<ResetLaw>,
    /// The law of the measured finish.
    pub finish_law: Option<FinishLaw>,
}

impl Default for Management {
    fn default() -> Self {
        Self {
            reset: ResetDesign::default(),
            erase_suspend: false,
            mapping: MappingDesign::default(),
            finish: FinishDesign::default(),
            finish_chunk: ByteSize(256 << 10),
            append: AppendTiming::default(),
            idle_after: Nanos::from_millis(10),
            reset_law: None,
            finish_law: None,
        }
    }
}

/// How long a measured reset takes: `base`, and `written` times x, where x is
/// the share of the zone's capacity that the host wrote (padding of a finish does
/// not count), and what an unfinished zone costs beyond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetLaw {
    /// Of any reset.
    pub base: Nanos,
    /// Of a whole written zone; goes with x. It begins when the programs in flight
    /// have ended; no other program begins meanwhile.
    pub written: Nanos,
    /// Of a zone that was not finished.
    #[serde(default)]
    pub unfinished: Option<UnfinishedRise>,
    /// Arrays that erase at a time, in turn over the zone's, during `written`.
    #[serde(default = "one")]
    pub erasing_arrays: u32,
    /// Host commands that wait for a whole reset.
    #[serde(default)]
    pub catch: Option<ResetCatch>,
}

/// A read, write or append that a reset catches at its start waits until it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetCatch {
    /// Only a reset that begins this soon after another ended catches.
    pub within: Nanos,
    /// What share of those does, spread evenly (0 to 1); each catches one command.
    pub share: f64,
}

/// What a reset costs more if the zone was not finished by command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnfinishedRise {
    /// Of a whole zone; goes with x, up to `max`.
    pub slope: Nanos,
    /// The most that a partly written zone costs.
    pub max: Nanos,
    /// What a zone written to its end costs instead.
    pub full: Nanos,
}

/// What a measured finish takes beside its padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishLaw {
    /// Before the padding begins, of a zone that is not empty.
    pub base: Nanos,
    /// Of a processor, for each unit of padding: commands are processed slower by as
    /// much while it is programmed.
    #[serde(default)]
    pub service: Nanos,
    /// What some finishes wait for after the padding.
    #[serde(default)]
    pub journal: Option<FinishJournal>,
}

/// A write of the journal of zone states that some finishes wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishJournal {
    /// What share of finishes does, spread evenly (0 to 1).
    pub share: f64,
    /// How long it takes.
    pub time: Nanos,
}

fn one() -> u32 {
    1
}
