//! What a scenario is: plans, what the shards hold at first, and what the nodes do.

use std::ops::Range;

use crate::node::Cached;
use crate::op::{Op, Step};
use crate::plan::{IDS, Place, Plan, SHARDS};
use crate::rule::Rule;
use crate::seq::Seq;
use crate::shard::{Record, Shard};
use crate::truth::Truth;

/// The most nodes that a scenario can have.
pub(crate) const MOST_NODES: usize = 10;

/// A first state, and programs of nodes.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What happens in it.
    pub about: String,
    pub(crate) plans: Vec<Plan>,
    /// How many executions it is about.
    pub(crate) ids: usize,
    pub(crate) shards: [Shard; SHARDS],
    pub(crate) truth: Truth,
    pub(crate) nodes: Vec<Spec>,
    /// Nodes that differ in nothing: which is which makes no other state.
    pub(crate) twins: Vec<Range<usize>>,
    pub(crate) losses: u8,
    /// How often a node may be interrupted by another, if not at will.
    pub(crate) interruptions: Option<u8>,
}

/// A node at first.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) program: Vec<Step>,
    pub(crate) plan: u8,
    pub(crate) token: u8,
    pub(crate) cache: Cached,
    /// Whether its requests may go astray.
    pub(crate) loses: bool,
}

impl Spec {
    pub(crate) fn cached(mut self, on: u8) -> Self {
        self.cache = Cached::On(on);
        self
    }

    pub(crate) fn holding(mut self, token: u8) -> Self {
        self.token = token;
        self
    }

    pub(crate) fn losing(mut self) -> Self {
        self.loses = true;
        self
    }
}

/// A node that follows `plan` at first.
pub(crate) fn node(name: &'static str, plan: u8, program: &[Step]) -> Spec {
    Spec {
        name,
        program: program.to_vec(),
        plan,
        token: 0,
        cache: Cached::Unknown,
        loses: false,
    }
}

impl Scenario {
    /// With plan 0, under which X is on shard `home` and Y on shard 0.
    pub(crate) fn new(name: &str, about: &str, home: u8) -> Self {
        let unplanned = Plan {
            epoch: 0,
            places: [Place::Settled(home), Place::Settled(0)],
            shards: &[],
        };
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            plans: vec![unplanned],
            ids: 1,
            shards: [Shard::default(); SHARDS],
            truth: Truth::default(),
            nodes: Vec::new(),
            twins: Vec::new(),
            losses: 0,
            interruptions: None,
        }
    }

    /// Whether anything that happens in it can depend on a rule, as far as that is plain.
    #[must_use]
    pub fn involves(&self, rule: Rule) -> bool {
        let mut steps = self.nodes.iter().flat_map(|node| &node.program);
        let settles = |plan: u8| {
            let places = self.plans[usize::from(plan)].places;
            places[..self.ids]
                .iter()
                .any(|place| matches!(place, Place::Settled(_)))
        };
        match rule {
            Rule::ListRoles => steps.any(|step| step.op == Op::List),
            Rule::DrainCheckUnderEpoch => steps.any(|step| match step.op {
                Op::Publish(plan) => settles(plan),
                _ => false,
            }),
            _ => true,
        }
    }

    /// Adds a plan for X alone. Where Y is matters to nobody.
    pub(crate) fn plan(self, epoch: u8, x: Place, shards: &'static [u8]) -> Self {
        self.plan_of_two(epoch, x, Place::Settled(0), shards)
    }

    pub(crate) fn plan_of_two(
        mut self,
        epoch: u8,
        x: Place,
        y: Place,
        shards: &'static [u8],
    ) -> Self {
        self.plans.push(Plan {
            epoch,
            places: [x, y],
            shards,
        });
        self
    }

    /// The shards of a plan are under it.
    pub(crate) fn under(mut self, plan: u8) -> Self {
        for shard in self.plans[usize::from(plan)].shards {
            self.shards[usize::from(*shard)].plan = plan;
        }
        self
    }

    /// One shard is under another plan.
    pub(crate) fn but(mut self, shard: u8, plan: u8) -> Self {
        self.shards[usize::from(shard)].plan = plan;
        self
    }

    /// A shard has a record of X.
    pub(crate) fn holds(self, shard: u8, log: &[u8], fence: u8, edges: &[u8]) -> Self {
        self.record(shard, 0, log, fence, edges, false)
    }

    /// A shard has a sealed record of X.
    pub(crate) fn holds_sealed(self, shard: u8, log: &[u8], fence: u8, edges: &[u8]) -> Self {
        self.record(shard, 0, log, fence, edges, true)
    }

    /// A shard has a log of Y.
    pub(crate) fn holds_y(mut self, shard: u8, log: &[u8]) -> Self {
        self.ids = IDS;
        self.record(shard, 1, log, 0, &[], false)
    }

    pub(crate) fn record(
        mut self,
        shard: u8,
        id: usize,
        log: &[u8],
        fence: u8,
        edges: &[u8],
        sealed: bool,
    ) -> Self {
        let record = Record {
            log: Seq::of(log),
            edges: Seq::of(edges),
            fence,
            sealed,
            marked: false,
        };
        self.shards[usize::from(shard)].records[id] = record;
        let truth = &mut self.truth;
        // Of two copies the longer one counts.
        if record.log.len() > truth.logs[id].len() {
            truth.logs[id] = record.log;
        }
        truth.edges[id] = truth.edges[id].merged(record.edges);
        truth.tokens[id] = truth.tokens[id].max(fence);
        self
    }

    pub(crate) fn node(mut self, node: Spec) -> Self {
        self.nodes.push(node);
        self
    }

    pub(crate) fn twins(mut self, node: &Spec) -> Self {
        let at = self.nodes.len();
        self.nodes.extend([node.clone(), node.clone()]);
        self.twins.push(at..at + 2);
        self
    }

    /// A node goes on until it has nothing to do, but for so many times that another one takes over in the middle. What is
    /// never taken up again has crashed.
    pub(crate) fn interruptions(mut self, most: u8) -> Self {
        self.interruptions = Some(most);
        self
    }

    /// How many requests may go astray.
    pub(crate) fn losses(mut self, losses: u8) -> Self {
        self.losses = losses;
        self
    }
}
