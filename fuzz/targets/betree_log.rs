//! A store whose log has any bytes, as if its checksums were right.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::log(input));
