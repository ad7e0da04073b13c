//! The payloads of a journal's events, as `docs/specification/journal-format.md` describes them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use loom_spi::{Event, ExecutionId, ExecutionOutcome, Failure, FailureKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::JournalError;
use crate::error::{EffectFailure, EffectFailureKind};

/// The version of the payloads that this build writes, and the only one that it reads.
pub const FORMAT_VERSION: u64 = 1;

pub(crate) const STARTED: &str = "loom.started";
pub(crate) const INTENT: &str = "loom.intent";
pub(crate) const EFFECT: &str = "loom.effect";
pub(crate) const COMPLETED: &str = "loom.completed";
pub(crate) const FAILED: &str = "loom.failed";
pub(crate) const CANCELLED: &str = "loom.cancelled";

/// One of the kinds, shared by the events of a thread: there are many events and few kinds, and threads that count
/// references to the same kind hold each other up.
pub(crate) fn kind(name: &'static str) -> Arc<str> {
    thread_local! {
        static KINDS: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
    }
    KINDS.with_borrow_mut(|kinds| match kinds.iter().find(|kind| ***kind == *name) {
        Some(kind) => Arc::clone(kind),
        None => {
            let kind = Arc::<str>::from(name);
            kinds.push(Arc::clone(&kind));
            kind
        }
    })
}

/// A payload of one kind of event.
pub(crate) trait Payload<'a>: Deserialize<'a> {
    fn version(&self) -> u64;
}

macro_rules! payloads {
    ($($name:ident),*) => {
        $(impl<'a> Payload<'a> for $name<'a> {
            fn version(&self) -> u64 {
                self.v
            }
        })*
    };
}
payloads!(Header, Started, Effect, Completed, Failed, Cancelled);

/// What all payloads have: the version, and which run of the execution wrote the event.
#[derive(Debug, Deserialize)]
pub(crate) struct Header<'a> {
    v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Started<'a> {
    pub(crate) v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) flow: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) upstream: Vec<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) from: Vec<Cow<'a, str>>,
}

/// An effect, or the intent of one (which has neither result nor error).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Effect<'a> {
    pub(crate) v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scope: Vec<Cow<'a, str>>,
    pub(crate) ordinal: u64,
    #[serde(borrow)]
    pub(crate) key: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Fault<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Completed<'a> {
    pub(crate) v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) output: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed<'a> {
    pub(crate) v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) error: Fault<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cancelled<'a> {
    pub(crate) v: u64,
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) reason: Cow<'a, str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fault<'a> {
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) message: Cow<'a, str>,
}

impl<'a> Fault<'a> {
    pub(crate) fn of_effect(kind: EffectFailureKind, message: &'a str) -> Self {
        let kind = match kind {
            EffectFailureKind::Returned => "returned",
            EffectFailureKind::NotJson => "not_json",
            EffectFailureKind::TooLarge => "too_large",
        };
        Self::new(kind, message)
    }

    pub(crate) fn of_execution(kind: FailureKind, message: &'a str) -> Self {
        let kind = match kind {
            FailureKind::Panicked => "panicked",
            _ => "error",
        };
        Self::new(kind, message)
    }

    fn new(kind: &'a str, message: &'a str) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
        }
    }

    /// A kind that this build does not know counts as the plain one: the message says what happened.
    fn into_effect_failure(self) -> EffectFailure {
        let kind = match &*self.kind {
            "not_json" => EffectFailureKind::NotJson,
            "too_large" => EffectFailureKind::TooLarge,
            _ => EffectFailureKind::Returned,
        };
        EffectFailure::new(kind, self.message)
    }

    fn into_failure(self) -> Failure {
        match &*self.kind {
            "panicked" => Failure::panicked(self.message),
            _ => Failure::error(self.message),
        }
    }
}

impl Effect<'_> {
    /// What came of it. A result of `null` is a result: only an intent has none.
    pub(crate) fn into_result(self) -> Result<Box<RawValue>, EffectFailure> {
        match (self.error, self.result) {
            (Some(fault), _) => Err(fault.into_effect_failure()),
            (None, Some(result)) => Ok(result.to_owned()),
            (None, None) => Ok(RawValue::NULL.to_owned()),
        }
    }
}

/// Reads the payload of an event that a journal wrote.
pub(crate) fn decode<'a, T: Payload<'a>>(
    id: &ExecutionId,
    event: &'a Event,
) -> Result<T, JournalError> {
    let malformed = |error: serde_json::Error| {
        let reason = format!("the payload of a `{}` does not parse: {error}", event.kind);
        JournalError::corrupt(id, event.sequence, reason)
    };
    let (version, payload) = match serde_json::from_slice::<T>(&event.payload) {
        Ok(payload) => (payload.version(), Some(payload)),
        // A newer format may differ in everything but its version.
        Err(error) => match serde_json::from_slice::<Version>(&event.payload) {
            Ok(Version { v }) if v != FORMAT_VERSION => (v, None),
            _ => return Err(malformed(error)),
        },
    };
    match payload {
        Some(payload) if version == FORMAT_VERSION => Ok(payload),
        _ => Err(JournalError::UnsupportedVersion {
            id: id.clone(),
            sequence: event.sequence,
            version,
        }),
    }
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// The outcome that a terminal event records.
pub(crate) fn outcome(id: &ExecutionId, event: &Event) -> Result<ExecutionOutcome, JournalError> {
    if !event.terminal {
        return Err(JournalError::corrupt(
            id,
            event.sequence,
            format!("the log ends with a `{}` that is not terminal", event.kind),
        ));
    }
    Ok(match &*event.kind {
        COMPLETED => {
            let completed: Completed<'_> = decode(id, event)?;
            ExecutionOutcome::Completed {
                output: Bytes::copy_from_slice(completed.output.get().as_bytes()),
            }
        }
        FAILED => {
            let failed: Failed<'_> = decode(id, event)?;
            ExecutionOutcome::Failed(failed.error.into_failure())
        }
        CANCELLED => {
            let cancelled: Cancelled<'_> = decode(id, event)?;
            ExecutionOutcome::Cancelled {
                reason: cancelled.reason.into_owned(),
            }
        }
        _ => return Err(not_a_journal(id, event)),
    })
}

pub(crate) fn not_a_journal(id: &ExecutionId, event: &Event) -> JournalError {
    JournalError::NotAJournal {
        id: id.clone(),
        sequence: event.sequence,
        kind: event.kind.to_string(),
    }
}
