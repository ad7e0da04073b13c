//! A node: what a process that uses the shards knows, and what it does next.
//!
//! It asks one shard at a time. `request` says what, `reply` goes on from the answer.

mod acquire;
mod change;
mod lists;
mod mover;
mod publish;
mod resolve;

use crate::op::{Answer, Op, Step};
use crate::plan::{IDS, Place, Plan};
use crate::rule::{Rule, Rules};
use crate::scenario::Scenario;
use crate::seq::Seq;
use crate::shard::{Ask, Record, Reply, Seen};

/// What does not change while a scenario is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) rules: Rules,
}

impl Context<'_> {
    pub(crate) fn plan(&self, plan: u8) -> &Plan {
        &self.scenario.plans[usize::from(plan)]
    }
}

/// Where a node is in its operation: what it will ask next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Pc {
    #[default]
    Finished,
    LookDst,
    LookSrc,
    LookDstAgain,
    /// The operation itself, on `at`.
    Act,
    /// On the source, if a record is there.
    ActSrc,
    /// On the destination, whether a record is there or not.
    ActAny,
    /// Removes the leftover on the side that is not `at`.
    RetireLeft,
    /// The same, after the operation.
    RetireLate,
    Unseal,
    MoveLookSrc,
    MoveLookDst,
    MoveRetireDst,
    MoveSeal,
    MoveFetch,
    MoveImport,
    MoveImportRest,
    MoveRetireSrc,
    FirstSide,
    SecondSide,
    ListSources,
    ListDestinations,
    Complete,
    Drain,
    Prepare,
    Decide,
    Spread,
    Follow,
}

/// Why a node believes that `at` is the side to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Via {
    /// Nothing was found.
    #[default]
    Nothing,
    Settled,
    Cache,
    Source,
    Destination,
}

/// What has to be known to judge the answer of the operation under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Judge {
    pub(crate) begun: bool,
    /// The executions that did not exist at some moment of the call, as a set.
    pub(crate) absent: u8,
    /// Whether the log had another length than the operation expects, at some moment.
    pub(crate) differed: bool,
    /// Whether something was deleted or forgotten since.
    pub(crate) removed: bool,
    /// What was there when it began, for each execution: events, or edges.
    pub(crate) had: [Seq; IDS],
    /// What was gone for good when it began, as a set.
    pub(crate) dead: u16,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// How many operations are over.
    pub(crate) done: u8,
    pub(crate) plan: u8,
    pub(crate) pc: Pc,
    pub(crate) cache: [Cached; IDS],
    /// The token it acquired last.
    pub(crate) token: u8,
    /// Whether the outcome of an earlier attempt is unknown.
    pub(crate) unknown: bool,
    pub(crate) judge: Judge,
    /// Whether its plan was compared with the shard's apart from the operation, as no store may do.
    pub(crate) checked: bool,
    pub(crate) doubted: bool,
    pub(crate) via: Via,
    pub(crate) at: u8,
    pub(crate) src: u8,
    pub(crate) dst: u8,
    pub(crate) on_dst: Seen,
    pub(crate) on_src: Seen,
    /// The record on its way.
    pub(crate) held: Record,
    /// How far a loop is.
    pub(crate) turn: u8,
    /// What a listing has found.
    pub(crate) found: [(Seq, bool); IDS],
}

/// What a node remembers of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cached {
    #[default]
    Unknown,
    On(u8),
    /// That it is nowhere, as no node may.
    Nowhere,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    /// It starts again from resolution.
    Again,
    Over(Answer),
}

impl Node {
    pub(crate) fn step(&self, cx: &Context<'_>, me: usize) -> Option<Step> {
        let program = &cx.scenario.nodes[me].program;
        program.get(usize::from(self.done)).copied()
    }

    /// Starts the operation, or starts it again. An operation may be over before it asked anything.
    pub(crate) fn enter(&mut self, cx: &Context<'_>, step: Step) -> Option<Answer> {
        *self = Self {
            done: self.done,
            plan: self.plan,
            cache: self.cache,
            token: self.token,
            unknown: self.unknown,
            judge: self.judge,
            ..Self::default()
        };
        match step.op {
            Op::Publish(plan) => return self.enter_publish(cx, plan),
            Op::List => {
                self.pc = Pc::ListSources;
                return self.list_on(cx);
            }
            Op::Follow(_) => {
                self.pc = Pc::Follow;
                return None;
            }
            _ => {}
        }
        match cx.plan(self.plan).places[step.id] {
            Place::Settled(_) if step.op == Op::Move => return Some(Answer::Done),
            Place::Settled(at) => {
                (self.src, self.dst, self.at) = (at, at, at);
                self.via = Via::Settled;
                self.pc = Pc::Act;
            }
            Place::Migrating(src, dst) => {
                (self.src, self.dst) = (src, dst);
                return self.enter_migrating(cx, step);
            }
        }
        None
    }

