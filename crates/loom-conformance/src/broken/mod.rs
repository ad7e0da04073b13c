//! Stores that are broken on purpose: the proof that the cases notice.
//!
//! A [`Mutant`] wraps a sound store and gets one thing wrong, a [`Fault`]. Each fault names a case that fails for
//! it, and a test of this crate holds it to that. Wrap your own factory to see that the cases bite for your
//! store, with the effort that you chose:
//!
//! ```
//! use std::sync::Arc;
//! use loom_conformance::broken::{Breaking, Fault};
//! use loom_conformance::{Outcome, Subject, cases, run_case, StoreFactory};
//! use loom_store_memory::MemoryStore;
//!
//! let mine = || async { Ok(Subject::new(MemoryStore::new())) };
//! let fault = Fault::ExpectedIgnored;
//! let broken: Arc<dyn StoreFactory> = Arc::new(Breaking::new(mine, fault));
//! let case = cases().into_iter().find(|case| (case.group(), case.name()) == fault.caught_by());
//! let report = run_case(&broken, &case.unwrap());
//! assert!(matches!(report.outcome, Outcome::Failed { .. }));
//! ```
//!
//! [`Awkward`] is not broken: it does right in the most inconvenient way that the contract allows.

mod appends;
mod awkward;
mod awkward_parts;
mod deletes;
mod fault;
mod fault_moves;
mod fences;
mod imports;
mod leases;
mod ledgers;
mod lineages;
mod lists;
mod mutant;
mod notes;
mod parts;
mod reads;
mod records;
mod relocations;
mod routes;
mod seals;

use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::BoxError;

pub use awkward::{Awkward, Outage};
pub use fault::Fault;
pub use mutant::Mutant;

use crate::{Effort, StoreFactory, Subject};

/// Makes the stores of another factory, with a fault in each.
#[derive(Clone, Debug)]
pub struct Breaking<F> {
    factory: F,
    fault: Fault,
}

impl<F: StoreFactory> Breaking<F> {
    /// Breaks what `factory` makes.
    pub fn new(factory: F, fault: Fault) -> Self {
        Self { factory, fault }
    }
}

#[async_trait]
impl<F: StoreFactory> StoreFactory for Breaking<F> {
    async fn create(&self) -> Result<Subject, BoxError> {
        let fault = self.fault;
        let subject = self.factory.create().await?;
        Ok(subject.wrap(move |store| Arc::new(Mutant::new(store, fault))))
    }

    fn effort(&self) -> Effort {
        self.factory.effort()
    }
}
