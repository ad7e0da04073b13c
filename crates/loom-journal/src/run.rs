//! Telling the runs of an execution apart.

use std::cell::RefCell;
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
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = random();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    RUN.with_borrow_mut(|run| {
        run.clear();
        // Writing to a string cannot fail.
        let _ = write!(run, "{process}-{count:x}");
        run.as_str().into()
    })
}

thread_local! {
    /// Where names are put together.
    static RUN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// 64 random bits as 16 digits, the same ones for the whole life of this process.
pub(crate) fn random() -> &'static str {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let random = RandomState::new().hash_one((process::id(), SystemTime::now()));
        format!("{random:016x}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_one_name() {
        assert_ne!(new_run(), new_run());
    }
}
