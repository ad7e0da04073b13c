//! What has happened, whoever knows of it: the judge of what nodes are told.

use crate::node::{Context, Judge, Node};
use crate::op::{Answer, Op, Step};
use crate::plan::IDS;
use crate::seq::Seq;
use crate::shard::{Ask, Record, Reply};

/// What is wrong.
pub(crate) type Violation = &'static str;

/// The state of the executions as one store would have it. An operation takes effect when a shard takes it,
/// which is before its caller is told: what holds of it holds of what was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Truth {
    pub(crate) logs: [Seq; IDS],
    pub(crate) edges: [Seq; IDS],
    /// The highest token handed out.
    pub(crate) tokens: [u8; IDS],
    /// Events that were deleted, and edges that were forgotten, as sets.
    pub(crate) dead_events: u16,
    pub(crate) dead_edges: u16,
}

impl Truth {
    /// Takes note of what a shard did. `after` is its record now.
    pub(crate) fn observe(
        &mut self,
        id: usize,
        ask: Ask,
        reply: Reply,
        after: &Record,
    ) -> Result<(), Violation> {
        match (ask, reply) {
            (Ask::Append { event, token, .. }, Reply::Done) => {
                let log = self.logs[id].with(event);
                if after.log != log {
                    return Err("an append to a copy that is not the whole log");
                }
                if token < self.tokens[id] {
                    return Err("an older token was accepted after a newer one was handed out");
                }
                self.logs[id] = log;
                self.dead_events &= !(1 << event);
            }
            (Ask::Delete { .. }, Reply::Done) => {
                self.dead_events |= self.logs[id].set();
                self.logs[id] = Seq::EMPTY;
            }
            (Ask::Acquire { .. }, Reply::Token(token)) => {
                if token <= self.tokens[id] {
                    return Err("a token that is not above every earlier one");
                }
                self.tokens[id] = token;
            }
            (Ask::Edge { edge, .. }, Reply::Done) => {
                self.edges[id] = self.edges[id].merged(Seq::of(&[edge]));
                self.dead_edges &= !(1 << edge);
            }
            (Ask::Forget { .. }, Reply::Done) => {
                self.dead_edges |= self.edges[id].set();
                self.edges[id] = Seq::EMPTY;
            }
            _ => {}
        }
        Ok(())
    }

    /// What an operation that begins now has to be judged by.
    pub(crate) fn begin(&self, step: Step) -> Judge {
        let mut judge = Judge {
            begun: true,
            ..Judge::default()
        };
        match step.op {
            Op::Read | Op::List => (judge.had, judge.dead) = (self.logs, self.dead_events),
            Op::Children => (judge.had, judge.dead) = (self.edges, self.dead_edges),
            _ => {}
        }
        if step.op != Op::List {
            judge.had[1 - step.id] = Seq::EMPTY;
        }
        self.note(step, &mut judge, false);
        judge
    }

    /// Takes note of a moment of the call.
    pub(crate) fn note(&self, step: Step, judge: &mut Judge, removed: bool) {
        match step.op {
            Op::Read | Op::List | Op::Delete => {
                for (id, log) in self.logs.iter().enumerate() {
                    if log.is_empty() && (id == step.id || step.op == Op::List) {
                        judge.absent |= 1 << id;
                    }
                }
                judge.removed |= removed && step.op != Op::Delete;
            }
            Op::Children => judge.removed |= removed,
            _ => {}
        }
        if let Some(expected) = step.op.expected() {
            judge.differed |= self.logs[step.id].len() != expected;
        }
    }

    /// Judges what the caller is told.
    pub(crate) fn judge(
        &self,
        cx: &Context<'_>,
        node: &Node,
        step: Step,
        answer: Answer,
    ) -> Result<(), Violation> {
        let judge = &node.judge;
        let absent = |id: usize| judge.absent >> id & 1 == 1;
        match answer {
            Answer::Stuck(why) => return Err(why),
            Answer::NotFound if !absent(step.id) && !node.unknown => {
                return Err("not found, though it existed all along");
            }
            Answer::Conflict if !judge.differed && !node.unknown => {
                return Err("a conflict, though the log had the expected length all along");
            }
            Answer::Fenced if self.tokens[step.id] <= token(node, step) => {
                return Err("fenced out, though no newer token was handed out");
            }
            Answer::Refused if !matches!(step.op, Op::Publish(_)) && node.plan != 0 => {
                return Err("refused, though it follows the plan");
            }
            Answer::Log(log) => complete(judge, step.id, log, false)?,
            Answer::Edges(edges) => complete(judge, step.id, edges, true)?,
            Answer::List(logs) => {
                for (id, log) in logs.into_iter().enumerate().take(cx.scenario.ids) {
                    if !log.is_empty() {
                        complete(judge, id, log, false)?;
                    } else if !absent(id) {
                        return Err("a listing misses an execution that existed all along");
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn token(node: &Node, step: Step) -> u8 {
    match step.op {
        Op::Create { fenced: true, .. } | Op::Append { fenced: true, .. } => node.token,
        _ => 0,
    }
}

/// Whether what was read was true at some moment of the call.
fn complete(judge: &Judge, id: usize, read: Seq, edges: bool) -> Result<(), Violation> {
    let had = judge.had[id];
    if !judge.removed {
        if had.set() & !read.set() != 0 {
            return Err(if edges {
                "an edge that was recorded is not there"
            } else {
                "an event that was acknowledged is not there"
            });
        }
        let kept = read.items().filter(|item| had.contains(*item));
        if !kept.eq(had.items()) || (!edges && !read.starts_with(had)) {
            return Err("what was read is in another order");
        }
    }
    if read.set() & judge.dead != 0 {
        return Err("what was removed is there again");
    }
    Ok(())
}
