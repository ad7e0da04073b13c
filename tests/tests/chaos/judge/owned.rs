//! An execution that one lane writes: what it may be is known exactly, but for the operation that a process was
//! killed in.

use loom_tests::chaos::{Op, Outcome, child_id, event_tags};

/// All that an execution may be. More than one where a process was killed.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    states: Vec<State>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    log: Option<Log>,
    fence: Option<Fence>,
    children: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Log {
    tags: Vec<String>,
    closed: bool,
}

/// The highest token that was handed out or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    token: u64,
    /// Whether it is this one, or this one is the least that it may be: nobody was told.
    exact: bool,
}

impl Default for Owned {
    fn default() -> Self {
        Self {
            states: vec![State::default()],
        }
    }
}

impl Owned {
    /// Takes what came of an operation into account. An error says what was expected.
    pub(crate) fn ended(&mut self, op: &Op, outcome: &Outcome) -> Result<(), String> {
        let after: Vec<State> = self
            .states
            .iter()
            .filter_map(|state| state.after(op, outcome))
            .collect();
        self.replace(after)
            .map_err(|states| format!("it has to be one of {states:?}"))
    }

    /// The process was killed in this operation.
    pub(crate) fn interrupted(&mut self, op: &Op) {
        let done = self.states.iter().flat_map(|state| state.possible(op));
        let mut states: Vec<State> = done.collect();
        states.extend(self.states.iter().cloned());
        // There is at least what was there before.
        let _ = self.replace(states);
    }

    /// A listing showed it like this, or did not show it.
    pub(crate) fn listed(&mut self, shown: Option<(u64, bool)>) -> Result<(), String> {
        let fits = |state: &&State| {
            let log = state.log.as_ref();
            log.map(|log| (log.len(), log.closed)) == shown
        };
        let states = self.states.iter().filter(fits).cloned().collect();
        self.replace(states)
            .map_err(|states| format!("it has to be one of {states:?}"))
    }

    fn replace(&mut self, states: Vec<State>) -> Result<(), Vec<State>> {
        let mut distinct = Vec::with_capacity(states.len());
        for state in states {
            if !distinct.contains(&state) {
                distinct.push(state);
            }
        }
        if distinct.is_empty() {
            return Err(self.states.clone());
        }
        self.states = distinct;
        Ok(())
    }
}

impl Log {
    fn len(&self) -> u64 {
        self.tags.len() as u64
    }
}

