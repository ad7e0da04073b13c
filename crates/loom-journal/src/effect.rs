//! Running effects.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::JournalError;
use crate::error::{EffectFailure, EffectFailureKind};
use crate::journal::Core;
use crate::scope::JournalScope;
use crate::slot::{IdempotencyKey, Slot};

/// How often an effect may happen when there are crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    AtLeastOnce,
    AtMostOnce,
}

/// What an effect came to, and where that is recorded.
struct Recorded {
    sequence: u64,
    result: Result<Box<RawValue>, EffectFailure>,
}

pub(crate) fn effect<T, E, F, Fut>(
    scope: &JournalScope,
    key: &str,
    guarantee: Guarantee,
    f: F,
) -> impl Future<Output = Result<T, JournalError>> + Send + use<T, E, F, Fut>
where
    T: Serialize + DeserializeOwned + Send,
    E: Display + Send,
    F: FnOnce(IdempotencyKey) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    let core = Arc::clone(&scope.core);
    let slot = core.slots.allocate(&core.id, &scope.scope, key);
    let key: Box<str> = key.into();
    async move {
        let slot = slot?;
        let recorded = match core.begin(&slot, &key, guarantee).await? {
            Some(recorded) => recorded,
            None => {
                let result = match f(IdempotencyKey::new(&core.id, &slot, &key)).await {
                    Ok(value) => to_json(&value).map_err(|error| {
                        let message = format!("its result is no JSON: {error}");
                        EffectFailure::new(EffectFailureKind::NotJson, message)
                    }),
                    Err(error) => {
                        let message = error.to_string();
                        Err(EffectFailure::new(EffectFailureKind::Returned, message))
                    }
                };
                core.record(&slot, &key, result).await?
            }
        };
        core.hand_over(&key, recorded)
    }
}

pub(crate) fn to_json<T: Serialize + ?Sized>(
    value: &T,
) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}

impl Core {
    /// What is recorded of the effect, or `None` when it is to be run now.
    async fn begin(
        &self,
        slot: &Slot,
        key: &str,
        guarantee: Guarantee,
    ) -> Result<Option<Recorded>, JournalError> {
        self.check_open()?;
        if self.replaying.load(Ordering::Acquire)
            && let Some(recorded) = self.replay(slot, key).await?
        {
            return Ok(Some(recorded));
        }
        let after = self.confirm_after;
        if self.confirmed.is_older_than(after) {
            let mut log = self.writer().await?;
            self.note(log.confirm(after, &self.confirmed).await)?;
        }
        if guarantee == Guarantee::AtMostOnce {
            let intent = self.encoder.intent(slot, key)?;
            let mut log = self.writer().await?;
            self.append(&mut log, intent).await?;
        }
        Ok(None)
    }

    async fn replay(&self, slot: &Slot, key: &str) -> Result<Option<Recorded>, JournalError> {
        let mut log = self.writer().await?;
        let record = self.note(log.find(slot).await)?;
        if log.replay.is_over() {
            self.replaying.store(false, Ordering::Release);
        }
        let Some(record) = record else {
            return Ok(None);
        };
        let id = || self.id.clone();
        let sequence = record.sequence;
        if record.key != key {
            return self.note(Err(JournalError::NonDeterminism {
                id: id(),
                recorded: record.key,
                requested: Some(key.to_owned()),
                sequence,
            }));
        }
        match record.result {
            Some(result) => Ok(Some(Recorded { sequence, result })),
            None => Err(JournalError::OutcomeUnknown {
                id: id(),
                key: record.key,
                sequence,
            }),
        }
    }

    async fn record(
        &self,
        slot: &Slot,
        key: &str,
        mut result: Result<Box<RawValue>, EffectFailure>,
    ) -> Result<Recorded, JournalError> {
        let event = self.encoder.effect(slot, key, &mut result)?;
        let mut log = self.writer().await?;
        let sequence = self.append(&mut log, event).await?;
        Ok(Recorded { sequence, result })
    }

    fn hand_over<T: DeserializeOwned>(
        &self,
        key: &str,
        recorded: Recorded,
    ) -> Result<T, JournalError> {
        let Recorded { sequence, result } = recorded;
        let (id, key) = (self.id.clone(), key.to_owned());
        match result {
            Ok(json) => self.note(serde_json::from_str(json.get()).map_err(|error| {
                JournalError::ResultType {
                    id,
                    key,
                    sequence,
                    source: Arc::new(error),
                }
            })),
            Err(failure) => Err(JournalError::EffectFailed {
                id,
                key,
                sequence,
                failure,
            }),
        }
    }
}
