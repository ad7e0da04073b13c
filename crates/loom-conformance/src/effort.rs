//! How hard the cases try.

use std::time::Duration;

/// How hard the cases try: turn it down for a store where every operation takes a network round trip,
/// up for a nightly run.
///
/// ```
/// use loom_conformance::Effort;
///
/// let slow_store = Effort::default().with_rounds(5).with_many(100);
/// assert_eq!(slow_store.racers, Effort::default().racers);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effort {
    /// How many tasks race each other. At least 2. Default 8.
    pub racers: usize,
    /// How often a race is repeated. At least 1. Default 10.
    pub rounds: usize,
    /// How many executions a listing case creates. At least 50. Default 300.
    pub many: usize,
    /// The first seed of the random cases. Default 1.
    pub first_seed: u64,
    /// How many seeds the random cases go through. At least 1. Default 8.
    pub seeds: u64,
    /// How many operations the random cases do per seed. Default 300.
    pub steps: usize,
    /// When a case counts as hung. Default 120 seconds.
    pub deadline: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            racers: 8,
            rounds: 10,
            many: 300,
            first_seed: 1,
            seeds: 8,
            steps: 300,
            deadline: Duration::from_secs(120),
        }
    }
}

impl Effort {
    /// Sets [`racers`](Self::racers).
    #[must_use]
    pub fn with_racers(mut self, racers: usize) -> Self {
        self.racers = racers.max(2);
        self
    }

    /// Sets [`rounds`](Self::rounds).
    #[must_use]
    pub fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds.max(1);
        self
    }

    /// Sets [`many`](Self::many).
    #[must_use]
    pub fn with_many(mut self, many: usize) -> Self {
        self.many = many.max(50);
        self
    }

    /// Sets [`first_seed`](Self::first_seed) and [`seeds`](Self::seeds): a failure names its seed, and
    /// `with_seeds(seed, 1)` repeats it.
    #[must_use]
    pub fn with_seeds(mut self, first: u64, seeds: u64) -> Self {
        self.first_seed = first;
        self.seeds = seeds.max(1);
        self
    }

    /// Sets [`steps`](Self::steps).
    #[must_use]
    pub fn with_steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
    }

    /// Sets [`deadline`](Self::deadline).
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}
