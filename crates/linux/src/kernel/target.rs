//! What a kernel is built for.

use std::path::Path;

/// A kind of machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Target {
    /// A process of this machine.
    #[default]
    UserMode,
    /// A PC with several processors, as QEMU emulates it.
    Pc,
}

impl Target {
    /// As the kernel's makefiles call it.
    pub(super) const fn architecture(self) -> &'static str {
        match self {
            Self::UserMode => "um",
            Self::Pc => "x86_64",
        }
    }

    /// What is made.
    pub(super) const fn goal(self) -> &'static str {
        match self {
            Self::UserMode => "linux",
            Self::Pc => "bzImage",
        }
    }

    /// Where it lies in the tree when it is made.
    pub(super) fn made(self) -> &'static Path {
        Path::new(match self {
            Self::UserMode => "linux",
            Self::Pc => "arch/x86/boot/bzImage",
        })
    }

    /// A header that its build needs beside the usual tools, and the Debian package that has it.
    pub(super) const fn header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::UserMode => None,
            // objtool looks through every object.
            Self::Pc => Some(("/usr/include/libelf.h", "libelf-dev")),
        }
    }
}
