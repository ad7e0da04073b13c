//! A graph that is running: what is ready, what has settled.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::ops::Range;
use std::time::Duration;

use ahash::RandomState;
use bytes::Bytes;
use loom_spi::{DispatchRequest, ExecutionId, RecordLineage, Upstream};

use crate::attempt::Job;
use crate::child_id::ChildIds;
use crate::earlier::Earlier;
use crate::node::{Expand, Policy};
use crate::topology::Topology;
use crate::{
    GraphError, GraphEvent, GraphManifest, GraphNode, GraphOptions, GraphOutcome, NodeOutcome,
    NodeResult, OnFailure, Retry, attempt_id,
};

/// Decides what runs next. Knows nothing of futures.
#[derive(Debug)]
pub(crate) struct GraphRun<'a> {
    options: &'a GraphOptions,
    topology: Topology,
    /// In the memory of the nodes that were given, and at last in that of the results.
    nodes: Vec<Node>,
    /// For each node how many of those that it waits for have not settled. Empty where there are no edges.
    waiting: Vec<u32>,
    /// Nodes that come before all others.
    first: Vec<u32>,
    /// Nodes that come before those that are new.
    earlier: Earlier,
    /// Those that were not looked at yet, of which some wait for nothing from the start.
    fresh: Range<u32>,
    /// Nodes that wait for nothing more, in the order in which that came about.
    ready: VecDeque<u32>,
    /// How the last attempt ended at nodes that are tried again, and whether its log is closed.
    tried: HashMap<u32, (NodeOutcome, bool), RandomState>,
    /// What became of the nodes that outputs asked for.
    branches: HashMap<u32, Vec<NodeResult>, RandomState>,
    /// Why nothing more is begun.
    stop: Option<String>,
    settled: usize,
}

/// As large as a [`GraphNode`] and a [`NodeResult`], so that a vector of the one becomes one of the other where it
/// lies: most of the time of a graph of many small nodes goes into memory that is touched for the first time.
#[derive(Debug)]
struct Node {
    key: String,
    execution: ExecutionId,
    policy: Option<Box<Policy>>,
    phase: Phase,
    attempts: u32,
    closed: u32,
}

#[derive(Debug)]
enum Phase {
    /// What it runs.
    Work {
        flow: String,
        input: Bytes,
    },
    Settled(NodeOutcome),
}

impl Node {
    fn last_execution(&self) -> ExecutionId {
        attempt_id(&self.execution, self.closed + 1)
    }

    fn output(&self) -> Option<&Bytes> {
        match &self.phase {
            Phase::Settled(NodeOutcome::Completed { output }) => Some(output),
            _ => None,
        }
    }

    fn retry(&self, options: &GraphOptions) -> Retry {
        let own = self.policy.as_deref().and_then(|policy| policy.retry);
        own.unwrap_or(options.retry)
    }

