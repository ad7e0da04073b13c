//! What the tests that the macros make call.

use std::io::Write as _;
use std::sync::Arc;

use crate::{
    Case, CaseReport, DispatcherFactory, Outcome, RegistryFactory, StoreFactory, cases,
    dispatcher_cases, registry_cases, run_case, run_dispatcher_case, run_registry_case,
};

/// One test of `event_store!`.
///
/// # Panics
/// When the case fails.
pub fn event_store(factory: impl StoreFactory, group: &str, name: &str) {
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    judge(&cases(), group, name, |case| run_case(&factory, case));
}

/// One test of `branch_registry!`.
///
/// # Panics
/// When the case fails.
pub fn branch_registry(factory: impl RegistryFactory, group: &str, name: &str) {
    let factory: Arc<dyn RegistryFactory> = Arc::new(factory);
    judge(&registry_cases(), group, name, |case| {
        run_registry_case(&factory, case)
    });
}

/// One test of `dispatcher!`.
///
/// # Panics
/// When the case fails.
pub fn dispatcher(factory: impl DispatcherFactory, group: &str, name: &str) {
    let factory: Arc<dyn DispatcherFactory> = Arc::new(factory);
    judge(&dispatcher_cases(), group, name, |case| {
        run_dispatcher_case(&factory, case)
    });
}

#[expect(clippy::panic, reason = "a case that fails is a test that fails")]
fn judge(cases: &[Case], group: &str, name: &str, run: impl Fn(&Case) -> CaseReport) {
    let case = cases
        .iter()
        .find(|case| case.group() == group && case.name() == name);
    let Some(case) = case else {
        panic!("there is no case {group}::{name}: build the tests anew");
    };
    match run(case).outcome {
        Outcome::Passed => {}
        Outcome::Failed { message } => panic!("{message}"),
        // Not through `eprintln!`, whose output the test harness keeps to itself when a test passes.
        Outcome::Skipped { missing } => {
            let mut out = std::io::stderr().lock();
            // A closed stderr is no reason to fail.
            let _ = writeln!(out, "SKIPPED {}: {missing} is missing", case.path());
        }
    }
}
