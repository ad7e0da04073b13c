//! Events, and when they were recorded.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

/// One entry of an execution's log. Once stored it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its place in the log. Sequences are contiguous from 0; the event with sequence 0 is the
    /// *bootstrap anchor* and exists exactly as long as the execution does.
    pub sequence: u64,
    /// What happened, in the words of whoever wrote it. 1 to [`Limits::max_kind_bytes`] bytes.
    ///
    /// [`Limits::max_kind_bytes`]: crate::Limits::max_kind_bytes
    pub kind: Arc<str>,
    /// Opaque to every store.
    pub payload: Bytes,
    /// When the writer recorded it, by the writer's clock. A store never changes it, so a log that
    /// was moved is byte for byte the same.
    pub recorded_at: Timestamp,
    /// Whether it closes the execution: nothing can ever be appended after a terminal event.
    pub terminal: bool,
}

impl Event {
    /// The event that `new` becomes at `sequence`: for implementers of stores.
    #[must_use]
    pub fn from_new(sequence: u64, new: NewEvent) -> Self {
        let NewEvent {
            kind,
            payload,
            recorded_at,
            terminal,
        } = new;
        Self {
            sequence,
            kind,
            payload,
            recorded_at,
            terminal,
        }
    }
}

/// An event that is to be appended. Its sequence follows from its place in the append.
///
/// ```
/// use loom_spi::{NewEvent, Timestamp};
///
/// let done = NewEvent::new("order.shipped", r#"{"parcel":7}"#)
///     .recorded_at(Timestamp::from_millis(1_700_000_000_000))
///     .terminal();
/// assert!(done.terminal);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEvent {
    /// See [`Event::kind`].
    pub kind: Arc<str>,
    /// See [`Event::payload`].
    pub payload: Bytes,
    /// See [`Event::recorded_at`].
    pub recorded_at: Timestamp,
    /// See [`Event::terminal`].
    pub terminal: bool,
}

impl NewEvent {
    /// An event that is recorded now and closes nothing.
    pub fn new(kind: impl Into<Arc<str>>, payload: impl Into<Bytes>) -> Self {
        Self {
            kind: kind.into(),
            payload: payload.into(),
            recorded_at: Timestamp::now(),
            terminal: false,
        }
    }

    /// Sets when it was recorded, for events that happened before they are stored.
    #[must_use]
    pub fn recorded_at(mut self, at: Timestamp) -> Self {
        self.recorded_at = at;
        self
    }

    /// Makes it the last event of its execution.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }
}

/// A moment: milliseconds since 1970-01-01T00:00:00Z, without leap seconds. Negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment that is `millis` milliseconds after 1970 began in UTC.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// This moment by the system's clock.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Milliseconds since 1970 began in UTC.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds towards 1970; a moment out of range becomes the nearest one in range.
    fn from(time: SystemTime) -> Self {
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
            }
        })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_before_1970_are_negative() {
        let before = UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(Timestamp::from(before), Timestamp::from_millis(-1500));
        assert_eq!(Timestamp::from(UNIX_EPOCH), Timestamp::from_millis(0));
    }
}