impl State {
    fn len(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::len)
    }

    /// The state after an operation of which that came; `None` if it cannot have come of it.
    fn after(&self, op: &Op, outcome: &Outcome) -> Option<Self> {
        match (op, outcome) {
            (Op::Append { .. }, _) => self.after_append(op, outcome),
            (Op::Acquire { .. }, Outcome::Token(token)) => {
                let higher = self.fence.is_none_or(|fence| *token > fence.token);
                higher.then(|| self.with_fence(*token, true))
            }
            (Op::Delete { expected, .. }, _) => {
                let outcome_if = |outcome_is: Outcome| *outcome == outcome_is;
                match (&self.log, expected) {
                    (None, _) => outcome_if(Outcome::Gone).then(|| self.clone()),
                    (Some(log), Some(expected)) if *expected != log.len() => {
                        let actual = log.len();
                        outcome_if(Outcome::Conflict { actual }).then(|| self.clone())
                    }
                    (Some(log), _) => {
                        outcome_if(Outcome::Removed(log.len())).then(|| self.without_log())
                    }
                }
            }
            (Op::Edge { child, .. }, Outcome::Done) => Some(self.with_child(child)),
            (Op::Forget { .. }, Outcome::Removed(edges)) => {
                (*edges == self.children.len() as u64).then(|| self.without_children())
            }
            _ => self.says(op, outcome).then(|| self.clone()),
        }
    }

    /// Whether something that changes nothing may come of `op`.
    fn says(&self, op: &Op, outcome: &Outcome) -> bool {
        match (op, outcome) {
            (Op::Read { .. } | Op::Head { .. }, Outcome::Gone) => self.log.is_none(),
            (Op::Read { .. }, Outcome::Log { tags, closed }) => self
                .log
                .as_ref()
                .is_some_and(|log| log.tags == *tags && log.closed == *closed),
            (Op::Head { .. }, Outcome::Head { next, closed }) => self
                .log
                .as_ref()
                .is_some_and(|log| log.len() == *next && log.closed == *closed),
            (Op::Children { .. }, Outcome::Children(children)) => *children == self.children,
            (Op::Parent { child }, Outcome::Parent(parent)) => {
                parent.is_some() == self.children.contains(child)
                    && parent
                        .as_deref()
                        .is_none_or(|parent| child.starts_with(parent))
            }
            (Op::Move { .. }, Outcome::Done) => true,
            // A fence or a branch alone may be moved too, where the bucket migrates.
            (Op::Move { .. }, Outcome::Gone) => self.log.is_none(),
            _ => false,
        }
    }

    /// In the order in which a store checks: fence, closed, sequence.
    fn after_append(&self, op: &Op, outcome: &Outcome) -> Option<Self> {
        let Op::Append {
            expected, token, ..
        } = op
        else {
            return None;
        };
        if let Outcome::Fenced { current } = outcome {
            let fence = self.fence?;
            let right = if fence.exact {
                *current == fence.token
            } else {
                *current >= fence.token
            };
            let older = token.is_none_or(|token| token < *current);
            return (right && older).then(|| self.with_fence(*current, true));
        }
        if self.refuses(*token) {
            return None;
        }
        let next = self.len();
        match &self.log {
            Some(log) if log.closed => (*outcome == Outcome::Closed { next }).then(|| self.clone()),
            _ if *expected != next => {
                (*outcome == Outcome::Conflict { actual: next }).then(|| self.clone())
            }
            _ => {
                let after = self.appended(op);
                (*outcome == Outcome::Next(after.len())).then_some(after)
            }
        }
    }

    /// Whether a writer with this token is certainly fenced out.
    fn refuses(&self, token: Option<u64>) -> bool {
        self.fence
            .is_some_and(|fence| token.is_none_or(|token| token < fence.token))
    }

    /// What may be after an operation of which nobody was told.
    fn possible(&self, op: &Op) -> Option<Self> {
        match op {
            Op::Append {
                expected, token, ..
            } => {
                let closed = self.log.as_ref().is_some_and(|log| log.closed);
                let accepted = !self.refuses(*token) && !closed && *expected == self.len();
                accepted.then(|| self.appended(op))
            }
            Op::Acquire { .. } => {
                let least = self.fence.map_or(0, |fence| fence.token + 1);
                Some(self.with_fence(least, false))
            }
            Op::Delete { expected, .. } => {
                let right = expected.is_none_or(|expected| expected == self.len());
                right.then(|| self.without_log())
            }
            Op::Edge { child, .. } => Some(self.with_child(child)),
            Op::Forget { .. } => Some(self.without_children()),
            _ => None,
        }
    }

    fn appended(&self, op: &Op) -> Self {
        let mut after = self.clone();
        if let Op::Append {
            token,
            tag,
            events,
            terminal,
            ..
        } = op
        {
            let log = after.log.get_or_insert_with(|| Log {
                tags: Vec::new(),
                closed: false,
            });
            log.tags.extend(event_tags(tag, *events));
            log.closed = *terminal;
            if let Some(token) = *token {
                after = after.with_fence(token, true);
            }
        }
        after
    }

    fn with_fence(&self, token: u64, exact: bool) -> Self {
        let fence = Some(Fence { token, exact });
        Self {
            fence,
            ..self.clone()
        }
    }

    /// The fence and the branches stay.
    fn without_log(&self) -> Self {
        Self {
            log: None,
            ..self.clone()
        }
    }

    fn without_children(&self) -> Self {
        Self {
            children: Vec::new(),
            ..self.clone()
        }
    }

    fn with_child(&self, child: &str) -> Self {
        let mut after = self.clone();
        if !after.children.iter().any(|known| known == child) {
            after.children.push(child.to_owned());
        }
        after
    }
}

