//! From the accesses of a trace to the windows of each file: FragPicker's analysis phase.

mod window;

pub use window::{Touch, Window};
