//! Publishing a plan.

use super::{Context, Next, Node, Pc};
use crate::op::{Answer, Op, Step};
use crate::plan::{IDS, Place, Plan, SHARDS};
use crate::rule::Rule;
use crate::shard::{Ask, Reply};

impl Node {
    pub(super) fn enter_publish(&mut self, cx: &Context<'_>, plan: u8) -> Option<Answer> {
        if self.plan == plan {
            return Some(Answer::Done);
        }
        if cx.plan(plan).epoch <= cx.plan(self.plan).epoch {
            return Some(Answer::Refused);
        }
        self.at = self.plan;
        self.pc = Pc::Complete;
        self.publish_on(cx, plan)
    }

    /// Goes on to what is to be asked next, as `turn` counts. When nothing is, the plan is published.
    fn publish_on(&mut self, cx: &Context<'_>, plan: u8) -> Option<Answer> {
        let (now, next) = (cx.plan(self.at), cx.plan(plan));
        loop {
            while usize::from(self.turn) < SHARDS {
                if self.publisher_asks(cx, now, next) {
                    return None;
                }
                self.turn += 1;
            }
            self.turn = 0;
            self.pc = match self.pc {
                Pc::Complete => {
                    let may = now.epoch == 0 || now.may_precede(next);
                    if !may && cx.rules.has(Rule::PublisherValidates) {
                        return Some(Answer::Refused);
                    }
                    Pc::Drain
                }
                Pc::Drain => Pc::Prepare,
                Pc::Prepare => Pc::Decide,
                _ => return Some(Answer::Done),
            };
        }
    }

    /// Whether something is to be asked in this turn: of a shard, or of an execution.
    fn publisher_asks(&self, cx: &Context<'_>, now: &Plan, next: &Plan) -> bool {
        let (stays, joins) = (
            now.shards.contains(&self.turn),
            next.shards.contains(&self.turn),
        );
        match self.pc {
            Pc::Complete => stays && cx.rules.has(Rule::CompleteFirst),
            Pc::Drain => {
                let id = usize::from(self.turn);
                id < IDS
                    && matches!(now.places[id], Place::Migrating(..))
                    && matches!(next.places[id], Place::Settled(_))
                    && cx.rules.has(Rule::PublisherChecksDrained)
            }
            Pc::Prepare => now.epoch > 0 && joins && !stays && cx.rules.has(Rule::JoinUnderPresent),
            Pc::Spread => stays || joins,
            _ => true,
        }
    }

    pub(super) fn publishing(&self, cx: &Context<'_>, step: Step) -> (u8, Ask) {
        let Op::Publish(plan) = step.op else {
            return (0, Ask::Look);
        };
        let (now, next) = (cx.plan(self.at), cx.plan(plan));
        let given = |plan, joins| (self.turn, Ask::Give { plan, joins });
        match self.pc {
            Pc::Complete => given(self.at, now.epoch == 1),
            Pc::Drain => match now.places[usize::from(self.turn)] {
                Place::Migrating(src, _) | Place::Settled(src) => (src, Ask::Records),
            },
            Pc::Prepare => given(self.at, true),
            Pc::Spread => given(plan, now.epoch == 0),
            _ => {
                let present = now.epoch > 0 && cx.rules.has(Rule::DecideOnLowestOfPresent);
                let shards = if present { now.shards } else { next.shards };
                let expected = self.at;
                (shards[0], Ask::Publish { plan, expected })
            }
        }
    }

    pub(super) fn published(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        let Op::Publish(plan) = step.op else {
            return Next::Again;
        };
        match (self.pc, reply) {
            (Pc::Complete | Pc::Prepare | Pc::Drain, Reply::Done) => self.turn += 1,
            (Pc::Complete | Pc::Prepare, Reply::Has(newer)) => {
                if cx.plan(newer).epoch > cx.plan(self.plan).epoch {
                    self.adopt(cx, newer);
                    return Next::Again;
                }
                return Next::Over(Answer::Stuck(
                    "a shard is under a plan that was never decided",
                ));
            }
            (Pc::Drain, _) => return Next::Over(Answer::Refused),
            (Pc::Decide, Reply::Done) => {
                self.adopt(cx, plan);
                (self.pc, self.turn) = (Pc::Spread, 0);
            }
            (Pc::Decide, _) => return Next::Over(Answer::Refused),
            // One that is ahead needs nothing.
            _ => self.turn += 1,
        }
        match self.publish_on(cx, plan) {
            Some(answer) => Next::Over(answer),
            None => Next::GoesOn,
        }
    }
}
