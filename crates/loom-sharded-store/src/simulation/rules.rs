//! The runs themselves: schedules with every rule on, and each rule switched off in turn.

use super::shard::StoreRule;
use super::{Broken, run};
use crate::rules::Rule;

/// The seed to replay alone, with its trace: `LOOM_SIMULATION_SEED`.
fn replayed() -> Option<u64> {
    let seed = std::env::var("LOOM_SIMULATION_SEED").ok()?;
    Some(seed.parse().expect("LOOM_SIMULATION_SEED is a number"))
}

/// How many schedules each test runs: `LOOM_SIMULATION_SCHEDULES`.
fn schedules() -> u64 {
    let schedules = std::env::var("LOOM_SIMULATION_SCHEDULES").ok();
    schedules.map_or(600, |schedules| {
        schedules
            .parse()
            .expect("LOOM_SIMULATION_SCHEDULES is a number")
    })
}

/// Panics with the trace of a seed that failed.
fn report(seed: u64, what: &str) -> ! {
    let trace = run(seed, Broken::default(), true)
        .err()
        .map_or_else(Vec::new, |(_, trace)| trace);
    panic!("seed {seed}: {what}\n{}", trace.join("\n"));
}

fn explore(class: u64) {
    if let Some(seed) = replayed() {
        if seed % 4 == class
            && let Err((what, _)) = run(seed, Broken::default(), false)
        {
            report(seed, &what);
        }
        return;
    }
    for seed in (0..schedules()).map(|n| 4 * n + class) {
        if let Err((what, _)) = run(seed, Broken::default(), false) {
            report(seed, &what);
        }
    }
}

#[test]
fn schedules_without_faults_show_one_store_and_no_error() {
    explore(0);
}

#[test]
fn schedules_with_crashes_show_one_store_and_no_error() {
    explore(1);
}

#[test]
fn schedules_with_a_bad_network_show_one_store() {
    explore(2);
}

#[test]
fn schedules_with_every_fault_show_one_store() {
    explore(3);
}

/// The first seed that notices, if one does.
fn noticed(broken: Broken, budget: u64) -> Option<(u64, String)> {
    (0..budget).find_map(|seed| run(seed, broken, false).err().map(|(what, _)| (seed, what)))
}

const BUDGET: u64 = 12_000;

fn each_is_noticed<R: Copy + std::fmt::Debug>(rules: &[R], broken: impl Fn(R) -> Broken) {
    let mut unnoticed = Vec::new();
    for rule in rules {
        match noticed(broken(*rule), BUDGET) {
            Some((seed, what)) => {
                let what = what.lines().next().unwrap_or_default().to_owned();
                println!("{rule:?}: seed {seed}: {what}");
            }
            None => unnoticed.push(*rule),
        }
    }
    assert!(
        unnoticed.is_empty(),
        "nothing notices that these are off: {unnoticed:?}"
    );
}

#[test]
fn every_rule_of_this_crate_is_noticed_when_it_is_off() {
    let rules = [
        Rule::LookAgain,
        Rule::UnsealedCounts,
        Rule::CreateOnDestination,
        Rule::BringRecord,
        Rule::RequireRecord,
        Rule::FenceTravels,
        Rule::LeftoverFirst,
        Rule::FinishMove,
        Rule::Unseal,
        Rule::DeleteLeftover,
        Rule::DeleteMarks,
        Rule::CacheIsHint,
        Rule::RetireLast,
        Rule::SourcesFirst,
        Rule::ListCounting,
        Rule::CompleteFirst,
        Rule::ValidateStep,
        Rule::CheckDrained,
        Rule::DecideOnPresent,
    ];
    each_is_noticed(&rules, |rule| Broken {
        rule: Some(rule),
        store: None,
    });
}

#[test]
fn every_rule_of_the_stores_is_noticed_when_it_is_off() {
    let rules = [
        StoreRule::Epoch,
        StoreRule::OutsidePlan,
        StoreRule::CompareAndSet,
        StoreRule::SealedAppend,
        StoreRule::SealedDelete,
        StoreRule::SealedFence,
        StoreRule::ImportMarked,
        StoreRule::ImportWhole,
        StoreRule::ImportFence,
        StoreRule::RetireSealed,
        StoreRule::RecordsWhole,
    ];
    each_is_noticed(&rules, |rule| Broken {
        rule: None,
        store: Some(rule),
    });
}
