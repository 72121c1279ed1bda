//! What `docs/opimq.md` holds against the published logs of the 980 PRO says something only as long as the profile was not fitted to it:
//! a constant that changes is seen here.

use crate::common::digest::Digest;
use ssd::profile::{Profile, builtin_text};

const PROFILE: &str = "samsung-980pro-1tb";
/// Of the whole text, with what each value is from.
const HASH: &str = "0277ce0f8d76195f";

/// Constants that come from the artifact's logs, of single commands and the pauses between them.
const FITTED: [&str; 5] =
    ["controller.flush_overhead", "controller.fua_overhead", "link.completion_latency", "sleep.after", "sleep.wake"];

/// What is compared and was not fitted, with what came of the profile of this hash, in us (`experiments/opimq/fsync-latency.toml`).
const NOT_FITTED: [(&str, u32); 3] =
    [("stock, fsync", 6205), ("stock, transfers and host", 492), ("streams-pinned, fsync", 2068)];

#[test]
fn the_profile_is_the_one_whose_fsyncs_are_compared() {
    let text = builtin_text(PROFILE).unwrap();
    let mut digest = Digest::default();
    digest.bytes(Some(text.as_bytes()));
    assert_eq!(
        digest.text(),
        HASH,
        "{PROFILE} has changed. Run experiments/opimq/fsync-latency.toml, and put its rows here and in docs/opimq.md: {NOT_FITTED:?}"
    );
    // Nothing else of it names those logs, but for what they say of a volatile cache.
    let profile = Profile::builtin(PROFILE).unwrap();
    let from_logs = |(key, source): (&String, &String)| {
        let names = source.contains("OPIMQ") || source.contains("the same logs");
        (names && !key.starts_with("buffer.")).then(|| key.clone())
    };
    let mut named: Vec<String> = profile.sources.iter().filter_map(from_logs).collect();
    named.sort();
    assert_eq!(named, FITTED);
}
