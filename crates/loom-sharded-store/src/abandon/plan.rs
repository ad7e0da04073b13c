//! The plan without a shard.

use std::fmt::Write as _;

use loom_shard_plan::{Placement, Shard, ShardId, ShardPlan};

use super::AbandonError;

/// The plan that follows `plan` when `gone` is given up: what was migrating from or to it is settled on the
/// other side, and what was settled on it goes to the other members, to whoever has the least for its weight,
/// in blocks. No other bucket changes.
pub(super) fn without(plan: &ShardPlan, gone: ShardId) -> Result<ShardPlan, AbandonError> {
    let epoch = plan.epoch();
    if plan.shard(gone).is_none() {
        return Err(AbandonError::NotInPlan { shard: gone, epoch });
    }
    let kept: Vec<Option<Placement>> = plan
        .placements()
        .map(|placement| kept(placement, gone))
        .collect();
    let orphans = kept.iter().filter(|placement| placement.is_none()).count();
    let mut heirs = heirs(plan, gone, &kept)?;
    for _ in 0..orphans {
        if let Some(heir) = heirs.iter_mut().min_by(|a, b| a.fullness(b)) {
            heir.gets += 1;
        }
    }
    let mut inherited = heirs
        .iter()
        .flat_map(|heir| std::iter::repeat_n(heir.shard, heir.gets));
    let placements: Vec<Placement> = kept
        .into_iter()
        .filter_map(|placement| placement.or_else(|| inherited.next().map(Placement::Settled)))
        .collect();
    write(plan, gone, &placements)
        .parse()
        .map_err(|error| AbandonError::Plan(Box::new(error)))
}

/// What becomes of a placement by itself; `None` when nobody has it any more.
fn kept(placement: Placement, gone: ShardId) -> Option<Placement> {
    match placement {
        Placement::Settled(on) => (on != gone).then_some(placement),
        Placement::Migrating { from, to } if to == gone => Some(Placement::Settled(from)),
        Placement::Migrating { from, to } if from == gone => Some(Placement::Settled(to)),
        Placement::Migrating { .. } => Some(placement),
    }
}

struct Heir {
    shard: ShardId,
    weight: u64,
    held: usize,
    gets: usize,
}

impl Heir {
    /// By what it would hold for its weight with one bucket more; of equal ones the lower id.
    fn fullness(&self, other: &Self) -> std::cmp::Ordering {
        let (mine, its) = (self.held + self.gets + 1, other.held + other.gets + 1);
        (mine as u128 * u128::from(other.weight))
            .cmp(&(its as u128 * u128::from(self.weight)))
            .then(self.shard.cmp(&other.shard))
    }
}

fn heirs(
    plan: &ShardPlan,
    gone: ShardId,
    kept: &[Option<Placement>],
) -> Result<Vec<Heir>, AbandonError> {
    let active = plan
        .shards()
        .iter()
        .filter(|shard| shard.is_active() && shard.id() != gone);
    let heirs: Vec<Heir> = active
        .map(|shard| {
            let holds = |placement: &&Placement| placement.destination() == shard.id();
            Heir {
                shard: shard.id(),
                weight: u64::from(shard.weight()),
                held: kept.iter().flatten().filter(holds).count(),
                gets: 0,
            }
        })
        .collect();
    if heirs.is_empty() {
        return Err(AbandonError::NobodyLeft { shard: gone });
    }
    Ok(heirs)
}

