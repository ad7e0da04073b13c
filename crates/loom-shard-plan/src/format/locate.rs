//! Finds the line and the column of a part of a JSON document.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Location;

/// A place in the document: a key of the plan, or an item of the array under it.
#[derive(Clone, Copy)]
pub(super) struct Path {
    key: &'static str,
    item: Option<usize>,
}

impl Path {
    pub(super) const fn key(key: &'static str) -> Self {
        Self { key, item: None }
    }

    pub(super) const fn item(key: &'static str, item: usize) -> Self {
        Self {
            key,
            item: Some(item),
        }
    }

    /// Where that is in `json`: reads the document again, and fails on purpose there.
    pub(super) fn locate(self, json: &str) -> Location {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let (line, column) = match Locate(self).deserialize(&mut deserializer) {
            Err(error) => (error.line(), error.column()),
            Ok(()) => (1, 1),
        };
        Location::Item {
            path: self.to_string(),
            line: line.max(1),
            column: column.max(1),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            None => f.write_str(self.key),
            Some(item) => write!(f, "{}[{item}]", self.key),
        }
    }
}

/// Goes to a [`Path`] and fails behind it: the parser's error then carries line and column.
struct Locate(Path);

impl<'de> DeserializeSeed<'de> for Locate {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Locate {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the place of an error")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key != self.0.key {
                map.next_value::<IgnoredAny>()?;
            } else if self.0.item.is_some() {
                return map.next_value_seed(self);
            } else {
                return map.next_value_seed(FailBehind);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for _ in 0..self.0.item.unwrap_or(0) {
            items.next_element::<IgnoredAny>()?;
        }
        items.next_element_seed(FailBehind)?;
        Ok(())
    }
}

/// Takes a value and fails. What is neither an array nor an object fails by itself: a visitor
/// refuses what it has no method for.
struct FailBehind;

impl<'de> DeserializeSeed<'de> for FailBehind {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FailBehind {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("behind"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("behind"))
    }
}
