//! What holds for every input of every decoder.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom_shard_plan::{DecodeError, ShardPlan};

/// Reads an input: no panic, no allocation beyond the order of the input and of the plan in it, and
/// what is accepted is a plan that all formats give back.
pub fn check(
    input: &[u8],
    decode: impl FnOnce() -> Result<ShardPlan, DecodeError>,
) -> Option<ShardPlan> {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let decoded = decode();
    let peak = PEAK.load(Relaxed).saturating_sub(before);
    // Of the input's order, the table of the buckets and the list of the shards that it declares; what
    // that is, is known of a plan.
    let (buckets, shards) = match &decoded {
        Ok(plan) => (plan.bucket_count() as usize, plan.shards().len()),
        Err(_) => (65_536, 65_536),
    };
    let most = 8 * input.len() + 4 * buckets + 24 * shards + 2048;
    assert!(
        peak <= most,
        "{peak} bytes for an input of {}, expected at most {most}",
        input.len()
    );
    match decoded {
        Ok(plan) => {
            assert_eq!(plan.to_string().parse().as_ref(), Ok(&plan));
            assert_eq!(ShardPlan::from_json(&plan.to_json()).as_ref(), Ok(&plan));
            assert_eq!(ShardPlan::from_bytes(&plan.to_bytes()).as_ref(), Ok(&plan));
            Some(plan)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting. The fuzzer decodes on one thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
