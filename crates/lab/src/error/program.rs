//! Why a program cannot be run.

/// Why a program cannot be run, or what went wrong before it was measured.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The spec asks for what cannot be.
    #[error("workload.program: {0}")]
    Unfit(String),
    /// A command that is not measured failed.
    #[error("workload.program.{which} failed: {said}")]
    Failed {
        /// Its key.
        which: String,
        /// Its words.
        said: String,
    },
}
