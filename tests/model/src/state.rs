//! A state of the model, and what can happen in it.

use crate::node::{Context, Next, Node, Pc};
use crate::op::{Answer, Op, Step};
use crate::plan::{Place, SHARDS};
use crate::rule::Rule;
use crate::scenario::MOST_NODES;
use crate::seq::Seq;
use crate::shard::{Ask, Reply, Shard};
use crate::truth::{Truth, Violation};

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) shards: [Shard; SHARDS],
    pub(crate) truth: Truth,
    pub(crate) nodes: [Node; MOST_NODES],
    /// A request whose answer will not be heard, and that may still take effect.
    pub(crate) late: Option<Request>,
    /// How many more requests may go astray.
    pub(crate) losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) shard: u8,
    pub(crate) id: u8,
    pub(crate) plan: u8,
    pub(crate) ask: Ask,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A node asks a shard and hears the answer.
    Asks(u8),
    /// A node asks a shard, waits in vain and starts again. The request takes effect later, or never.
    Loses(u8),
    /// A lost request takes effect.
    Late,
}

/// What happened, for the reader of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) request: Request,
    pub(crate) reply: Option<Reply>,
    pub(crate) answer: Option<Answer>,
    /// Whether the operation started again.
    pub(crate) again: bool,
}

impl State {
    pub(crate) fn first(cx: &Context<'_>) -> Self {
        let scenario = cx.scenario;
        let mut state = Self {
            shards: scenario.shards,
            truth: scenario.truth,
            nodes: Default::default(),
            late: None,
            losses: scenario.losses,
        };
        for (me, spec) in scenario.nodes.iter().enumerate() {
            let node = &mut state.nodes[me];
            node.plan = spec.plan;
            node.token = spec.token;
            node.cache[0] = spec.cache;
            if let Some(step) = node.step(cx, me) {
                node.enter(cx, step);
            }
        }
        state
    }

    pub(crate) fn actions(&self, cx: &Context<'_>, out: &mut Vec<Action>) {
        out.clear();
        for me in 0..cx.scenario.nodes.len() {
            if self.can_step(cx, me) {
                let name = u8::try_from(me).unwrap_or(u8::MAX);
                out.push(Action::Asks(name));
                if self.losses > 0 && self.late.is_none() && cx.scenario.nodes[me].loses {
                    out.push(Action::Loses(name));
                }
            }
        }
        if self.late.is_some() {
            out.push(Action::Late);
        }
    }

    /// Whether a node has something to do. One that waits for a plan has not, before it is published.
    pub(crate) fn can_step(&self, cx: &Context<'_>, me: usize) -> bool {
        match self.nodes[me].step(cx, me) {
            None => false,
            Some(Step {
                op: Op::Follow(plan),
                ..
            }) => {
                let newest = self
                    .shards
                    .iter()
                    .map(|shard| cx.plan(shard.plan).epoch)
                    .max();
                newest >= Some(cx.plan(plan).epoch)
            }
            Some(_) => true,
        }
    }

    /// What follows.
    pub(crate) fn after(
        &self,
        cx: &Context<'_>,
        action: Action,
    ) -> Result<(Self, Event), (Event, Violation)> {
        let mut next = self.clone();
        let mut event = Event {
            request: next.request(cx, action),
            reply: None,
            answer: None,
            again: false,
        };
        match next.take(cx, action, &mut event) {
            Ok(()) => Ok((next, event)),
            Err(violation) => Err((event, violation)),
        }
    }

    fn request(&self, cx: &Context<'_>, action: Action) -> Request {
        let (Action::Asks(me) | Action::Loses(me)) = action else {
            return self.late.unwrap_or(Request {
                shard: 0,
                id: 0,
                plan: 0,
                ask: Ask::Look,
            });
        };
        let me = usize::from(me);
        let node = &self.nodes[me];
        let step = node.step(cx, me).unwrap_or(Op::Read.x());
        let (shard, ask) = node.request(cx, step);
        let id = match (node.pc, ask) {
            // A publisher asks about every execution in turn.
            (Pc::Drain, _) => node.turn,
            _ => u8::try_from(step.id).unwrap_or(0),
        };
        Request {
            shard,
            id,
            plan: node.plan,
            ask,
        }
    }

