//! The proof that the cases notice: every fault makes the case that it names fail.

use std::io::Write as _;
use std::sync::Arc;

use loom_conformance::broken::{Breaking, Fault, Outage};
use loom_conformance::{Case, Outcome, StoreFactory, cases, run_case, run_store};

use crate::support::Sound;

fn broken(fault: Fault) -> Arc<dyn StoreFactory> {
    let sound = Sound {
        outage: Outage::AnswersLost,
        awkward: false,
    };
    Arc::new(Breaking::new(sound, fault))
}

fn case_of(fault: Fault) -> Case {
    let found = cases()
        .into_iter()
        .find(|case| (case.group(), case.name()) == fault.caught_by());
    found.expect("a case of this name")
}

#[test]
fn every_fault_is_noticed_by_the_case_that_it_names() {
    let mut table = String::new();
    let mut unnoticed = Vec::new();
    for &fault in Fault::ALL {
        let case = case_of(fault);
        let (name, path) = (format!("{fault:?}"), case.path());
        match run_case(&broken(fault), &case).outcome {
            Outcome::Failed { message } => table += &format!("{name:27} {path}\n    {message}\n"),
            other => unnoticed.push(format!("{name}: {path} {other}")),
        }
    }
    // Seen when the test runner shows the output of tests that pass.
    std::io::stdout()
        .write_all(table.as_bytes())
        .expect("stdout");
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

/// The groups about moving records, every case of which is held to bite.
const OF_MOVES: [&str; 17] = [
    "sealing",
    "seal_refusals",
    "sealed",
    "retiring",
    "records",
    "imports",
    "imported_fences",
    "merges",
    "comparisons",
    "parts",
    "arrivals",
    "marks",
    "move_epochs",
    "moves",
    "seal_races",
    "move_races",
    "move_cancellation",
];

/// What bites in the cases of these groups that no fault names.
const ALSO: [(Fault, &str); 19] = [
    (
        Fault::RetireLeavesMark,
        "retiring::what_was_retired_can_come_back",
    ),
    (
        Fault::ImportStaysSealed,
        "imports::a_record_arrives_in_one_part",
    ),
    (
        Fault::MergeReplacesFence,
        "merges::a_token_that_is_here_stays_when_none_comes",
    ),
    (
        Fault::MergeRefusesFence,
        "merges::what_is_left_of_a_deleted_log_is_merged",
    ),
    (Fault::MergeKeepsFence, "merges::a_fence_joins_a_fence"),
    (Fault::MergeReplacesFence, "merges::lineage_joins_a_fence"),
    (
        Fault::MergePutsHereFirst,
        "merges::what_comes_between_two_parts_is_merged",
    ),
    (
        Fault::ImportSortsLineage,
        "moves::a_moved_record_is_the_same_at_its_new_place",
    ),
    (
        Fault::RetireKeepsFence,
        "moves::a_moved_record_leaves_nothing_behind",
    ),
    (
        Fault::RetireLeavesMark,
        "moves::a_record_moves_there_and_back",
    ),
    (
        Fault::ImportStaysSealed,
        "moves::a_writer_goes_on_at_the_new_place",
    ),
    (
        Fault::SealOmitsHolder,
        "moves::a_lease_is_renewed_at_the_new_place",
    ),
    (
        Fault::UnsealDoesNothing,
        "moves::an_import_that_was_reverted_is_retired_and_the_source_goes_on",
    ),
    (
        Fault::PartsRefusedTwice,
        "moves::a_move_that_was_given_up_can_be_made_later",
    ),
    (
        Fault::ImportOpens,
        "moves::random_records_are_moved_unchanged",
    ),
    (
        Fault::SealOmitsFence,
        "moves::random_operations_go_on_at_the_new_place",
    ),
    (
        Fault::RetireKeepsFence,
        "move_races::racing_movers_move_a_record_once",
    ),
    (
        Fault::SealDoesNothing,
        "move_races::a_record_moves_under_its_writer",
    ),
    (
        Fault::PartsRefusedTwice,
        "move_cancellation::a_dropped_part_is_staged_or_not",
    ),
];

#[test]
fn every_case_about_moves_bites() {
    let mut idle = Vec::new();
    for case in cases() {
        let also: Vec<_> = ALSO
            .iter()
            .filter(|(_, path)| *path == case.path())
            .collect();
        let named = |fault: &&Fault| fault.caught_by() == (case.group(), case.name());
        let is_named = Fault::ALL.iter().any(|fault| named(&fault));
        if OF_MOVES.contains(&case.group()) && !is_named && also.is_empty() {
            idle.push(format!("no fault for {}", case.path()));
        }
        for (fault, path) in also {
            let outcome = run_case(&broken(*fault), &case).outcome;
            if !matches!(outcome, Outcome::Failed { .. }) {
                idle.push(format!("{fault:?}: {path} {outcome}"));
            }
        }
    }
    assert!(idle.is_empty(), "{idle:#?}");
}

#[test]
fn a_mutant_is_wrong_in_nothing_but_its_fault() {
    // This one shows only when the clock moves, so the rest shows what else the wrapper does.
    let fault = Fault::LeaseNeverLapses;
    let failed: Vec<_> = run_store(broken(fault), |_| {})
        .into_iter()
        .filter(|report| matches!(report.outcome, Outcome::Failed { .. }))
        .map(|report| (report.group, report.name))
        .collect();
    assert!(failed.contains(&fault.caught_by()));
    assert!(
        failed.iter().all(|(group, _)| *group == "leases"),
        "{failed:?}"
    );
}
