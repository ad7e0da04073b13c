//! Finding out where an execution is, and what to do there.

use super::{Cached, Context, Next, Node, Pc, Via};
use crate::op::{Answer, Op, Step};
use crate::rule::Rule;
use crate::shard::{Reply, Seen};

/// The copy that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Destination,
    Source,
    SealedDestination,
    SealedSource,
    Nothing,
}

impl Node {
    pub(super) fn looked(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        let Reply::Seen(seen) = reply else {
            return Next::Again;
        };
        match self.pc {
            Pc::LookDst => {
                self.on_dst = seen;
                let ends = seen.log && !seen.sealed && !matches!(step.op, Op::Delete | Op::Forget);
                if !ends {
                    return self.go(Pc::LookSrc);
                }
            }
            Pc::LookSrc => {
                self.on_src = seen;
                let nothing = if step.op == Op::Forget {
                    !self.on_dst.exists && !seen.exists
                } else {
                    !self.on_dst.log && !seen.log
                };
                if nothing && cx.rules.has(Rule::LookDestinationAgain) {
                    return self.go(Pc::LookDstAgain);
                }
            }
            _ => self.on_dst = seen,
        }
        self.decide(cx, step)
    }

    fn decide(&mut self, cx: &Context<'_>, step: Step) -> Next {
        let (there, here) = (self.on_dst, self.on_src);
        if there.sealed && here.sealed && cx.rules.has(Rule::BothSealedLookAgain) {
            return Next::Again;
        }
        let counts = self.counts(cx);
        match counts {
            Counts::Destination => self.cache[step.id] = Cached::On(self.dst),
            Counts::Source => self.cache[step.id] = Cached::On(self.src),
            Counts::Nothing if !cx.rules.has(Rule::AbsenceNeverCached) => {
                self.cache[step.id] = Cached::Nowhere;
            }
            _ => {}
        }
        match step.op {
            Op::Forget => return self.decide_forget(cx, there, here),
            Op::Create { .. } => return self.decide_create(cx, counts),
            _ => {}
        }
        match counts {
            Counts::Destination if step.op == Op::Delete && here.sealed => self.remove_left(
                cx,
                self.dst,
                Via::Destination,
                Rule::DeleteRetiresLeftoverFirst,
            ),
            Counts::Source if step.op == Op::Delete && there.sealed => {
                self.remove_left(cx, self.src, Via::Source, Rule::DeleteRetiresLeftoverFirst)
            }
            Counts::Destination => self.act_on(self.dst, Via::Destination),
            Counts::Source => self.act_on(self.src, Via::Source),
            Counts::SealedDestination if step.op == Op::Read => {
                self.act_on(self.dst, Via::Destination)
            }
            Counts::SealedSource if step.op == Op::Read => self.act_on(self.src, Via::Source),
            Counts::SealedDestination => self.unseal_reverted(cx),
            Counts::SealedSource => self.finish_move(cx),
            Counts::Nothing if matches!(step.op, Op::Read | Op::Delete) => {
                Next::Over(Answer::NotFound)
            }
            Counts::Nothing if matches!(step.op, Op::Edge(_)) => self.decide_edge(cx),
            // What is sealed there is a record without a log. A fence finds that out by asking.
            Counts::Nothing if there.sealed && matches!(step.op, Op::Append { .. }) => {
                self.free_destination(cx, here)
            }
            Counts::Nothing => self.act_on(self.dst, Via::Nothing),
        }
    }

    fn counts(&self, cx: &Context<'_>) -> Counts {
        let alone = cx.rules.has(Rule::UnsealedBeatsSealed);
        let sealed = cx.rules.has(Rule::SealedCountsAlone);
        match (self.on_dst, self.on_src) {
            (
                Seen {
                    log: true,
                    sealed: false,
                    ..
                },
                _,
            ) => Counts::Destination,
            (Seen { log: true, .. }, _) if !alone => Counts::SealedDestination,
            (
                _,
                Seen {
                    log: true,
                    sealed: false,
                    ..
                },
            ) => Counts::Source,
            (Seen { log: true, .. }, _) if sealed => Counts::SealedDestination,
            (_, Seen { log: true, .. }) if sealed => Counts::SealedSource,
            _ => Counts::Nothing,
        }
    }

