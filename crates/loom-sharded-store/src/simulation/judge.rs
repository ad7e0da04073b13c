//! Whether one sequential store could have given all the answers.
//!
//! The search for a linearization follows Wing and Gong (1993), with the memory of visited configurations
//! that Lowe (2017) adds.

use std::collections::HashSet;

use super::history::{Answer, Entry, Inner, Request};

/// The sequential store, as far as one execution goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Model {
    events: Vec<u64>,
    closed: bool,
    fence: Option<u64>,
    children: Vec<u64>,
}

impl Model {
    /// The answer to a request, and what the store is afterwards.
    fn answer(&self, request: &Request) -> (Answer, Self) {
        let mut next = self.clone();
        let length = self.events.len() as u64;
        let answer = match request {
            Request::Append { fence, .. } if self.fence.is_some() && *fence < self.fence => {
                Answer::Fenced(self.fence.unwrap_or(0))
            }
            Request::Append { .. } if self.closed => Answer::Closed(length),
            Request::Append { expected, .. } if *expected != length => Answer::Conflict(length),
            Request::Append {
                payload,
                fence,
                terminal,
                ..
            } => {
                next.events.push(*payload);
                next.closed = *terminal;
                next.fence = next.fence.max(*fence);
                Answer::Appended(length + 1)
            }
            Request::Read | Request::Delete { .. } if length == 0 => Answer::NotFound,
            Request::Read => Answer::Events(self.events.clone(), self.closed),
            Request::Head => Answer::Head((length > 0).then_some((length, self.closed))),
            Request::Delete { expected } if expected.is_some_and(|expected| expected != length) => {
                Answer::Conflict(length)
            }
            Request::Delete { .. } => {
                next.events.clear();
                next.closed = false;
                Answer::Deleted(length)
            }
            Request::Acquire => {
                let token = self.fence.map_or(1, |fence| fence + 1);
                next.fence = Some(token);
                Answer::Token(token)
            }
            Request::Record { child } => {
                if !next.children.contains(child) {
                    next.children.push(*child);
                }
                Answer::Recorded
            }
            Request::Children => Answer::Children(self.children.clone()),
            Request::Forget => {
                next.children.clear();
                Answer::Forgot(self.children.len() as u64)
            }
        };
        (answer, next)
    }

    /// What the store is after it gave this answer; none when it could not have.
    fn accept(&self, request: &Request, answer: Option<&Answer>) -> Option<Self> {
        let (would, mut next) = self.answer(request);
        match (request, answer) {
            (_, None) => Some(next),
            // Tokens may skip, never fall back.
            (Request::Acquire, Some(Answer::Token(token))) => {
                next.fence = Some(*token);
                (self.fence < Some(*token)).then_some(next)
            }
            (_, Some(answer)) => (would == *answer).then_some(next),
        }
    }
}

/// Says what no sequential store could have answered.
pub(super) fn judge(history: &Inner, executions: usize) -> Result<(), String> {
    if let Some(first) = history.violations.first() {
        return Err(first.clone());
    }
    for execution in 0..executions {
        let entries: Vec<&Entry> = history
            .entries
            .iter()
            .filter(|entry| entry.execution == execution && !entry.refused)
            .collect();
        let mut search = Search {
            entries: &entries,
            visited: HashSet::default(),
        };
        if entries.len() > 128 {
            return Err(format!(
                "{} operations are too many to judge",
                entries.len()
            ));
        }
        if !search.go(0, &Model::default()) {
            let told: Vec<String> = entries
                .iter()
                .map(|entry| {
                    let (answer, to) = match &entry.answer {
                        Some((answer, to)) => (format!("{answer:?}"), to.to_string()),
                        None => ("unknown".to_owned(), String::new()),
                    };
                    format!("  [{}..{to}] {:?} -> {answer}", entry.from, entry.request)
                })
                .collect();
            return Err(format!(
                "no order explains the answers about execution {execution}:\n{}",
                told.join("\n")
            ));
        }
    }
    judge_listings(history, executions)
}

struct Search<'a> {
    entries: &'a [&'a Entry],
    visited: HashSet<(u128, Model), ahash::RandomState>,
}

impl Search<'_> {
    /// Whether the entries that are not in `done` can follow each other from `model`.
    fn go(&mut self, done: u128, model: &Model) -> bool {
        let left = |place: &usize| done & (1 << place) == 0;
        let answered = |place: &usize| self.entries[*place].answer.is_some();
        let places: Vec<usize> = (0..self.entries.len()).filter(left).collect();
        if !places.iter().any(answered) {
            return true;
        }
        if !self.visited.insert((done, model.clone())) {
            return false;
        }
        // Whatever comes next began before the first of the others was answered.
        let ends = places
            .iter()
            .filter_map(|place| self.entries[*place].answer.as_ref());
        let first_end = ends.map(|(_, to)| *to).min().unwrap_or(u64::MAX);
        for place in places {
            let entry = self.entries[place];
            if entry.from > first_end {
                continue;
            }
            let answer = entry.answer.as_ref().map(|(answer, _)| answer);
            if let Some(next) = model.accept(&entry.request, answer)
                && (answer.is_some() || next != *model)
                && self.go(done | (1 << place), &next)
            {
                return true;
            }
        }
        false
    }
}

/// Each execution at most once, those that were there all the time, and none that never was.
fn judge_listings(history: &Inner, executions: usize) -> Result<(), String> {
    for listing in &history.listings {
        let times = |execution: usize| {
            let listed = listing.executions.iter();
            listed.filter(|(listed, _)| *listed == execution).count()
        };
        for execution in 0..executions {
            let entries = || {
                history
                    .entries
                    .iter()
                    .filter(move |entry| entry.execution == execution)
            };
            let created = |entry: &Entry| {
                matches!(entry.request, Request::Append { expected: 0, .. })
                    && matches!(entry.answer, Some((Answer::Appended(_), to)) if to < listing.from)
            };
            let deleting = |entry: &Entry| {
                matches!(entry.request, Request::Delete { .. }) && entry.from < listing.to
            };
            let creating = |entry: &Entry| {
                matches!(entry.request, Request::Append { expected: 0, .. })
                    && entry.from < listing.to
            };
            let there = entries().any(created) && !entries().any(deleting);
            let acknowledged = entries().filter_map(|entry| match entry.answer {
                Some((Answer::Appended(length), to)) if to < listing.from => Some(length),
                _ => None,
            });
            let least = acknowledged.max().filter(|_| !entries().any(deleting));
            let short = listing
                .executions
                .iter()
                .find(|(listed, length)| *listed == execution && Some(*length) < least);
            if let Some((_, length)) = short {
                return Err(format!(
                    "the listing of [{}..{}] says that execution {execution} has {length} events: expected at least {least:?}",
                    listing.from, listing.to
                ));
            }
            let times = times(execution);
            let wrong = match times {
                0 if there => "left out",
                1 if !entries().any(creating) => "invented",
                0 | 1 => continue,
                _ => "returned twice",
            };
            return Err(format!(
                "the listing of [{}..{}] has {wrong} execution {execution}: {:?}",
                listing.from, listing.to, listing.executions
            ));
        }
    }
    Ok(())
}
