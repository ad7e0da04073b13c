//! What happened, step by step.

use std::fmt;

use crate::check::canonical;
use crate::node::Context;
use crate::state::{Action, Event, State};
use crate::truth::Violation;

/// A shortest way to a violation.
#[derive(Debug)]
pub struct Trace {
    /// What is wrong at the end.
    pub violation: Violation,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(cx: Context<'_>, path: Vec<Action>, violation: Violation) -> Self {
        let mut state = State::first(&cx);
        // Which node stands where, as twins change places.
        let mut places: Vec<usize> = (0..cx.scenario.nodes.len()).collect();
        let mut lines = Vec::new();
        for action in path {
            match state.after(&cx, action) {
                Ok((next, event)) => {
                    lines.push(line(&cx, &state, &places, action, event));
                    for twins in &cx.scenario.twins {
                        let at = twins.start;
                        if next.nodes[at] > next.nodes[at + 1] {
                            places.swap(at, at + 1);
                        }
                    }
                    state = next;
                    canonical(&cx, &mut state, None);
                }
                Err((event, _)) => lines.push(line(&cx, &state, &places, action, event)),
            }
        }
        Self { violation, lines }
    }

    /// The number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the first state is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

fn line(cx: &Context<'_>, state: &State, places: &[usize], action: Action, event: Event) -> String {
    use fmt::Write as _;

    let mut line = String::new();
    let request = event.request;
    let epoch = cx.plan(request.plan).epoch;
    let id = if request.id == 0 { "X" } else { "Y" };
    let what = format!(
        "shard {} (plan {}, epoch {epoch}) {:?} {id}",
        request.shard, request.plan, request.ask
    );
    // Writing to a string does not fail.
    let _ = match action {
        Action::Late => write!(line, "{:<12} {what}", "(late)"),
        Action::Asks(me) | Action::Loses(me) => {
            let me = usize::from(me);
            let name = cx.scenario.nodes[me].name;
            let twin = cx.scenario.twins.iter().any(|twins| twins.contains(&me));
            let name = if twin {
                format!("{name}-{}", places[me])
            } else {
                name.to_owned()
            };
            let op = state.nodes[me].step(cx, me).map(|step| step.op);
            let op = op.map_or_else(String::new, |op| format!("{op:?}"));
            write!(line, "{name:<12} {op:<44} {what}")
        }
    };
    let _ = match (action, event.reply) {
        (Action::Loses(_), _) => write!(line, " → no answer, starts again"),
        (_, Some(reply)) => write!(line, " → {reply:?}"),
        (_, None) => Ok(()),
    };
    if event.again && event.reply.is_some() {
        line.push_str(", starts again");
    }
    if let Some(answer) = event.answer {
        let _ = write!(line, " ⇒ {answer:?}");
    }
    line
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in (1..).zip(&self.lines) {
            writeln!(f, "{number:>4}. {line}")?;
        }
        write!(f, "      {}", self.violation)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Rule, Rules, explore, scenarios};

    #[test]
    fn a_trace_tells_each_step_and_what_is_wrong_at_the_end() {
        let scenario = scenarios()
            .into_iter()
            .find(|scenario| scenario.name == "late-helper")
            .unwrap();
        let rules = Rules::all().without(Rule::DeleteLeavesMark);
        let trace = explore(&scenario, rules).violation.unwrap();
        let text = trace.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), trace.len() + 1);
        assert_eq!(lines.last().map(|line| line.trim()), Some(trace.violation));
        // One twin imports first and the other last, each what it has read itself.
        let by = |what: &str| {
            let those = lines.iter().filter(|line| line.contains(what));
            let names = those.filter_map(|line| line.split_whitespace().nth(1));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let (imports, mut reads) = (by("Import"), by("Fetch"));
        assert_eq!(imports.len(), 2, "{text}");
        assert_ne!(imports[0], imports[1], "{text}");
        reads.reverse();
        assert_eq!(imports, reads, "{text}");
    }
}
