//! A store whose log has any bytes, as if its checksums were right.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use storage::Image;

static STORES: LazyLock<Vec<Image>> = LazyLock::new(|| (0..16).filter_map(|kind| fuzz::store(kind).ok()).collect());

fuzz_target!(|input: &[u8]| {
    let [kind, changes @ ..] = input else { return };
    let kind = kind % 16;
    let changed = fuzz::changed(&STORES[usize::from(kind)], fuzz::LOG_START_BYTES, fuzz::LOG_BYTES, changes);
    fuzz::use_store(changed, kind);
});