/// As the text format has it, whose reader checks the whole.
fn write(plan: &ShardPlan, gone: ShardId, placements: &[Placement]) -> String {
    let named = |shard: &Shard| {
        placements
            .iter()
            .any(|placement| placement.names(shard.id()))
    };
    // Writing to a String cannot fail.
    let mut text = format!(
        "loom-shard-plan v1\nepoch {}\nhash {}\nbuckets {}\n",
        plan.epoch().saturating_add(1),
        plan.hash().name(),
        plan.bucket_count()
    );
    for shard in plan.shards().iter().filter(|shard| shard.id() != gone) {
        if !shard.is_leaving() {
            let _ = writeln!(text, "shard {}: weight {}", shard.id(), shard.weight());
        } else if named(shard) {
            let _ = writeln!(text, "shard {}: leaving", shard.id());
        }
    }
    for (bucket, placement) in placements.iter().enumerate() {
        let _ = match placement {
            Placement::Settled(on) => writeln!(text, "{bucket}: {on}"),
            Placement::Migrating { from, to } => writeln!(text, "{bucket}: {from} -> {to}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use loom_shard_plan::{RebalanceOptions, Topology};

    use super::*;

    fn counts(plan: &ShardPlan) -> Vec<(u16, u32)> {
        let shards = plan.shards().iter();
        shards
            .map(|shard| (shard.id().get(), plan.buckets_of(shard.id()).len()))
            .collect()
    }

    #[test]
    fn what_was_settled_on_the_shard_is_spread_fairly_and_nothing_else_moves() {
        let plan = ShardPlan::new(4).unwrap();
        let next = without(&plan, ShardId(1)).unwrap();
        assert_eq!(next.epoch(), 2);
        assert_eq!(counts(&next), [(0, 1366), (2, 1365), (3, 1365)]);
        for (now, next) in plan.placements().zip(next.placements()) {
            assert!(now == next || now == Placement::Settled(ShardId(1)));
            assert!(!next.is_migrating());
        }
    }

    #[test]
    fn weights_are_heeded_and_a_shard_that_holds_more_than_its_share_gets_nothing() {
        let plan = ShardPlan::with_buckets(3, 120).unwrap();
        let topology = Topology::of(&plan).weighing(ShardId(2), 3).unwrap();
        let weighted = plan.rebalance(&topology).unwrap();
        let weighted = weighted
            .settled_all(weighted.migrating_buckets().iter())
            .unwrap();
        let next = without(&weighted, ShardId(0)).unwrap();
        assert_eq!(counts(&next), [(1, 30), (2, 90)]);
        // Shard 0 is at weight 0 now and keeps what it has.
        let topology = Topology::of(&plan).weighing(ShardId(0), 0).unwrap();
        let draining = plan.rebalance(&topology).unwrap();
        let back = draining
            .reverted_all(draining.migrating_buckets().iter())
            .unwrap();
        let back = back.settled_all(back.migrating_buckets().iter()).unwrap();
        let next = without(&back, ShardId(1)).unwrap();
        assert_eq!(counts(&next), [(0, 40), (2, 80)]);
    }

    #[test]
    fn migrations_from_and_to_the_shard_end_on_the_other_side_and_others_go_on() {
        let plan = ShardPlan::with_buckets(3, 12).unwrap();
        let topology = Topology::of(&plan)
            .leaving(ShardId(0))
            .and_then(|topology| topology.joining(ShardId(3), 1))
            .unwrap();
        let moving = plan.rebalance(&topology).unwrap();
        assert!(moving.is_migrating());
        let to_the_new_one = without(&moving, ShardId(3)).unwrap();
        let from_the_leaving_one = without(&moving, ShardId(0)).unwrap();
        for (bucket, now) in (0..).zip(moving.placements()) {
            let without_3 = to_the_new_one.placement(bucket).unwrap();
            let without_0 = from_the_leaving_one.placement(bucket).unwrap();
            match now {
                Placement::Migrating { from, to } if to == ShardId(3) => {
                    assert_eq!(without_3, Placement::Settled(from));
                    assert_eq!(
                        without_0,
                        if from == ShardId(0) {
                            Placement::Settled(to)
                        } else {
                            now
                        }
                    );
                }
                other => assert_eq!(without_3, other),
            }
        }
        // It is still named, by what has not moved.
        assert!(to_the_new_one.shard(ShardId(0)).unwrap().is_leaving());
        assert!(from_the_leaving_one.shard(ShardId(0)).is_none());
    }

    #[test]
    fn a_shard_that_is_no_member_and_the_only_member_cannot_be_given_up() {
        let plan = ShardPlan::with_buckets(2, 8).unwrap();
        let grown = plan.rebalanced(3, RebalanceOptions::default()).unwrap();
        assert!(matches!(
            without(&grown, ShardId(9)),
            Err(AbandonError::NotInPlan {
                shard: ShardId(9),
                epoch: 2
            })
        ));
        let only = ShardPlan::with_buckets(1, 8).unwrap();
        assert!(matches!(
            without(&only, ShardId(0)),
            Err(AbandonError::NobodyLeft { shard: ShardId(0) })
        ));
    }
}
