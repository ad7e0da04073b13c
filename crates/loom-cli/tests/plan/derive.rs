//! The commands that write a plan.

use loom_shard_plan::{PlanError, RebalanceOptions, ShardId, ShardPlan, Topology, TransitionError};

use super::{Bench, grown, plan, words};

#[test]
fn a_first_plan_is_that_of_the_library() {
    let bench = Bench::new();
    let made = |line: &str| plan(&bench.ok(&words(line)));
    assert_eq!(made("plan new --shards 4"), ShardPlan::new(4).unwrap());
    let large = ShardPlan::with_buckets(300, 65_536).unwrap();
    assert_eq!(made("plan new --shards 300 --buckets 65536"), large);
    let adopted = ShardPlan::adopting(5).unwrap();
    assert_eq!(made("plan new --shards 5 --unplanned"), adopted);
}

#[test]
fn the_plan_is_on_stdout_and_a_line_about_it_on_stderr() {
    let bench = Bench::new();
    let ran = bench.run(&words("plan new --shards 4"));
    insta::assert_snapshot!(ran.shown());
    bench.write("a.plan", ran.stdout);
    let ran = bench.run(&words("plan rebalance a.plan --shards 5"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn every_format_is_written_and_read_back() {
    let bench = grown();
    let expected = plan(&bench.read("b.plan"));
    for format in ["text", "json", "bin"] {
        let args = format!("plan rebalance a.plan --shards 5 --format {format}");
        let written = bench.command(&words(&args)).output().unwrap().stdout;
        bench.write("c.plan", &written);
        let shown = bench.ok(&words("plan show c.plan"));
        assert_eq!(plan(&shown), expected, "{format}");
        let from_stdin = bench.run_with_stdin(&words("plan show -"), &written);
        assert_eq!(from_stdin.stdout, shown, "{format}");
    }
    assert_eq!(
        bench.ok(&words("plan rebalance a.plan --shards 5 --out -")),
        expected.to_string()
    );
    assert_eq!(
        bench.ok(&words("plan rebalance a.plan --shards 5 --json")),
        format!("{}\n", expected.to_json())
    );
}

#[test]
fn a_plan_may_be_written_over_the_file_that_it_was_derived_from() {
    let bench = grown();
    let summary = bench.json(&words("plan settle b.plan --all --out b.plan"));
    assert_eq!(summary["epoch"], 3);
    assert_eq!(summary["migrating"], 0);
    assert_eq!(plan(&bench.read("b.plan")).epoch(), 3);
    let said = bench.ok(&words("plan split b.plan --factor 2 --out b.plan"));
    assert_eq!(
        said,
        "b.plan: epoch 3 -> 4: 4,096 buckets become 8,192, no id goes elsewhere\n"
    );
}

#[cfg(unix)]
#[test]
fn a_written_file_keeps_its_permissions_and_the_link_to_it() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    let bench = grown();
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(bench.path("b.plan"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("b.plan", bench.path("now.plan")).unwrap();
    bench.ok(&words("plan settle now.plan --all --out now.plan"));
    assert!(
        fs::symlink_metadata(bench.path("now.plan"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(plan(&bench.read("b.plan")).epoch(), 3);
    assert_eq!(mode("b.plan"), 0o600);
}

#[test]
fn a_topology_is_given_in_options() {
    let bench = grown();
    let next = bench.ok(&words(
        "plan rebalance a.plan --remove 1 --add 7:2,9 --weight 0:3 --pin 4095:9 --pin 0:3",
    ));
    let before = ShardPlan::new(4).unwrap();
    let topology = Topology::of(&before)
        .leaving(ShardId(1))
        .and_then(|topology| topology.joining(ShardId(7), 2))
        .and_then(|topology| topology.joining(ShardId(9), 1))
        .and_then(|topology| topology.weighing(ShardId(0), 3))
        .unwrap()
        .pinning(4095, ShardId(9))
        .pinning(0, ShardId(3));
    assert_eq!(plan(&next), before.rebalance(&topology).unwrap());
}

#[test]
fn pins_alone_are_a_rebalance() {
    let bench = grown();
    let next = plan(&bench.ok(&words("plan rebalance a.plan --pin 0:3")));
    assert_eq!(
        next.migrating_buckets()
            .to_string()
            .split(['-', ','])
            .next(),
        Some("0")
    );
}

#[test]
fn fewer_shards_are_refused_until_they_are_allowed() {
    let bench = grown();
    let ran = bench.run(&words("plan rebalance a.plan --shards 3"));
    insta::assert_snapshot!(ran.shown());
    let next = bench.ok(&words("plan rebalance a.plan --shards 3 --allow-shrink"));
    let shrunk = ShardPlan::new(4)
        .and_then(|plan| plan.rebalanced(3, RebalanceOptions::default().allow_shrink(true)));
    assert_eq!(plan(&next), shrunk.unwrap());
}

#[test]
fn a_plan_with_migrating_buckets_is_not_rebalanced() {
    let bench = grown();
    let ran = bench.run(&words("plan rebalance b.plan --shards 6"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_rebalance_in_vain_says_so() {
    let bench = grown();
    let ran = bench.run(&words("plan rebalance a.plan --shards 4"));
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stderr, "epoch 1 -> 2: nothing changes but the epoch\n");
}

#[test]
fn too_few_buckets_are_warned_of() {
    let bench = Bench::new();
    let ran = bench.run(&words("plan new --shards 65"));
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("warning: 4096 buckets are few"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_the_diff_prints_can_be_settled_and_reverted() -> Result<(), TransitionError> {
    let bench = grown();
    let before = plan(&bench.read("b.plan"));
    let migrating = before.migrating_buckets();
    let ranges = migrating.to_string();

    let all = plan(&bench.ok(&words("plan settle b.plan --all")));
    let pasted = plan(&bench.ok(&words(&format!("plan settle b.plan {ranges}"))));
    assert_eq!(all, pasted);
    assert!(!all.is_migrating());
    before.validate_transition(&all)?;

    let back = plan(&bench.ok(&words(&format!("plan revert b.plan {ranges}"))));
    assert_eq!(back, plan(&bench.ok(&words("plan revert b.plan --all"))));
    assert_eq!(back.migrating_buckets(), migrating);
    before.validate_transition(&back)?;

    let first = migrating.iter().next().unwrap();
    let one = plan(&bench.ok(&words(&format!("plan settle b.plan {first}"))));
    assert_eq!(one.migrating_buckets().len(), migrating.len() - 1);
    Ok(())
}

#[test]
fn a_split_is_that_of_the_library() -> Result<(), PlanError> {
    let bench = grown();
    let split = plan(&bench.ok(&words("plan split a.plan --factor 3")));
    assert_eq!(split, ShardPlan::new(4)?.split(3)?);
    Ok(())
}

#[test]
fn a_pipe_of_commands_is_the_whole_life_of_a_plan() {
    let bench = Bench::new();
    let mut text = bench.ok(&words("plan new --shards 4"));
    for step in [
        "rebalance - --shards 5",
        "settle - --all",
        "split - --factor 2",
        "rebalance - --remove 0",
        "revert - --all",
        "settle - --all",
        "rebalance - --add 0 --weight 4:2",
    ] {
        let ran = bench.run_with_stdin(&words(&format!("plan {step}")), text.as_bytes());
        assert_eq!(ran.code, Some(0), "{step}: {}", ran.stderr);
        let (before, after) = (plan(&text), plan(&ran.stdout));
        assert_eq!(before.validate_transition(&after), Ok(()), "{step}");
        text = ran.stdout;
    }
}
