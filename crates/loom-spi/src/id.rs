//! Execution ids.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::RouteHash;

/// The name of one execution: 1 to 255 bytes of UTF-8 without control characters.
///
/// Cloning copies a pointer. Ids are ordered bytewise, so the order is the same on every machine and
/// in every store, whatever its collation.
///
/// ```
/// use loom_spi::ExecutionId;
///
/// let id: ExecutionId = "incident-42/metrics".parse()?;
/// assert_eq!(id.as_str(), "incident-42/metrics");
/// assert!(ExecutionId::new("two\nlines").is_err());
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(Arc<str>);

impl ExecutionId {
    /// The longest id, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 255;

    /// Checks and takes an id.
    ///
    /// # Errors
    /// [`InvalidExecutionId`] when it is empty, longer than [`Self::MAX_BYTES`], or contains a
    /// control character (Unicode category Cc).
    pub fn new(id: impl AsRef<str>) -> Result<Self, InvalidExecutionId> {
        let id = id.as_ref();
        if id.is_empty() {
            return Err(InvalidExecutionId::Empty);
        }
        if id.len() > Self::MAX_BYTES {
            return Err(InvalidExecutionId::TooLong { bytes: id.len() });
        }
        // Nearly every id is printable ASCII, which is seen without decoding it.
        let plain = id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !plain && let Some((offset, found)) = id.char_indices().find(|(_, c)| c.is_control()) {
            return Err(InvalidExecutionId::ControlCharacter { offset, found });
        }
        Ok(Self(id.into()))
    }

    /// A new id that no other call returns: a UUID version 7 (RFC 9562), so that ids made later
    /// sort later, to the millisecond.
    #[must_use]
    pub fn generate() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        let text: &str = uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer);
        Self(text.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash that decides where the execution lives.
    #[must_use]
    pub fn route_hash(&self) -> RouteHash {
        RouteHash::of(self.0.as_bytes())
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutionId({:?})", &*self.0)
    }
}

impl FromStr for ExecutionId {
    type Err = InvalidExecutionId;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::new(id)
    }
}

impl TryFrom<String> for ExecutionId {
    type Error = InvalidExecutionId;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::new(id)
    }
}

impl AsRef<str> for ExecutionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ExecutionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Why a text is no [`ExecutionId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidExecutionId {
    /// It has no bytes.
    #[error("an execution id is empty: expected 1 to 255 bytes of UTF-8")]
    Empty,
    /// It has more than [`ExecutionId::MAX_BYTES`] bytes.
    #[error("an execution id has {bytes} bytes: expected at most 255")]
    TooLong {
        /// The length that was found, in bytes.
        bytes: usize,
    },
    /// It has a control character.
    #[error(
        "an execution id has the control character {found:?} at byte {offset}: expected printable text"
    )]
    ControlCharacter {
        /// Where it stands, in bytes from the start.
        offset: usize,
        /// The character.
        found: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        assert!(ExecutionId::new("x").is_ok());
        assert!(ExecutionId::new("x".repeat(255)).is_ok());
        assert_eq!(
            ExecutionId::new("x".repeat(256)),
            Err(InvalidExecutionId::TooLong { bytes: 256 })
        );
        assert_eq!(ExecutionId::new(""), Err(InvalidExecutionId::Empty));
    }

    #[test]
    fn length_counts_bytes_not_characters() {
        assert!(ExecutionId::new("é".repeat(127)).is_ok());
        assert_eq!(
            ExecutionId::new("é".repeat(128)),
            Err(InvalidExecutionId::TooLong { bytes: 256 })
        );
    }

    #[test]
    fn a_control_character_is_named_with_its_place() {
        assert_eq!(
            ExecutionId::new("é\u{7f}"),
            Err(InvalidExecutionId::ControlCharacter {
                offset: 2,
                found: '\u{7f}'
            })
        );
    }

    #[test]
    fn generated_ids_are_distinct_and_sort_by_time() {
        let ids: Vec<_> = (0..1000).map(|_| ExecutionId::generate()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn order_is_bytewise() {
        let id = |text: &str| ExecutionId::new(text).unwrap();
        assert!(id("Z") < id("a"));
        assert!(id("z") < id("é"));
    }
}
