//! The caller's terminal as the command's: in raw mode while the guest has it, and given back as it was.

use std::os::fd::OwnedFd;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use crate::error::LinuxError;
use crate::run::{Input, Linux, OutputStreams};

/// A terminal whose modes come back when it is dropped.
pub(super) struct Terminal {
    modes: Termios,
}

impl Terminal {
    /// The caller's, where the command is to have all three streams of it and they are a terminal.
    pub(super) fn of(run: &Linux) -> Result<Option<Self>, LinuxError> {
        let inherits = matches!(run.input, Input::Inherit) && run.output_streams == OutputStreams::Inherit;
        let terminals =
            [isatty(rustix::stdio::stdin()), isatty(rustix::stdio::stdout()), isatty(rustix::stdio::stderr())];
        if !inherits || terminals.contains(&false) {
            return Ok(None);
        }
        let modes = tcgetattr(rustix::stdio::stdin())
            .map_err(std::io::Error::from)
            .map_err(LinuxError::system("cannot read the terminal's modes"))?;
        Ok(Some(Self { modes }))
    }

    /// A descriptor of it for the kernel, which sets raw mode.
    pub(super) fn descriptor(&self) -> Result<OwnedFd, LinuxError> {
        rustix::io::dup(rustix::stdio::stdin())
            .map_err(std::io::Error::from)
            .map_err(LinuxError::system("cannot copy a descriptor"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A kernel that was killed has not done it.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.modes);
    }
}
