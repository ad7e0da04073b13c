//! Which plan an operation runs under, and when a plan may be replaced.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::routing::Routing;
use crate::stats::ROUTED;

/// Requests that a lane counts before the metrics facade is told.
const TOLD_EVERY: u64 = 1024;

/// Hands every operation the current routing, and knows when the operations of an earlier one are gone.
///
/// Each thread has a lane, and each lane a [`View`] of its own: entering takes a reference to that view,
/// so threads share no cache line, and the references that are left *are* the operations in flight. There
/// is no lock and no counter of them. How many requests there were is counted by lane too.
pub(crate) struct Gate {
    lanes: Box<[Lane]>,
    present: Arc<Present>,
    routed: metrics::Counter,
}

/// Keeps neighbouring lanes off one cache line (two lines, since processors prefetch pairs).
#[repr(align(128))]
struct Lane {
    view: ArcSwap<View>,
    /// Requests of this lane's threads.
    routed: AtomicU64,
    /// How many of them the metrics facade has been told of.
    told: AtomicU64,
}

impl Lane {
    fn new(view: Arc<View>) -> Self {
        Self {
            view: ArcSwap::from(view),
            routed: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// Tells the facade what it has not been told yet, each request once whoever else does so.
    #[cold]
    fn tell(&self, facade: &metrics::Counter) -> u64 {
        let routed = self.routed.load(Ordering::Relaxed);
        let told = self.told.fetch_max(routed, Ordering::Relaxed);
        facade.increment(routed.saturating_sub(told));
        routed
    }
}

/// A routing as one lane sees it. The alignment keeps the reference counts of two lanes apart.
#[repr(align(128))]
struct View {
    routing: Arc<Routing>,
    state: State,
}

enum State {
    /// Operations may enter; the last one to leave a view that was replaced reports it.
    Open { _presence: Presence },
    /// A plan is being replaced: wait until the gate is open again.
    Closed(Arc<Notify>),
}

/// The open views that a lane or an operation still refers to. Changes only when a plan does.
#[derive(Default)]
struct Present {
    views: AtomicUsize,
    none: Notify,
}

struct Presence(Arc<Present>);

impl Drop for Presence {
    fn drop(&mut self) {
        if self.0.views.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

/// An operation in flight, under one routing.
pub(crate) struct Entered(arc_swap::Guard<Arc<View>>);

impl Deref for Entered {
    type Target = Routing;

    fn deref(&self) -> &Routing {
        &self.0.routing
    }
}

impl Entered {
    #[inline]
    fn through(lane: &Lane) -> Option<Self> {
        let view = lane.view.load();
        matches!(view.state, State::Open { .. }).then_some(Self(view))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.routed();
    }
}

impl Gate {
    pub(crate) fn new(routing: &Arc<Routing>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // More lanes than threads that run at once, so that two busy threads rarely share one.
        let count = threads.saturating_mul(8).next_power_of_two().clamp(16, 256);
        let present = Arc::new(Present::default());
        let lanes = (0..count)
            .map(|_| Lane::new(open_view(routing, &present)))
            .collect();
        let routed = metrics::counter!(ROUTED);
        Self {
            lanes,
            present,
            routed,
        }
    }

    /// The current routing, for as long as the result is held. Waits while a plan is being replaced.
    #[inline]
    pub(crate) async fn enter(&self) -> Entered {
        match self.try_enter() {
            Some(entered) => entered,
            None => Box::pin(self.enter_later()).await,
        }
    }

    /// The current routing, unless a plan is being replaced.
    #[inline]
    fn try_enter(&self) -> Option<Entered> {
        Entered::through(self.lane())
    }

    /// The same for a request that begins, which is counted.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Entered> {
        let lane = self.lane();
        self.count_on(lane);
        Entered::through(lane)
    }

    /// Counts a request that begins.
    pub(crate) fn count(&self) {
        self.count_on(self.lane());
    }

    #[inline]
    fn count_on(&self, lane: &Lane) {
        let before = lane.routed.fetch_add(1, Ordering::Relaxed);
        if before % TOLD_EVERY == TOLD_EVERY - 1 {
            lane.tell(&self.routed);
        }
    }

    /// How many requests have begun; the metrics facade knows as many afterwards.
    pub(crate) fn routed(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.tell(&self.routed)).sum()
    }

    async fn enter_later(&self) -> Entered {
        loop {
            let view = self.lane().view.load();
            let State::Closed(reopened) = &view.state else {
                return Entered(view);
            };
            // Made before the second look, so that a gate that opens between the two is noticed.
            let opens = reopened.notified();
            if Arc::ptr_eq(&view, &self.lane().view.load()) {
                opens.await;
            }
        }
    }

    /// Replaces the routing at once. Operations of the old one run on beside those of the new one: only
    /// for shards that refuse what comes under an older plan.
    pub(crate) fn replace(&self, next: &Arc<Routing>) {
        self.open(next);
    }

    /// Replaces the routing once every operation of the old one is over; those that come meanwhile wait,
    /// and run under the new one.
    ///
    /// Dropping the future opens the gate again, under the old routing.
    pub(crate) async fn exchange(&self, now: &Arc<Routing>, next: &Arc<Routing>) {
        let mut closed = Closed {
            gate: self,
            routing: Arc::clone(now),
            reopened: Arc::new(Notify::new()),
        };
        closed.close();
        // No lane refers to an open view any more: those that are left belong to operations.
        loop {
            let none_left = self.present.none.notified();
            if self.present.views.load(Ordering::Acquire) == 0 {
                break;
            }
            none_left.await;
        }
        closed.routing = Arc::clone(next);
    }

    fn open(&self, routing: &Arc<Routing>) {
        for lane in &self.lanes {
            lane.view.store(open_view(routing, &self.present));
        }
    }

    #[inline]
    fn lane(&self) -> &Lane {
        // The number of lanes is a power of two.
        &self.lanes[lane_of_thread() & (self.lanes.len() - 1)]
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

/// A gate that nobody can enter; opens it under `routing` when it is dropped.
struct Closed<'a> {
    gate: &'a Gate,
    routing: Arc<Routing>,
    reopened: Arc<Notify>,
}

impl Closed<'_> {
    fn close(&self) {
        for lane in &self.gate.lanes {
            lane.view.store(Arc::new(View {
                routing: Arc::clone(&self.routing),
                state: State::Closed(Arc::clone(&self.reopened)),
            }));
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.open(&self.routing);
        self.reopened.notify_waiters();
    }
}

fn open_view(routing: &Arc<Routing>, present: &Arc<Present>) -> Arc<View> {
    present.views.fetch_add(1, Ordering::AcqRel);
    Arc::new(View {
        routing: Arc::clone(routing),
        state: State::Open {
            _presence: Presence(Arc::clone(present)),
        },
    })
}

/// A number of the thread's own, counted up from 0.
#[inline]
fn lane_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    LANE.with(|lane| *lane)
}
