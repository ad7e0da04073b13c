//! Keeping within the calls that a platform allows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// At most so many calls within any such time, boots and stops before looks.
#[derive(Debug)]
pub(crate) struct Quota {
    allowed: Option<(usize, Duration)>,
    /// When the last calls were made, oldest first.
    made: Mutex<VecDeque<Instant>>,
    /// Held by the one whose turn it is: they come in the order in which they asked.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
}

impl Quota {
    pub(crate) fn new(allowed: Option<(usize, Duration)>) -> Self {
        Self {
            allowed: allowed.map(|(calls, per)| (calls.max(1), per)),
            made: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until a call may be made that has to be made.
    pub(crate) async fn wait(&self) {
        if self.allowed.is_none() {
            return;
        }
        let _counted = Waiting::enter(&self.waiting);
        let _turn = self.turn.lock().await;
        while let Err(pause) = self.take() {
            sleep(pause).await;
        }
    }

    /// Whether a call may be made that can as well be made later: not while others wait for theirs.
    pub(crate) fn may_look(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 && self.take().is_ok()
    }

    /// Counts a call, or says after which time to ask again.
    fn take(&self) -> Result<(), Duration> {
        let Some((calls, per)) = self.allowed else {
            return Ok(());
        };
        let now = Instant::now();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= calls
            && let Some(oldest) = made.front()
        {
            let over = *oldest + per;
            if now < over {
                return Err(over - now);
            }
            made.pop_front();
        }
        made.push_back(now);
        Ok(())
    }
}

/// Counts one who waits, also when it gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_window_of_time_has_more_calls_than_allowed() {
        let minute = Duration::from_secs(60);
        let quota = Quota::new(Some((10, minute)));
        let begun = Instant::now();
        let mut made = Vec::new();
        for _ in 0..45 {
            quota.wait().await;
            made.push(begun.elapsed());
        }
        for window in made.windows(11) {
            assert!(window[10] - window[0] >= minute, "{window:?}");
        }
        assert_eq!(made[44], minute * 4, "and not fewer");
    }

    #[tokio::test(start_paused = true)]
    async fn looks_wait_for_those_who_have_to_call() {
        let quota = Quota::new(Some((1, Duration::from_secs(6))));
        assert!(quota.may_look());
        assert!(!quota.may_look());
        let wait = quota.wait();
        tokio::pin!(wait);
        tokio::select! {
            biased;
            () = &mut wait => panic!("the only call was made"),
            () = async {} => {}
        }
        tokio::time::advance(Duration::from_secs(7)).await;
        assert!(!quota.may_look(), "it would take the turn of who waits");
        wait.await;
    }
}
