//! When the executions that are left on the sources of migrating buckets will have ended, judged by the others.

use std::fmt::Write as _;
use std::time::Duration;

use loom_spi::{ExecutionState, LogHead, Timestamp};
use serde::Serialize;

use crate::output::{counted, duration};

/// Lifetimes that are kept at most.
const SAMPLE: usize = 4096;

/// What is to be expected of the open executions on the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Forecast {
    /// Closed ones, which can move at any time.
    closed: u64,
    /// Open ones: without `--live` they stay until they end.
    open: u64,
    /// The time in which nine of ten of the open ones will have ended, if they take as long as others took that were open
    /// for as long. `None` when there is nothing to judge by.
    nine_of_ten_within_ms: Option<u64>,
    /// Open ones that are older than any that has ended: no forecast counts them.
    older_than_any_closed: u64,
}

/// How long executions were open that have ended: all of them, or every so-manieth.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifetimes {
    sample: Vec<u64>,
    seen: u64,
    /// Every 2^`thinned`th is kept.
    thinned: u32,
}

/// What is left on sources.
#[derive(Clone, Debug, Default)]
pub(super) struct Left {
    closed: u64,
    /// Since when the open ones are: a sample of them, as of the lifetimes.
    open: Lifetimes,
}

impl Lifetimes {
    /// Notes an execution that has ended.
    pub(super) fn note(&mut self, head: &LogHead) {
        if head.state == ExecutionState::Closed {
            self.push(between(head.created_at, head.updated_at));
        }
    }

    fn push(&mut self, millis: u64) {
        if self.seen.is_multiple_of(1 << self.thinned) {
            if self.sample.len() == SAMPLE {
                let mut even = false;
                self.sample.retain(|_| {
                    even = !even;
                    even
                });
                self.thinned += 1;
            }
            if self.seen.is_multiple_of(1 << self.thinned) {
                self.sample.push(millis);
            }
        }
        self.seen += 1;
    }
}

impl Left {
    /// Notes an execution on a source.
    pub(super) fn note(&mut self, head: &LogHead, now: Timestamp) {
        match head.state {
            ExecutionState::Closed => self.closed += 1,
            ExecutionState::Open => self.open.push(between(head.created_at, now)),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.closed += other.closed;
        let before = self.open.seen;
        for age in &other.open.sample {
            self.open.push(*age);
        }
        self.open.seen = before + other.open.seen;
    }

    /// Judges the open ones by those that have ended. `None` when nothing is left.
    pub(super) fn forecast(&self, ended: &Lifetimes) -> Option<Forecast> {
        if self.closed + self.open.seen == 0 {
            return None;
        }
        let mut lifetimes = ended.sample.clone();
        lifetimes.sort_unstable();
        let mut rest = Vec::new();
        let mut older = 0;
        for &age in &self.open.sample {
            // Those that were open at this age, and went on.
            let from = lifetimes.partition_point(|lifetime| *lifetime <= age);
            match lifetimes.get(from..).filter(|longer| !longer.is_empty()) {
                Some(longer) => rest.push(nine_of_ten(longer).saturating_sub(age)),
                None => older += 1,
            }
        }
        rest.sort_unstable();
        let of_sample = self.open.sample.len().max(1) as u64;
        Some(Forecast {
            closed: self.closed,
            open: self.open.seen,
            nine_of_ten_within_ms: (!rest.is_empty()).then(|| nine_of_ten(&rest)),
            older_than_any_closed: older * self.open.seen / of_sample,
        })
    }
}

impl Forecast {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "forecast: {} can move now",
            counted(self.closed, "closed execution")
        );
        if self.open == 0 {
            return text;
        }
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ", {} when they end or with --live",
            counted(self.open, "open one")
        );
        if let Some(millis) = self.nine_of_ten_within_ms {
            let within = duration(Duration::from_millis(millis));
            let _ = write!(text, "; judged by the others, 9 of 10 end within {within}");
        }
        if self.older_than_any_closed > 0 {
            let _ = write!(
                text,
                "; {} older than any that has ended",
                match self.older_than_any_closed {
                    1 => "1 is".to_owned(),
                    many => format!("{} are", crate::output::count(many)),
                }
            );
        }
        text
    }
}

/// The least value that nine of ten do not exceed, of sorted ones.
fn nine_of_ten(sorted: &[u64]) -> u64 {
    let rank = (sorted.len() * 9).div_ceil(10).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or_default()
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(from: i64, to: i64) -> LogHead {
        let [from, to] = [from, to].map(Timestamp::from_millis);
        LogHead::new(1, ExecutionState::Closed, from, to)
    }

    fn open(from: i64) -> LogHead {
        let from = Timestamp::from_millis(from);
        LogHead::new(1, ExecutionState::Open, from, from)
    }

    fn ended(lifetimes: impl IntoIterator<Item = i64>) -> Lifetimes {
        let mut all = Lifetimes::default();
        for lifetime in lifetimes {
            all.note(&closed(1000, 1000 + lifetime));
        }
        all
    }

    fn left(now: i64, heads: &[LogHead]) -> Left {
        let mut left = Left::default();
        for head in heads {
            left.note(head, Timestamp::from_millis(now));
        }
        left
    }

    #[test]
    fn an_execution_is_judged_by_those_that_were_open_for_as_long() {
        // Half are over at once. Of those that live longer than 10 ms, nine of ten are over after 100.
        let lifetimes = ended((0..100).map(|_| 5).chain((1..=100).map(|n| 10 + n)));
        let forecast = left(2000, &[open(1980), closed(0, 1)])
            .forecast(&lifetimes)
            .unwrap();
        assert_eq!((forecast.closed, forecast.open), (1, 1));
        // Open for 20 ms: of the ninety that lived longer, the 81st lived for 101.
        assert_eq!(forecast.nine_of_ten_within_ms, Some(81));
        let young = left(2000, &[open(2000)]).forecast(&lifetimes).unwrap();
        assert_eq!(young.nine_of_ten_within_ms, Some(90));
        assert!(
            young.text().contains("9 of 10 end within"),
            "{}",
            young.text()
        );
    }

    #[test]
    fn what_is_older_than_any_that_has_ended_is_said_and_not_forecast() {
        let forecast = left(5000, &[open(0), open(4990)])
            .forecast(&ended([20, 20]))
            .unwrap();
        assert_eq!(forecast.older_than_any_closed, 1);
        assert_eq!(forecast.nine_of_ten_within_ms, Some(10));
        let nothing = left(5000, &[open(0)])
            .forecast(&Lifetimes::default())
            .unwrap();
        assert_eq!(nothing.nine_of_ten_within_ms, None);
        assert!(nothing.text().contains("1 is older"), "{}", nothing.text());
        assert_eq!(left(5000, &[]).forecast(&ended([20])), None);
    }

    #[test]
    fn of_many_a_sample_is_kept_that_is_spread_over_all() {
        let many = ended(0..1_000_000);
        assert!(many.sample.len() <= SAMPLE && many.sample.len() > SAMPLE / 4);
        let mut sorted = many.sample.clone();
        sorted.sort_unstable();
        let middle = sorted[sorted.len() / 2];
        assert!((450_000..550_000).contains(&middle), "{middle}");
        let halves: Vec<_> = [0, 1].map(|_| left(10, &[open(0), open(5)])).into();
        let mut sum = halves[0].clone();
        sum.add(&halves[1]);
        assert_eq!(sum.forecast(&many).unwrap().open, 4);
    }
}
