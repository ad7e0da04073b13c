//! The binary format, which has one form only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loom_shard_plan::ShardPlan;

fuzz_target!(|bytes: &[u8]| {
    if let Some(plan) = loom_fuzz::check(bytes, || ShardPlan::from_bytes(bytes)) {
        assert_eq!(plan.to_bytes(), bytes);
    }
});
