//! Where in its flow an effect stands.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use loom_spi::ExecutionId;
use xxhash_rust::xxh3::Xxh3;

use crate::JournalError;

/// The longest key of an effect, and the longest name of a scope, in bytes.
const MAX_NAME_BYTES: usize = 255;
/// The deepest nesting of scopes.
const MAX_DEPTH: usize = 16;

/// The names of nested scopes, outermost first; none for the flow itself.
pub(crate) type ScopePath = Vec<Arc<str>>;

/// The place of an effect: the how-many-th of its scope, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) scope: ScopePath,
    pub(crate) ordinal: u64,
}

/// Hands out the places of each scope in order.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<HashMap<ScopePath, u64>>);

impl Slots {
    /// The next place of a scope. Called when an effect is *asked for*, not when it is first polled, so
    /// that the order is that of the program.
    pub(crate) fn allocate(
        &self,
        id: &ExecutionId,
        scope: &ScopePath,
        key: &str,
    ) -> Result<Slot, JournalError> {
        check_names(scope, key).map_err(|reason| JournalError::InvalidName {
            id: id.clone(),
            reason,
        })?;
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinal = match next.get_mut(scope) {
            Some(next) => {
                *next += 1;
                *next - 1
            }
            None => {
                next.insert(scope.clone(), 1);
                0
            }
        };
        Ok(Slot {
            scope: scope.clone(),
            ordinal,
        })
    }

    /// Whether the flow has asked for the effect at this place.
    pub(crate) fn were_asked_for(&self, slot: &Slot) -> bool {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next.get(&slot.scope)
            .is_some_and(|next| slot.ordinal < *next)
    }
}

fn check_names(scope: &ScopePath, key: &str) -> Result<(), String> {
    if scope.len() > MAX_DEPTH {
        return Err(format!(
            "scopes are nested {} deep: expected at most {MAX_DEPTH}",
            scope.len()
        ));
    }
    let names = scope.iter().map(|name| ("name of a scope", &**name));
    for (what, name) in names.chain([("key of an effect", key)]) {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(format!(
                "the {what} has {} bytes: expected 1 to {MAX_NAME_BYTES}",
                name.len()
            ));
        }
    }
    Ok(())
}

/// Names one effect of one execution to the outside world: the same each time the effect runs, so
/// that a service which takes idempotency keys does the work once although a crash between running
/// and recording makes the effect run again.
///
/// 32 hexadecimal digits: XXH3-128 of the execution's id, the scope, the ordinal and the key. It is no
/// secret and no proof of anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    pub(crate) fn new(id: &ExecutionId, slot: &Slot, key: &str) -> Self {
        let mut hash = Xxh3::new();
        // Lengths keep neighbouring names apart.
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(id.as_str().as_bytes());
        for name in &slot.scope {
            part(name.as_bytes());
        }
        part(&slot.ordinal.to_le_bytes());
        part(key.as_bytes());
        Self(format!("{:032x}", hash.digest128()).into())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ExecutionId {
        ExecutionId::new("e").unwrap()
    }

    fn slot(scope: &[&str], ordinal: u64) -> Slot {
        Slot {
            scope: scope.iter().map(|name| Arc::from(*name)).collect(),
            ordinal,
        }
    }

    #[test]
    fn each_scope_counts_for_itself() {
        let slots = Slots::default();
        let (root, branch) = (slot(&[], 0).scope, slot(&["a"], 0).scope);
        let next = |scope| slots.allocate(&id(), scope, "k").unwrap().ordinal;
        assert_eq!([next(&root), next(&branch), next(&root)], [0, 0, 1]);
        assert!(slots.were_asked_for(&slot(&[], 1)));
        assert!(!slots.were_asked_for(&slot(&["a"], 1)));
        assert!(!slots.were_asked_for(&slot(&["b"], 0)));
    }

    #[test]
    fn names_that_could_not_be_recorded_are_refused() {
        let slots = Slots::default();
        let too_deep = vec![Arc::from("s"); MAX_DEPTH + 1];
        for (scope, key) in [
            (vec![], String::new()),
            (vec![], "k".repeat(256)),
            (vec![Arc::from("")], "k".to_owned()),
            (too_deep, "k".to_owned()),
        ] {
            let refused = slots.allocate(&id(), &scope, &key);
            assert!(matches!(refused, Err(JournalError::InvalidName { .. })));
        }
        assert_eq!(slots.allocate(&id(), &vec![], "k").unwrap().ordinal, 0);
    }

    #[test]
    fn idempotency_keys_never_change_and_differ_wherever_the_place_differs() {
        let key =
            |scope: &[&str], ordinal, key| IdempotencyKey::new(&id(), &slot(scope, ordinal), key);
        let all = [
            key(&[], 0, "k"),
            key(&[], 1, "k"),
            key(&[], 0, "l"),
            key(&["a"], 0, "k"),
            key(&["a", "b"], 0, "k"),
            key(&["ab"], 0, "k"),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        // Written down, because services remember it across versions of this crate.
        assert_eq!(all[0].as_str(), "b2b1d5caf807d8167b28920cb462128c");
    }
}
