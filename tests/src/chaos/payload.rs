//! Events of which can be told that they are the ones that were sent.

use loom_spi::{Event, NewEvent, RouteHash, Timestamp};

/// The kind of every event.
pub const KIND: &str = "chaos";

/// The tags of the events of an append.
pub fn event_tags(tag: &str, events: u64) -> impl Iterator<Item = String> + '_ {
    (0..events).map(move |number| format!("{tag}/{number}"))
}

/// The event that has a tag, and no other one.
#[must_use]
pub fn event(tag: &str) -> NewEvent {
    NewEvent::new(KIND, payload(tag)).recorded_at(time(tag))
}

/// The tag of a stored event.
///
/// # Errors
/// Where it is not the event that was sent, the difference in words.
pub fn tag_of(event: &Event) -> Result<String, String> {
    let text = std::str::from_utf8(&event.payload)
        .map_err(|error| format!("event {}: {error}", event.sequence))?;
    let tag = text.split('.').next().unwrap_or_default();
    if text != payload(tag) || &*event.kind != KIND || event.recorded_at != time(tag) {
        return Err(format!(
            "event {} is not the one that was sent: {event:?}",
            event.sequence
        ));
    }
    Ok(tag.to_owned())
}

/// Its length and content follow from the tag.
fn payload(tag: &str) -> String {
    let hash = RouteHash::of(tag.as_bytes()).0;
    let filler = usize::try_from(hash % 200).unwrap_or_default();
    format!("{tag}.{}", format!("{hash:016x}").repeat(filler / 16 + 1))
}

fn time(tag: &str) -> Timestamp {
    Timestamp::from_millis(
        i64::from(RouteHash::of(tag.as_bytes()).0.to_le_bytes()[0]) + 1_700_000_000_000,
    )
}
