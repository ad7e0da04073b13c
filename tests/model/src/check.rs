//! The checker: every state that can be reached, breadth first.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_128;

use crate::node::{Context, Pc};
use crate::rule::Rules;
use crate::scenario::Scenario;
use crate::state::{Action, State};
use crate::trace::Trace;
use crate::truth::Violation;

/// How many steps of a node alone are looked at. Far more than any needs that is not going in circles.
const ALONE: usize = 400;
const CIRCLE: Violation = "an operation goes on for ever, though nobody else does anything";

/// What came out.
#[derive(Debug)]
pub struct Report {
    /// States that were reached, twins taken together.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// The number of steps to the farthest.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What went wrong first, and how: no other way is shorter.
    pub violation: Option<Trace>,
}

/// Explores a scenario under some rules until something is wrong or every state is reached.
#[must_use]
pub fn explore(scenario: &Scenario, rules: Rules) -> Report {
    let cx = Context { scenario, rules };
    let mut search = Search::new(cx);
    let started = Instant::now();
    let (violation, depth) = search.run();
    let trace = violation.map(|(at, action, why)| Trace::new(cx, search.path_to(at, action), why));
    Report {
        states: search.reached.len(),
        steps: search.steps,
        depth,
        took: started.elapsed(),
        violation: trace,
    }
}

struct Search<'a> {
    cx: Context<'a>,
    known: HashSet<u128, BuildHasherDefault<Given>>,
    /// For each state, in the order reached, the one before it and what happened.
    reached: Vec<(u32, Action)>,
    /// States of one node and the shards from which the node comes to an end alone.
    ends: HashSet<u128, BuildHasherDefault<Given>>,
    steps: usize,
    bytes: Bytes,
}

impl<'a> Search<'a> {
    fn new(cx: Context<'a>) -> Self {
        Self {
            cx,
            known: HashSet::default(),
            reached: Vec::new(),
            ends: HashSet::default(),
            steps: 0,
            bytes: Bytes::default(),
        }
    }

    fn run(&mut self) -> (Option<(usize, Option<Action>, Violation)>, usize) {
        let first = State::first(&self.cx);
        let fingerprint = self.fingerprint(&first, Turn::default());
        self.known.insert(fingerprint);
        self.reached.push((0, Action::Late));
        let mut layer = vec![(first, Turn::default(), 0)];
        let mut depth = 0;
        let mut actions = Vec::new();
        loop {
            let mut next_layer = Vec::new();
            for (state, turn, at) in &layer {
                state.actions(&self.cx, &mut actions);
                for action in &actions {
                    let Some(mut turn) = turn.after(&self.cx, state, *action) else {
                        continue;
                    };
                    self.steps += 1;
                    let (next, event) = match state.after(&self.cx, *action) {
                        Ok(next) => next,
                        Err((_, why)) => return (Some((*at, Some(*action), why)), depth),
                    };
                    let mut next = next;
                    if let Action::Asks(me) | Action::Loses(me) = action
                        && (event.again || next.nodes[usize::from(*me)].is_at_start())
                        && let Err(why) = self.comes_to_an_end(&next, usize::from(*me))
                    {
                        return (Some((*at, Some(*action), why)), depth);
                    }
                    turn.node = canonical(&self.cx, &mut next, turn.node);
                    let fingerprint = self.fingerprint(&next, turn);
                    if self.known.insert(fingerprint) {
                        let from = u32::try_from(*at).unwrap_or(u32::MAX);
                        next_layer.push((next, turn, self.reached.len()));
                        self.reached.push((from, *action));
                    }
                }
            }
            if next_layer.is_empty() {
                return (None, depth);
            }
            depth += 1;
            layer = next_layer;
        }
    }

    /// Whether a node that has just started again comes to the end of its program when nobody else does anything
    /// any more, be it that they have crashed. One that never does starts again and again, so that it is enough to
    /// look here.
    fn comes_to_an_end(&mut self, state: &State, me: usize) -> Result<(), Violation> {
        let mut state = state.clone();
        let mut met = Vec::new();
        for _ in 0..ALONE {
            if !state.can_step(&self.cx, me) {
                break;
            }
            let node = u8::try_from(me).unwrap_or(u8::MAX);
            // It ends badly where there is no next state, which will be met again in its turn.
            let Ok((next, event)) = state.after(&self.cx, Action::Asks(node)) else {
                break;
            };
            state = next;
            if event.again || state.nodes[me].is_at_start() {
                self.bytes.0.clear();
                state.shards.hash(&mut self.bytes);
                state.nodes[me].hash(&mut self.bytes);
                self.bytes.write_u8(node);
                let key = xxh3_128(&self.bytes.0);
                if met.contains(&key) {
                    return Err(CIRCLE);
                }
                if self.ends.contains(&key) {
                    break;
                }
                met.push(key);
            }
        }
        self.ends.extend(met);
        Ok(())
    }

