//! Zones: the vocabulary of the Zoned Namespace Command Set Specification 1.1b ("ZNS").

/// The state of a zone (ZNS 2.1.1.2.1), with its value in a zone descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ZoneState {
    /// ZSE: nothing written since the last reset.
    Empty = 0x1,
    /// ZSIO: opened by a write.
    ImplicitlyOpened = 0x2,
    /// ZSEO: opened by command; only the host closes it.
    ExplicitlyOpened = 0x3,
    /// ZSC: active, without open resources.
    Closed = 0x4,
    /// ZSRO: can only be read or taken offline.
    ReadOnly = 0xd,
    /// ZSF: no more writes until a reset.
    Full = 0xe,
    /// ZSO: not usable at all.
    Offline = 0xf,
}

/// Zone Send Action (ZNS 3.4.3.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ZoneSendAction {
    /// Close Zone.
    Close = 0x01,
    /// Finish Zone.
    Finish = 0x02,
    /// Open Zone.
    Open = 0x03,
    /// Reset Zone.
    Reset = 0x04,
    /// Offline Zone.
    Offline = 0x05,
    /// Set Zone Descriptor Extension.
    SetDescriptorExtension = 0x10,
    /// Flush Explicit ZRWA Range (commit).
    FlushZrwa = 0x11,
}

/// Zone Receive Action (ZNS 3.4.2.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ZoneReceiveAction {
    /// Report Zones.
    Report = 0x00,
    /// Extended Report Zones: descriptors with their extensions.
    ExtendedReport = 0x01,
}

/// Which zones a report lists (Reporting Options, ZNS 3.4.2.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ZoneReportFilter {
    /// All zones.
    All = 0x0,
    /// Empty zones.
    Empty = 0x1,
    /// Implicitly opened zones.
    ImplicitlyOpened = 0x2,
    /// Explicitly opened zones.
    ExplicitlyOpened = 0x3,
    /// Closed zones.
    Closed = 0x4,
    /// Full zones.
    Full = 0x5,
    /// Read-only zones.
    ReadOnly = 0x6,
    /// Offline zones.
    Offline = 0x7,
}
