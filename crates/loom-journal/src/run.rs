//! Telling the runs of an execution apart.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// A name for one opening of a journal, which stands in every event that it writes: by it a writer
/// recognises its own event when the reply to an append was lost. Unique across processes with the
/// probability of a random 64-bit number.
pub(crate) fn new_run() -> Arc<str> {
    static PROCESS: OnceLock<String> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| {
        let random = RandomState::new().hash_one((process::id(), SystemTime::now()));
        format!("{random:016x}-")
    });
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut run = String::with_capacity(process.len() + 16);
    run.push_str(process);
    // Writing to a string cannot fail.
    let _ = write!(run, "{count:x}");
    run.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_one_name() {
        assert_ne!(new_run(), new_run());
    }
}
