//! Moving a record from the source to the destination.

use super::{Context, Next, Node, Pc};
use crate::op::{Answer, Op, Step};
use crate::rule::Rule;
use crate::seq::Seq;
use crate::shard::{Ask, Record, Reply, Seen};

impl Node {
    pub(super) fn moved(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        match (self.pc, reply) {
            (Pc::MoveLookSrc, Reply::Seen(seen)) if seen.exists => {
                self.on_src = seen;
                self.go(Pc::MoveLookDst)
            }
            (Pc::MoveLookSrc, _) => self.move_over(step),
            (Pc::MoveLookDst, Reply::Seen(there)) => self.sides_seen(cx, there),
            (Pc::MoveSeal, Reply::Done) => {
                if cx.rules.has(Rule::SealBeforeRead) {
                    self.go(Pc::MoveFetch)
                } else {
                    self.go(Pc::MoveImport)
                }
            }
            (Pc::MoveFetch, Reply::Whole(record)) => self.fetched(cx, record),
            (Pc::MoveImport, Reply::Done) if !cx.rules.has(Rule::ImportAtomic) => {
                self.go(Pc::MoveImportRest)
            }
            (Pc::MoveImport | Pc::MoveImportRest, Reply::Done) => {
                self.held = Record::default();
                if cx.rules.has(Rule::ImportBeforeRetire) {
                    self.go(Pc::MoveRetireSrc)
                } else {
                    self.move_over(step)
                }
            }
            (Pc::MoveImport | Pc::MoveImportRest, Reply::RecordConflict) => Next::Over(
                Answer::Stuck("the two sides differ and nobody may move them"),
            ),
            (Pc::MoveRetireSrc, Reply::Done) if !cx.rules.has(Rule::ImportBeforeRetire) => {
                self.go(Pc::MoveImport)
            }
            (Pc::MoveRetireSrc, Reply::Done) => self.move_over(step),
            // Somebody else was faster: look again.
            _ => self.look_again(),
        }
    }

    fn sides_seen(&mut self, cx: &Context<'_>, there: Seen) -> Next {
        let here = self.on_src;
        self.on_src = Seen::default();
        let early = cx.rules.has(Rule::LeftoverRemovedFirst);
        match (here.sealed, there.sealed) {
            (false, true) if early => self.go(Pc::MoveRetireDst),
            (true, true) if !early => self.go(Pc::MoveRetireDst),
            // Both sides are never sealed at once, and two unsealed logs are nobody's to move. What was seen may
            // be of two moments.
            (true, true) => self.look_again(),
            (false, false) if there.log => self.look_again(),
            (false, _) if cx.rules.has(Rule::SealBeforeRead) => self.go(Pc::MoveSeal),
            _ => self.go(Pc::MoveFetch),
        }
    }

    fn fetched(&mut self, cx: &Context<'_>, record: Record) -> Next {
        let sealed = record.sealed;
        self.held = Record {
            sealed: false,
            marked: false,
            ..record
        };
        if !cx.rules.has(Rule::FenceTravels) {
            self.held.fence = 0;
        }
        if !cx.rules.has(Rule::LineageTravels) {
            self.held.edges = Seq::EMPTY;
        }
        if !sealed && !cx.rules.has(Rule::SealBeforeRead) {
            self.go(Pc::MoveSeal)
        } else if cx.rules.has(Rule::ImportBeforeRetire) {
            self.go(Pc::MoveImport)
        } else {
            self.go(Pc::MoveRetireSrc)
        }
    }

    pub(super) fn import(&self, cx: &Context<'_>) -> (u8, Ask) {
        let record = self.held;
        if cx.rules.has(Rule::ImportAtomic) {
            (self.dst, Ask::Import { record })
        } else {
            (self.dst, Ask::ImportPart { record })
        }
    }

    fn look_again(&mut self) -> Next {
        self.held = Record::default();
        (self.on_dst, self.on_src) = (Seen::default(), Seen::default());
        self.pc = Pc::MoveLookSrc;
        Next::GoesOn
    }

    /// A helper goes on with its own operation.
    fn move_over(&self, step: Step) -> Next {
        if step.op == Op::Move {
            Next::Over(Answer::Done)
        } else {
            Next::Again
        }
    }
}
