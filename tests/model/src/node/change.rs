//! The operation itself, on the side that was found.

use super::{Cached, Context, Next, Node, Pc, Via};
use crate::op::{Answer, Op, Step};
use crate::rule::Rule;
use crate::shard::{Ask, Reply};

impl Node {
    pub(super) fn act(&self, cx: &Context<'_>, step: Step) -> Ask {
        let exists = self.requires_existing(cx, step);
        let migrating = self.via != Via::Settled;
        match step.op {
            Op::Create { event, fenced } => self.append(0, event, fenced),
            Op::Append { at, event, fenced } => self.append(at, event, fenced),
            Op::Delete => Ask::Delete {
                mark: migrating && cx.rules.has(Rule::DeleteLeavesMark),
            },
            Op::Forget => Ask::Forget {
                mark: migrating && cx.rules.has(Rule::ForgetLeavesMark),
            },
            Op::Acquire => Ask::Acquire { exists },
            Op::Edge(edge) => Ask::Edge { edge, exists },
            Op::Children => Ask::Children,
            _ => Ask::Read,
        }
    }

    fn append(&self, expected: u32, event: u8, fenced: bool) -> Ask {
        Ask::Append {
            expected,
            // What is tried again is told from what may still be on its way.
            event: event + if self.unknown { 8 } else { 0 },
            token: if fenced { self.token } else { 0 },
        }
    }

    pub(super) fn acted(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        if reply == Reply::Sealed && self.via == Via::Settled {
            return if cx.rules.has(Rule::UnsealSettled) {
                self.go(Pc::Unseal)
            } else {
                Next::Again
            };
        }
        match (step.op, reply) {
            (Op::Acquire | Op::Edge(_), _) => self.acquired(cx, step, reply),
            (Op::Read, Reply::Log { log, sealed }) => {
                if sealed && self.via == Via::Cache && cx.rules.has(Rule::CacheRechecked) {
                    return self.forget_cached(step);
                }
                Next::Over(Answer::Log(log))
            }
            (Op::Children, Reply::Edges(edges)) => Next::Over(Answer::Edges(edges)),
            (Op::Delete | Op::Forget, Reply::Done) if self.turn == 1 => self.go(Pc::RetireLate),
            (_, Reply::Done) => {
                if matches!(step.op, Op::Create { .. }) && self.via != Via::Settled {
                    self.cache[step.id] = Cached::On(self.at);
                }
                Next::Over(Answer::Done)
            }
            (_, Reply::Fenced) => Next::Over(Answer::Fenced),
            _ => self.not_there(cx, step, reply),
        }
    }

    /// Not found, sealed or a conflict: a move could be the reason.
    pub(super) fn not_there(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        let believed = match self.via {
            Via::Cache => !cx.rules.has(Rule::CacheRechecked),
            Via::Source => self.doubted || !cx.rules.has(Rule::SourceDoubtedOnce),
            Via::Destination | Via::Nothing | Via::Settled => true,
        };
        let answer = match (step.op, reply) {
            (_, Reply::Sealed) | (Op::Acquire | Op::Edge(_), _) if self.via != Via::Cache => {
                return self.forget_cached(step);
            }
            (Op::Acquire | Op::Edge(_), _) | (_, Reply::Sealed) => Answer::Stuck("it is sealed"),
            (Op::Forget, _) => Answer::Done,
            (_, Reply::Conflict) => Answer::Conflict,
            _ => Answer::NotFound,
        };
        if believed {
            return Next::Over(answer);
        }
        let doubted = self.via == Via::Source;
        let next = self.forget_cached(step);
        self.doubted = doubted;
        next
    }

    /// Resolves anew.
    fn forget_cached(&mut self, step: Step) -> Next {
        self.cache[step.id] = Cached::Unknown;
        self.via = Via::Nothing;
        self.at = 0;
        if self.src == self.dst {
            return Next::Again;
        }
        self.go(Pc::LookDst)
    }
}
