//! Trying a node again.

use std::time::Duration;

use loom_spi::ExecutionId;
use xxhash_rust::xxh3::Xxh3;

/// How often a node is tried, and how long it waits in between.
///
/// Before attempt `n + 1` a node waits for a random time between nothing and `base · 2ⁿ⁻¹`, or `cap` where that is less
/// ("full jitter"), so that nodes which failed together do not come back together. While it waits it takes up
/// no place among those in flight. The time follows from `seed`, the node's execution and `n` alone, so a test can
/// say what it will be.
///
/// What is tried again: attempts that failed, panicked or timed out, and those whose dispatcher reports something that
/// may pass (its store could not be reached, another worker took the execution over). Not what was cancelled.
///
/// An attempt that failed has a log that is closed for good, so the next one is an execution of its own
/// ([`attempt_id`](crate::attempt_id)), a branch of the first. One whose outcome was not learnt is dispatched again under
/// its own id.
///
/// ```
/// use std::time::Duration;
/// use loom_graph_executor::Retry;
///
/// let retry = Retry::attempts(5).with_backoff(Duration::from_millis(200), Duration::from_secs(10));
/// assert_eq!(retry.longest_delay(1), Duration::from_millis(200));
/// assert_eq!(retry.longest_delay(3), Duration::from_millis(800));
/// assert_eq!(retry.longest_delay(40), Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// The most attempts, the first one included: at least 1.
    pub max_attempts: u32,
    /// The longest wait after the first attempt. Default 100 ms.
    pub base: Duration,
    /// The longest wait of all. Default 30 s.
    pub cap: Duration,
    /// Decides between equal waits. Default 0.
    pub seed: u64,
}

impl Retry {
    /// Up to `max_attempts` attempts, the first one included.
    #[must_use]
    pub const fn attempts(max_attempts: u32) -> Self {
        Self {
            max_attempts,
            base: Duration::from_millis(100),
            cap: Duration::from_secs(30),
            seed: 0,
        }
    }

    /// Sets [`base`](Self::base) and [`cap`](Self::cap). A base of zero means no wait, and needs no
    /// [`Timer`](crate::Timer).
    #[must_use]
    pub const fn with_backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }

    /// Sets [`seed`](Self::seed).
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The longest wait after the attempt of this number, counted from 1.
    #[must_use]
    pub fn longest_delay(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// How long the node whose first execution is `execution` waits after the attempt of this number, counted from 1.
    #[must_use]
    pub fn delay(&self, execution: &ExecutionId, attempt: u32) -> Duration {
        let longest = self.longest_delay(attempt).as_nanos();
        let longest = u64::try_from(longest).unwrap_or(u64::MAX);
        let mut hash = Xxh3::with_seed(self.seed);
        hash.update(execution.as_str().as_bytes());
        hash.update(&attempt.to_le_bytes());
        // The hash as a fraction of 2⁶⁴.
        let part = (u128::from(longest) * u128::from(hash.digest())) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(longest))
    }

    pub(crate) const fn needs_timer(&self) -> bool {
        self.max_attempts > 1 && !self.base.is_zero() && !self.cap.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_bound_and_each_is_the_same_every_time(
            base in 0_u64..10_000, cap in 0_u64..100_000, seed in any::<u64>(), attempt in 0_u32..200,
        ) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let retry = Retry::attempts(3).with_backoff(base, cap).with_seed(seed);
            let delay = retry.delay(&id("g/a"), attempt);
            prop_assert!(delay <= retry.longest_delay(attempt));
            prop_assert!(retry.longest_delay(attempt) <= cap);
            prop_assert!(retry.longest_delay(attempt) <= retry.longest_delay(attempt + 1));
            prop_assert_eq!(delay, retry.delay(&id("g/a"), attempt));
        }
    }

    #[test]
    fn the_waits_of_many_nodes_spread_over_the_whole_range() {
        let retry = Retry::attempts(2).with_backoff(Duration::from_secs(8), Duration::MAX);
        let mut eighths = [0_u32; 8];
        for node in 0..8_000 {
            let delay = retry.delay(&id(&format!("g/{node}")), 1);
            eighths[usize::try_from(delay.as_secs()).unwrap()] += 1;
        }
        assert!(
            eighths.iter().all(|count| (850..1150).contains(count)),
            "{eighths:?}"
        );
    }

    #[test]
    fn another_seed_means_other_waits() {
        let retry = Retry::attempts(2);
        let delays: std::collections::HashSet<_> = (0..50)
            .map(|seed| retry.with_seed(seed).delay(&id("g/a"), 1))
            .collect();
        assert_eq!(delays.len(), 50);
    }

    #[test]
    fn the_largest_durations_do_not_overflow() {
        let retry = Retry::attempts(u32::MAX).with_backoff(Duration::MAX, Duration::MAX);
        assert_eq!(retry.longest_delay(u32::MAX), Duration::MAX);
        assert!(retry.delay(&id("g/a"), u32::MAX) <= Duration::MAX);
    }
}
