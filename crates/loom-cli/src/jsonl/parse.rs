//! From a line to an event.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use loom_spi::{ExecutionId, Timestamp};
use serde::Deserialize as _;
use serde_json::value::RawValue;

use super::fields::{Fields, Wrapping, push_compact, push_string, wrapping};
use super::{Line, WRAPPED};

/// What is wrong with a line, and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// From 1, in bytes, where it is known.
    pub(crate) column: Option<usize>,
    pub(crate) message: String,
}

impl BadLine {
    fn new(message: impl Into<String>) -> Self {
        Self {
            column: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for BadLine {
    /// With the column in front, to be put behind `file:line:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.column {
            write!(f, "{column}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl Line {
    /// Reads one line.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, BadLine> {
        let text = std::str::from_utf8(line).map_err(|error| BadLine {
            column: Some(error.valid_up_to() + 1),
            message: "expected UTF-8".to_owned(),
        })?;
        let Fields(members) = parse_object(text)?;
        let (mut execution, mut at, mut kind, mut last) = (None, None, None, false);
        let mut payload = Vec::with_capacity(text.len());
        let mut alone = None;
        for (key, value) in &members {
            match key.as_ref() {
                "execution" => execution = Some(read_id(value)?),
                "at" => at = Some(read_time(value)?),
                "type" => kind = Some(read_string("type", value)?),
                // `"last": false` is an ordinary member, so that it comes back as it was.
                "last" if read_last(value)? => last = true,
                key => {
                    alone = payload.is_empty().then_some((key, *value));
                    payload.push(if payload.is_empty() { b'{' } else { b',' });
                    push_string(&mut payload, key);
                    payload.push(b':');
                    push_compact(&mut payload, value.get());
                }
            }
        }
        if payload.is_empty() {
            payload.push(b'{');
        }
        payload.push(b'}');
        if let Some((WRAPPED, value)) = alone
            && let Some(wrapped) = unwrap(value)?
        {
            payload = wrapped;
        }
        let missing = |key| BadLine::new(format!("expected a key `{key}`"));
        let kind = kind.ok_or_else(|| missing("type"))?;
        Ok(Self {
            execution: execution.ok_or_else(|| missing("execution"))?,
            at: at.ok_or_else(|| missing("at"))?,
            kind: kind.as_ref().into(),
            last,
            payload: Bytes::from(payload),
        })
    }
}

fn parse_object(text: &str) -> Result<Fields<'_>, BadLine> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = Fields::deserialize(&mut deserializer);
    fields
        .and_then(|fields| deserializer.end().map(|()| fields))
        .map_err(|error| {
            // serde_json ends its messages with a place that counts lines from the start of this one.
            let full = error.to_string();
            let message = full.split(" at line ").next().unwrap_or(&full);
            let message = if error.is_data() {
                message.to_owned()
            } else {
                format!("not valid JSON ({message}): expected one JSON object")
            };
            BadLine {
                column: Some(error.column().max(1)),
                message,
            }
        })
}

fn read_string<'a>(key: &str, value: &'a RawValue) -> Result<Cow<'a, str>, BadLine> {
    let text = value.get();
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        _ => serde_json::from_str::<String>(text)
            .map(Cow::Owned)
            .map_err(|_| BadLine::new(format!("`{key}` is {}: expected a string", shorten(text)))),
    }
}

fn read_id(value: &RawValue) -> Result<ExecutionId, BadLine> {
    let text = read_string("execution", value)?;
    ExecutionId::new(text.as_ref()).map_err(|error| BadLine::new(format!("`execution`: {error}")))
}

fn read_time(value: &RawValue) -> Result<Timestamp, BadLine> {
    let text = value.get();
    text.parse().map(Timestamp::from_millis).map_err(|_| {
        BadLine::new(format!(
            "`at` is {}: expected whole milliseconds since 1970",
            shorten(text)
        ))
    })
}

fn read_last(value: &RawValue) -> Result<bool, BadLine> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(BadLine::new(format!(
            "`last` is {}: expected true or false",
            shorten(other)
        ))),
    }
}

/// The bytes of a wrapped payload; `None` when the value is not the form that wraps.
fn unwrap(value: &RawValue) -> Result<Option<Vec<u8>>, BadLine> {
    match wrapping(value) {
        Some(Wrapping::Json(json)) => {
            let mut bytes = Vec::new();
            push_compact(&mut bytes, json.get());
            Ok(Some(bytes))
        }
        Some(Wrapping::Base64(text)) => {
            let text = read_string("base64", text)?;
            STANDARD.decode(text.as_ref()).map(Some).map_err(|error| {
                BadLine::new(format!(
                    "`{WRAPPED}` is no base64 ({error}): expected RFC 4648"
                ))
            })
        }
        None => Ok(None),
    }
}

/// A value as it goes into a message.
fn shorten(text: &str) -> String {
    const MOST: usize = 40;
    let mut short: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}
