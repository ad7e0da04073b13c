//! How to hold a plan by a snapshot in tests of one's own; the guide "Review a rebalance in a pull
//! request" shows this file. The plans are those of `docs/examples/plans`.

use std::error::Error;
use std::fs;
use std::path::Path;

use loom_shard_plan::ShardPlan;

/// The plan that is deployed, from the repository.
fn deployed(name: &str) -> Result<ShardPlan, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/plans");
    Ok(fs::read_to_string(folder.join(name))?.parse()?)
}

/// Whatever changes the plan, by hand or by a new release, has to change this snapshot too.
#[test]
fn the_deployed_plan_is_the_reviewed_one() -> Result<(), Box<dyn Error>> {
    insta::assert_snapshot!(deployed("orders-0002.plan")?);
    Ok(())
}

/// A summary is shorter than a plan, and says what a reviewer wants to know.
#[test]
fn growing_to_five_shards_moves_a_fifth() -> Result<(), Box<dyn Error>> {
    let (now, next) = (deployed("orders-0001.plan")?, deployed("orders-0002.plan")?);
    let diff = now.diff(&next)?;
    assert!(diff.is_legal(), "{:?}", diff.refusals());
    insta::assert_snapshot!(diff);
    Ok(())
}

/// What the next rebalance would do, before anybody runs it.
#[test]
fn a_sixth_shard_of_twice_the_size_would_take_two_sevenths() -> Result<(), Box<dyn Error>> {
    use loom_shard_plan::{ShardId, Topology};

    let settled = deployed("orders-0003.plan")?;
    let topology = Topology::of(&settled).joining(ShardId(5), 2)?;
    let diff = settled.diff(&settled.rebalance(&topology)?)?;
    assert_eq!(format!("{:.3}", diff.moved_fraction()), "0.286");
    assert!(diff.moves().iter().all(|step| step.to == ShardId(5)));
    Ok(())
}
