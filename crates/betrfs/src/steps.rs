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
    /// Page Sharing: the granules of files lie apart, written once and referred to by log and nodes. Without, they are copied into both.
    pub page_sharing: bool,
    /// Query Path: of a block of a node no more is read, and looked through for what waits, than has the key that is asked for. Without,
    /// all of it.
    pub query_path: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { range_message: true, directory_cache: true, page_sharing: true, query_path: true }
    }
}

/// A name that no step has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no step {0:?} to be left out; there are range-message, page-sharing, directory-cache and query-path, with a + between them"
)]
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
                "page-sharing" => steps.page_sharing = false,
                "query-path" => steps.query_path = false,
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
        assert_eq!(Steps::without("range-message"), Ok(Steps { range_message: false, ..Steps::default() }));
        let none = Steps { range_message: false, directory_cache: false, page_sharing: false, query_path: false };
        assert_eq!(Steps::without("directory-cache+range-message+query-path+page-sharing"), Ok(none));
        for wrong in ["", "memory-allocator", "range-message+"] {
            assert!(Steps::without(wrong).is_err(), "{wrong}");
        }
    }
}