    fn take(
        &mut self,
        cx: &Context<'_>,
        action: Action,
        event: &mut Event,
    ) -> Result<(), Violation> {
        let request = event.request;
        let me = match action {
            Action::Late => {
                self.late = None;
                event.reply = Some(self.deliver(cx, request, false)?);
                return self.check(cx);
            }
            Action::Asks(me) | Action::Loses(me) => usize::from(me),
        };
        let Some(step) = self.nodes[me].step(cx, me) else {
            return Ok(());
        };
        if let Op::Follow(_) = step.op {
            let newest = self.newest(cx)?;
            self.nodes[me].adopt(cx, newest);
            self.over(cx, me, step, Answer::Done, event)?;
            return Ok(());
        }
        if !self.nodes[me].judge.begun {
            self.nodes[me].judge = self.truth.begin(step);
        }
        if let Action::Loses(_) = action {
            self.losses -= 1;
            self.late = Some(request);
            self.nodes[me].unknown = true;
            event.again = true;
            return self.enter(cx, me, step, event);
        }
        if !cx.rules.has(Rule::EpochCheckedWithOperation) && checks_plan(request.ask) {
            let node = &mut self.nodes[me];
            let compared = self.shards[usize::from(request.shard)].plan == request.plan;
            if compared && !node.checked {
                node.checked = true;
                event.reply = Some(Reply::Done);
                return Ok(());
            }
        }
        let checked = std::mem::take(&mut self.nodes[me].checked);
        let reply = self.deliver(cx, request, checked)?;
        event.reply = Some(reply);
        self.heard(cx, me, step, reply, event)?;
        self.check(cx)
    }

    fn heard(
        &mut self,
        cx: &Context<'_>,
        me: usize,
        step: Step,
        reply: Reply,
        event: &mut Event,
    ) -> Result<(), Violation> {
        let node = &mut self.nodes[me];
        let next = match reply {
            // It predates plans and cannot follow one.
            Reply::Stale(_) if node.plan == 0 => Next::Over(Answer::Refused),
            Reply::Stale(newer) if cx.plan(newer).epoch > cx.plan(node.plan).epoch => {
                let follows = cx.plan(node.plan).may_precede(cx.plan(newer));
                if !follows && !cx.rules.has(Rule::AdoptAnyHigher) {
                    event.again = true;
                    return self.enter(cx, me, step, event);
                }
                if node.adopt(cx, newer) {
                    Next::Again
                } else {
                    Next::GoesOn
                }
            }
            Reply::Stale(_) => Next::Over(Answer::Stuck("two plans of one epoch")),
            Reply::Behind(_) => Next::Again,
            reply => node.reply(cx, step, reply),
        };
        match next {
            Next::GoesOn => Ok(()),
            Next::Again => {
                event.again = true;
                self.enter(cx, me, step, event)
            }
            Next::Over(answer) => self.over(cx, me, step, answer, event),
        }
    }

    fn enter(
        &mut self,
        cx: &Context<'_>,
        me: usize,
        step: Step,
        event: &mut Event,
    ) -> Result<(), Violation> {
        match self.nodes[me].enter(cx, step) {
            Some(answer) => self.over(cx, me, step, answer, event),
            None => Ok(()),
        }
    }

    /// The operation is over; the next one is entered.
    fn over(
        &mut self,
        cx: &Context<'_>,
        me: usize,
        step: Step,
        answer: Answer,
        event: &mut Event,
    ) -> Result<(), Violation> {
        event.answer = Some(answer);
        self.truth.judge(cx, &self.nodes[me], step, answer)?;
        loop {
            let node = &mut self.nodes[me];
            *node = Node {
                done: node.done + 1,
                plan: node.plan,
                cache: node.cache,
                token: node.token,
                ..Node::default()
            };
            let Some(step) = node.step(cx, me) else {
                // What it knew matters to nobody any more.
                *node = Node {
                    done: node.done,
                    ..Node::default()
                };
                return Ok(());
            };
            let Some(answer) = node.enter(cx, step) else {
                return Ok(());
            };
            // Over without having asked anybody.
            let begun = self.truth.begin(step);
            let node = &mut self.nodes[me];
            node.judge = begun;
            self.truth.judge(cx, &self.nodes[me], step, answer)?;
        }
    }

