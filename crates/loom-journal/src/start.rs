//! What an execution was begun with.

use std::fmt::Write as _;

use bytes::Bytes;
use loom_spi::{DispatchRequest, Event, ExecutionId, Upstream};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{self, Started};
use crate::{Difference, JournalError};

/// How much of an input an error shows, in bytes.
const SHOWN: usize = 80;

/// What the anchor of a log says the execution was begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anchor {
    /// The code that it runs.
    pub flow: String,
    /// What it was given: JSON text, empty when it was given nothing (or `null`).
    pub input: Bytes,
    /// The execution of which it is a branch.
    pub parent: Option<ExecutionId>,
    /// The keys of what it builds on, in the order declared.
    pub upstream: Vec<String>,
    /// The executions that have those outputs, in the same order; empty when some of them were not named. Where
    /// the outputs come from is no part of what was asked for, and is not compared.
    pub upstream_executions: Vec<ExecutionId>,
}

impl Anchor {
    /// What a request asks to begin.
    ///
    /// # Errors
    /// [`JournalError::InvalidStart`] when the flow has no name, or the input is no JSON text.
    pub fn of(request: &DispatchRequest) -> Result<Self, JournalError> {
        let invalid = |reason: String| JournalError::InvalidStart {
            id: request.id.clone(),
            reason,
        };
        if request.flow.is_empty() {
            return Err(invalid("the name of its flow is empty".to_owned()));
        }
        let input = match normalized(&request.input) {
            Ok(input) => input,
            Err(error) => {
                let reason = format!("its input is no JSON text: {error}; expected one JSON value");
                return Err(invalid(reason));
            }
        };
        Ok(Self {
            flow: request.flow.clone(),
            input,
            parent: request.parent.clone(),
            upstream: request.upstream.iter().map(|up| up.key.clone()).collect(),
            upstream_executions: all_named(&request.upstream).unwrap_or_default(),
        })
    }

    pub(crate) fn read(id: &ExecutionId, event: &Event) -> Result<Self, JournalError> {
        if &*event.kind != wire::STARTED {
            return Err(wire::not_a_journal(id, event));
        }
        let started: Started<'_> = wire::decode(id, event)?;
        let parent = started.parent.as_deref().map(ExecutionId::new);
        let parent = parent.transpose().map_err(|error| {
            JournalError::corrupt(id, event.sequence, format!("the parent: {error}"))
        })?;
        let executions = started.from.iter().map(ExecutionId::new);
        let executions: Result<Vec<_>, _> = executions.collect();
        let executions = executions.map_err(|error| {
            let reason = format!("the execution of an upstream: {error}");
            JournalError::corrupt(id, event.sequence, reason)
        })?;
        if !executions.is_empty() && executions.len() != started.upstream.len() {
            let reason = format!(
                "it names {} executions for {} upstream keys",
                executions.len(),
                started.upstream.len()
            );
            return Err(JournalError::corrupt(id, event.sequence, reason));
        }
        let input = started.input.map(|raw| raw.get().as_bytes());
        Ok(Self {
            flow: started.flow.into_owned(),
            input: input.map(Bytes::copy_from_slice).unwrap_or_default(),
            parent,
            upstream: started.upstream.into_iter().map(Into::into).collect(),
            upstream_executions: executions,
        })
    }

    /// In what this, as recorded, differs from what is requested. Inputs are compared as JSON
    /// values: neither white space nor the order of an object's keys matters.
    #[must_use]
    pub fn difference(&self, requested: &Self) -> Option<Difference> {
        if self.flow != requested.flow {
            return Some(Difference::Flow {
                recorded: self.flow.clone(),
                requested: requested.flow.clone(),
            });
        }
        if !same_json(&self.input, &requested.input) {
            return Some(Difference::Input {
                recorded: beginning(&self.input),
                requested: beginning(&requested.input),
            });
        }
        if self.parent != requested.parent {
            let text = |id: &Option<ExecutionId>| id.as_ref().map(ToString::to_string);
            return Some(Difference::Parent {
                recorded: text(&self.parent),
                requested: text(&requested.parent),
            });
        }
        (self.upstream != requested.upstream).then(|| Difference::Upstream {
            recorded: keys(&self.upstream),
            requested: keys(&requested.upstream),
        })
    }

    /// The input as a part of a payload.
    pub(crate) fn raw_input(&self) -> Option<&RawValue> {
        if self.input.is_empty() {
            return None;
        }
        serde_json::from_slice(&self.input).ok()
    }
}

/// The executions of all; `None` when one is not named.
fn all_named(upstream: &[Upstream]) -> Option<Vec<ExecutionId>> {
    upstream.iter().map(|up| up.execution.clone()).collect()
}

/// One JSON text without white space around it; nothing for nothing and for `null`, which flows read alike.
fn normalized(input: &Bytes) -> Result<Bytes, serde_json::Error> {
    if input.is_empty() {
        return Ok(Bytes::new());
    }
    let raw: &RawValue = serde_json::from_slice(input)?;
    Ok(match raw.get() {
        "null" => Bytes::new(),
        text => input.slice_ref(text.as_bytes()),
    })
}

fn same_json(a: &[u8], b: &[u8]) -> bool {
    let value = |text| serde_json::from_slice::<Value>(text).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

fn beginning(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    match text.len() {
        0 => "nothing".to_owned(),
        1..=SHOWN => format!("`{text}`"),
        bytes => format!(
            "`{}…` ({bytes} bytes)",
            &text[..text.floor_char_boundary(SHOWN)]
        ),
    }
}

fn keys(keys: &[String]) -> String {
    let mut list = String::new();
    for key in keys {
        let comma = if list.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(list, "{comma}`{key}`");
    }
    if list.is_empty() {
        list.push_str("nothing");
    }
    list
}
