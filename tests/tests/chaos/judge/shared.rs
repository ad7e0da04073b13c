//! An execution that many write at a time: what holds whoever came first.

use std::collections::{HashMap, HashSet};

use loom_tests::chaos::{Op, Outcome, event_tags};

/// Everything that was asked of one execution.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    calls: Vec<Call>,
}

/// Something that was asked, and when.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) begun: u64,
    /// `None` when the process was killed first.
    pub(crate) ended: Option<(u64, Outcome)>,
}

/// An append, with whatever is known of it.
#[derive(Debug)]
struct Append {
    expected: u64,
    token: Option<u64>,
    tags: Vec<String>,
    begun: u64,
    /// When it was acknowledged.
    ended: Option<u64>,
    /// Whether it was refused, so that nothing of it may ever be seen.
    refused: bool,
}

/// A deletion that was acknowledged or may have been made.
#[derive(Debug)]
struct Delete {
    begun: u64,
    ended: Option<u64>,
}

impl Shared {
    pub(crate) fn add(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// Everything that is wrong.
    pub(crate) fn violations(&self) -> Vec<String> {
        let appends: Vec<Append> = self.calls.iter().filter_map(Append::of).collect();
        let deletes: Vec<Delete> = self.calls.iter().filter_map(Delete::of).collect();
        let mut wrong = self.answers();
        wrong.extend(places(&appends, &deletes));
        wrong.extend(self.fences(&appends));
        for call in &self.calls {
            let Some((ended, outcome)) = &call.ended else {
                continue;
            };
            let tags: &[String] = match (&call.op, outcome) {
                (Op::Read { .. }, Outcome::Log { tags, .. }) => tags,
                (Op::Read { .. }, Outcome::Gone) => &[],
                _ => continue,
            };
            let log = Seen {
                tags,
                begun: call.begun,
                ended: *ended,
            };
            wrong.extend(log.violations(&appends, &deletes));
        }
        wrong
    }

    /// Answers that nobody may get.
    fn answers(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for call in &self.calls {
            let Some((_, outcome)) = &call.ended else {
                continue;
            };
            let right = match (&call.op, outcome) {
                (
                    Op::Append {
                        expected, events, ..
                    },
                    Outcome::Next(next),
                ) => *next == expected + events,
                (Op::Append { expected, .. }, Outcome::Conflict { actual }) => actual != expected,
                (Op::Append { token, .. }, Outcome::Fenced { current }) => {
                    token.is_none_or(|token| token < *current)
                }
                (Op::Read { .. }, Outcome::Log { closed, .. }) => !closed,
                (Op::Head { .. }, Outcome::Head { next, closed }) => *next > 0 && !closed,
                (Op::Delete { expected, .. }, Outcome::Removed(events)) => {
                    *events > 0 && expected.is_none_or(|expected| expected == *events)
                }
                (Op::Delete { expected, .. }, Outcome::Conflict { actual }) => {
                    expected.is_some_and(|expected| expected != *actual)
                }
                (Op::Read { .. } | Op::Head { .. } | Op::Delete { .. }, Outcome::Gone)
                | (Op::Move { .. }, Outcome::Done | Outcome::Gone)
                | (Op::Acquire { .. }, Outcome::Token(_)) => true,
                (Op::Children { .. }, Outcome::Children(children)) => children.is_empty(),
                _ => false,
            };
            if !right {
                wrong.push(format!("nobody may be answered so: {call:?}"));
            }
        }
        wrong
    }

    /// A token is higher than all that were handed out before it was asked for, and so is the token of an append.
    fn fences(&self, appends: &[Append]) -> Vec<String> {
        let mut tokens: Vec<(u64, u64, u64)> = Vec::new();
        for call in &self.calls {
            if let (Op::Acquire { .. }, Some((ended, Outcome::Token(token)))) =
                (&call.op, &call.ended)
            {
                tokens.push((call.begun, *ended, *token));
            }
        }
        let mut wrong = Vec::new();
        let mut seen = HashSet::new();
        for (begun, _, token) in &tokens {
            if !seen.insert(*token) {
                wrong.push(format!("token {token} was handed out twice"));
            }
            if let Some((_, _, older)) = tokens
                .iter()
                .find(|(_, ended, other)| ended < begun && other >= token)
            {
                wrong.push(format!("token {token} was handed out after {older}"));
            }
        }
        let used = appends
            .iter()
            .filter_map(|append| Some((append.ended?, append.token?)));
        let handed = tokens.iter().map(|(_, ended, token)| (*ended, *token));
        let known: Vec<(u64, u64)> = used.chain(handed).collect();
        for append in appends.iter().filter(|append| append.ended.is_some()) {
            let newer = known
                .iter()
                .find(|(ended, token)| *ended < append.begun && Some(*token) > append.token);
            if let Some((_, newer)) = newer {
                wrong.push(format!(
                    "an older token was accepted after {newer}: {append:?}"
                ));
            }
        }
        wrong
    }
}

/// No place of a log is given away twice, unless the log was deleted meanwhile.
fn places(appends: &[Append], deletes: &[Delete]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut taken: HashMap<u64, &Append> = HashMap::new();
    if !deletes.is_empty() {
        return wrong;
    }
    for append in appends.iter().filter(|append| append.ended.is_some()) {
        for place in append.expected..append.expected + append.tags.len() as u64 {
            if let Some(other) = taken.insert(place, append) {
                wrong.push(format!("{other:?} and {append:?} have event {place}"));
            }
        }
    }
    wrong
}

/// A log as somebody saw it.
struct Seen<'a> {
    tags: &'a [String],
    begun: u64,
    ended: u64,
}

