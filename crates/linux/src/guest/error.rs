//! What goes wrong inside, as the host shows it.

/// A sentence that says what failed, why, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct GuestError(String);

impl GuestError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// `result`, or the error with what was tried in front.
pub(super) fn attempt<T, E: Into<std::io::Error>>(
    result: Result<T, E>,
    what: impl FnOnce() -> String,
) -> Result<T, GuestError> {
    result.map_err(|error| GuestError(format!("{}: {}", what(), error.into())))
}
