//! Values of options, within bounds that a machine can keep.

use units::ByteSize;

/// The most files of a set: their names are kept in memory.
pub(super) const MOST_FILES: u64 = 20_000_000;
/// The most threads of a role.
const MOST_THREADS: u64 = 4096;
/// The largest read or write: each thread keeps a buffer for it.
const MOST_IO_BYTES: u64 = 64 << 20;

fn number(text: &str, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        Ok(_) => Err(format!("from 1 to {most}")),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// How many files.
pub(super) fn files(text: &str) -> Result<u64, String> {
    number(text, MOST_FILES)
}

/// How many threads.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    number(text, MOST_THREADS).map(|threads| threads as usize)
}

/// A size of one read or write.
pub(super) fn io_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if (1..=MOST_IO_BYTES).contains(&size.0) => Ok(size),
        Ok(_) => Err(format!("from 1B to {}", ByteSize(MOST_IO_BYTES))),
        Err(error) => Err(error.to_string()),
    }
}

/// The shape of a gamma distribution, or 0 for none.
pub(super) fn gamma(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gamma) if gamma == 0.0 || (0.1..=10.0).contains(&gamma) => Ok(gamma),
        Ok(_) => Err("0 for none, or from 0.1 to 10".to_owned()),
        Err(_) => Err("not a number".to_owned()),
    }
}
