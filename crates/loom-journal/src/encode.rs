//! Making events of a size that the store accepts.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use loom_spi::{EventStore, ExecutionId, Failure, NewEvent};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{EffectFailure, EffectFailureKind};
use crate::slot::Slot;
use crate::wire::{self, Cancelled, Completed, Effect, FORMAT_VERSION, Failed, Fault, Started};
use crate::{Anchor, JournalError};

/// Ends a message that had to be cut.
const CUT: &str = "…";

/// Makes the events of one run of one execution.
#[derive(Debug)]
pub(crate) struct Encoder {
    id: ExecutionId,
    run: Arc<str>,
    /// The largest payload, in bytes.
    limit: usize,
}

impl Encoder {
    pub(crate) fn new(store: &dyn EventStore, id: &ExecutionId, run: &Arc<str>) -> Self {
        let limits = store.capabilities().limits;
        let longest_kind = wire::COMPLETED.len().max(wire::CANCELLED.len());
        let alone = limits.max_append_bytes.saturating_sub(longest_kind);
        Self {
            id: id.clone(),
            run: Arc::clone(run),
            limit: limits.max_payload_bytes.min(alone),
        }
    }

    pub(crate) fn started(&self, anchor: &Anchor) -> Result<NewEvent, JournalError> {
        let payload = self.payload(&Started {
            v: FORMAT_VERSION,
            run: self.run(),
            flow: anchor.flow.as_str().into(),
            input: anchor.raw_input(),
            parent: anchor.parent.as_ref().map(|parent| parent.as_str().into()),
            upstream: anchor.upstream.iter().map(Into::into).collect(),
            from: anchor
                .upstream_executions
                .iter()
                .map(|id| id.as_str().into())
                .collect(),
        })?;
        if payload.len() > self.limit {
            return Err(JournalError::InvalidStart {
                id: self.id.clone(),
                reason: format!(
                    "its flow and input make an event of {} bytes: its store takes at most {}; store the input elsewhere and pass where",
                    payload.len(),
                    self.limit
                ),
            });
        }
        Ok(NewEvent::new(wire::kind(wire::STARTED), payload))
    }

    pub(crate) fn intent(&self, slot: &Slot, key: &str) -> Result<NewEvent, JournalError> {
        let payload = self.payload(&self.effect_payload(slot, key))?;
        Ok(NewEvent::new(wire::kind(wire::INTENT), payload))
    }

    /// The record of an effect. A result that the store would never accept is replaced by the failure that
    /// says so.
    pub(crate) fn effect(
        &self,
        slot: &Slot,
        key: &str,
        result: &mut Result<Box<RawValue>, EffectFailure>,
    ) -> Result<NewEvent, JournalError> {
        let mut failure = match result {
            Ok(raw) => {
                let payload = self.payload(&Effect {
                    result: Some(raw),
                    ..self.effect_payload(slot, key)
                })?;
                if payload.len() <= self.limit {
                    return Ok(NewEvent::new(wire::kind(wire::EFFECT), payload));
                }
                let message = format!(
                    "its result makes an event of {} bytes: its store takes at most {}; store it elsewhere and return where",
                    payload.len(),
                    self.limit
                );
                EffectFailure::new(EffectFailureKind::TooLarge, message)
            }
            Err(failure) => failure.clone(),
        };
        let payload = self.fit(&mut failure.message, |message| {
            self.payload(&Effect {
                error: Some(Fault::of_effect(failure.kind, message)),
                ..self.effect_payload(slot, key)
            })
        })?;
        *result = Err(failure);
        Ok(NewEvent::new(wire::kind(wire::EFFECT), payload))
    }

    pub(crate) fn completed(&self, output: &RawValue) -> Result<NewEvent, JournalError> {
        let payload = self.payload(&Completed {
            v: FORMAT_VERSION,
            run: self.run(),
            output,
        })?;
        if payload.len() > self.limit {
            return Err(JournalError::TooLarge {
                id: self.id.clone(),
                bytes: payload.len(),
                limit: self.limit,
            });
        }
        Ok(NewEvent::new(wire::kind(wire::COMPLETED), payload).terminal())
    }

    /// Cuts the message if it has to.
    pub(crate) fn failed(&self, failure: &mut Failure) -> Result<NewEvent, JournalError> {
        let kind = failure.kind;
        let payload = self.fit(&mut failure.message, |message| {
            self.payload(&Failed {
                v: FORMAT_VERSION,
                run: self.run(),
                error: Fault::of_execution(kind, message),
            })
        })?;
        Ok(NewEvent::new(wire::kind(wire::FAILED), payload).terminal())
    }

    /// Cuts the reason if it has to.
    pub(crate) fn cancelled(&self, reason: &mut String) -> Result<NewEvent, JournalError> {
        let payload = self.fit(reason, |reason| {
            self.payload(&Cancelled {
                v: FORMAT_VERSION,
                run: self.run(),
                reason: reason.into(),
            })
        })?;
        Ok(NewEvent::new(wire::kind(wire::CANCELLED), payload).terminal())
    }

    fn run(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.run)
    }

    fn effect_payload<'a>(&'a self, slot: &'a Slot, key: &'a str) -> Effect<'a> {
        Effect {
            v: FORMAT_VERSION,
            run: self.run(),
            scope: slot
                .scope
                .iter()
                .map(|name| Cow::Borrowed(&**name))
                .collect(),
            ordinal: slot.ordinal,
            key: key.into(),
            result: None,
            error: None,
        }
    }

    fn payload(&self, payload: &impl Serialize) -> Result<Bytes, JournalError> {
        match serde_json::to_vec(payload) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(JournalError::NotJson {
                id: self.id.clone(),
                source: Arc::new(error),
            }),
        }
    }

    /// Encodes a message, cut at its end as far as the store's limit asks. A byte less of text is at
    /// least a byte less of JSON, so that one cut suffices.
    fn fit(
        &self,
        message: &mut String,
        encode: impl Fn(&str) -> Result<Bytes, JournalError>,
    ) -> Result<Bytes, JournalError> {
        let payload = encode(message)?;
        let excess = payload.len().saturating_sub(self.limit);
        if excess == 0 {
            return Ok(payload);
        }
        let keep = message.len().saturating_sub(excess + CUT.len());
        message.truncate(message.floor_char_boundary(keep));
        message.push_str(CUT);
        encode(message)
    }
}
