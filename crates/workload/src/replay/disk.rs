//! Which disk of a trace an I/O is on, and which disk is replayed.

use std::fmt;

/// A disk as a line of a trace names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Disk<'a> {
    /// The machine, where the format has several.
    pub(super) host: Option<&'a [u8]>,
    /// The disk: a number, `major,minor`, or a file name.
    pub(super) name: &'a [u8],
}

impl Disk<'_> {
    /// Whether `name` is the disk's, with or without its host.
    fn is_called(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let with_host = |host: &[u8]| name.strip_prefix(host).and_then(|rest| rest.strip_prefix(b"_"));
        name == self.name || self.host.and_then(with_host) == Some(self.name)
    }
}

/// As in MSR Cambridge's file names: `host_number`.
impl fmt::Display for Disk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = self.host {
            write!(f, "{}_", host.escape_ascii())?;
        }
        self.name.escape_ascii().fmt(f)
    }
}

/// The disk that is replayed.
pub(super) enum Selection {
    /// The only one of the trace; a second is an error.
    Only(Option<OwnedDisk>),
    /// The named one; others are left out.
    Named {
        /// A [`Disk`]'s name, with or without its host.
        name: String,
        /// Whether it was seen.
        found: bool,
        /// Another disk that was seen.
        other: Option<String>,
    },
}

pub(super) struct OwnedDisk {
    host: Option<Vec<u8>>,
    name: Vec<u8>,
}

impl OwnedDisk {
    pub(super) fn borrowed(&self) -> Disk<'_> {
        Disk { host: self.host.as_deref(), name: &self.name }
    }
}

impl Selection {
    /// Whether `disk` is the one; the disk of the I/Os before if it may not be another.
    pub(super) fn takes(&mut self, disk: Disk<'_>) -> Result<bool, String> {
        match self {
            Self::Only(None) => {
                let owned = OwnedDisk { host: disk.host.map(<[u8]>::to_vec), name: disk.name.to_vec() };
                *self = Self::Only(Some(owned));
                Ok(true)
            }
            Self::Only(Some(first)) if first.borrowed() == disk => Ok(true),
            Self::Only(Some(first)) => Err(first.borrowed().to_string()),
            Self::Named { name, found, other } => {
                let takes = disk.is_called(name);
                *found |= takes;
                if !takes && other.is_none() {
                    *other = Some(disk.to_string());
                }
                Ok(takes)
            }
        }
    }
}