/// What a process is asked in the end of an execution, so that nothing of it goes unseen. `write` also finds out
/// about its fence.
pub(crate) fn questions(id: &str, children: u64, write: bool) -> Vec<Op> {
    let id = || id.to_owned();
    let mut ops = vec![
        Op::Read { id: id() },
        Op::Head { id: id() },
        Op::Children { parent: id() },
    ];
    ops.extend((0..children).map(|number| Op::Parent {
        child: child_id(&id(), number),
    }));
    if write {
        ops.push(Op::Acquire { id: id() });
        ops.push(Op::Append {
            id: id(),
            expected: 1_000_000,
            token: None,
            tag: format!("last-{}", id()),
            events: 1,
            terminal: false,
        });
        ops.push(Op::Read { id: id() });
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "e";

    fn append(expected: u64, token: Option<u64>, tag: &str) -> Op {
        Op::Append {
            id: ID.into(),
            expected,
            token,
            tag: tag.into(),
            events: 2,
            terminal: false,
        }
    }

    fn log(tags: &[&str]) -> Outcome {
        let tags = tags.iter().flat_map(|tag| event_tags(tag, 2)).collect();
        Outcome::Log {
            tags,
            closed: false,
        }
    }

    fn read() -> Op {
        Op::Read { id: ID.into() }
    }

    fn written() -> Owned {
        let mut owned = Owned::default();
        owned
            .ended(&append(0, None, "a"), &Outcome::Next(2))
            .unwrap();
        owned
    }

    #[test]
    fn what_was_acknowledged_has_to_be_there_and_nothing_else() {
        assert!(written().ended(&read(), &log(&["a"])).is_ok());
        for wrong in [log(&[]), log(&["b"]), log(&["a", "a"]), Outcome::Gone] {
            assert!(written().ended(&read(), &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_append_that_was_interrupted_is_there_or_not_but_for_good() {
        let mut owned = written();
        owned.interrupted(&append(2, None, "b"));
        assert!(owned.clone().ended(&read(), &log(&["b"])).is_err());
        let mut there = owned.clone();
        there.ended(&read(), &log(&["a", "b"])).unwrap();
        assert!(there.ended(&read(), &log(&["a"])).is_err());
        owned.ended(&read(), &log(&["a"])).unwrap();
        assert!(owned.ended(&read(), &log(&["a", "b"])).is_err());
    }

    #[test]
    fn a_delete_that_was_interrupted_explains_a_missing_log() {
        let mut owned = written();
        let delete = Op::Delete {
            id: ID.into(),
            expected: Some(2),
        };
        owned.interrupted(&delete);
        assert!(owned.clone().ended(&read(), &Outcome::Gone).is_ok());
        assert!(owned.ended(&read(), &log(&["a"])).is_ok());
    }

    #[test]
    fn an_older_token_is_refused_and_a_newer_one_is_higher() {
        let acquire = Op::Acquire { id: ID.into() };
        let mut owned = written();
        owned.ended(&acquire, &Outcome::Token(3)).unwrap();
        assert!(owned.clone().ended(&acquire, &Outcome::Token(3)).is_err());
        for older in [None, Some(2)] {
            let mut owned = owned.clone();
            let accepted = owned.ended(&append(2, older, "b"), &Outcome::Next(4));
            assert!(accepted.is_err());
        }
        let fenced = Outcome::Fenced { current: 3 };
        assert!(owned.ended(&append(2, None, "b"), &fenced).is_ok());
        assert!(
            owned
                .ended(&append(2, Some(3), "b"), &Outcome::Next(4))
                .is_ok()
        );
    }

    #[test]
    fn a_token_of_which_nobody_was_told_may_fence_out() {
        let mut owned = written();
        owned.interrupted(&Op::Acquire { id: ID.into() });
        let fenced = Outcome::Fenced { current: 1 };
        assert!(owned.clone().ended(&append(2, None, "b"), &fenced).is_ok());
        assert!(
            owned
                .ended(&append(2, None, "b"), &Outcome::Next(4))
                .is_ok()
        );
    }

    #[test]
    fn branches_are_all_there_in_order() {
        let mut owned = Owned::default();
        for child in ["e+0", "e+1"] {
            let edge = Op::Edge {
                parent: ID.into(),
                child: child.into(),
            };
            owned.ended(&edge, &Outcome::Done).unwrap();
        }
        let children = Op::Children { parent: ID.into() };
        let mut says = |names: &[&str]| {
            let names = names.iter().copied().map(String::from).collect();
            owned.ended(&children, &Outcome::Children(names)).is_ok()
        };
        assert!(says(&["e+0", "e+1"]));
        assert!(!says(&["e+1", "e+0"]));
    }
}
