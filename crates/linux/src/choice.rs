//! What a run may choose: how the device is shown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the device is shown to the kernel inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontEnd {
    /// ublk, or NVMe/TCP for a device with zones.
    #[default]
    Auto,
    /// `/dev/ublkb0`: flush, FUA, discard, write zeroes.
    Ublk,
    /// `/dev/nvme0n1` over NVMe/TCP on the loopback interface: zones, logs, vendor commands.
    NvmeTcp,
    /// `/dev/loop0` on a FUSE file.
    Loop,
    /// The kernel's own memory device, without a model: holds the runner itself to account.
    NullBlk,
}

impl FrontEnd {
    /// Every choice, with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Auto, "auto"),
        (Self::Ublk, "ublk"),
        (Self::NvmeTcp, "nvme-tcp"),
        (Self::Loop, "loop"),
        (Self::NullBlk, "null-blk"),
    ];
}

/// A name that is not one of the choices.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{given}` is not one of {choices}")]
pub struct UnknownChoice {
    /// What was given.
    pub given: String,
    /// What there is.
    pub choices: String,
}

fn name_of<T: PartialEq + Copy>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(one, _)| *one == value).map_or("unknown", |(_, name)| name)
}

pub(crate) fn from_name<T: Copy>(all: &[(T, &'static str)], given: &str) -> Result<T, UnknownChoice> {
    all.iter().find(|(_, name)| *name == given).map(|(one, _)| *one).ok_or_else(|| {
        let choices: Vec<&str> = all.iter().map(|(_, name)| *name).collect();
        UnknownChoice { given: given.to_owned(), choices: choices.join(", ") }
    })
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_of(&Self::ALL, *self))
    }
}

impl FromStr for FrontEnd {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        from_name(&Self::ALL, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (front_end, name) in FrontEnd::ALL {
            assert_eq!((name.parse(), front_end.to_string()), (Ok(front_end), name.to_owned()));
        }
        let error = "vhost".parse::<FrontEnd>().unwrap_err().to_string();
        assert_eq!(error, "`vhost` is not one of auto, ublk, nvme-tcp, loop, null-blk");
    }
}