    fn into_result(self, branches: Vec<NodeResult>) -> NodeResult {
        let outcome = match self.phase {
            Phase::Settled(outcome) => outcome,
            // Not to be seen: whoever asks waits until all have settled.
            Phase::Work { .. } => NodeOutcome::Skipped {
                upstream: String::new(),
            },
        };
        NodeResult {
            key: self.key,
            execution: self.execution,
            outcome,
            attempts: self.attempts,
            closed: self.closed,
            branches,
        }
    }
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
        // Their number was checked.
        let fresh = 0..u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut ids = ChildIds::of(&options.parent);
        let nodes = nodes.into_iter().enumerate().map(|(index, node)| {
            check_policy(&node, options)?;
            let GraphNode {
                key,
                flow,
                input,
                policy,
                ..
            } = node;
            match ids.child(&key) {
                Ok(execution) => Ok(Node {
                    key,
                    execution,
                    policy,
                    phase: Phase::Work { flow, input },
                    attempts: 0,
                    closed: 0,
                }),
                Err(source) => Err(GraphError::InvalidKey { index, key, source }),
            }
        });
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            options,
            topology,
            nodes,
            waiting,
            first: Vec::new(),
            earlier: Earlier::default(),
            fresh,
            ready: VecDeque::new(),
            tried: HashMap::default(),
            branches: HashMap::default(),
            stop: None,
            settled: 0,
        })
    }

    /// Whether any node makes more nodes.
    pub(crate) fn expands(&self) -> bool {
        let expands = |policy: &Policy| policy.expand.is_some();
        self.nodes
            .iter()
            .any(|node| node.policy.as_deref().is_some_and(expands))
    }

    /// The next node to begin, if any is ready. Nodes that can no longer run are settled on the way.
    pub(crate) fn next(&mut self) -> Option<Ready> {
        while let Some(number) = self.pop() {
            match self.upstream_outputs(number) {
                Err(upstream) => self.settle(number, NodeOutcome::Skipped { upstream }),
                Ok(_) if self.stop.is_some() => self.give_up(number),
                Ok(upstream) => return Some(Ready { number, upstream }),
            }
        }
        None
    }

    /// Begins nothing new before it is known how those executions ended, as far as they are this graph's.
    pub(crate) fn wait_for(&mut self, executions: &HashSet<ExecutionId, RandomState>) {
        for (number, node) in (0..).zip(&self.nodes) {
            if executions.contains(&node.execution) {
                let is_ready = self.topology.upstream(number as usize).is_empty();
                self.earlier.add(number, is_ready);
            }
        }
    }

    /// It is known how far an earlier run came with this node.
    pub(crate) fn know(&mut self, number: u32) {
        self.earlier.know(number);
    }

    /// Waits for no earlier run any more, since nothing is left that could end; `false` when it did not.
    pub(crate) fn let_go(&mut self) -> bool {
        self.earlier.let_go()
    }

    fn pop(&mut self) -> Option<u32> {
        let early = self.first.pop().or_else(|| self.earlier.pop());
        if early.is_some() || self.earlier.holds() {
            return early;
        }
        let Self {
            fresh,
            topology,
            earlier,
            ..
        } = self;
        // The others come up when what they wait for has settled.
        fresh
            .find(|number| {
                topology.upstream(*number as usize).is_empty() && !earlier.contains(*number)
            })
            .or_else(|| self.ready.pop_front())
    }

    /// A node that was taken for ready, or whose wait is over, is ready (again), before all others.
    pub(crate) fn put_first(&mut self, number: u32) {
        self.first.push(number);
    }

    /// The outputs that a node is handed, or the key of the first upstream node that has none.
    fn upstream_outputs(&self, number: u32) -> Result<Vec<Upstream>, String> {
        let upstream = self.topology.upstream(number as usize);
        let mut outputs = Vec::with_capacity(upstream.len());
        for up in upstream {
            let node = &self.nodes[*up as usize];
            let Some(output) = node.output() else {
                return Err(node.key.clone());
            };
            let upstream = Upstream::new(&node.key, output.clone());
            outputs.push(upstream.with_execution(node.last_execution()));
            if let Some(branches) = self.branches.get(up) {
                hand_branches(&node.key, branches, &mut outputs);
            }
        }
        Ok(outputs)
    }

    /// The execution of the next attempt at a node.
    pub(crate) fn execution(&self, number: u32) -> ExecutionId {
        self.nodes[number as usize].last_execution()
    }

    pub(crate) fn key(&self, number: u32) -> &str {
        &self.nodes[number as usize].key
    }

    /// What to do for the next attempt at a node.
    pub(crate) fn job(&mut self, ready: Ready) -> Job {
        let Ready { number, upstream } = ready;
        let index = number as usize;
        let node = &mut self.nodes[index];
        let is_last = node.attempts + 1 >= node.retry(self.options).max_attempts;
        let policy = node.policy.as_deref();
        let timeout = policy
            .and_then(|policy| policy.timeout)
            .or(self.options.timeout);
        let dispatcher = policy.and_then(|policy| policy.dispatcher.clone());
        let (flow, input) = match &mut node.phase {
            Phase::Work { flow, input } if is_last => (mem::take(flow), mem::take(input)),
            Phase::Work { flow, input } => (flow.clone(), input.clone()),
            // One that has settled is never ready.
            Phase::Settled(_) => (String::new(), Bytes::new()),
        };
        let Node {
            key,
            execution,
            attempts,
            closed,
            ..
        } = &*node;
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
        let node = &mut self.nodes[index];
        node.attempts += 1;
        if let NodeOutcome::Completed { output } = &end.outcome {
            let expand = node.policy.as_deref().map(|policy| policy.expand.clone());
            if let Some(expand) = expand.flatten() {
                return Follows::Expand(expand, output.clone(), node.last_execution());
            }
        } else if end.may_pass && self.stop.is_none() {
            let retry = node.retry(self.options);
            let attempt = node.attempts;
            if attempt < retry.max_attempts {
                let delay = retry.delay(&node.execution, attempt);
                node.closed += u32::from(end.is_closed);
                let next = node.last_execution();
                self.options.observe(|| GraphEvent::Retrying {
                    index,
                    key: &node.key,
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
        if !branches.is_empty() {
            self.branches.insert(number, branches);
        }
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
                self.nodes[number as usize].closed -= u32::from(is_closed);
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
        self.earlier.know(number);
        let node = &mut self.nodes[index];
        if self.options.on_failure == OnFailure::FailFast
            && self.stop.is_none()
            && !outcome.is_completed()
            && !matches!(outcome, NodeOutcome::Skipped { .. })
        {
            let reason = format!("the graph fails fast: node `{}` {outcome}", node.key);
            self.stop = Some(reason);
        }
        node.phase = Phase::Settled(outcome);
        if self.options.is_observed() {
            self.tell_of_settling(number);
        }
        for dependent in self.topology.dependents(index) {
            let waiting = &mut self.waiting[*dependent as usize];
            *waiting -= 1;
            if *waiting == 0 && !self.earlier.take(*dependent) {
                self.ready.push_back(*dependent);
            }
        }
    }

    fn tell_of_settling(&mut self, number: u32) {
        let index = number as usize;
        let total = self.nodes.len();
        let node = &mut self.nodes[index];
        let phase = Phase::Work {
            flow: String::new(),
            input: Bytes::new(),
        };
        // Lent out as the result that it will be.
        let lent = Node {
            key: mem::take(&mut node.key),
            execution: node.execution.clone(),
            policy: None,
            phase: mem::replace(&mut node.phase, phase),
            ..*node
        };
        let branches = self.branches.remove(&number).unwrap_or_default();
        let result = lent.into_result(branches);
        self.options.observe(|| GraphEvent::Settled {
            index,
            result: &result,
            settled: self.settled,
            total,
        });
        node.key = result.key;
        node.phase = Phase::Settled(result.outcome);
        if !result.branches.is_empty() {
            self.branches.insert(number, result.branches);
        }
    }

    /// What became of the nodes, in their order. To be asked when all have settled.
    pub(crate) fn into_outcome(self) -> GraphOutcome {
        debug_assert_eq!(self.settled, self.nodes.len(), "an acyclic graph settles");
        let mut branches = self.branches;
        // `enumerate` lets the results lie where the nodes did.
        let results = self.nodes.into_iter().enumerate().map(|(index, node)| {
            let number = u32::try_from(index).ok().filter(|_| !branches.is_empty());
            let branches = number.and_then(|number| branches.remove(&number));
            node.into_result(branches.unwrap_or_default())
        });
        GraphOutcome {
            parent: self.options.parent.clone(),
            nodes: results.collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where they differ, graphs run all the same, and copy their nodes twice.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn nodes_and_results_lie_in_the_same_memory() {
        assert_eq!(size_of::<Node>(), size_of::<GraphNode>());
        assert_eq!(size_of::<Node>(), size_of::<NodeResult>());
    }
}
