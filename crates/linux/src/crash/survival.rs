//! Which rule of survival a device is held to, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What survives a power cut; see [`crash::Rule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Survival {
    /// What the device's profile says of its write cache.
    #[default]
    Auto,
    /// What a flush or FUA covers: [`crash::VolatileCache`].
    VolatileCache,
    /// The same, and the order of writes that belong to streams: [`crash::Streams`].
    Streams,
    /// What was acknowledged: [`crash::ProtectedCache`].
    ProtectedCache,
    /// What left a cache whose flushes do nothing: [`crash::LyingCache`].
    LyingCache,
}

impl Survival {
    /// Every one, with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Auto, "auto"),
        (Self::VolatileCache, "volatile-cache"),
        (Self::Streams, "streams"),
        (Self::ProtectedCache, "protected-cache"),
        (Self::LyingCache, "lying-cache"),
    ];
}

impl fmt::Display for Survival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL.iter().find(|(one, _)| one == self).map_or("unknown", |(_, name)| name))
    }
}

impl FromStr for Survival {
    type Err = crate::UnknownChoice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::choice::from_name(&Self::ALL, text)
    }
}
