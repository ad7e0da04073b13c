//! The text format.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    loom_fuzz::check(text.as_bytes(), || text.parse());
});
