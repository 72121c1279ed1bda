//! The library inside of programs: hooks of the C library's functions, and nothing else.
//!
//! A program under it gets no thread, no allocation, no descriptor, no signal handler and no thread-local variable. A hook passes
//! the call on, looks its descriptor up, tries the lock of the file's state in shared memory, and has the policy observe the access. Once a
//! window, it leaves a request there and wakes the executor in the launcher, which does all the rest.
//!
//! These files are compiled twice: as a module of this crate, for its tests and lints, and by the build script as a library of their own
//! without the standard library (`root.rs`), whose bytes the launcher carries.

pub mod attach;
pub mod descriptors;
pub mod hooks;
pub mod reading;
pub mod real;
pub mod recording;
pub mod stdio;
pub mod sys;
