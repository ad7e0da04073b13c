//! The figures that the decision for virtual buckets rests on, on 4096 buckets.

use loom_shard_plan::{PlanError, RebalanceOptions, ShardPlan};

fn grow(from: u16, to: u16) -> (ShardPlan, ShardPlan) {
    let plan = ShardPlan::new(from).unwrap();
    let grown = plan.rebalanced(to, RebalanceOptions::default()).unwrap();
    (plan, grown)
}

/// Percent of the buckets that change their destination, to one decimal.
fn moved_percent(from: u16, to: u16) -> String {
    let (plan, grown) = grow(from, to);
    format!("{:.1}", 100.0 * plan.diff(&grown).unwrap().moved_fraction())
}

#[test]
fn growing_moves_the_theoretical_minimum() {
    assert_eq!(moved_percent(4, 5), "20.0");
    assert_eq!(moved_percent(8, 9), "11.1");
    assert_eq!(moved_percent(2, 3), "33.3");
    for (from, to) in [(4, 5), (8, 9), (2, 3), (1, 201), (10, 11), (64, 65)] {
        let (_, grown) = grow(from, to);
        // What the old shards may keep: their fair shares, the larger ones first.
        let (share, larger) = (4096 / u32::from(to), 4096 % u32::from(to));
        let kept = u32::from(from) * share + larger.min(u32::from(from));
        let least = 4096 - kept;
        assert_eq!(grown.migrating_buckets().len(), least, "{from} to {to}");
    }
}

#[test]
fn naive_modulo_would_move_nearly_everything() {
    let naive = |from: u32, to: u32| {
        let moves = |bucket: u32| u16::from(bucket % from != bucket % to);
        let moved: u16 = (0..4096).map(moves).sum();
        format!("{:.0}", 100.0 * f64::from(moved) / 4096.0)
    };
    assert_eq!(naive(4, 5), "80");
    assert_eq!(naive(8, 9), "89");
}

#[test]
fn the_load_is_within_one_bucket_of_fair() {
    for shards in 1..=300_u16 {
        let plan = ShardPlan::new(shards).unwrap();
        let grown = plan
            .rebalanced(shards + 1, RebalanceOptions::default())
            .unwrap();
        for plan in [plan, grown] {
            let fair = 4096 / plan.shards().len();
            for load in plan.loads() {
                let held = load.buckets() as usize;
                assert!(held == fair || held == fair + 1, "{load:?}, fair is {fair}");
            }
        }
    }
}

#[test]
fn two_computations_give_the_same_bytes() {
    let (_, one) = grow(4, 5);
    let (_, other) = grow(4, 5);
    assert_eq!(one.to_bytes(), other.to_bytes());
    assert_eq!(one.fingerprint(), other.fingerprint());
}

#[test]
fn rebalancing_while_migrating_is_refused_and_names_the_buckets() {
    let (_, grown) = grow(4, 5);
    let error = grown
        .rebalanced(6, RebalanceOptions::default())
        .unwrap_err();
    assert_eq!(
        error,
        PlanError::StillMigrating {
            buckets: grown.migrating_buckets()
        }
    );
    assert!(error.to_string().contains("820-"), "{error}");
}

#[test]
fn shrinking_has_to_be_allowed() {
    let plan = ShardPlan::new(5).unwrap();
    let refused = plan.rebalanced(4, RebalanceOptions::default());
    assert_eq!(refused, Err(PlanError::ShrinkNotAllowed { from: 5, to: 4 }));
    let shrunk = plan
        .rebalanced(4, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    assert_eq!(shrunk.buckets_of(5.into()).len(), 0);
    assert_eq!(shrunk.migrating_buckets().len(), 819);
}
