//! How large a request may be.

use crate::{Append, StoreErrorKind};

/// What a store accepts, per request. Larger ones are refused at once and for good: asking again
/// cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest event kind, in bytes of UTF-8. Default 255.
    pub max_kind_bytes: usize,
    /// The largest payload of one event, in bytes. Default 1 MiB.
    pub max_payload_bytes: usize,
    /// The most events in one append. Default 10,000.
    pub max_append_events: usize,
    /// The largest append, in bytes of kinds and payloads together. Default 16 MiB.
    pub max_append_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_kind_bytes: 255,
            max_payload_bytes: 1 << 20,
            max_append_events: 10_000,
            max_append_bytes: 16 << 20,
        }
    }
}

impl Limits {
    /// Sets [`max_kind_bytes`](Self::max_kind_bytes).
    #[must_use]
    pub fn with_max_kind_bytes(mut self, bytes: usize) -> Self {
        self.max_kind_bytes = bytes;
        self
    }

    /// Sets [`max_payload_bytes`](Self::max_payload_bytes).
    #[must_use]
    pub fn with_max_payload_bytes(mut self, bytes: usize) -> Self {
        self.max_payload_bytes = bytes;
        self
    }

    /// Sets [`max_append_events`](Self::max_append_events).
    #[must_use]
    pub fn with_max_append_events(mut self, events: usize) -> Self {
        self.max_append_events = events;
        self
    }

    /// Sets [`max_append_bytes`](Self::max_append_bytes).
    #[must_use]
    pub fn with_max_append_bytes(mut self, bytes: usize) -> Self {
        self.max_append_bytes = bytes;
        self
    }

    /// Checks what can be said of an append without looking at the store: for implementers.
    ///
    /// # Errors
    /// [`StoreErrorKind::InvalidArgument`] when it has no events or too many, an event is too large or
    /// its kind is empty, the sequence would overflow, or a terminal event is not the last.
    pub fn check(&self, append: &Append) -> Result<(), StoreErrorKind> {
        let invalid = |reason: String| Err(StoreErrorKind::InvalidArgument { reason });
        let events = &append.events;
        if events.is_empty() {
            return invalid("an append needs at least one event".into());
        }
        if events.len() > self.max_append_events {
            return invalid(format!(
                "an append of {} events is over the limit of {}: split it",
                events.len(),
                self.max_append_events
            ));
        }
        if append
            .expected
            .checked_add(events.len() as u64)
            .is_none_or(|next| next > i64::MAX as u64)
        {
            return invalid(format!(
                "sequence {} is past the last possible one",
                append.expected
            ));
        }
        let mut total = 0_usize;
        for (index, event) in events.iter().enumerate() {
            if event.kind.is_empty() || event.kind.len() > self.max_kind_bytes {
                return invalid(format!(
                    "event {index} of the append has a kind of {} bytes: expected 1 to {}",
                    event.kind.len(),
                    self.max_kind_bytes
                ));
            }
            if event.payload.len() > self.max_payload_bytes {
                return invalid(format!(
                    "event {index} of the append has a payload of {} bytes: expected at most {}",
                    event.payload.len(),
                    self.max_payload_bytes
                ));
            }
            if event.terminal && index + 1 != events.len() {
                return invalid(format!(
                    "event {index} of the append is terminal but not the last: nothing can follow it"
                ));
            }
            total = total
                .saturating_add(event.kind.len())
                .saturating_add(event.payload.len());
        }
        if total > self.max_append_bytes {
            return invalid(format!(
                "an append of {total} bytes is over the limit of {}: split it",
                self.max_append_bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExecutionId, NewEvent};

    fn append(events: Vec<NewEvent>) -> Append {
        Append::new(ExecutionId::new("e").unwrap(), 0, events)
    }

    fn reason(limits: Limits, append: &Append) -> String {
        match limits.check(append) {
            Err(StoreErrorKind::InvalidArgument { reason }) => reason,
            other => panic!("expected InvalidArgument, got {other:?}"),
        }
    }

    #[test]
    fn what_is_just_within_the_limits_passes() {
        let limits = Limits::default();
        let event = NewEvent::new("k".repeat(255), vec![0; 1 << 20]).terminal();
        assert!(limits.check(&append(vec![event])).is_ok());
    }

    #[test]
    fn every_refusal_names_the_event_and_the_bound() {
        let limits = Limits::default()
            .with_max_payload_bytes(8)
            .with_max_append_events(2);
        let ok = || NewEvent::new("k", "12345678");
        assert!(reason(limits, &append(vec![])).contains("at least one"));
        assert!(reason(limits, &append(vec![ok(), ok(), ok()])).contains("limit of 2"));
        assert!(reason(limits, &append(vec![ok(), NewEvent::new("", "")])).contains("event 1"));
        assert!(
            reason(limits, &append(vec![NewEvent::new("k", "123456789")])).contains("at most 8")
        );
        assert!(reason(limits, &append(vec![ok().terminal(), ok()])).contains("not the last"));
        let limits = limits.with_max_append_bytes(17);
        assert!(reason(limits, &append(vec![ok(), ok()])).contains("18 bytes"));
    }

    #[test]
    fn a_sequence_that_would_overflow_is_refused() {
        let mut request = append(vec![NewEvent::new("k", "")]);
        request.expected = u64::MAX;
        assert!(reason(Limits::default(), &request).contains("past the last"));
        request.expected = i64::MAX as u64;
        assert!(reason(Limits::default(), &request).contains("past the last"));
    }
}
