//! A bounded set of futures that are polled in place.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Runs futures of one type at once, each with a tag, and hands out what they come to in the order in which
/// they end.
///
/// What `FuturesUnordered` does, with two differences that matter when nodes are many and small: a slot keeps
/// its memory and its waker for the next future, and a future is polled when it enters, so that one that
/// need not wait costs neither an allocation nor a trip through a queue.
pub(crate) struct Slots<F, T> {
    slots: Vec<Slot<F, T>>,
    free: Vec<usize>,
    /// Those of the woken slots that are being polled.
    turn: VecDeque<usize>,
    woken: Arc<Woken>,
}

struct Slot<F, T> {
    /// The future stays where it is from the first poll to the last; the box is reused.
    future: Pin<Box<Option<F>>>,
    tag: Option<T>,
    notice: Arc<Notice>,
    waker: Waker,
}

impl<F: Future, T> Slots<F, T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            turn: VecDeque::new(),
            woken: Arc::default(),
        }
    }

    /// How many futures have not ended.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a future in and polls it once. Returns its tag and output if that was enough.
    pub(crate) fn enter(&mut self, tag: T, future: F) -> Option<(T, F::Output)> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.slots.len(), &self.woken));
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.tag = Some(tag);
        slot.future.set(Some(future));
        self.poll_slot(index)
    }

    /// The next future that ends; `None` when there are none left. `cx` is woken when there is more.
    pub(crate) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<(T, F::Output)>> {
        if self.len() == 0 {
            return Poll::Ready(None);
        }
        self.woken.waiting.register(cx.waker());
        if self.turn.is_empty() {
            mem::swap(&mut self.turn, &mut *self.woken.queue());
        }
        while let Some(index) = self.turn.pop_front() {
            if let Some(slot) = self.slots.get(index) {
                // From here on a wake-up counts again, also one that comes during the poll.
                slot.notice.is_queued.store(false, Ordering::Release);
            }
            if let Some(ended) = self.poll_slot(index) {
                return Poll::Ready(Some(ended));
            }
        }
        // One that wakes itself has to wait until others on this thread had their turn.
        if !self.woken.queue().is_empty() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Has every future polled again, by the next call of [`poll_next`](Self::poll_next).
    pub(crate) fn wake_all(&self) {
        for slot in &self.slots {
            if slot.tag.is_some() {
                slot.notice.wake_by_ref();
            }
        }
    }

    /// Drops every future and returns their tags.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        let mut tags = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.future.set(None);
            if let Some(tag) = slot.tag.take() {
                self.free.push(index);
                tags.push(tag);
            }
        }
        tags
    }

    fn poll_slot(&mut self, index: usize) -> Option<(T, F::Output)> {
        let slot = self.slots.get_mut(index)?;
        // It may be empty: whoever held the waker of an earlier future may use it late.
        let future = slot.future.as_mut().as_pin_mut()?;
        let Poll::Ready(output) = future.poll(&mut Context::from_waker(&slot.waker)) else {
            return None;
        };
        slot.future.set(None);
        self.free.push(index);
        Some((slot.tag.take()?, output))
    }
}

impl<F, T> Slot<F, T> {
    fn new(index: usize, woken: &Arc<Woken>) -> Self {
        let notice = Arc::new(Notice {
            index,
            is_queued: AtomicBool::new(false),
            woken: Arc::clone(woken),
        });
        Self {
            future: Box::pin(None),
            tag: None,
            waker: Waker::from(Arc::clone(&notice)),
            notice,
        }
    }
}

/// The slots that asked to be polled, and who polls them.
#[derive(Default)]
struct Woken {
    queue: Mutex<VecDeque<usize>>,
    waiting: AtomicWaker,
}

impl Woken {
    fn queue(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes one slot.
struct Notice {
    index: usize,
    /// Whether the slot stands in a queue, so that it stands there once at most.
    is_queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.woken.queue().push_back(self.index);
            self.woken.waiting.wake();
        }
    }
}