    fn fingerprint(&mut self, state: &State, turn: Turn) -> u128 {
        self.bytes.0.clear();
        state.shards.hash(&mut self.bytes);
        state.truth.hash(&mut self.bytes);
        for node in &state.nodes[..self.cx.scenario.nodes.len()] {
            if node.pc == Pc::Finished {
                // Nothing else is left of it.
                self.bytes.write_u8(u8::MAX);
                self.bytes.write_u8(node.done);
            } else {
                node.hash(&mut self.bytes);
            }
        }
        state.late.hash(&mut self.bytes);
        self.bytes.write_u8(state.losses);
        turn.hash(&mut self.bytes);
        xxh3_128(&self.bytes.0)
    }

    fn path_to(&self, at: usize, last: Option<Action>) -> Vec<Action> {
        let mut path: Vec<Action> = last.into_iter().collect();
        let mut at = at;
        while at != 0 {
            let (before, action) = self.reached[at];
            path.push(action);
            at = usize::try_from(before).unwrap_or(0);
        }
        path.reverse();
        path
    }
}

/// Brings twins into an order, so that states that differ only in which is which are one. Returns where a node is now.
pub(crate) fn canonical(cx: &Context<'_>, state: &mut State, node: Option<u8>) -> Option<u8> {
    let mut node = node;
    for twins in &cx.scenario.twins {
        let same = |at: u8| twins.contains(&usize::from(at)).then_some(at);
        let followed = node.and_then(same).map(|at| state.nodes[usize::from(at)]);
        state.nodes[twins.clone()].sort_unstable();
        if let Some(followed) = followed {
            // Twins in the same state are the same for all that follows.
            let mut nodes = state.nodes[twins.clone()].iter();
            let at = nodes.position(|node| *node == followed).unwrap_or(0);
            node = u8::try_from(twins.start + at).ok();
        }
    }
    node
}

/// Whose turn it is, where a scenario bounds how often a node is interrupted: a bound on context switches, after Musuvathi
/// and Qadeer, "Iterative context bounding for systematic testing of multithreaded programs" (PLDI 2007).
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Turn {
    node: Option<u8>,
    interruptions: u8,
}

impl Turn {
    /// After an action; `None` if it interrupts a node and none may be interrupted any more.
    fn after(self, cx: &Context<'_>, state: &State, action: Action) -> Option<Self> {
        let (Some(most), Action::Asks(me) | Action::Loses(me)) =
            (cx.scenario.interruptions, action)
        else {
            return Some(self);
        };
        let interrupts = self
            .node
            .is_some_and(|node| node != me && state.can_step(cx, usize::from(node)));
        let interruptions = self.interruptions + u8::from(interrupts);
        (interruptions <= most).then_some(Self {
            node: Some(me),
            interruptions,
        })
    }
}

/// Collects what is hashed, a byte each where the numbers are small.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The discriminant of an enum.
    fn write_isize(&mut self, number: isize) {
        self.0.push(u8::try_from(number).unwrap_or(u8::MAX));
    }

    /// The length of an array.
    fn write_usize(&mut self, number: usize) {
        self.0.push(u8::try_from(number).unwrap_or(u8::MAX));
    }
}

/// For keys that are hashes already.
#[derive(Debug, Default)]
struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9} states, {:>9} steps, depth {:>3}, {:>6.2} s",
            self.states,
            self.steps,
            self.depth,
            self.took.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn report(name: &str, rules: Rules) -> Report {
        let all = crate::scenarios();
        let scenario = all.iter().find(|scenario| scenario.name == name).unwrap();
        explore(scenario, rules)
    }

    #[test]
    fn all_states_are_reached_and_each_is_counted_once() {
        let report = report("absence-is-not-remembered", Rules::all());
        assert!(report.violation.is_none());
        assert!(report.steps >= report.states - 1);
        assert!(report.depth > 0);
        let again = self::report("absence-is-not-remembered", Rules::all());
        assert_eq!((again.states, again.steps), (report.states, report.steps));
    }

    #[test]
    fn twins_are_taken_together() {
        let mut scenarios = crate::scenarios().into_iter();
        let scenario = scenarios.find(|scenario| !scenario.twins.is_empty());
        let mut scenario = scenario.unwrap();
        let together = explore(&scenario, Rules::all()).states;
        scenario.twins.clear();
        let apart = explore(&scenario, Rules::all()).states;
        assert!(together < apart, "{together} {apart}");
        assert!(apart <= 2 * together, "{together} {apart}");
    }

    #[test]
    fn a_node_that_goes_in_circles_is_found() {
        let rules = Rules::all().without(Rule::UnsealReverted);
        let trace = report("begun-then-reverted", rules).violation.unwrap();
        assert_eq!(trace.violation, CIRCLE);
    }
}
