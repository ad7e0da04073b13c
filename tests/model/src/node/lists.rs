//! What reads many shards: listings, and the edges of a parent.

use super::{Context, Next, Node, Pc};
use crate::op::Answer;
use crate::plan::{IDS, Place, SHARDS};
use crate::rule::Rule;
use crate::seq::Seq;
use crate::shard::Reply;

impl Node {
    pub(super) fn children_side(&self, cx: &Context<'_>) -> u8 {
        let source_first = cx.rules.has(Rule::ChildrenSourceFirst);
        if (self.pc == Pc::FirstSide) == source_first {
            self.src
        } else {
            self.dst
        }
    }

    pub(super) fn read_children(&mut self, reply: Reply) -> Next {
        let Reply::Edges(edges) = reply else {
            return Next::Again;
        };
        if self.pc == Pc::FirstSide {
            self.held.edges = edges;
            return self.go(Pc::SecondSide);
        }
        Next::Over(Answer::Edges(self.held.edges.merged(edges)))
    }

    /// Finds the shard to ask next. When there is none, the listing is complete.
    pub(super) fn list_on(&mut self, cx: &Context<'_>) -> Option<Answer> {
        loop {
            if usize::from(self.turn) == SHARDS {
                if self.pc == Pc::ListDestinations || !cx.rules.has(Rule::SourcesFirst) {
                    let found = std::mem::take(&mut self.found);
                    return Some(Answer::List(found.map(|(log, _)| log)));
                }
                (self.pc, self.turn) = (Pc::ListDestinations, 0);
            }
            if (0..IDS).any(|id| self.asks_for(cx, id)) {
                return None;
            }
            self.turn += 1;
        }
    }

    /// Whether the shard whose turn it is may have the execution, in the role in which it is asked.
    fn asks_for(&self, cx: &Context<'_>, id: usize) -> bool {
        let sources = self.pc == Pc::ListSources;
        match cx.plan(self.plan).places[id] {
            Place::Settled(at) => {
                self.turn == at && (!sources || !cx.rules.has(Rule::SourcesFirst))
            }
            Place::Migrating(src, dst) if !cx.rules.has(Rule::SourcesFirst) => {
                self.turn == src || self.turn == dst
            }
            Place::Migrating(src, dst) => self.turn == if sources { src } else { dst },
        }
    }

    pub(super) fn listed(&mut self, cx: &Context<'_>, reply: Reply) -> Next {
        let Reply::List(entries) = reply else {
            return Next::Again;
        };
        for (id, (log, sealed)) in entries.into_iter().enumerate() {
            let counts = self.asks_for(cx, id) || !cx.rules.has(Rule::ListRoles);
            if log.is_empty() || !counts {
                continue;
            }
            let (known, known_sealed) = self.found[id];
            // The later one is the destination's.
            let beats = !sealed || known_sealed || !cx.rules.has(Rule::ListTakesCounting);
            if known == Seq::EMPTY || beats {
                self.found[id] = (log, sealed);
            }
        }
        self.turn += 1;
        match self.list_on(cx) {
            Some(answer) => Next::Over(answer),
            None => Next::GoesOn,
        }
    }
}
