//! Zones: the vocabulary of the Zoned Namespace Command Set Specification 1.1 ("ZNS").

/// Declares an enumeration with its conversion from the code on the wire.
macro_rules! codes {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant = $code,)*
        }

        impl $name {
            /// Every value, by ascending code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The value with this code; `None` for a reserved one.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The state of a zone (ZNS 2.1.1.3), with its value in a zone descriptor.
    ZoneState {
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
}

codes! {
    /// Zone Send Action (ZNS 3.4.3.1, figure 39).
    ZoneSendAction {
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
}

codes! {
    /// Zone Receive Action (ZNS 3.4.2.1, figure 34).
    ZoneReceiveAction {
        /// Report Zones.
        Report = 0x00,
        /// Extended Report Zones: descriptors with their extensions.
        ExtendedReport = 0x01,
    }
}

codes! {
    /// Which zones a report lists (Reporting Options, ZNS figure 34).
    ZoneReportFilter {
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
        /// Zones with Reset Zone Recommended, Finish Zone Recommended or Zone
        /// Finished by Controller set.
        AttributeSet = 0x9,
    }
}
