//! The profiles that come with the program.

/// (name, text), in the order in which they are listed.
pub(super) const PROFILES: &[(&str, &str)] = &[
    ("samsung-980pro-1tb", include_str!("../../../../devices/samsung-980pro-1tb.toml")),
    ("samsung-pm983-1920gb", include_str!("../../../../devices/samsung-pm983-1920gb.toml")),
    ("optane-905p-960gb", include_str!("../../../../devices/optane-905p-960gb.toml")),
    ("samsung-860evo-250gb", include_str!("../../../../devices/samsung-860evo-250gb.toml")),
    ("samsung-850pro-256gb", include_str!("../../../../devices/samsung-850pro-256gb.toml")),
    ("intel-s3500-480gb", include_str!("../../../../devices/intel-s3500-480gb.toml")),
    ("hdd-7200-1tb", include_str!("../../../../devices/hdd-7200-1tb.toml")),
    ("microsd-evo-128gb", include_str!("../../../../devices/microsd-evo-128gb.toml")),
    ("wd-zn540", include_str!("../../../../devices/wd-zn540.toml")),
    ("confznspp", include_str!("../../../../devices/confznspp.toml")),
];