    fn enter_migrating(&mut self, cx: &Context<'_>, step: Step) -> Option<Answer> {
        self.pc = match step.op {
            Op::Move => Pc::MoveLookSrc,
            Op::Children => Pc::FirstSide,
            _ => Pc::LookDst,
        };
        let cached = match step.op {
            Op::Read | Op::Append { .. } | Op::Acquire | Op::Edge(_) => true,
            Op::Create { .. } => !cx.rules.has(Rule::CreationNeverOnSource),
            _ => false,
        };
        match self.cache[step.id] {
            Cached::On(at) if cached => {
                (self.at, self.via, self.pc) = (at, Via::Cache, Pc::Act);
                None
            }
            Cached::Nowhere if step.op == Op::Read => Some(Answer::NotFound),
            _ => None,
        }
    }

    /// What it asks next, and of whom.
    pub(crate) fn request(&self, cx: &Context<'_>, step: Step) -> (u8, Ask) {
        match self.pc {
            Pc::LookDst | Pc::LookDstAgain | Pc::MoveLookDst => (self.dst, Ask::Look),
            Pc::LookSrc | Pc::MoveLookSrc => (self.src, Ask::Look),
            Pc::Act => (self.at, self.act(cx, step)),
            Pc::ActSrc => (self.src, self.act(cx, step)),
            Pc::ActAny => (self.dst, self.act(cx, step)),
            Pc::RetireLeft | Pc::RetireLate => (self.other(self.at), Ask::Retire),
            Pc::Unseal => (self.at, Ask::Unseal),
            Pc::MoveRetireDst => (self.dst, Ask::Retire),
            Pc::MoveRetireSrc => (self.src, Ask::Retire),
            Pc::MoveSeal => (self.src, Ask::Seal),
            Pc::MoveFetch => (self.src, Ask::Fetch),
            Pc::MoveImport => self.import(cx),
            Pc::MoveImportRest => (self.dst, Ask::Import { record: self.held }),
            Pc::FirstSide | Pc::SecondSide => (self.children_side(cx), Ask::Children),
            Pc::ListSources | Pc::ListDestinations => (self.turn, Ask::List),
            Pc::Complete | Pc::Drain | Pc::Prepare | Pc::Decide | Pc::Spread => {
                self.publishing(cx, step)
            }
            Pc::Follow | Pc::Finished => (0, Ask::Look),
        }
    }

    /// Goes on from the answer.
    pub(crate) fn reply(&mut self, cx: &Context<'_>, step: Step, reply: Reply) -> Next {
        match self.pc {
            Pc::LookDst | Pc::LookSrc | Pc::LookDstAgain => self.looked(cx, step, reply),
            Pc::Act | Pc::ActSrc | Pc::ActAny => self.acted(cx, step, reply),
            Pc::RetireLeft => match reply {
                Reply::Done => {
                    self.pc = Pc::Act;
                    Next::GoesOn
                }
                _ => Next::Again,
            },
            Pc::RetireLate => Next::Over(Answer::Done),
            Pc::Unseal => Next::Again,
            Pc::MoveLookSrc
            | Pc::MoveLookDst
            | Pc::MoveRetireDst
            | Pc::MoveSeal
            | Pc::MoveFetch
            | Pc::MoveImport
            | Pc::MoveImportRest
            | Pc::MoveRetireSrc => self.moved(cx, step, reply),
            Pc::FirstSide | Pc::SecondSide => self.read_children(reply),
            Pc::ListSources | Pc::ListDestinations => self.listed(cx, reply),
            Pc::Complete | Pc::Drain | Pc::Prepare | Pc::Decide | Pc::Spread => {
                self.published(cx, step, reply)
            }
            Pc::Follow | Pc::Finished => Next::GoesOn,
        }
    }

    /// Takes a newer plan. Says whether the operation has to start again.
    pub(crate) fn adopt(&mut self, cx: &Context<'_>, newer: u8) -> bool {
        if newer == self.plan {
            return false;
        }
        let (now, next) = (cx.plan(self.plan), cx.plan(newer));
        for (id, cached) in self.cache.iter_mut().enumerate() {
            let same = now.epoch + 1 == next.epoch && now.places[id] == next.places[id];
            if !same && cx.rules.has(Rule::CacheDropped) {
                *cached = Cached::Unknown;
            }
        }
        self.plan = newer;
        cx.rules.has(Rule::RestartWhole)
    }

    /// Whether it looks for the execution anew. Whoever goes on for ever is here again and again, or starts the
    /// operation again and again.
    pub(crate) fn is_at_start(&self) -> bool {
        matches!(self.pc, Pc::LookDst | Pc::MoveLookSrc)
    }

    fn other(&self, side: u8) -> u8 {
        if side == self.src { self.dst } else { self.src }
    }

    fn go(&mut self, pc: Pc) -> Next {
        self.pc = pc;
        Next::GoesOn
    }
}
