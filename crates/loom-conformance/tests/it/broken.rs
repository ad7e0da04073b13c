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
const OF_MOVES: [&str; 14] = [
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
    "moves",
    "move_races",
];

#[test]
fn every_case_about_moves_fails_for_some_fault() {
    let mut idle = Vec::new();
    for case in cases() {
        if !OF_MOVES.contains(&case.group()) && case.group() != "move_cancellation" {
            continue;
        }
        let named = |fault: &&Fault| fault.caught_by() == (case.group(), case.name());
        let (named, others): (Vec<_>, Vec<_>) = Fault::ALL.iter().rev().partition(named);
        let bites = |fault: &&Fault| {
            let outcome = run_case(&broken(**fault), &case).outcome;
            matches!(outcome, Outcome::Failed { .. })
        };
        if !named.iter().chain(&others).any(bites) {
            idle.push(case.path());
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
