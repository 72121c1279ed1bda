//! Steps by which the published system went from version 0.4 to 0.6 ("BetrFS: A Compleat File System for Commodity SSDs", EuroSys '22,
//! Table 3). Those that have a counterpart here can be left out, so that what each is worth can be measured; what is on the storage is the
//! same with and without.

/// What is done; everything, unless something is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Range Message: the data of a file goes by one message. Without, granule by granule, of a file that has no patches and at most 4,096.
    pub range_message: bool,
    /// Directory Cache: who lists a directory gets the attributes of what is in it along with the names. Without, who asks for them looks
    /// each name up.
    pub directory_cache: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { range_message: true, directory_cache: true }
    }
}

/// A name that no step has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no step {0:?} to be left out; there are range-message and directory-cache, with a + between them")]
pub struct UnknownStep(String);

impl Steps {
    /// All but those with these names, with a `+` between them.
    ///
    /// # Errors
    ///
    /// For a name that none has.
    pub fn without(names: &str) -> Result<Self, UnknownStep> {
        let mut steps = Self::default();
        for name in names.split('+') {
            match name {
                "range-message" => steps.range_message = false,
                "directory-cache" => steps.directory_cache = false,
                name => return Err(UnknownStep(name.to_owned())),
            }
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_left_out_by_name() {
        assert_eq!(Steps::without("range-message"), Ok(Steps { range_message: false, directory_cache: true }));
        let none = Steps { range_message: false, directory_cache: false };
        assert_eq!(Steps::without("directory-cache+range-message"), Ok(none));
        for wrong in ["", "query-path", "range-message+"] {
            assert!(Steps::without(wrong).is_err(), "{wrong}");
        }
    }
}
