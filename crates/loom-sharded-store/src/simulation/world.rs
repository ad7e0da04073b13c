//! What everything in a run shares: chance, time, faults, and what is on its way.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use super::random::Random;

pub(super) type Message = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Nodes die and start again, and sleep.
    pub(super) crashes: bool,
    /// Requests and answers are lost or late, and shards are down for a while.
    pub(super) network: bool,
}

/// What becomes of one request to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    /// It takes its time, and its caller waits.
    Slow,
    /// Nobody listens.
    Down,
    LostRequest,
    LostAnswer,
    /// The caller gives up; the request takes effect long after.
    Late,
}

#[derive(Clone)]
pub(super) struct World(Arc<Mutex<State>>);

struct State {
    random: Random,
    faults: Faults,
    /// By shard, until when it does not listen.
    down: Vec<u64>,
    messages: Vec<Message>,
    now: u64,
    trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, shards: usize, trace: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: Random::new(seed),
            faults: Faults::default(),
            down: vec![0; shards],
            messages: Vec::new(),
            now: 0,
            trace: trace.then(Vec::new),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.state().random.below(bound)
    }

    pub(super) fn one_of<T: Copy>(&self, things: &[T]) -> T {
        *self.state().random.one_of(things)
    }

    pub(super) fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Things go wrong from now on.
    pub(super) fn harm(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Nothing goes wrong from now on.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.faults = Faults::default();
        state.down.fill(0);
    }

    /// A later time than any that was told before.
    pub(super) fn tick(&self) -> u64 {
        let mut state = self.state();
        state.now += 1;
        state.now
    }

    pub(super) fn take_down(&self, shard: usize, ticks: u64) {
        let mut state = self.state();
        state.down[shard] = state.now + ticks;
    }

    pub(super) fn fate(&self, shard: usize) -> Fate {
        let mut state = self.state();
        if state.random.below(24) == 0 {
            return Fate::Slow;
        }
        if !state.faults.network {
            return Fate::Arrives;
        }
        if state.down[shard] > state.now {
            return Fate::Down;
        }
        match state.random.below(160) {
            0 => Fate::LostRequest,
            1 => Fate::LostAnswer,
            2 => Fate::Late,
            _ => Fate::Arrives,
        }
    }

    pub(super) fn send(&self, message: Message) {
        self.state().messages.push(message);
    }

    pub(super) fn take_messages(&self) -> Vec<Message> {
        std::mem::take(&mut self.state().messages)
    }

    /// Writes into the trace, if one is kept.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        let mut state = self.state();
        let now = state.now;
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{now:>6} {}", line()));
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.state().trace.take().unwrap_or_default()
    }

    /// Lets others go first, a few times or many.
    pub(super) async fn pauses(&self, most: u64) {
        for _ in 0..self.below(most + 1) {
            pause().await;
        }
    }
}

/// Lets others go first.
pub(super) fn pause() -> impl Future<Output = ()> + Send {
    struct Pause(bool);
    impl Future for Pause {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 {
                return Poll::Ready(());
            }
            self.0 = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Pause(false)
}
