//! Why a store could not be opened, and why a plan was not taken.

use std::fmt;

use loom_shard_plan::{DecodeError, HashFunction, PlanError, ShardId, TransitionError};
use loom_spi::{BoxError, ExecutionId, PlanEpoch, StoreError};

use crate::BucketDrain;

/// Why stores do not make up one sharded store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing to route to.
    #[error("a sharded store needs at least one shard")]
    NoShards,
    /// Two stores were given the same number.
    #[error("shard {shard} was given twice: every shard needs a number of its own")]
    DuplicateShard {
        /// The number.
        shard: ShardId,
    },
    /// One store was given as two shards.
    #[error("shards {other} and {shard} are the same store: every shard needs a store of its own")]
    SameStore {
        /// The second of them.
        shard: ShardId,
        /// The first.
        other: ShardId,
    },
    /// Without a plan, executions are routed by `hash % shard_count`.
    #[error(
        "without a plan the shards are numbered from 0 without gaps: shard {found} is out of line"
    )]
    UnplannedIds {
        /// The first number that does not fit.
        found: ShardId,
    },
    /// The plan was made for another hash function than the one execution ids have.
    #[error(
        "the plan routes by `{found}`, expected `{}`: make a plan for that function",
        loom_spi::RouteHash::NAME
    )]
    HashFunction {
        /// What the plan says.
        found: HashFunction,
    },
    /// The plan names a shard that nobody gave, and there is no resolver that could reach it.
    #[error(
        "the plan names shard {shard}, which was not given: give its store, or a resolver that connects to it"
    )]
    MissingShard {
        /// The shard.
        shard: ShardId,
    },
    /// The resolver could not reach a shard that the plan names.
    #[error("cannot connect to shard {shard}, which the plan names")]
    Connect {
        /// The shard.
        shard: ShardId,
        /// What the resolver said.
        #[source]
        source: BoxError,
    },
    /// Some shards keep the plan and check epochs, others do not.
    #[error(
        "shard {with} keeps a plan ledger and shard {without} does not: either all shards of a deployment keep one or none does"
    )]
    MixedLedgers {
        /// A shard with a ledger.
        with: ShardId,
        /// A shard without.
        without: ShardId,
    },
    /// What was asked for needs a ledger.
    #[error("{what} needs shards that keep a plan ledger, and shard {shard} does not")]
    NoLedger {
        /// What was asked for.
        what: &'static str,
        /// A shard without a ledger.
        shard: ShardId,
    },
    /// A deployment was to be created and was not named.
    #[error("creating a deployment needs its id: shards are told apart by it")]
    NoDeployment,
    /// The shards hold executions and no plan, and the first plan would look for them elsewhere.
    #[error(
        "shard {shard} holds executions that were stored without a plan, and the plan that was given would look for them elsewhere: the first plan has to be `ShardPlan::adopting({shards})`"
    )]
    ReroutesUnplanned {
        /// A shard that holds some.
        shard: ShardId,
        /// How many shards there are.
        shards: usize,
    },
    /// The plan that was given is not the one that the shards are under, and not an older one either.
    #[error(
        "the plan that was given is {given}, but the shards are under {current}: open with the plan of the shards, and publish the new one"
    )]
    NotPublished {
        /// The plan that was given.
        given: PlanEpoch,
        /// The newest plan that a shard holds.
        current: PlanEpoch,
    },
    /// Two shards hold different plans of the same epoch.
    #[error(
        "shard {shard} holds plan {found}, another shard {current}: two plans of one epoch cannot both be right; find out which was published, and repair the other shard"
    )]
    RivalPlans {
        /// A shard.
        shard: ShardId,
        /// What it holds.
        found: PlanEpoch,
        /// What another one holds.
        current: PlanEpoch,
    },
    /// A shard's plan cannot be read.
    #[error("the plan that shard {shard} holds cannot be read")]
    UnreadablePlan {
        /// The shard.
        shard: ShardId,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// A shard's plan is another one than its ledger says.
    #[error("shard {shard} says that it holds plan {stated}, but what it holds is {found}")]
    MislabelledPlan {
        /// The shard.
        shard: ShardId,
        /// What the ledger says.
        stated: PlanEpoch,
        /// What the bytes are.
        found: PlanEpoch,
    },
    /// A shard that joins cannot do what this store has been offering.
    #[error("shard {shard} does not offer {what}, which this store has offered so far")]
    LessCapable {
        /// The shard.
        shard: ShardId,
        /// What is missing.
        what: &'static str,
    },
    /// A shard could not be asked, or is another one than it should be.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a plan was not adopted, or not published. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanChangeError {
    /// The plan may not follow the present one.
    #[error("the plan is refused")]
    Refused(#[from] TransitionError),
    /// The step itself cannot be made of the present plan.
    #[error("the plan cannot be made")]
    Plan(#[from] PlanError),
    /// A bucket that would settle still has executions on its source.
    #[error("{}", NotDrained(.0))]
    NotDrained(Vec<BucketDrain>),
    /// The shards are under a newer plan already.
    #[error(
        "plan {given} is not newer than the present one, {current}: derive the next plan from the present one"
    )]
    Superseded {
        /// The plan that was given.
        given: PlanEpoch,
        /// The plan that the shards are under.
        current: PlanEpoch,
    },
    /// Somebody else published another plan first.
    #[error("another plan was published first: {}; read it and decide anew", .current.map_or_else(|| "none".to_owned(), |current| current.to_string()))]
    Lost {
        /// The plan that is current now.
        current: Option<PlanEpoch>,
    },
    /// A shard has missed plans: it was restored from a backup, or is another server than it should be.
    #[error("shard {shard} is under {}, more than one epoch behind {expected}: it was restored from an old backup or is the wrong server; repair it before anything is published", .current.map_or_else(|| "no plan".to_owned(), |current| current.to_string()))]
    FarBehind {
        /// The shard.
        shard: ShardId,
        /// Its plan.
        current: Option<PlanEpoch>,
        /// The plan of this node.
        expected: PlanEpoch,
    },
    /// A shard that joins holds something that no plan has put there.
    #[error(
        "shard {shard} is to join and holds execution `{execution}`, which is from before it was given up and would be taken for the present: repair the shard, or take an empty store"
    )]
    Used {
        /// The shard.
        shard: ShardId,
        /// The first thing that it holds.
        execution: ExecutionId,
    },
    /// The store routes without a plan, and the plan would route otherwise.
    #[error(
        "the first plan of {shards} unplanned shards has to route as `hash % {shards}` does: make it with `ShardPlan::adopting({shards})`"
    )]
    ReroutesUnplanned {
        /// How many shards there are.
        shards: usize,
    },
    /// There is no plan to derive the next one from.
    #[error(
        "the store routes without a plan, so that no bucket can migrate or settle: publish a plan first"
    )]
    Unplanned,
    /// The shards keep the plan, and this is not the plan that they keep.
    #[error(
        "the shards keep the plan, and it is {current}: publish {given} instead of adopting it"
    )]
    NotPublished {
        /// The plan that was given.
        given: PlanEpoch,
        /// The plan of the shards.
        current: PlanEpoch,
    },
    /// The new plan's shards do not fit this store.
    #[error("the shards of the plan do not make up this store")]
    Shards(#[from] OpenError),
    /// A shard could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Says which buckets are not drained, and of the first of them where what is.
struct NotDrained<'a>(&'a [BucketDrain]);

impl fmt::Display for NotDrained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bucket(s) that would settle are not drained; ",
            self.0.len()
        )?;
        if let Some(first) = self.0.first() {
            write!(f, "{first}; ")?;
        }
        f.write_str("wait until they have ended and are deleted, or move them")
    }
}
