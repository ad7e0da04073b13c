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

/// How many schedules a rule that is off may need before one notices.
const BUDGET: u64 = 20_000;

/// Fails unless some schedule notices what is off.
fn is_noticed(broken: Broken) {
    let noticed = (0..BUDGET).find_map(|seed| Some((seed, run(seed, broken, false).err()?.0)));
    let Some((seed, what)) = noticed else {
        panic!("{broken:?} is not noticed by {BUDGET} schedules");
    };
    println!(
        "{broken:?}: seed {seed}: {}",
        what.lines().next().unwrap_or_default()
    );
}

/// A test for each rule, in which it is off.
macro_rules! without {
    ($($name:ident: $part:ident: $rule:expr;)*) => {
        mod without {
            use super::*;

            $(
                #[test]
                fn $name() {
                    is_noticed(Broken {
                        $part: Some($rule),
                        ..Broken::default()
                    });
                }
            )*
        }
    };
}

without! {
    looking_again: rule: Rule::LookAgain;
    unsealed_counts: rule: Rule::UnsealedCounts;
    silence_is_not_absence: rule: Rule::SilentIsNotAbsent;
    creating_on_the_destination: rule: Rule::CreateOnDestination;
    bringing_the_record_first: rule: Rule::BringRecord;
    requiring_a_record: rule: Rule::RequireRecord;
    fences_that_travel: rule: Rule::FenceTravels;
    edges_that_travel: rule: Rule::LineageTravels;
    removing_leftovers_first: rule: Rule::LeftoverFirst;
    finishing_moves: rule: Rule::FinishMove;
    unsealing: rule: Rule::Unseal;
    deleting_leftovers: rule: Rule::DeleteLeftover;
    marks_of_deletes: rule: Rule::DeleteMarks;
    marks_of_forgetting: rule: Rule::ForgetMarks;
    following_any_newer_plan: rule: Rule::FollowAnyNewer;
    raising_what_is_behind: rule: Rule::RaiseBehind;
    doubting_the_cache: rule: Rule::CacheIsHint;
    retiring_last: rule: Rule::RetireLast;
    sources_before_destinations: rule: Rule::SourcesFirst;
    listing_what_counts: rule: Rule::ListCounting;
    completing_a_plan_first: rule: Rule::CompleteFirst;
    validating_steps: rule: Rule::ValidateStep;
    checking_drains: rule: Rule::CheckDrained;
    deciding_on_the_present_plan: rule: Rule::DecideOnPresent;
    epochs: store: StoreRule::Epoch;
    refusing_what_predates_plans: store: StoreRule::OutsidePlan;
    compare_and_set: store: StoreRule::CompareAndSet;
    seals_against_appends: store: StoreRule::SealedAppend;
    seals_against_deletes: store: StoreRule::SealedDelete;
    seals_against_fences: store: StoreRule::SealedFence;
    seals_against_edges: store: StoreRule::SealedRecording;
    seals_against_forgetting: store: StoreRule::SealedForgetting;
    imports_that_merge: store: StoreRule::ImportMerges;
    deletes_that_keep_fences: store: StoreRule::DeleteKeepsFence;
    refusing_marked_imports: store: StoreRule::ImportMarked;
    imports_in_one_step: store: StoreRule::ImportWhole;
    imports_that_fence: store: StoreRule::ImportFence;
    retiring_what_is_sealed: store: StoreRule::RetireSealed;
    records_without_a_log: store: StoreRule::RecordsWhole;
}
