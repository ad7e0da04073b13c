//! Random histories of a deployment.

use loom_shard_plan::{RebalanceOptions, ShardId, ShardPlan, Topology};
use proptest::prelude::*;

/// Where a history starts.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    Equal { shards: u16, buckets: u32 },
    Weighted { weights: Vec<u32>, buckets: u32 },
    Adopted { shards: u16 },
}

impl Start {
    pub(crate) fn plan(&self) -> ShardPlan {
        match self {
            Self::Equal { shards, buckets } => {
                ShardPlan::with_buckets((*shards).min(u16::try_from(*buckets).unwrap()), *buckets)
                    .unwrap()
            }
            Self::Weighted { weights, buckets } => {
                let mut topology = Topology::new();
                for (id, weight) in (0..).zip(weights.iter().take(*buckets as usize)) {
                    // Ids with gaps.
                    topology = topology.joining(ShardId(id * 3 + 1), *weight).unwrap();
                }
                ShardPlan::first(&topology, *buckets, Default::default())
                    .unwrap_or_else(|_| ShardPlan::with_buckets(1, *buckets).unwrap())
            }
            Self::Adopted { shards } => ShardPlan::adopting(*shards).unwrap(),
        }
    }
}

/// One change of the topology. Numbers pick from what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Join { weight: u32 },
    Leave { which: usize },
    Weigh { which: usize, weight: u32 },
    Resize { shards: u16 },
    Pin { buckets: Vec<u32>, which: usize },
    Nothing,
}

impl Step {
    /// The topology that this step makes of a plan's.
    pub(crate) fn apply(&self, plan: &ShardPlan) -> Topology {
        let now = Topology::of(plan);
        let pick = |which: usize| now.members().get(which % now.members().len().max(1));
        let next = match self {
            Self::Join { weight } => {
                let last = plan.shards().last().unwrap().id().get();
                now.clone().joining(ShardId(last + 1 + last % 3), *weight)
            }
            Self::Leave { which } => now.clone().leaving(pick(*which).unwrap().id()),
            Self::Weigh { which, weight } => {
                now.clone().weighing(pick(*which).unwrap().id(), *weight)
            }
            Self::Resize { shards } => {
                let options = RebalanceOptions::default().allow_shrink(true);
                plan.rebalanced(*shards, options)
                    .map(|plan| Topology::of(&plan))
            }
            Self::Pin { buckets, which } => {
                let shard = pick(*which).unwrap().id();
                let pin = |topology: Topology, bucket: &u32| {
                    topology.pinning(bucket % plan.bucket_count(), shard)
                };
                Ok(buckets.iter().fold(now.clone(), pin))
            }
            Self::Nothing => Ok(now.clone()),
        };
        next.unwrap_or(now)
    }
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(1), 4 => 1..=8_u32, 1 => Just(0), 1 => any::<u32>()]
}

fn buckets() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1..=40_u32, 2 => Just(256), 1 => 41..=700_u32, 1 => Just(4096)]
}

pub(crate) fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        (1..=300_u16, buckets()).prop_map(|(shards, buckets)| Start::Equal { shards, buckets }),
        (prop::collection::vec(weight(), 1..24), buckets())
            .prop_map(|(weights, buckets)| Start::Weighted { weights, buckets }),
        (1..=300_u16).prop_map(|shards| Start::Adopted { shards }),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => weight().prop_map(|weight| Step::Join { weight }),
        3 => any::<usize>().prop_map(|which| Step::Leave { which }),
        2 => (any::<usize>(), weight()).prop_map(|(which, weight)| Step::Weigh { which, weight }),
        2 => (1..=300_u16).prop_map(|shards| Step::Resize { shards }),
        1 => (prop::collection::vec(any::<u32>(), 0..20), any::<usize>())
            .prop_map(|(buckets, which)| Step::Pin { buckets, which }),
        1 => Just(Step::Nothing),
    ];
    prop::collection::vec(step, 1..6)
}

/// A plan in any state: settled, migrating, half settled, partly reverted, split.
pub(crate) fn any_plan() -> impl Strategy<Value = ShardPlan> {
    let ends = (0..=4_u8, any::<u64>(), any::<u64>(), 0..=3_u32);
    (start(), steps(), ends).prop_map(|(start, steps, (end, settle, revert, factor))| {
        let mut plan = start.plan();
        for step in &steps {
            if let Ok(next) = plan.rebalance(&step.apply(&plan)) {
                plan = next.settled_all(next.migrating_buckets().iter()).unwrap();
            }
        }
        let last = steps.last().map(|step| step.apply(&plan));
        plan = last
            .and_then(|topology| plan.rebalance(&topology).ok())
            .unwrap_or(plan);
        let chosen = |plan: &ShardPlan, bits: u64| {
            let migrating = plan.migrating_buckets();
            migrating
                .iter()
                .filter(|bucket| bits >> (bucket % 64) & 1 == 1)
                .collect::<Vec<_>>()
        };
        if end & 1 == 1 {
            plan = plan.settled_all(chosen(&plan, settle)).unwrap();
        }
        if end & 2 == 2 {
            plan = plan.reverted_all(chosen(&plan, revert)).unwrap();
        }
        plan.split(factor).unwrap_or(plan)
    })
}

pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
