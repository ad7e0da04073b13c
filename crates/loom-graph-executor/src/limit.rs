//! A limit that several graphs share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ahash::RandomState;
use loom_spi::ExecutionId;

/// How many nodes of several graphs may run at a time, all together. Cheap to clone; all clones are one limit.
///
/// Graphs in nodes of graphs would deadlock on a plain semaphore: with one place, the node that waits for its inner graph
/// holds it. Here it lends its place out for as long as the inner graph runs, and takes it back before that
/// returns. Who lends is known by ids: the parent of the inner graph is the execution of the node. So the limit counts nodes
/// that work, not nodes that wait, and one place is enough for graphs of any depth.
///
/// Places are given in the order in which graphs ask, one at a time; those who take theirs back go first. The limit is one
/// process's: workers elsewhere do not know of it. A node whose inner graph is dropped half way goes on in a place of
/// its own, for a while one more than the limit.
///
/// ```
/// use loom_graph_executor::{GraphOptions, Limit};
/// use loom_spi::ExecutionId;
///
/// let limit = Limit::new(8);
/// let incident = GraphOptions::new(ExecutionId::new("incident-42")?).with_shared_limit(&limit);
/// // In a node of that graph, for a graph of its own:
/// let inner = GraphOptions::new(ExecutionId::new("incident-42/logs")?).with_shared_limit(&limit);
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone)]
pub struct Limit(Arc<Mutex<State>>);

struct State {
    places: usize,
    taken: usize,
    /// Who waits for a place, in the order in which they get it.
    waiting: BTreeMap<Turn, Waker>,
    last_turn: u64,
    /// The executions that were given places.
    held: HashMap<ExecutionId, Hold, RandomState>,
}

/// The first of these comes first.
type Turn = (Rank, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It lent its place out and wants it back.
    Back,
    /// It wants to begin something.
    New,
}

#[derive(Default)]
struct Hold {
    /// One, unless several graphs run, and wait for, the same node.
    places: usize,
    /// How many of those are not lent out.
    counted: usize,
    /// How many graphs run in the node; while there are any, all that it has is lent out.
    graphs: usize,
}

impl Limit {
    /// At most `places` nodes at a time. With 0 every graph is refused.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            places,
            taken: 0,
            waiting: BTreeMap::new(),
            last_turn: 0,
            held: HashMap::default(),
        })))
    }

    /// How many nodes may run at a time.
    #[must_use]
    pub fn places(&self) -> usize {
        self.state().places
    }

    /// How many do at this moment.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue {
            limit: self.clone(),
            turn: None,
        }
    }

    /// Lends out the place of `execution`, if it has one.
    pub(crate) fn lend(&self, execution: &ExecutionId) -> Option<Lent> {
        let mut state = self.state();
        let hold = state.held.get_mut(execution)?;
        hold.graphs += 1;
        let counted = std::mem::take(&mut hold.counted);
        state.give_back(counted);
        Some(Lent {
            limit: self.clone(),
            execution: execution.clone(),
            turn: None,
            is_over: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give_back(&mut self, places: usize) {
        self.taken = self.taken.saturating_sub(places);
        self.wake_first();
    }

    /// Whoever is woken takes a place or leaves the queue, and then the next one is woken.
    fn wake_first(&self) {
        if self.taken < self.places
            && let Some((_, waker)) = self.waiting.first_key_value()
        {
            waker.wake_by_ref();
        }
    }

    /// Whether it may go on now; if not, it is woken when it may.
    fn poll(&mut self, turn: &mut Option<Turn>, rank: Rank, cx: &Context<'_>) -> Poll<()> {
        let own = *turn.get_or_insert_with(|| {
            self.last_turn += 1;
            (rank, self.last_turn)
        });
        let is_first = self.waiting.keys().next().is_none_or(|first| own <= *first);
        if self.taken < self.places && is_first {
            self.leave(turn);
            self.taken += 1;
            // Those behind it were waiting for it, not for a place.
            self.wake_first();
            return Poll::Ready(());
        }
        self.waiting.insert(own, cx.waker().clone());
        Poll::Pending
    }

    fn leave(&mut self, turn: &mut Option<Turn>) {
        if let Some(turn) = turn.take() {
            self.waiting.remove(&turn);
        }
    }
}

/// Where one graph queues for places.
pub(crate) struct Queue {
    limit: Limit,
    turn: Option<Turn>,
}

impl Queue {
    /// A place for `execution`; otherwise `cx` is woken when there may be one.
    pub(crate) fn poll_place(&mut self, execution: &ExecutionId, cx: &Context<'_>) -> Poll<Place> {
        let mut state = self.limit.state();
        if state.poll(&mut self.turn, Rank::New, cx).is_pending() {
            return Poll::Pending;
        }
        let hold = state.held.entry(execution.clone()).or_default();
        hold.places += 1;
        if hold.graphs == 0 {
            hold.counted += 1;
        } else {
            // It joins a node that waits for its inner graph.
            state.give_back(1);
        }
        drop(state);
        Poll::Ready(Place {
            limit: self.limit.clone(),
            execution: execution.clone(),
        })
    }

    /// Nothing is wanted any more for now.
    pub(crate) fn leave(&mut self) {
        if self.turn.is_some() {
            let mut state = self.limit.state();
            state.leave(&mut self.turn);
            state.wake_first();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A place that is taken until this is dropped, or lent out.
#[derive(Debug)]
pub(crate) struct Place {
    limit: Limit,
    execution: ExecutionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.limit.state();
        let Some(hold) = state.held.get_mut(&self.execution) else {
            return;
        };
        hold.places = hold.places.saturating_sub(1);
        let counted = hold.counted.min(1);
        hold.counted -= counted;
        if hold.places == 0 {
            state.held.remove(&self.execution);
        }
        state.give_back(counted);
    }
}

/// A place that is lent out until it is taken back.
pub(crate) struct Lent {
    limit: Limit,
    execution: ExecutionId,
    /// While it waits to get it back.
    turn: Option<Turn>,
    is_over: bool,
}

impl Lent {
    /// Waits until the node has its place again.
    pub(crate) async fn take_back(mut self) {
        poll_fn(|cx| {
            let mut state = self.limit.state();
            let graphs = state
                .held
                .get(&self.execution)
                .map_or(0, |hold| hold.graphs);
            // Others of its graphs still run, or it is over.
            if graphs == 1 && state.poll(&mut self.turn, Rank::Back, cx).is_pending() {
                return Poll::Pending;
            }
            self.is_over = true;
            if graphs == 1 {
                // It was just taken, and is counted once more below.
                state.taken -= 1;
            }
            state.end_graph(&self.execution);
            Poll::Ready(())
        })
        .await;
    }
}

impl State {
    /// A graph in a node ends. When it was the last one, the places of the node count again, whether there are any or
    /// not.
    fn end_graph(&mut self, execution: &ExecutionId) {
        if let Some(hold) = self.held.get_mut(execution) {
            hold.graphs = hold.graphs.saturating_sub(1);
            if hold.graphs == 0 {
                self.taken += hold.places - hold.counted;
                hold.counted = hold.places;
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.limit.state();
        state.leave(&mut self.turn);
        state.end_graph(&self.execution);
        state.wake_first();
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Limit")
            .field("places", &state.places)
            .field("taken", &state.taken)
            .field("waiting", &state.waiting.len())
            .finish()
    }
}
