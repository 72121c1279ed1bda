//! The preload library's crate: compiled by the build script alone.
#![no_std]

#[path = "../../../prefetch/src/access.rs"]
mod access;
#[path = "../../../prefetch/src/bulk.rs"]
mod bulk;
#[path = "../../../prefetch/src/coverage.rs"]
mod coverage;
#[path = "../../../prefetch/src/mutant.rs"]
mod mutant;
#[path = "../../../prefetch/src/plan.rs"]
mod plan;
#[path = "../../../prefetch/src/policy/mod.rs"]
mod policy;
#[path = "../mutants.rs"]
mod mutants;
#[path = "mod.rs"]
mod preload;
#[path = "../shared/mod.rs"]
mod shared;
#[path = "../../../prefetch/src/streams/mod.rs"]
mod streams;

pub use streams::BASE_WINDOW_BYTES;

mod policies {
    pub use crate::access::{Access, Limits, PAGE_BYTES};
    pub use crate::bulk::Bulk;
    pub use crate::plan::Plan;
    pub use crate::policy::Host;
    pub use crate::streams::Streams;
}

#[used]
#[unsafe(link_section = ".init_array")]
static ATTACH: extern "C" fn() = preload::attach::attach;

/// Nothing in the library panics. If something did, the program could only be ended.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[link(name = "c")]
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: ends the process.
    unsafe { abort() }
}