impl Seen<'_> {
    fn violations(&self, appends: &[Append], deletes: &[Delete]) -> Vec<String> {
        let mut wrong = Vec::new();
        let by_first: HashMap<&str, &Append> = appends
            .iter()
            .filter_map(|append| Some((append.tags.first()?.as_str(), append)))
            .collect();
        let (mut place, mut there, mut token) = (0, HashSet::new(), None);
        while let Some(first) = self.tags.get(place) {
            let Some(append) = by_first.get(first.as_str()) else {
                wrong.push(format!(
                    "event {place}, `{first}`, was sent by nobody, or is torn"
                ));
                break;
            };
            let whole = self.tags.get(place..place + append.tags.len());
            if whole != Some(&append.tags) || append.expected != place as u64 {
                wrong.push(format!(
                    "at {place} in {:?} should be {append:?}",
                    self.tags
                ));
                break;
            }
            if append.refused || append.begun > self.ended {
                wrong.push(format!("seen and never accepted: {append:?}"));
            }
            if append.token < token {
                wrong.push(format!("behind token {token:?} stands {append:?}"));
            }
            token = token.max(append.token);
            // Removed, and there again.
            if let Some(delete) = deletes.iter().find(|delete| {
                append.ended.is_some_and(|ended| ended < delete.begun)
                    && delete.ended.is_some_and(|ended| ended < self.begun)
            }) {
                wrong.push(format!("{append:?} came back after {delete:?}"));
            }
            there.insert(first.as_str());
            place += append.tags.len();
        }
        for append in appends {
            let acknowledged = append.ended.is_some_and(|ended| ended < self.begun);
            let shown = append
                .tags
                .first()
                .is_some_and(|first| there.contains(first.as_str()));
            let explained = deletes.iter().any(|delete| {
                delete.begun <= self.ended && delete.ended.is_none_or(|ended| ended >= append.begun)
            });
            if acknowledged && !shown && !explained {
                wrong.push(format!("lost from {:?}: {append:?}", self.tags));
            }
        }
        wrong
    }
}

