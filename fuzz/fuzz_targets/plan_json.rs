//! The JSON format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loom_shard_plan::ShardPlan;

fuzz_target!(|json: &str| {
    loom_fuzz::check(json.as_bytes(), || ShardPlan::from_json(json));
});
