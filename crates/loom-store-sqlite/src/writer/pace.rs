//! How often garbage is removed.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// How many times as long as it took the writer does something else after it has removed some garbage.
const REST: u32 = 3;

/// Leaves most of the time to others: a change may have to wait for one removal, and the next ones do not.
#[derive(Debug, Default)]
pub(super) struct Pace {
    not_before: Option<Instant>,
}

impl Pace {
    /// When some may be removed again; `None` if nothing was removed yet.
    pub(super) fn due(&self) -> Option<Instant> {
        self.not_before
    }

    /// Whether some may be removed at this time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|due| due <= now)
    }

    /// Notes that some was removed.
    pub(super) fn worked(&mut self, begun: Instant, ended: Instant) {
        let took = ended.saturating_duration_since(begun);
        self.not_before = ended.checked_add(took * REST);
    }
}

/// Waits for a message, which it returns at once, but not for longer than that.
pub(super) fn receive_until<T>(
    messages: &mut mpsc::Receiver<T>,
    end: Instant,
) -> Result<T, TryRecvError> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(message) = messages.poll_recv(&mut cx) {
            return message.ok_or(TryRecvError::Disconnected);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(TryRecvError::Empty);
        }
        thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_quarter_of_the_time_is_spent() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert!(pace.is_due(at(0)));
        pace.worked(at(0), at(2));
        assert!(!pace.is_due(at(7)));
        assert!(pace.is_due(at(8)));
        pace.worked(at(20), at(21));
        assert_eq!(pace.due(), Some(at(24)));
    }

    #[test]
    fn a_message_ends_the_wait() {
        let (sender, mut messages) = mpsc::channel(1);
        let far = Instant::now() + Duration::from_secs(1_000_000);
        thread::scope(|scope| {
            scope.spawn(|| sender.blocking_send(7).unwrap());
            assert_eq!(receive_until(&mut messages, far), Ok(7));
        });
        drop(sender);
        assert_eq!(
            receive_until(&mut messages, far),
            Err(TryRecvError::Disconnected)
        );
    }

    #[test]
    fn without_a_message_the_wait_ends_in_time() {
        let (_sender, mut messages) = mpsc::channel::<u8>(1);
        let now = Instant::now();
        assert_eq!(receive_until(&mut messages, now), Err(TryRecvError::Empty));
    }
}