    /// Compares plans, and has the shard do what is asked.
    fn deliver(
        &mut self,
        cx: &Context<'_>,
        request: Request,
        checked: bool,
    ) -> Result<Reply, Violation> {
        let Request { id, plan, ask, .. } = request;
        let rules = cx.rules;
        let shard = &mut self.shards[usize::from(request.shard)];
        let (here, asked) = (cx.plan(shard.plan), cx.plan(plan));
        match ask {
            Ask::Give { plan, joins } => {
                let given = cx.plan(plan);
                if shard.plan == plan {
                    return Ok(Reply::Done);
                } else if here.epoch >= given.epoch && rules.has(Rule::PlansOnlyRise) {
                    return Ok(Reply::Has(shard.plan));
                } else if here.epoch + 1 < given.epoch && !joins && shard.plan != 0 {
                    return Err("a shard is more than one epoch behind");
                }
                shard.take_plan(plan, rules);
                return Ok(Reply::Done);
            }
            Ask::Publish { plan, expected } => {
                let free = shard.plan == expected && here.epoch < cx.plan(plan).epoch;
                if shard.plan != plan && !free && rules.has(Rule::CompareAndSet) {
                    return Ok(Reply::Has(shard.plan));
                }
                if shard.plan != plan || !rules.has(Rule::RepublishChangesNothing) {
                    shard.take_plan(plan, rules);
                }
                return Ok(Reply::Done);
            }
            Ask::Records if !rules.has(Rule::DrainCheckUnderEpoch) => {}
            _ if checked || !rules.has(Rule::EpochChecked) => {}
            _ if shard.plan == plan => {}
            _ if plan == 0 && (here.epoch <= 1 || !rules.has(Rule::UnplannedRefused)) => {}
            _ if here.epoch >= asked.epoch || plan == 0 => return Ok(Reply::Stale(shard.plan)),
            _ if !rules.has(Rule::RaiseBehind) => return Ok(Reply::Behind(shard.plan)),
            _ if here.epoch + 1 < asked.epoch && shard.plan != 0 => {
                return Err("a shard is more than one epoch behind");
            }
            _ => {
                // The node publishes its plan there. Nothing that it does in between could matter.
                let behind = shard.plan;
                shard.take_plan(plan, rules);
                return Ok(Reply::Behind(behind));
            }
        }
        let id = usize::from(id);
        let reply = shard.serve(id, ask, rules);
        let before = self.truth;
        self.truth.observe(id, ask, reply, &shard.records[id])?;
        if before != self.truth {
            let removed = matches!(ask, Ask::Delete { .. } | Ask::Forget { .. });
            for (me, node) in self
                .nodes
                .iter_mut()
                .enumerate()
                .take(cx.scenario.nodes.len())
            {
                if let (true, Some(step)) = (node.judge.begun, node.step(cx, me)) {
                    self.truth.note(step, &mut node.judge, removed);
                }
            }
        }
        Ok(reply)
    }

    /// The newest plan of any shard. It was decided.
    fn newest(&self, cx: &Context<'_>) -> Result<u8, Violation> {
        let mut newest = self.shards[0].plan;
        for shard in &self.shards[1..] {
            let (one, other) = (cx.plan(newest), cx.plan(shard.plan));
            if other.epoch > one.epoch {
                newest = shard.plan;
            } else if other.epoch == one.epoch && shard.plan != newest {
                return Err("two plans of one epoch were decided");
            }
        }
        Ok(newest)
    }

    /// What has to hold in every state: there is one copy that counts, where the newest plan looks for it.
    fn check(&self, cx: &Context<'_>) -> Result<(), Violation> {
        let newest = cx.plan(self.newest(cx)?);
        for (id, truth) in self.truth.logs.iter().enumerate().take(cx.scenario.ids) {
            let unsealed = |shard: &&Shard| {
                let record = &shard.records[id];
                !record.log.is_empty() && !record.sealed
            };
            if self.shards.iter().filter(unsealed).count() > 1 {
                return Err("two copies that count");
            }
            let record = |side: u8| &self.shards[usize::from(side)].records[id];
            let (counts, edges) = match newest.places[id] {
                Place::Settled(at) => (record(at).log, record(at).edges),
                Place::Migrating(src, dst) => {
                    let (here, there) = (record(src), record(dst));
                    let best = [there, here]
                        .into_iter()
                        .filter(|record| !record.log.is_empty())
                        .min_by_key(|record| record.sealed);
                    let log = best.map_or(Seq::EMPTY, |record| record.log);
                    (log, here.edges.merged(there.edges))
                }
            };
            if counts != *truth {
                return Err(if counts.len() < truth.len() {
                    "the copy that counts lacks what was acknowledged"
                } else {
                    "the copy that counts has what was removed"
                });
            }
            if self.truth.edges[id].set() & !edges.set() != 0 {
                return Err("an edge that was recorded is not on the sides of its bucket");
            }
        }
        Ok(())
    }
}

/// Whether a shard compares plans before it serves this.
fn checks_plan(ask: Ask) -> bool {
    !matches!(ask, Ask::Give { .. } | Ask::Publish { .. })
}
