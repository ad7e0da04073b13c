//! How a graph file says that nodes are run.

use std::time::Duration;

use loom_graph_executor::{OnFailure, Retry};
use toml::Spanned;

use crate::failure::Failure;
use crate::source::Source;

/// The most that `retries` may be.
const MOST_RETRIES: i64 = 1000;
/// The longest time that may stand in a graph file: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How one node is run. No part of what it does: it may be changed between two runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
}

/// `settle-all`, which is also called `skip-dependents`, or `fail-fast`.
pub(super) fn on_failure(source: &Source, text: &Spanned<String>) -> Result<OnFailure, Failure> {
    match text.get_ref().as_str() {
        "settle-all" | "skip-dependents" => Ok(OnFailure::SettleAll),
        "fail-fast" => Ok(OnFailure::FailFast),
        other => {
            let message = format!(
                "`on_failure` is `{other}`: expected `settle-all`, `skip-dependents` (the same) or `fail-fast`"
            );
            Err(source.fault(text.span(), &message))
        }
    }
}

/// `timeout = "90s"`.
pub(super) fn timeout(
    source: &Source,
    node: &str,
    value: &Spanned<toml::Value>,
) -> Result<Duration, Failure> {
    match time(value.get_ref()) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => {
            let message = format!(
                "`timeout` of node `{node}`: expected a time above 0, in quotes and with a unit: {TIME}"
            );
            Err(source.fault(value.span(), &message))
        }
    }
}

/// `retries = 3`, or `retries = { max = 3, base = "1s", cap = "1m" }`.
pub(super) fn retries(
    source: &Source,
    node: &str,
    value: &Spanned<toml::Value>,
) -> Result<Retry, Failure> {
    let fault = |message: &str| {
        source.fault(
            value.span(),
            &format!("`retries` of node `{node}`: {message}"),
        )
    };
    let (max, times) = match value.get_ref() {
        toml::Value::Integer(max) => (Some(*max), None),
        toml::Value::Table(table) => {
            let known = ["max", "base", "cap"];
            if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
                return Err(fault(&format!(
                    "unknown key `{key}`: expected `max`, `base` and `cap`"
                )));
            }
            (
                table.get("max").and_then(toml::Value::as_integer),
                Some(table),
            )
        }
        _ => (None, None),
    };
    let attempts = max
        .filter(|max| (0..=MOST_RETRIES).contains(max))
        .and_then(|max| u32::try_from(max + 1).ok());
    let Some(attempts) = attempts else {
        return Err(fault(&format!(
            "expected a number from 0 to {MOST_RETRIES}, or {{ max = NUMBER, base = TIME, cap = TIME }}"
        )));
    };
    let retry = Retry::attempts(attempts);
    let read = |key: &str, default: Duration| match times.and_then(|table| table.get(key)) {
        None => Ok(default),
        Some(value) => {
            time(value).ok_or_else(|| fault(&format!("`{key}` is no time: expected {TIME}")))
        }
    };
    let base = read("base", retry.base)?;
    let cap = read("cap", retry.cap.max(base))?;
    if cap < base {
        return Err(fault("`cap` is less than `base`: expected no less"));
    }
    Ok(retry.with_backoff(base, cap))
}

const TIME: &str = "\"500ms\", \"90s\", \"5m\" or \"2h\"";

/// A whole number and a unit. A number alone is refused: nobody would agree on its unit.
fn time(value: &toml::Value) -> Option<Duration> {
    let text = value.as_str()?;
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    let time = Duration::from_millis(number.checked_mul(milliseconds)?);
    (time <= LONGEST).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_and_a_unit() {
        let time = |text: &str| time(&toml::Value::String(text.to_owned()));
        assert_eq!(time("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(time("90s"), Some(Duration::from_secs(90)));
        assert_eq!(time("5m"), Some(Duration::from_secs(300)));
        assert_eq!(time("2h"), Some(Duration::from_secs(7200)));
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "1d",
            "1S",
            "99999999999999999999s",
            "999999h",
            "1é",
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }
}