    /// Never on the source; and a record there comes along first.
    fn decide_create(&mut self, cx: &Context<'_>, counts: Counts) -> Next {
        let (there, here) = (self.on_dst, self.on_src);
        let moves = cx.rules.has(Rule::FenceOnlyRecordMovesFirst);
        match counts {
            Counts::Source if !cx.rules.has(Rule::CreationNeverOnSource) => {
                self.act_on(self.src, Via::Source)
            }
            Counts::Source | Counts::SealedSource if cx.rules.has(Rule::SourceRefusesCreation) => {
                Next::Over(Answer::Conflict)
            }
            Counts::SealedDestination => self.unseal_reverted(cx),
            Counts::Destination => self.act_on(self.dst, Via::Destination),
            _ if here.exists && !here.log && moves => self.finish_move(cx),
            _ if there.sealed => self.free_destination(cx, here),
            _ => self.act_on(self.dst, Via::Destination),
        }
    }

    /// Without a log. As for a creation, what is on the source comes along first.
    fn decide_edge(&mut self, cx: &Context<'_>) -> Next {
        let (there, here) = (self.on_dst, self.on_src);
        if here.exists && cx.rules.has(Rule::LineageBringsRecord) {
            self.finish_move(cx)
        } else if there.sealed {
            self.unseal_reverted(cx)
        } else {
            self.act_on(self.dst, Via::Nothing);
            self.go(Pc::ActAny)
        }
    }

    /// A sealed record without a log on the destination is the record, or a leftover if there is another one.
    fn free_destination(&mut self, cx: &Context<'_>, here: Seen) -> Next {
        if here.exists {
            self.finish_move(cx)
        } else {
            self.unseal_reverted(cx)
        }
    }

    /// Edges are where the record is, with a log or without.
    fn decide_forget(&mut self, cx: &Context<'_>, there: Seen, here: Seen) -> Next {
        let rule = Rule::ForgetRetiresLeftoverFirst;
        match (there.exists, here.exists) {
            (false, false) => Next::Over(Answer::Done),
            (true, _) if !there.sealed => {
                if here.sealed {
                    self.remove_left(cx, self.dst, Via::Destination, rule)
                } else {
                    self.act_on(self.dst, Via::Destination)
                }
            }
            (_, true) if !here.sealed => {
                if there.sealed {
                    self.remove_left(cx, self.src, Via::Source, rule)
                } else {
                    self.act_on(self.src, Via::Source)
                }
            }
            (true, _) => self.unseal_reverted(cx),
            (false, true) => self.finish_move(cx),
        }
    }

    pub(super) fn act_on(&mut self, side: u8, via: Via) -> Next {
        (self.on_dst, self.on_src) = (Seen::default(), Seen::default());
        (self.at, self.via) = (side, via);
        self.go(Pc::Act)
    }

    fn remove_left(&mut self, cx: &Context<'_>, kept: u8, via: Via, rule: Rule) -> Next {
        self.act_on(kept, via);
        if cx.rules.has(rule) {
            return self.go(Pc::RetireLeft);
        }
        // Afterwards, as nobody may.
        self.turn = 1;
        Next::GoesOn
    }

    /// The record was about to leave the destination when the bucket turned round.
    pub(super) fn unseal_reverted(&mut self, cx: &Context<'_>) -> Next {
        if !cx.rules.has(Rule::UnsealReverted) {
            return Next::Again;
        }
        self.at = self.dst;
        self.go(Pc::Unseal)
    }

    pub(super) fn finish_move(&mut self, cx: &Context<'_>) -> Next {
        if !cx.rules.has(Rule::HelperFinishesMove) {
            return Next::Again;
        }
        (self.on_dst, self.on_src) = (Seen::default(), Seen::default());
        self.go(Pc::MoveLookSrc)
    }
}
