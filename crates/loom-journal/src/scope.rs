//! Branches of a flow.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::JournalError;
use crate::effect::{self, Guarantee};
use crate::journal::Core;
use crate::slot::{IdempotencyKey, ScopePath};

/// A branch of a flow that counts its effects for itself: see
/// [`ExecutionJournal::scope`](crate::ExecutionJournal::scope). Cheap to clone.
#[derive(Clone, Debug)]
pub struct JournalScope {
    pub(crate) core: Arc<Core>,
    pub(crate) scope: ScopePath,
}

impl JournalScope {
    /// A branch of this branch. Names of other branches' scopes are of no concern: `a` in `b` is not `b` in `a`.
    #[must_use]
    pub fn scope(&self, name: impl AsRef<str>) -> Self {
        let mut scope = self.scope.clone();
        scope.push(name.as_ref().into());
        Self {
            core: Arc::clone(&self.core),
            scope,
        }
    }

    /// As [`ExecutionJournal::effect`](crate::ExecutionJournal::effect), in this scope.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// When `f` does.
    ///
    /// # Cancel safety
    /// As there.
    pub fn effect<T, E, K, F, Fut>(
        &self,
        key: K,
        f: F,
    ) -> impl Future<Output = Result<T, JournalError>> + Send + use<T, E, K, F, Fut>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        K: AsRef<str>,
        F: FnOnce(IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        effect::effect(self, key.as_ref(), Guarantee::AtLeastOnce, f)
    }

    /// As [`ExecutionJournal::effect_at_most_once`](crate::ExecutionJournal::effect_at_most_once), in
    /// this scope.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// When `f` does.
    ///
    /// # Cancel safety
    /// As there.
    pub fn effect_at_most_once<T, E, K, F, Fut>(
        &self,
        key: K,
        f: F,
    ) -> impl Future<Output = Result<T, JournalError>> + Send + use<T, E, K, F, Fut>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        K: AsRef<str>,
        F: FnOnce(IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        effect::effect(self, key.as_ref(), Guarantee::AtMostOnce, f)
    }
}
