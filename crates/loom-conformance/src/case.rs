//! The list of cases.

use futures_util::future::BoxFuture;

use crate::context::{Cx, RegistryCx};
use crate::dispatcher::DispatchCx;
use crate::outcome::Verdict;

/// One behaviour that a store, a registry or a dispatcher has to show.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    group: &'static str,
    name: &'static str,
    pub(crate) run: Run,
}

/// How a case is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Store(fn(Cx) -> BoxFuture<'static, Verdict>),
    /// Needs a branch registry only, standing alone or part of a store.
    Registry(fn(RegistryCx) -> BoxFuture<'static, Verdict>),
    Dispatcher(fn(DispatchCx) -> BoxFuture<'static, Verdict>),
}

impl Case {
    pub(crate) const fn new(group: &'static str, name: &'static str, run: Run) -> Self {
        Self { group, name, run }
    }

    /// The part of the contract that it belongs to.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The behaviour, as the name of its test.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `group::name`, as a test runner shows it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

/// Every case for an event store, in the order of the groups.
///
/// ```
/// let cases = loom_conformance::cases();
/// assert!(cases.iter().any(|case| case.path() == "append::appending_at_zero_creates_the_execution"));
/// ```
#[must_use]
pub fn cases() -> Vec<Case> {
    crate::__store_suites!(__list())
}

/// Every case for a branch registry that stands alone.
#[must_use]
pub fn registry_cases() -> Vec<Case> {
    crate::__registry_suites!(__list())
}

/// Every case for a dispatcher.
#[must_use]
pub fn dispatcher_cases() -> Vec<Case> {
    crate::__dispatcher_suites!(__list())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cases_share_a_path() {
        let paths: BTreeSet<_> = cases().iter().map(Case::path).collect();
        assert_eq!(paths.len(), cases().len());
    }

    #[test]
    fn the_cases_of_a_registry_are_part_of_those_of_a_store() {
        let paths: BTreeSet<_> = cases().iter().map(Case::path).collect();
        assert!(!registry_cases().is_empty());
        assert!(
            registry_cases()
                .iter()
                .all(|case| paths.contains(&case.path()))
        );
    }
}
