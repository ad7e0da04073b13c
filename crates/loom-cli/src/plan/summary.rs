//! What there is to say about one plan: the document of `--json`, and the table for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use loom_shard_plan::{BucketSet, Fingerprint, HashFunction, Placement, ShardId, ShardPlan};
use serde::Serialize;

use crate::output::{count, counted};

/// A plan, counted.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) epoch: u64,
    pub(crate) hash: HashFunction,
    pub(crate) buckets: u32,
    /// How many shards.
    pub(crate) shards: usize,
    /// How many buckets are migrating.
    pub(crate) migrating: u32,
    pub(crate) per_shard: Vec<ShardSummary>,
    pub(crate) migrations: Vec<MigrationSummary>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) warnings: Vec<String>,
}

/// One shard of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct ShardSummary {
    pub(crate) shard: ShardId,
    pub(crate) weight: u32,
    pub(crate) leaving: bool,
    /// Buckets that it takes new executions of.
    pub(crate) buckets: u32,
    /// Those of them that are still being drained from another shard.
    pub(crate) arriving: u32,
    /// Buckets that are being drained from it.
    pub(crate) departing: u32,
}

/// The buckets that go from one shard to another.
#[derive(Debug, Serialize)]
pub(crate) struct MigrationSummary {
    pub(crate) from: ShardId,
    pub(crate) to: ShardId,
    pub(crate) buckets: BucketSet,
}

impl Summary {
    pub(crate) fn of(plan: &ShardPlan) -> Self {
        let mut shards: BTreeMap<ShardId, ShardSummary> = plan
            .shards()
            .iter()
            .map(|shard| {
                let summary = ShardSummary {
                    shard: shard.id(),
                    weight: shard.weight(),
                    leaving: shard.is_leaving(),
                    buckets: 0,
                    arriving: 0,
                    departing: 0,
                };
                (shard.id(), summary)
            })
            .collect();
        let mut migrations: BTreeMap<(ShardId, ShardId), Vec<u32>> = BTreeMap::new();
        let mut migrating = 0;
        for (bucket, placement) in (0..).zip(plan.placements()) {
            if let Some(shard) = shards.get_mut(&placement.destination()) {
                shard.buckets += 1;
                shard.arriving += u32::from(placement.is_migrating());
            }
            if let Placement::Migrating { from, to } = placement {
                migrating += 1;
                migrations.entry((from, to)).or_default().push(bucket);
                if let Some(shard) = shards.get_mut(&from) {
                    shard.departing += 1;
                }
            }
        }
        Self {
            epoch: plan.epoch(),
            hash: plan.hash(),
            buckets: plan.bucket_count(),
            shards: plan.shards().len(),
            migrating,
            per_shard: shards.into_values().collect(),
            migrations: migrations
                .into_iter()
                .map(|((from, to), buckets)| MigrationSummary {
                    from,
                    to,
                    buckets: buckets.into_iter().collect(),
                })
                .collect(),
            fingerprint: plan.fingerprint(),
            warnings: plan.warnings().iter().map(ToString::to_string).collect(),
        }
    }

    /// `epoch 2: 4,096 buckets, 5 shards, 819 migrating (20.0 %)`
    pub(crate) fn headline(&self) -> String {
        let mut line = format!(
            "epoch {}: {}, {}",
            self.epoch,
            counted(self.buckets.into(), "bucket"),
            counted(self.shards as u64, "shard")
        );
        if self.migrating > 0 {
            let share = percent(self.migrating, self.buckets);
            let _ = write!(
                line,
                ", {} migrating ({share})",
                count(self.migrating.into())
            );
        }
        line
    }

    /// One line for each shard, after what `label` says about it; then what goes where.
    pub(crate) fn table(&self, label: impl Fn(usize) -> String) -> String {
        // Writing to a String cannot fail.
        let mut text = format!(
            "{}  shard      weight  buckets    share  arriving  departing\n",
            " ".repeat(LABEL)
        );
        for (index, shard) in self.per_shard.iter().enumerate() {
            let weight = if shard.leaving {
                "leaving".to_owned()
            } else {
                shard.weight.to_string()
            };
            let _ = writeln!(
                text,
                "{}  {:>5}  {weight:>10}  {:>7}  {:>7}  {:>8}  {:>9}",
                label(index),
                shard.shard,
                shard.buckets,
                percent(shard.buckets, self.buckets),
                shard.arriving,
                shard.departing
            );
        }
        if !self.migrations.is_empty() {
            text.push_str("\nmigrating\n");
        }
        for MigrationSummary { from, to, buckets } in &self.migrations {
            let _ = writeln!(text, "  {from} -> {to}: {} ({buckets})", buckets.len());
        }
        text
    }
}

/// How wide the label of a shard is, in front of its line.
pub(crate) const LABEL: usize = 2;

/// `20.0 %`
pub(crate) fn percent(part: u32, whole: u32) -> String {
    format!("{:.1} %", 100.0 * f64::from(part) / f64::from(whole.max(1)))
}

#[cfg(test)]
mod tests {
    use loom_shard_plan::{RebalanceOptions, Topology};

    use super::*;

    #[test]
    fn buckets_count_where_their_new_executions_go() {
        let plan = ShardPlan::with_buckets(2, 12).unwrap();
        let grown = plan.rebalanced(3, RebalanceOptions::default()).unwrap();
        let summary = Summary::of(&grown);
        let shards: Vec<_> = summary
            .per_shard
            .iter()
            .map(|shard| (shard.buckets, shard.arriving, shard.departing))
            .collect();
        assert_eq!(shards, [(4, 0, 2), (4, 0, 2), (4, 4, 0)]);
        assert_eq!(summary.migrating, 4);
        assert_eq!(
            summary.headline(),
            "epoch 2: 12 buckets, 3 shards, 4 migrating (33.3 %)"
        );
    }

    #[test]
    fn a_shard_that_leaves_is_told_from_one_of_weight_0() {
        let plan = ShardPlan::with_buckets(3, 12).unwrap();
        let topology = Topology::of(&plan)
            .leaving(ShardId(0))
            .and_then(|topology| topology.weighing(ShardId(1), 0))
            .unwrap();
        let summary = Summary::of(&plan.rebalance(&topology).unwrap());
        let leaving: Vec<bool> = summary
            .per_shard
            .iter()
            .map(|shard| shard.leaving)
            .collect();
        assert_eq!(leaving, [true, false, false]);
        let table = summary.table(|_| "  ".to_owned());
        assert!(table.contains("leaving"), "{table}");
        assert!(table.contains("  0 -> 2: 4 (0-3)\n"), "{table}");
    }
}
