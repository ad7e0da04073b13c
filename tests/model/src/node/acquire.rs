//! Acquiring a fence, and recording an edge, which goes the same way.

use super::{Context, Next, Node, Pc, Via};
use crate::op::{Answer, Op, Step};
use crate::rule::Rule;
use crate::shard::Reply;

impl Node {
    /// Whether a record has to be there.
    pub(super) fn requires_existing(&self, cx: &Context<'_>, step: Step) -> bool {
        let rule = if step.op == Op::Acquire {
            Rule::AcquireRequiresExisting
        } else {
            Rule::LineageRequiresExisting
        };
        match (self.pc, self.via) {
            (Pc::ActAny, _) | (_, Via::Settled) => false,
            // Without a log, this is a question, which cannot be left out.
            (_, Via::Nothing) => true,
            _ => cx.rules.has(rule),
        }
    }

    pub(super) fn acquired(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        match (self.pc, self.via, reply) {
            (_, _, Reply::Token(token)) => {
                self.token = token;
                Next::Over(Answer::Done)
            }
            (_, _, Reply::Done) => Next::Over(Answer::Done),
            (Pc::Act, Via::Nothing, Reply::NotFound | Reply::Sealed) => {
                self.on_dst.sealed = reply == Reply::Sealed;
                if cx.rules.has(Rule::AcquireAsksSource) {
                    self.go(Pc::ActSrc)
                } else {
                    self.go(Pc::ActAny)
                }
            }
            (Pc::ActSrc, _, Reply::NotFound) if self.on_dst.sealed => self.unseal_reverted(cx),
            (Pc::ActSrc, _, Reply::NotFound) => self.go(Pc::ActAny),
            (Pc::ActSrc, _, Reply::Sealed) => self.finish_move(cx),
            (Pc::ActAny, _, _) => Next::Again,
            _ => self.not_there(cx, step, reply),
        }
    }
}
