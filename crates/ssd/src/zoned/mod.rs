//! Zoned devices.

pub(crate) mod zones;
