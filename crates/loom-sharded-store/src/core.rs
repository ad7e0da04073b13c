//! What all operations share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use loom_spi::Limits;
use tokio::sync::Mutex;

use crate::cache::ResolutionCache;
use crate::gate::Gate;
use crate::moves::Moves;
use crate::planner::Planner;
use crate::routing::Routing;
use crate::rules::Rules;
use crate::stats::Counters;

/// One sharded store; the handles of it are clones of an `Arc` of this.
///
/// The operations are in the modules named after them, as methods of this.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) gate: Gate,
    /// The routing that the gate hands out, for what runs outside of it.
    pub(crate) current: ArcSwap<Routing>,
    /// Held by whoever changes the plan.
    pub(crate) planner: Mutex<Planner>,
    pub(crate) cache: ResolutionCache,
    pub(crate) moves: Moves,
    pub(crate) lineage_locks: Box<[Mutex<()>]>,
    pub(crate) counters: Counters,
    pub(crate) offers: Offers,
    pub(crate) rules: Rules,
}

/// How many recordings of lineage run at once, at most.
const LINEAGE_LOCKS: usize = 64;

impl Core {
    pub(crate) fn new(
        planner: Planner,
        routing: Routing,
        cache_capacity: u64,
        rules: Rules,
    ) -> Self {
        let routing = Arc::new(routing);
        Self {
            gate: Gate::new(&routing),
            current: ArcSwap::from(routing),
            cache: ResolutionCache::new(cache_capacity),
            moves: Moves::new(),
            lineage_locks: (0..LINEAGE_LOCKS).map(|_| Mutex::default()).collect(),
            counters: Counters::new(),
            offers: planner.offers,
            rules,
            planner: Mutex::new(planner),
        }
    }
}

/// What the store offers: what all of its shards do. Stays as it is for the life of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers {
    pub(crate) ledgers: bool,
    pub(crate) fencing: bool,
    /// Whether records can be sealed and moved, live ones too. Means something only under a plan that the
    /// shards enforce, so that it is set only where they keep ledgers.
    pub(crate) relocation: bool,
    pub(crate) branches: bool,
    pub(crate) limits: Limits,
    /// Whether some shard accepts more than `limits`, so that these have to be checked here.
    pub(crate) uneven_limits: bool,
}

/// Runs `$body` under the current routing, from the start again when a shard is under another plan: until
/// this node and the shard agree, or it is clear that they will not.
///
/// `$body` is a `Result<_, StoreError>`; it may also `return`.
macro_rules! restarting {
    ($core:expr, |$routing:ident| $body:expr) => {{
        let mut restarts = $crate::converge::Restarts::default();
        loop {
            let $routing = $core.gate.enter().await;
            let answer = $body;
            let error = match answer {
                Ok(answer) => break Ok(answer),
                Err(error) => error,
            };
            let epoch = $routing.epoch();
            // Whoever changes the plan waits for operations in flight, and this one is none while it does.
            drop($routing);
            if let Err(error) = Box::pin($core.converge(&mut restarts, epoch, error)).await {
                break Err(error);
            }
        }
    }};
}
pub(crate) use restarting;
