//! What goes wrong inside, as the host shows it.

/// A sentence that says what failed, why, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct GuestError {
    message: String,
    /// What the caller asked for is at fault, and not the guest.
    pub(super) is_the_callers: bool,
}

impl GuestError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_the_callers: false }
    }

    /// Of something that the caller asked to be run.
    pub(super) fn of_the_caller(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_the_callers: true }
    }
}

/// `result`, or the error with what was tried in front.
pub(super) fn attempt<T, E: Into<std::io::Error>>(
    result: Result<T, E>,
    what: impl FnOnce() -> String,
) -> Result<T, GuestError> {
    result.map_err(|error| GuestError::new(format!("{}: {}", what(), error.into())))
}
