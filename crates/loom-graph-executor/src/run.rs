//! A graph that is running: what is ready, what has settled.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::time::Duration;

use ahash::RandomState;
use bytes::Bytes;
use loom_spi::{DispatchRequest, ExecutionId, RecordLineage, Upstream};

use crate::attempt::Job;
use crate::child_id::ChildIds;
use crate::node::{Expand, Policy};
use crate::topology::Topology;
use crate::{
    GraphError, GraphEvent, GraphManifest, GraphNode, GraphOptions, GraphOutcome, NodeOutcome,
    NodeResult, OnFailure, attempt_id,
};

/// Decides what runs next. Knows nothing of futures.
#[derive(Debug)]
pub(crate) struct GraphRun<'a> {
    options: &'a GraphOptions,
    topology: Topology,
    /// What each node runs, until that is not needed any more.
    work: Vec<Work>,
    /// In the order of the nodes. A node that has not settled counts as skipped.
    results: Vec<NodeResult>,
    /// For each node how many of those that it waits for have not settled.
    waiting: Vec<u32>,
    /// Nodes that wait for nothing more, in the order in which that came about.
    ready: VecDeque<u32>,
    /// How the last attempt ended at nodes that are tried again, and whether its log is closed.
    tried: HashMap<u32, (NodeOutcome, bool), RandomState>,
    /// Why nothing more is begun.
    stop: Option<String>,
    settled: usize,
}

#[derive(Debug)]
struct Work {
    flow: String,
    input: Bytes,
    policy: Option<Box<Policy>>,
}

/// A node that can be begun.
pub(crate) struct Ready {
    pub(crate) number: u32,
    upstream: Vec<Upstream>,
}

/// How one attempt ended.
pub(crate) struct AttemptEnd {
    pub(crate) outcome: NodeOutcome,
    /// Its log has a terminal event: another attempt needs another execution.
    pub(crate) is_closed: bool,
    /// The same may come out differently another time.
    pub(crate) may_pass: bool,
}

/// What follows from how an attempt ended.
pub(crate) enum Follows {
    /// The node has settled.
    Nothing,
    /// The node waits for its next attempt, which is this execution.
    Wait(Duration, ExecutionId),
    /// The output of this execution makes more nodes.
    Expand(Expand, Bytes, ExecutionId),
}

