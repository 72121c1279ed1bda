//! Any sequence of calls, beside an ordered map.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::calls(input));
