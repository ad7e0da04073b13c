//! The members of a JSON object, with the text of their values as it was written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members in order, each key once.
pub(super) struct Fields<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                match repeated(&members) {
                    Some(key) => Err(A::Error::custom(format!(
                        "the key `{key}` stands twice: expected each key once"
                    ))),
                    None => Ok(Fields(members)),
                }
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A key that occurs twice. Sorted, so that a line with very many keys costs no square.
fn repeated<'a>(members: &'a [(Cow<'_, str>, &RawValue)]) -> Option<&'a str> {
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    keys.windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
}

/// A key that borrows from the line where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Appends JSON without the whitespace between its tokens. Expects valid JSON.
pub(super) fn push_compact(out: &mut Vec<u8>, json: &str) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    if !json.bytes().any(|byte| is_space(&byte)) {
        return out.extend_from_slice(json.as_bytes());
    }
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else if !is_space(&byte) {
            out.push(byte);
            in_string = byte == b'"';
        }
    }
}

/// Appends a JSON string.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    // Neither writing to a Vec nor serialising a string can fail.
    let _ = serde_json::to_writer(out, text);
}

/// What stands under `$payload` when it wraps a payload.
pub(super) enum Wrapping<'a> {
    Json(&'a RawValue),
    Base64(&'a RawValue),
}

/// Whether a value has the form that wraps a payload: an object with one member, `json` or `base64`.
pub(super) fn wrapping(value: &RawValue) -> Option<Wrapping<'_>> {
    let Fields(members) = serde_json::from_str(value.get()).ok()?;
    match members.as_slice() {
        [(key, value)] if key == "json" => Some(Wrapping::Json(value)),
        [(key, value)] if key == "base64" => Some(Wrapping::Base64(value)),
        _ => None,
    }
}
