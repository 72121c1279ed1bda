//! A store with any bytes anywhere, as if its checksums were right.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::image(input));
