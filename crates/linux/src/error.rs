//! Why a kernel is not there or a guest did not finish.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A reason for no [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// No kernel is in the cache.
    #[error("no kernel is built for virtual time yet: `plumb linux build` makes it once, in minutes")]
    NoKernel,
    /// Programs that the build needs are missing.
    #[error("the kernel build needs {}: apt-get install {}", .programs.join(", "), .packages.join(" "))]
    MissingTools {
        /// The programs.
        programs: Vec<String>,
        /// The Debian packages that hold them.
        packages: Vec<String>,
    },
    /// The kernel's source is not available.
    #[error(
        "no kernel source: {reason}; `apt-get install linux-source-6.12` provides it, \
         or set PLUMB_KERNEL_SOURCE to a linux-source-6.12.tar.xz or a package of it"
    )]
    NoSource {
        /// What was tried.
        reason: String,
    },
    /// A folder that is to hold the kernel's source does not.
    #[error("{} {reason}", .folder.display())]
    NotASource {
        /// The folder.
        folder: PathBuf,
        /// What it lacks, and the remedy.
        reason: String,
    },
    /// A patch does not apply to the source.
    #[error("the patch {patch} does not apply: {reason}")]
    Patch {
        /// The patch's name.
        patch: String,
        /// The file at which it stops, and why.
        reason: String,
    },
    /// The finished configuration lacks settings that were asked for.
    #[error(
        "the kernel's configuration dropped {}: this source does not know it, or what it depends on is not set",
        .dropped.join(", ")
    )]
    Config {
        /// The settings, `CONFIG_NAME=VALUE`.
        dropped: Vec<String>,
    },
    /// A step of the kernel build failed.
    #[error("the kernel build failed at {step}; its log is {}\n{tail}", .log.display())]
    Build {
        /// The step.
        step: String,
        /// Its whole output.
        log: PathBuf,
        /// The end of its output.
        tail: String,
    },
    /// The run asks for something that does not go together or is not there.
    #[error("{message}")]
    Invalid {
        /// What, and the remedy.
        message: String,
    },
    /// The host's system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Something inside the guest failed before or after the command.
    #[error("{message}{}", tail_of(.log))]
    Guest {
        /// What, and the remedy.
        message: String,
        /// The end of the kernel's log, where it may help.
        log: String,
    },
    /// The kernel inside stopped with a panic.
    #[error("the kernel inside panicked: {reason}{}", tail_of(.log))]
    Panic {
        /// The panic's own words.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// Every process inside waits for something that cannot come.
    #[error("the command waits for something that never comes: nothing inside has a timer or a request under way{}", tail_of(.log))]
    Deadlock {
        /// The end of the kernel's log.
        log: String,
    },
    /// The guest ran out of memory.
    #[error("the guest ran out of its {memory_mib} MiB of memory: {victim}; give more with --memory{}", tail_of(.log))]
    OutOfMemory {
        /// Its memory.
        memory_mib: u64,
        /// What the kernel said it killed.
        victim: String,
        /// The end of the kernel's log.
        log: String,
    },
    /// It took too long on the wall clock.
    #[error("not finished after {} s on the wall clock{}", .limit.as_secs(), tail_of(.log))]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The end of the kernel's log.
        log: String,
    },
    /// The caller gave up.
    #[error("interrupted")]
    Stopped,
}

impl LinuxError {
    /// A closure for `map_err` that says what was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

fn tail_of(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("\n{}", log.trim_end()) }
}
