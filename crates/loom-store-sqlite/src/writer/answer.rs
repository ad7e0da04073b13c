//! Handing answers to those who wait for them.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The two ends of one answer.
pub(super) fn channel<T>() -> (Reply<T>, Answer<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Open(None))));
    (Reply(Arc::clone(&slot)), Answer(slot))
}

/// Gives one answer. When it is dropped, there is none.
#[derive(Debug)]
pub(super) struct Reply<T>(Arc<Slot<T>>);

/// Waits for one answer: `None` when nobody can give it any more.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    /// With who is to be woken.
    Open(Option<Waker>),
    /// With those that are to be woken by whoever takes it.
    Given(T, Option<Arc<Sleepers>>),
    /// One of the two ends is gone.
    Over,
}

/// Those whose answers were given at the same time and who were not woken yet.
///
/// To wake somebody from outside of their runtime may take several microseconds, and from inside of it a fraction of one. So the
/// writer wakes one, who wakes all others first thing. Nobody depends on that one: a moment later the writer wakes
/// whoever still sleeps.
#[derive(Debug, Default)]
pub(super) struct Sleepers(Mutex<VecDeque<Waker>>);

/// The writer's own hand on those who sleep: they are woken when this is dropped, whatever the reason.
#[derive(Debug, Default)]
pub(super) struct WokenAtLast(pub(super) Arc<Sleepers>);

impl Drop for WokenAtLast {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl<T> Reply<T> {
    /// Whether nobody waits for the answer.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.0.lock(), State::Over)
    }

    /// Gives the answer, and leaves it to `sleepers` to wake who waits for it.
    pub(super) fn give(self, answer: T, sleepers: Option<&Arc<Sleepers>>) {
        let mut state = self.0.lock();
        let State::Open(waker) = &mut *state else {
            return;
        };
        let waker = waker.take();
        *state = State::Given(answer, sleepers.cloned());
        drop(state);
        match (waker, sleepers) {
            (Some(waker), Some(sleepers)) => sleepers.lock().push_back(waker),
            (Some(waker), None) => waker.wake(),
            // It will look by itself.
            (None, _) => {}
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let State::Open(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Over;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        if let State::Open(waker) = &mut *state {
            if !waker
                .as_ref()
                .is_some_and(|known| known.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let State::Given(answer, sleepers) = mem::replace(&mut *state, State::Over) else {
            return Poll::Ready(None);
        };
        drop(state);
        if let Some(sleepers) = sleepers {
            sleepers.wake();
        }
        Poll::Ready(Some(answer))
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let state = mem::replace(&mut *self.0.lock(), State::Over);
        // It may have been the one to wake the others.
        if let State::Given(_, Some(sleepers)) = state {
            sleepers.wake();
        }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleepers {
    /// Wakes the one that has waited longest.
    pub(super) fn wake_one(&self) -> bool {
        let next = self.lock().pop_front();
        let woken = next.is_some();
        next.into_iter().for_each(Waker::wake);
        woken
    }

    /// Wakes all of them. Several may do that at the same time.
    pub(super) fn wake(&self) {
        while self.wake_one() {}
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody who waits, and how often they were woken.
    struct Waiting {
        answer: Option<Answer<u8>>,
        woken: Arc<Count>,
    }

    impl Waiting {
        fn new() -> (Reply<u8>, Self) {
            let (reply, answer) = channel();
            let mut waiting = Self {
                answer: Some(answer),
                woken: Arc::default(),
            };
            assert_eq!(waiting.poll(), Poll::Pending);
            (reply, waiting)
        }

        fn poll(&mut self) -> Poll<Option<u8>> {
            let waker = Waker::from(Arc::clone(&self.woken));
            let answer = self.answer.as_mut().unwrap();
            pin!(answer).poll(&mut Context::from_waker(&waker))
        }

        fn is_woken(&self) -> bool {
            self.woken.0.load(Ordering::Relaxed) > 0
        }
    }

    fn given_together() -> (Vec<Waiting>, Arc<Sleepers>) {
        let sleepers = Arc::new(Sleepers::default());
        let group = (0..3).map(|n| {
            let (reply, waiting) = Waiting::new();
            reply.give(n, Some(&sleepers));
            waiting
        });
        (group.collect(), sleepers)
    }

    fn who_is_woken(group: &[Waiting]) -> Vec<bool> {
        group.iter().map(Waiting::is_woken).collect()
    }

    #[test]
    fn an_answer_wakes_who_waits_for_it() {
        let (reply, mut waiting) = Waiting::new();
        assert!(!reply.is_closed());
        reply.give(7, None);
        assert!(waiting.is_woken());
        assert_eq!(waiting.poll(), Poll::Ready(Some(7)));
    }

    #[test]
    fn without_an_answer_whoever_waits_is_told() {
        let (reply, mut waiting) = Waiting::new();
        drop(reply);
        assert!(waiting.is_woken());
        assert_eq!(waiting.poll(), Poll::Ready(None));
    }

    #[test]
    fn an_answer_for_which_nobody_waits_is_known() {
        let (reply, waiting) = Waiting::new();
        drop(waiting);
        assert!(reply.is_closed());
        reply.give(7, None);
    }

    #[test]
    fn whoever_is_woken_first_wakes_the_others() {
        let (mut group, sleepers) = given_together();
        assert_eq!(who_is_woken(&group), [false; 3]);
        sleepers.wake_one();
        assert_eq!(who_is_woken(&group), [true, false, false]);
        assert_eq!(group[0].poll(), Poll::Ready(Some(0)));
        assert_eq!(who_is_woken(&group), [true; 3]);
        assert_eq!(group[2].poll(), Poll::Ready(Some(2)));
    }

    #[test]
    fn so_does_one_that_does_not_want_its_answer_any_more() {
        let (mut group, sleepers) = given_together();
        sleepers.wake_one();
        drop(group[0].answer.take());
        assert_eq!(who_is_woken(&group), [true; 3]);
    }

    #[test]
    fn nobody_depends_on_the_one_that_was_woken_first() {
        let (group, sleepers) = given_together();
        let writer = WokenAtLast(Arc::clone(&sleepers));
        sleepers.wake_one();
        drop(writer);
        assert_eq!(who_is_woken(&group), [true; 3]);
    }
}
