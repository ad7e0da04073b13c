//! `loom plan diff`.

use super::{Bench, grown, words};

#[test]
fn a_rebalance_is_read_as_what_moves_per_shard_and_how_to_take_it_back() {
    let ran = grown().run(&words("plan diff a.plan b.plan"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_step_that_settles_says_what_cannot_be_taken_back() {
    let bench = grown();
    bench.ok(&words("plan settle b.plan 820-1023 --out c.plan"));
    let ran = bench.run(&words("plan diff b.plan c.plan"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn an_illegal_successor_is_shown_and_refused() {
    let ran = grown().run(&words("plan diff b.plan a.plan"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_plan_does_not_follow_itself() {
    let bench = grown();
    let ran = bench.run(&words("plan diff a.plan a.plan"));
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stdout.contains("no change: 0 buckets move"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_rival_of_the_same_epoch_is_refused() {
    let bench = grown();
    bench.ok(&words("plan rebalance a.plan --add 9 --out c.plan"));
    let ran = bench.run(&words("plan diff b.plan c.plan"));
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("rival"), "{}", ran.stdout);
}

#[test]
fn json_has_the_keys_that_scripts_rely_on() {
    let bench = grown();
    let diff = bench.json(&words("plan diff a.plan b.plan"));
    assert_eq!(diff["moved"], 819);
    assert_eq!(diff["buckets"], 4096);
    let fraction = diff["moved_fraction"].as_f64().unwrap();
    assert!((fraction - 819.0 / 4096.0).abs() < 1e-12);
    assert_eq!(diff["settled"], 0);
    assert_eq!(diff["legal"], true);
    let joins = &diff["per_shard"][4];
    assert_eq!(joins["shard"], 4);
    assert_eq!(
        (&joins["before"], &joins["after"]),
        (&0.into(), &819.into())
    );
    assert_eq!(joins["change"], "joins");
}

#[test]
fn json_of_an_illegal_successor_has_the_refusals_beside_the_exit_code() {
    let ran = grown().run(&words("plan diff b.plan a.plan --json"));
    assert_eq!(ran.code, Some(3));
    let diff: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(diff["legal"], false);
    assert!(
        diff["refusals"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
}

#[test]
fn either_plan_may_come_from_a_pipe_but_not_both() {
    let bench = grown();
    let (a, b) = (bench.read("a.plan"), bench.read("b.plan"));
    let expected = bench.ok(&words("plan diff a.plan b.plan"));
    let old = bench.run_with_stdin(&words("plan diff - b.plan"), a.as_bytes());
    assert_eq!(old.stdout, expected);
    let new = bench.run_with_stdin(&words("plan diff a.plan -"), b.as_bytes());
    assert_eq!(new.stdout, expected);
    let both = bench.run_with_stdin(&words("plan diff - -"), a.as_bytes());
    assert_eq!(both.code, Some(2));
}

#[test]
fn plans_of_unrelated_deployments_are_refused() {
    let bench = Bench::new();
    bench.ok(&words("plan new --shards 2 --buckets 10 --out a.plan"));
    bench.ok(&words("plan new --shards 2 --buckets 16 --out b.plan"));
    let ran = bench.run(&words("plan diff a.plan b.plan"));
    insta::assert_snapshot!(ran.shown());
}