impl<'a> GraphRun<'a> {
    pub(crate) fn new(
        nodes: Vec<GraphNode>,
        options: &'a GraphOptions,
    ) -> Result<Self, GraphError> {
        let shared = options.shared.as_ref();
        if options.limit == 0 || shared.is_some_and(|limit| limit.places() == 0) {
            return Err(GraphError::ZeroLimit);
        }
        let topology = Topology::of(&nodes)?;
        if let Some(recorded) = &options.recorded
            && let Some(difference) = recorded.difference(&GraphManifest::of(&nodes))
        {
            return Err(GraphError::Changed { difference });
        }
        let waiting = topology.upstream_counts();
        let ready = (0..).zip(&waiting).filter(|(_, waiting)| **waiting == 0);
        let ready = ready.map(|(node, _)| node).collect();
        let mut ids = ChildIds::of(&options.parent);
        let mut work = Vec::with_capacity(nodes.len());
        let mut results = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            check_policy(&node, options)?;
            let key = node.key;
            let execution = match ids.child(&key) {
                Ok(execution) => execution,
                Err(source) => return Err(GraphError::InvalidKey { index, key, source }),
            };
            work.push(Work {
                flow: node.flow,
                input: node.input,
                policy: node.policy,
            });
            results.push(NodeResult {
                key,
                execution,
                outcome: NodeOutcome::Skipped {
                    upstream: String::new(),
                },
                attempts: 0,
                closed: 0,
                branches: Vec::new(),
            });
        }
        Ok(Self {
            options,
            topology,
            work,
            results,
            waiting,
            ready,
            tried: HashMap::default(),
            stop: None,
            settled: 0,
        })
    }

    /// Whether any node makes more nodes.
    pub(crate) fn expands(&self) -> bool {
        let expands = |policy: &Policy| policy.expand.is_some();
        self.work
            .iter()
            .any(|work| work.policy.as_deref().is_some_and(expands))
    }

    /// The next node to begin, if any is ready. Nodes that can no longer run are settled on the way.
    pub(crate) fn next(&mut self) -> Option<Ready> {
        while let Some(number) = self.ready.pop_front() {
            match self.upstream_outputs(number) {
                Err(upstream) => self.settle(number, NodeOutcome::Skipped { upstream }),
                Ok(_) if self.stop.is_some() => self.give_up(number),
                Ok(upstream) => return Some(Ready { number, upstream }),
            }
        }
        None
    }

    /// A node that was taken for ready, or whose wait is over, is ready (again), before all others.
    pub(crate) fn put_first(&mut self, number: u32) {
        self.ready.push_front(number);
    }

    /// The outputs that a node is handed, or the key of the first upstream node that has none.
    fn upstream_outputs(&self, number: u32) -> Result<Vec<Upstream>, String> {
        let upstream = self.topology.upstream(number as usize);
        let mut outputs = Vec::with_capacity(upstream.len());
        for up in upstream {
            let node = &self.results[*up as usize];
            let NodeOutcome::Completed { output } = &node.outcome else {
                return Err(node.key.clone());
            };
            let upstream = Upstream::new(&node.key, output.clone());
            outputs.push(upstream.with_execution(node.last_execution()));
            hand_branches(&node.key, &node.branches, &mut outputs);
        }
        Ok(outputs)
    }

    /// The execution of the next attempt at a node.
    pub(crate) fn execution(&self, number: u32) -> ExecutionId {
        self.results[number as usize].last_execution()
    }

    pub(crate) fn key(&self, number: u32) -> &str {
        &self.results[number as usize].key
    }

    /// What to do for the next attempt at a node.
    pub(crate) fn job(&mut self, ready: Ready) -> Job {
        let Ready { number, upstream } = ready;
        let index = number as usize;
        let NodeResult {
            key,
            execution,
            attempts,
            closed,
            ..
        } = &self.results[index];
        let work = &mut self.work[index];
        let policy = work.policy.as_deref();
        let retry = policy
            .and_then(|policy| policy.retry)
            .unwrap_or(self.options.retry);
        let timeout = policy
            .and_then(|policy| policy.timeout)
            .or(self.options.timeout);
        let dispatcher = policy.and_then(|policy| policy.dispatcher.clone());
        let is_last = *attempts + 1 >= retry.max_attempts;
        let flow = if is_last {
            mem::take(&mut work.flow)
        } else {
            work.flow.clone()
        };
        let input = if is_last {
            mem::take(&mut work.input)
        } else {
            work.input.clone()
        };
        if *attempts == 0 {
            self.options.observe(|| GraphEvent::Started {
                index,
                key,
                execution,
            });
        }
        let lineage = if *closed == 0 {
            RecordLineage::new(self.options.parent.clone(), execution.clone(), key.clone())
        } else {
            let (attempt, label) = (attempt_id(execution, closed + 1), closed + 1);
            RecordLineage::new(execution.clone(), attempt, format!("attempt {label}"))
        };
        let mut request = DispatchRequest::new(lineage.child.clone(), flow);
        request.input = input;
        request.upstream = upstream;
        request.parent = Some(lineage.parent.clone());
        Job {
            number,
            lineage,
            request,
            dispatcher,
            timeout,
        }
    }

    /// Notes how an attempt ended, and says what follows.
    pub(crate) fn attempted(&mut self, number: u32, end: AttemptEnd) -> Follows {
        let index = number as usize;
        let policy = self.work[index].policy.as_deref();
        let result = &mut self.results[index];
        result.attempts += 1;
        if let NodeOutcome::Completed { output } = &end.outcome {
            if let Some(expand) = policy.and_then(|policy| policy.expand.clone()) {
                return Follows::Expand(expand, output.clone(), result.last_execution());
            }
        } else if end.may_pass && self.stop.is_none() {
            let retry = policy
                .and_then(|policy| policy.retry)
                .unwrap_or(self.options.retry);
            let attempt = result.attempts;
            if attempt < retry.max_attempts {
                let delay = retry.delay(&result.execution, attempt);
                result.closed += u32::from(end.is_closed);
                let next = result.last_execution();
                self.options.observe(|| GraphEvent::Retrying {
                    index,
                    key: &result.key,
                    attempt,
                    outcome: &end.outcome,
                    delay,
                    next: &next,
                });
                self.tried.insert(number, (end.outcome, end.is_closed));
                return Follows::Wait(delay, next);
            }
        }
        self.settle(number, end.outcome);
        Follows::Nothing
    }

    /// Notes what became of the nodes that a node's output made.
    pub(crate) fn expanded(
        &mut self,
        number: u32,
        output: Bytes,
        branches: Result<Vec<NodeResult>, String>,
    ) {
        let (outcome, branches) = match branches {
            Ok(branches) => match branches.iter().find(|node| !node.outcome.is_completed()) {
                None => (NodeOutcome::Completed { output }, branches),
                Some(node) => {
                    let reason = format!("its branch `{}` {}", node.key, node.outcome);
                    (NodeOutcome::Unexpanded { reason }, branches)
                }
            },
            Err(reason) => (NodeOutcome::Unexpanded { reason }, Vec::new()),
        };
        self.results[number as usize].branches = branches;
        self.settle(number, outcome);
    }

    /// Why nothing more is begun, if that is so.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Begins nothing more.
    pub(crate) fn stop(&mut self, reason: &str) {
        self.stop.get_or_insert_with(|| reason.to_owned());
    }

    /// A node that the stop kept from its first attempt, or from another one.
    pub(crate) fn give_up(&mut self, number: u32) {
        let reason = || self.stop.clone().unwrap_or_default();
        let outcome = match self.tried.remove(&number) {
            Some((outcome, is_closed)) => {
                // The attempt for which it waited does not come.
                self.results[number as usize].closed -= u32::from(is_closed);
                outcome
            }
            None => NodeOutcome::NotBegun { reason: reason() },
        };
        self.settle(number, outcome);
    }

    /// Notes how a node ended, and what may run because of it.
    fn settle(&mut self, number: u32, outcome: NodeOutcome) {
        let index = number as usize;
        self.settled += 1;
        let total = self.results.len();
        let result = &mut self.results[index];
        if self.options.on_failure == OnFailure::FailFast
            && self.stop.is_none()
            && !outcome.is_completed()
            && !matches!(outcome, NodeOutcome::Skipped { .. })
        {
            let reason = format!("the graph fails fast: node `{}` {outcome}", result.key);
            self.stop = Some(reason);
        }
        result.outcome = outcome;
        self.options.observe(|| GraphEvent::Settled {
            index,
            result,
            settled: self.settled,
            total,
        });
        for dependent in self.topology.dependents(index) {
            let waiting = &mut self.waiting[*dependent as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.ready.push_back(*dependent);
            }
        }
    }

    /// What became of the nodes, in their order. To be asked when all have settled.
    pub(crate) fn into_outcome(self) -> GraphOutcome {
        debug_assert_eq!(self.settled, self.results.len(), "an acyclic graph settles");
        GraphOutcome {
            parent: self.options.parent.clone(),
            nodes: self.results,
        }
    }
}

fn check_policy(node: &GraphNode, options: &GraphOptions) -> Result<(), GraphError> {
    let policy = node.policy.as_deref();
    let retry = policy
        .and_then(|policy| policy.retry)
        .unwrap_or(options.retry);
    let timeout = policy.and_then(|policy| policy.timeout).or(options.timeout);
    if retry.max_attempts == 0 {
        let node = node.key.clone();
        return Err(GraphError::ZeroAttempts { node });
    }
    if options.timer.is_none() && (timeout.is_some() || retry.needs_timer()) {
        let node = node.key.clone();
        return Err(GraphError::NoTimer { node });
    }
    Ok(())
}

/// The outputs of the nodes that a node's output made, under their path from it.
fn hand_branches(path: &str, branches: &[NodeResult], outputs: &mut Vec<Upstream>) {
    for branch in branches {
        if let NodeOutcome::Completed { output } = &branch.outcome {
            let path = format!("{path}/{}", branch.key);
            let upstream = Upstream::new(&path, output.clone());
            outputs.push(upstream.with_execution(branch.last_execution()));
            hand_branches(&path, &branch.branches, outputs);
        }
    }
}
