//! Device profiles.

mod measure;

pub use measure::{Driver, MeasureError, Op, Pattern, Phase, Sample};
