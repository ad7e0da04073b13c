//! From an event to a line.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_spi::{Event, ExecutionId};
use serde_json::value::RawValue;

use super::WRAPPED;
use super::fields::{Fields, push_compact, push_string, wrapping};

/// Appends one line, with its newline.
pub(crate) fn write_line(out: &mut Vec<u8>, execution: &ExecutionId, event: &Event) {
    out.extend_from_slice(b"{\"execution\":");
    push_string(out, execution.as_str());
    out.extend_from_slice(b",\"at\":");
    out.extend_from_slice(event.recorded_at.as_millis().to_string().as_bytes());
    out.extend_from_slice(b",\"type\":");
    push_string(out, &event.kind);
    push_payload(out, &event.payload, event.terminal);
    if event.terminal {
        out.extend_from_slice(b",\"last\":true");
    }
    out.extend_from_slice(b"}\n");
}

fn push_payload(out: &mut Vec<u8>, payload: &[u8], terminal: bool) {
    let text = std::str::from_utf8(payload).ok();
    let object = text.and_then(|text| serde_json::from_str::<Fields<'_>>(text).ok());
    if let Some(Fields(members)) = &object
        && !members
            .iter()
            .any(|(key, value)| is_taken(key, value, terminal))
        && !reads_as_wrapped(members)
    {
        for (key, value) in members {
            out.push(b',');
            push_string(out, key);
            out.push(b':');
            push_compact(out, value.get());
        }
        return;
    }
    out.push(b',');
    push_string(out, WRAPPED);
    let json = text.filter(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    if let Some(json) = json {
        out.extend_from_slice(b":{\"json\":");
        push_compact(out, json);
        out.push(b'}');
    } else {
        out.extend_from_slice(b":{\"base64\":\"");
        out.extend_from_slice(STANDARD.encode(payload).as_bytes());
        out.extend_from_slice(b"\"}");
    }
}

/// Whether a member of a payload would be read as something else if it stood in the line.
fn is_taken(key: &str, value: &RawValue, terminal: bool) -> bool {
    match key {
        "execution" | "at" | "type" => true,
        "last" => terminal || value.get() != "false",
        _ => false,
    }
}

fn reads_as_wrapped(members: &[(Cow<'_, str>, &RawValue)]) -> bool {
    matches!(members, [(key, value)] if key == WRAPPED && wrapping(value).is_some())
}
