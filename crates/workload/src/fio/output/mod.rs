//! Reports in fio's own forms: its text, and its `json+`.
//!
//! What fio has no line for (verification, shortfalls) follows in the text in
//! lines of its own, and in the JSON under a key `plumb`.

mod json;
mod number;
mod summary;
mod text;

pub use json::json_plus;
pub use text::text;

/// What an output says about the run itself, as the caller knows it: nothing
/// here reads a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Milliseconds since 1970, for `timestamp` and `timestamp_ms`.
    pub timestamp_ms: u64,
    /// The same as asctime(3) writes it, for `time`.
    pub time: String,
}

impl Default for Header {
    /// The epoch, so that equal runs give equal bytes.
    fn default() -> Self {
        Self { timestamp_ms: 0, time: "Thu Jan  1 00:00:00 1970".to_owned() }
    }
}