impl Append {
    fn of(call: &Call) -> Option<Self> {
        let Op::Append {
            expected,
            token,
            tag,
            events,
            ..
        } = &call.op
        else {
            return None;
        };
        let ended = match &call.ended {
            Some((ended, Outcome::Next(_))) => Some(*ended),
            _ => None,
        };
        Some(Self {
            expected: *expected,
            token: *token,
            tags: event_tags(tag, *events).collect(),
            begun: call.begun,
            ended,
            refused: call.ended.is_some() && ended.is_none(),
        })
    }
}

impl Delete {
    fn of(call: &Call) -> Option<Self> {
        if !matches!(call.op, Op::Delete { .. }) {
            return None;
        }
        let begun = call.begun;
        match &call.ended {
            None => Some(Self { begun, ended: None }),
            Some((ended, Outcome::Removed(_))) => Some(Self {
                begun,
                ended: Some(*ended),
            }),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(at: u64, expected: u64, token: Option<u64>, tag: &str, ended: bool) -> Call {
        let op = Op::Append {
            id: "e".into(),
            expected,
            token,
            tag: tag.into(),
            events: 1,
            terminal: false,
        };
        Call {
            op,
            begun: at,
            ended: ended.then(|| (at + 1, Outcome::Next(expected + 1))),
        }
    }

    fn read(at: u64, tags: &[&str]) -> Call {
        let tags = tags.iter().flat_map(|tag| event_tags(tag, 1)).collect();
        let log = Outcome::Log {
            tags,
            closed: false,
        };
        Call {
            op: Op::Read { id: "e".into() },
            begun: at,
            ended: Some((at + 1, log)),
        }
    }

    fn delete(at: u64, ended: bool) -> Call {
        let op = Op::Delete {
            id: "e".into(),
            expected: None,
        };
        Call {
            op,
            begun: at,
            ended: ended.then(|| (at + 1, Outcome::Removed(1))),
        }
    }

    fn token(at: u64, token: u64) -> Call {
        Call {
            op: Op::Acquire { id: "e".into() },
            begun: at,
            ended: Some((at + 1, Outcome::Token(token))),
        }
    }

    fn sound(calls: impl IntoIterator<Item = Call>) -> bool {
        let calls = calls.into_iter().collect();
        Shared { calls }.violations().is_empty()
    }

    #[test]
    fn an_acknowledged_event_is_there_and_an_unknown_one_may_be() {
        let calls = [
            append(0, 0, None, "a", true),
            append(2, 1, None, "b", false),
        ];
        let with = |seen| calls.iter().cloned().chain([seen]);
        assert!(sound(with(read(10, &["a"]))));
        assert!(sound(with(read(10, &["a", "b"]))));
        for wrong in [&[][..], &["b"], &["a", "c"], &["a", "a"]] {
            assert!(!sound(with(read(10, wrong))), "{wrong:?}");
        }
    }

    #[test]
    fn no_place_is_given_away_twice() {
        assert!(!sound([
            append(0, 0, None, "a", true),
            append(2, 0, None, "b", true)
        ]));
    }

    #[test]
    fn a_delete_explains_what_is_missing_and_forbids_that_it_comes_back() {
        let calls = |ended| [append(0, 0, None, "a", true), delete(4, ended)];
        assert!(sound(calls(true).into_iter().chain([read(10, &[])])));
        assert!(!sound(calls(true).into_iter().chain([read(10, &["a"])])));
        for tags in [&[][..], &["a"]] {
            assert!(sound(calls(false).into_iter().chain([read(10, tags)])));
        }
    }

    #[test]
    fn an_older_token_is_caught() {
        let held = |held| [token(0, 3), append(4, 0, held, "a", true)];
        assert!(sound(held(Some(3))));
        assert!(!sound(held(Some(2))));
        assert!(!sound(held(None)));
        assert!(!sound([token(0, 3), token(4, 3)]));
        assert!(!sound([token(0, 3), token(4, 2)]));
    }
}
