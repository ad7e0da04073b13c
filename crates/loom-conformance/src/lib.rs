#![doc = include_str!("../README.md")]

#[doc(hidden)]
#[path = "test_support.rs"]
pub mod __test;
pub mod broken;
mod case;
mod context;
mod dispatcher;
mod effort;
mod factory;
mod macros;
mod matrix;
mod model;
mod need;
mod outcome;
mod runner;
mod suites;
mod support;

pub use case::{Case, cases, dispatcher_cases, registry_cases};
pub use dispatcher::{DispatcherFactory, DispatcherSubject};
pub use effort::Effort;
pub use factory::{RegistryFactory, StoreFactory, Subject};
pub use matrix::{CaseFailure, Matrix, Row};
pub use need::Need;
pub use outcome::{CaseReport, Outcome};
pub use runner::{
    run_case, run_cases, run_dispatcher, run_dispatcher_case, run_registry, run_registry_case,
    run_store,
};
