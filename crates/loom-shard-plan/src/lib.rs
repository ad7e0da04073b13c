#![doc = include_str!("../README.md")]

mod batch;
mod buckets;
mod create;
mod diff;
mod error;
mod fingerprint;
mod format;
mod hash;
mod load;
mod modulus;
mod placement;
mod plan;
mod rebalance;
mod refusal;
mod segments;
mod settle;
mod shard;
mod transition;
mod warning;

pub use buckets::BucketSet;
pub use create::MAX_ADOPTED;
pub use diff::{PlanDiff, ShardChange, ShardDiff};
pub use error::PlanError;
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use format::{DecodeError, DecodeProblem, InvalidPlan, Location, PlanFormat};
pub use hash::{HashFunction, UnknownHash, route_hash};
pub use load::ShardLoad;
pub use placement::{PackedPlacement, Placement};
pub use plan::{DEFAULT_BUCKETS, MAX_BUCKETS, MAX_EPOCH, Migration, ShardPlan};
pub use rebalance::{RebalanceOptions, Topology};
pub use refusal::{Refusal, TransitionError};
pub use shard::{Shard, ShardId};
pub use warning::PlanWarning;