impl<F, T> fmt::Debug for Slots<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.slots.len())
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use futures_util::task::noop_waker;

    use super::*;

    type Boxed = Pin<Box<dyn Future<Output = u32> + Send>>;

    /// Ends once `polls` polls have been made, waking itself before each further one.
    fn after(polls: usize) -> Boxed {
        let mut left = polls;
        Box::pin(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            left = left.saturating_sub(1);
            if left == 0 {
                Poll::Ready(7)
            } else {
                Poll::Pending
            }
        }))
    }

    fn next(slots: &mut Slots<Boxed, usize>) -> Poll<Option<(usize, u32)>> {
        slots.poll_next(&Context::from_waker(&noop_waker()))
    }

    #[test]
    fn a_future_that_need_not_wait_ends_where_it_enters() {
        let mut slots = Slots::new();
        for tag in 0..1000 {
            assert_eq!(slots.enter(tag, after(1)), Some((tag, 7)));
        }
        assert_eq!((slots.len(), slots.slots.len()), (0, 1));
        assert!(
            slots.woken.queue().len() <= 1,
            "late wake-ups do not pile up"
        );
        assert_eq!(next(&mut slots), Poll::Ready(None));
    }

    #[test]
    fn futures_end_in_their_own_order_and_slots_are_reused() {
        let mut slots = Slots::new();
        for (tag, polls) in [(0, 4), (1, 2), (2, 3)] {
            assert_eq!(slots.enter(tag, after(polls)), None);
        }
        let mut ended = Vec::new();
        while slots.len() > 0 {
            if let Poll::Ready(Some((tag, _))) = next(&mut slots) {
                ended.push(tag);
                if tag == 1 {
                    assert_eq!(slots.enter(3, after(9)), None);
                }
            }
        }
        assert_eq!(ended, [1, 2, 0, 3]);
        assert_eq!(slots.slots.len(), 3);
    }

    #[test]
    fn all_are_polled_again_when_told_to_and_what_is_cleared_leaves_its_slot() {
        let mut slots: Slots<Boxed, usize> = Slots::new();
        let told = Arc::new(AtomicBool::new(false));
        for tag in 0..3 {
            let told = Arc::clone(&told);
            let future: Boxed = Box::pin(poll_fn(move |_| match told.load(Ordering::SeqCst) {
                true => Poll::Ready(7),
                false => Poll::Pending,
            }));
            assert_eq!(slots.enter(tag, future), None);
        }
        told.store(true, Ordering::SeqCst);
        assert_eq!(next(&mut slots), Poll::Pending, "nobody was woken");
        slots.wake_all();
        assert_eq!(next(&mut slots), Poll::Ready(Some((0, 7))));
        assert_eq!(slots.clear(), [1, 2]);
        assert_eq!(next(&mut slots), Poll::Ready(None));
        assert_eq!(slots.enter(4, after(1)), Some((4, 7)));
        assert_eq!(slots.slots.len(), 3);
    }

    #[test]
    fn one_that_wakes_itself_for_ever_does_not_keep_the_others_from_their_turn() {
        let mut slots = Slots::new();
        slots.enter(0, after(usize::MAX));
        slots.enter(1, after(10));
        let ended = (0..20).find_map(|_| match next(&mut slots) {
            Poll::Ready(ended) => ended,
            Poll::Pending => None,
        });
        assert_eq!(ended, Some((1, 7)));
    }

    #[test]
    fn a_slot_that_is_woken_late_is_not_polled_as_another_ones() {
        let mut slots: Slots<Boxed, usize> = Slots::new();
        let held = Arc::new(Mutex::new(None));
        let hold = Arc::clone(&held);
        let first: Boxed = Box::pin(poll_fn(move |cx| {
            *hold.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(1)
        }));
        assert_eq!(slots.enter(0, first), Some((0, 1)));
        held.lock().unwrap().as_ref().unwrap().wake_by_ref();
        let polls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polls);
        let second: Boxed = Box::pin(poll_fn(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        }));
        assert_eq!(slots.enter(1, second), None);
        // A poll too many does no harm; nothing ends.
        assert_eq!(next(&mut slots), Poll::Pending);
        assert_eq!(next(&mut slots), Poll::Pending);
        assert!(polls.load(Ordering::SeqCst) <= 2);
        drop(slots);
        held.lock().unwrap().as_ref().unwrap().wake_by_ref();
    }

    #[test]
    fn a_wake_up_from_another_thread_is_not_lost() {
        for _ in 0..200 {
            let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
            let flag = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&flag);
            let future: Boxed = Box::pin(poll_fn(move |cx| {
                if seen.load(Ordering::Acquire) {
                    return Poll::Ready(1);
                }
                sender.send(cx.waker().clone()).ok();
                Poll::Pending
            }));
            let mut slots = Slots::new();
            assert_eq!(slots.enter(0, future), None);
            let waker = std::thread::spawn(move || {
                let waker = receiver.recv().unwrap();
                flag.store(true, Ordering::Release);
                waker.wake();
            });
            // Parks until it is woken.
            let ended = block_on(&mut slots);
            assert_eq!(ended, Some((0, 1)));
            waker.join().unwrap();
        }
    }

    fn block_on(slots: &mut Slots<Boxed, usize>) -> Option<(usize, u32)> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(poll_fn(|cx| slots.poll_next(cx)))
    }
}
