//! One event as one line of JSON: `execution`, `at`, `type`, `last`; anything else is payload.
//!
//! The mapping is one to one. A payload that is a JSON object stands in the line key by key; one that is
//! not, or whose keys would be mistaken for the line's own, stands alone under `$payload` as
//! `{"json": …}` or `{"base64": "…"}`.

mod fields;
mod parse;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use loom_spi::{Event, ExecutionId, NewEvent, Timestamp};

pub(crate) use self::write::write_line;

/// The key under which a payload stands that cannot stand key by key.
const WRAPPED: &str = "$payload";

/// An event, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) execution: ExecutionId,
    pub(crate) at: Timestamp,
    pub(crate) kind: Arc<str>,
    pub(crate) last: bool,
    /// JSON without insignificant whitespace, or any bytes that came wrapped.
    pub(crate) payload: Bytes,
}

impl Line {
    /// Whether `stored` is this event. Whitespace between the tokens of a payload makes no difference.
    pub(crate) fn matches(&self, stored: &Event) -> bool {
        if self.at != stored.recorded_at || self.kind != stored.kind || self.last != stored.terminal
        {
            return false;
        }
        if self.payload == stored.payload {
            return true;
        }
        let mut exported = Vec::new();
        write_line(&mut exported, &self.execution, stored);
        Self::parse(&exported).is_ok_and(|line| line.payload == self.payload)
    }

    pub(crate) fn to_event(&self) -> NewEvent {
        let event =
            NewEvent::new(Arc::clone(&self.kind), self.payload.clone()).recorded_at(self.at);
        if self.last { event.terminal() } else { event }
    }
}
