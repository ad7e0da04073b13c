//! Leaving most of the time to everybody else.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The share of the time in which a drain works: more than 0, at most 1.
///
/// A drain with a share works in bursts, each of at most [`at_once`](super::DrainOptions::at_once) moves and looks
/// that are under way together. After a burst that took `t` it rests for `t · (1 − share) / share`, and leaves the
/// shards to everybody else. With 0.2 a burst of 10 ms is followed by 40 ms in which nothing is moved. What callers
/// do in the time of a burst is as slow as it is beside a drain without a share; what they do in between is as fast
/// as without a drain. So a mean rises by at most the share of what it would rise by otherwise, and so does a
/// percentile that is beyond what a share this small can touch: with 0.005, 99 % are not touched.
///
/// ```
/// use loom_sharded_store::Share;
///
/// let fifth: Share = "0.2".parse()?;
/// assert_eq!(fifth, Share::new(0.2)?);
/// assert_eq!(fifth.rest_after(std::time::Duration::from_millis(10)).as_millis(), 40);
/// assert!(Share::new(0.0).is_err());
/// # Ok::<(), loom_sharded_store::InvalidShare>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// The least share, one thousandth: with less a drain would seem to stand still.
    pub const LEAST: Self = Self(0.001);

    /// A share of the time, from [`LEAST`](Self::LEAST) to 1; 1 rests never.
    ///
    /// # Errors
    /// [`InvalidShare`] for everything else.
    pub fn new(share: f64) -> Result<Self, InvalidShare> {
        if (Self::LEAST.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(InvalidShare)
        }
    }

    /// How long it is rested after work that took so long.
    #[must_use]
    pub fn rest_after(self, busy: Duration) -> Duration {
        // At most a thousand times as long, and never not a number.
        Duration::try_from_secs_f64(busy.as_secs_f64() * (1.0 - self.0) / self.0)
            .unwrap_or(Duration::MAX)
    }
}

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        text.parse().map_err(|_| InvalidShare).and_then(Self::new)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What cannot be a share of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a share of the time, from 0.001 to 1")]
pub struct InvalidShare;

/// Lets work begin in bursts, with rests between them.
#[derive(Debug)]
pub(super) struct Bursts {
    share: Share,
    /// The most work of one burst.
    most: usize,
    /// Never locked while anything is waited for.
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    /// How much may still begin in this burst.
    left: usize,
    running: usize,
    begun: Instant,
    /// Until when it is rested.
    rest: Option<Instant>,
}

/// Some work of a burst. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Bursts);

impl Bursts {
    pub(super) fn new(share: Share, most: usize) -> Self {
        Self {
            share,
            most,
            state: Mutex::new(State {
                left: most,
                running: 0,
                begun: Instant::now(),
                rest: None,
            }),
            ended: Notify::new(),
        }
    }

    /// Waits until there is time for some more work.
    pub(super) async fn turn(&self) -> Turn<'_> {
        loop {
            // Before looking, so that no burst ends unnoticed in between.
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            let rest = {
                let mut state = self.state();
                let now = Instant::now();
                if state.rest.is_some_and(|until| until <= now) {
                    state.rest = None;
                    state.left = self.most;
                }
                if state.rest.is_none() && state.left > 0 {
                    if state.running == 0 {
                        state.begun = now;
                    }
                    state.left -= 1;
                    state.running += 1;
                    return Turn(self);
                }
                state.rest
            };
            match rest {
                Some(until) => sleep_until(until).await,
                None => ended.await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in there is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let bursts = self.0;
        let mut state = bursts.state();
        state.running -= 1;
        if state.running > 0 {
            return;
        }
        // Also when it could have gone on: whoever comes next begins another one.
        let now = Instant::now();
        let rest = bursts.share.rest_after(now - state.begun);
        state.rest = now.checked_add(rest);
        drop(state);
        bursts.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const WORK: Duration = Duration::from_millis(10);

    /// How long `pieces` of work take, each of them 10 ms long, and the most that ran together.
    async fn time(share: f64, at_once: usize, pieces: usize) -> (Duration, usize) {
        let bursts = Bursts::new(Share::new(share).unwrap(), at_once);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let begun = Instant::now();
        join_all((0..pieces).map(|_| async {
            let _turn = bursts.turn().await;
            let now = running.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            sleep(WORK).await;
            running.fetch_sub(1, Ordering::Relaxed);
        }))
        .await;
        (begun.elapsed(), most.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn work_takes_no_more_than_its_share_of_the_time() {
        // Ten bursts with nine rests between them.
        for (share, rests) in [(1.0, 0), (0.5, 10), (0.2, 40), (0.001, 9_990)] {
            for at_once in [1, 4, 64] {
                let (took, most) = time(share, at_once, 10 * at_once).await;
                let expected = WORK * 10 + Duration::from_millis(rests) * 9;
                // The clock of the tests ticks in milliseconds.
                assert!(took >= expected, "{share}, {at_once}: {took:?}");
                assert!(
                    took <= expected + Duration::from_millis(10),
                    "{share}, {at_once}: {took:?}"
                );
                assert_eq!(most, at_once);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_given_up_holds_up_nobody() {
        let bursts = Bursts::new(Share::new(0.5).unwrap(), 1);
        let turn = bursts.turn().await;
        let waits = async {
            let _turn = bursts.turn().await;
            sleep(Duration::MAX).await;
        };
        let given_up = tokio::time::timeout(WORK, waits).await;
        assert!(given_up.is_err());
        drop(turn);
        let begun = Instant::now();
        drop(bursts.turn().await);
        assert_eq!(
            begun.elapsed(),
            WORK,
            "as long as the work that was given up beside it"
        );
    }

    #[test]
    fn what_is_no_share_of_the_time_is_refused() {
        for text in ["0", "-1", "1.01", "20%", "", "nan", "inf", "0.0009"] {
            assert_eq!(text.parse::<Share>(), Err(InvalidShare), "{text}");
        }
        for text in ["0.001", "1", "1.0", ".5"] {
            assert_eq!(
                text.parse::<Share>()
                    .unwrap()
                    .to_string()
                    .parse::<f64>()
                    .unwrap(),
                text.parse::<f64>().unwrap()
            );
        }
    }
}
