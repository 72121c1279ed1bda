//! Whether pages that the kernel reads ahead come in large folios.
//!
//! Where they do, reads in order cost a fraction of what they cost page by page, and mappings are filled by many pages at a fault. What is
//! asked for by posix_fadvise(2) comes page by page all the same (`page_cache_ra_unbounded` of mm/readahead.c), and stays so for as long as
//! it is in memory.

use std::os::fd::BorrowedFd;

/// Magic numbers of file systems whose reads make large folios, and the first kernel in which they do.
const SINCE: [(u64, (u32, u32)); 2] = [
    // XFS: has them since 5.17 (commit 6795801366da), and the kernel reads ahead in them since 5.18 (`page_cache_ra_order`).
    (0x5846_5342, (5, 18)),
    // ext4: commit 7ac67301e82f.
    (0xef53, (6, 16)),
];

/// Whether those of this file do.
pub fn are_large(file: BorrowedFd<'_>) -> bool {
    let Ok(about) = rustix::fs::fstatfs(file) else { return false };
    let release = rustix::system::uname();
    let kernel = release.release().to_str().ok().and_then(version);
    kernel.is_some_and(|kernel| SINCE.iter().any(|(magic, since)| *magic == about.f_type as u64 && kernel >= *since))
}

/// The two numbers that a release begins with.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(version("6.18.44-generic"), Some((6, 18)));
        assert_eq!(version("6.9.0+"), Some((6, 9)));
        assert!(version("6.9").unwrap() < version("6.16-rc1").unwrap());
        assert_eq!(version("linux"), None);
    }
}
