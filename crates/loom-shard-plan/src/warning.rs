//! What is allowed and probably not wanted.

use std::fmt;

use crate::{MAX_BUCKETS, ShardId, ShardPlan};

/// Below this many buckets a shard's share is coarse: one bucket is more than 1.6 % of it.
const FINE: u32 = 64;

/// Something about a plan that an operator should know. Nothing is refused on account of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PlanWarning {
    /// Some shard's fair share is less than 64 buckets, so that "within one bucket of fair" is a
    /// lot: 4096 buckets are good for 64 equal shards; with 65 the fullest has 1.6 % too much,
    /// with 1,000 22 %. Shares that happen to be whole now need not be after the next change.
    Coarse {
        /// Shards of weight above 0.
        shards: u32,
        /// Buckets of the plan.
        buckets: u32,
        /// How far a shard may be above its fair share by rounding alone: 0.016 is 1.6 %. 0 if all
        /// shares are whole.
        overload: f64,
        /// How much of the smallest share one bucket is: what rounding comes to at worst.
        bucket: f64,
        /// The smallest factor to [`split`](ShardPlan::split) by that helps, if one does.
        split: Option<u32>,
    },
    /// A shard of weight above 0 that takes no bucket: the next rebalance would give it some.
    Idle {
        /// The shard.
        shard: ShardId,
    },
    /// A shard is leaving and buckets are settled on it, as after a revert: only another rebalance
    /// makes it leave, or a member again.
    Stuck {
        /// The shard.
        shard: ShardId,
        /// How many buckets are settled on it.
        buckets: u32,
    },
}

impl ShardPlan {
    /// What an operator should know about this plan; empty if all is well.
    ///
    /// ```
    /// use loom_shard_plan::ShardPlan;
    /// assert!(ShardPlan::new(64)?.warnings().is_empty());
    /// assert!(ShardPlan::new(65)?.warnings()[0].to_string().contains("1.6 %"));
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<PlanWarning> {
        let mut warnings = Vec::from_iter(self.coarse());
        for (shard, load) in self.shards.iter().zip(self.loads()) {
            if shard.is_active() && load.buckets() == 0 {
                warnings.push(PlanWarning::Idle { shard: shard.id() });
            }
            if shard.is_leaving() && load.settled > 0 {
                warnings.push(PlanWarning::Stuck {
                    shard: shard.id(),
                    buckets: load.settled,
                });
            }
        }
        warnings
    }

    fn coarse(&self) -> Option<PlanWarning> {
        let buckets = self.bucket_count();
        let weights = || self.active().map(|shard| u64::from(shard.weight()));
        let (total, least): (u64, u64) = (weights().sum(), weights().min()?);
        let is_fine =
            |factor: u32| u64::from(buckets) * u64::from(factor) * least >= u64::from(FINE) * total;
        let overload = weights().map(|weight| {
            let share = u64::from(buckets) * weight;
            ratio(share.next_multiple_of(total) - share, share)
        });
        let overload = overload.fold(0.0, f64::max);
        if is_fine(1) {
            return None;
        }
        Some(PlanWarning::Coarse {
            shards: u32::try_from(self.active().count()).unwrap_or(u32::MAX),
            buckets,
            overload,
            bucket: ratio(total, u64::from(buckets) * least),
            split: (2..=MAX_BUCKETS / buckets).find(|factor| is_fine(*factor)),
        })
    }
}

/// A quotient for people to read.
#[expect(clippy::cast_precision_loss, reason = "two digits of it are shown")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

impl fmt::Display for PlanWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coarse {
                shards,
                buckets,
                overload,
                bucket,
                split,
            } => {
                write!(f, "{buckets} buckets are few for these {shards} shards: ")?;
                // What would be shown as 0.0 %.
                if *overload >= 0.0005 {
                    write!(
                        f,
                        "by rounding alone one may hold {:.1} % more than its fair share; ",
                        100.0 * overload
                    )?;
                } else {
                    write!(
                        f,
                        "rounding does not show now, but one bucket is {:.1} % of the smallest \
                         share, and the next change may round by that much; ",
                        100.0 * bucket
                    )?;
                }
                match split {
                    Some(factor) => write!(f, "split by {factor}"),
                    None => f.write_str("no split is large enough"),
                }
            }
            Self::Idle { shard } => {
                write!(
                    f,
                    "shard {shard} has a weight but takes no bucket; rebalance to use it"
                )
            }
            Self::Stuck { shard, buckets } => write!(
                f,
                "shard {shard} is leaving but {buckets} buckets are settled on it; rebalance to \
                 move them, or to keep it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{RebalanceOptions, ShardId, ShardPlan, Topology};

    fn coarse(plan: &ShardPlan) -> String {
        let warnings = plan
            .warnings()
            .into_iter()
            .map(|warning| warning.to_string());
        warnings.filter(|text| text.contains("are few")).collect()
    }

    #[test]
    fn shares_that_are_whole_are_not_said_to_be_exceeded_by_nothing() {
        for (shards, buckets, share) in [(4, 4, "100.0 %"), (4, 192, "2.1 %"), (128, 4096, "3.1 %")]
        {
            let plan = ShardPlan::with_buckets(shards, buckets).unwrap();
            let text = coarse(&plan);
            assert!(
                text.contains(&format!("one bucket is {share} of the smallest share")),
                "{text}"
            );
            assert!(!text.contains("0.0 % more"), "{text}");
        }
    }

    #[test]
    fn shares_that_are_nearly_whole_are_not_either() {
        // 62.98 buckets each, and 65 exactly.
        let topology = (0..64).fold(Topology::new(), |topology, id| {
            topology.joining(ShardId(id), 4031).unwrap()
        });
        let topology = topology.joining(ShardId(64), 4160).unwrap();
        let plan = ShardPlan::new(64).unwrap().rebalance(&topology).unwrap();
        let text = coarse(&plan);
        assert!(
            text.contains("one bucket is 1.6 % of the smallest share"),
            "{text}"
        );
    }

    #[test]
    fn the_share_that_rounding_takes_is_said_where_it_shows() {
        let plan = ShardPlan::new(64).unwrap();
        let grown = plan.rebalanced(65, RebalanceOptions::default()).unwrap();
        assert!(coarse(&grown).contains("one may hold 1.6 % more than its fair share"));
        assert_eq!(coarse(&plan), "");
    }
}
