//! A graph that is running: what is ready, what has settled.

use std::collections::VecDeque;
use std::mem;

use loom_spi::{DispatchRequest, ExecutionId, Upstream};

use crate::child_id::child_id;
use crate::topology::Topology;
use crate::{
    GraphError, GraphEvent, GraphNode, GraphOptions, GraphOutcome, NodeOutcome, NodeResult,
};

/// Decides what runs next. Knows nothing of futures.
#[derive(Debug)]
pub(crate) struct GraphRun<'a> {
    options: &'a GraphOptions,
    topology: Topology,
    nodes: Vec<GraphNode>,
    executions: Vec<ExecutionId>,
    /// Those of the nodes that have settled.
    outcomes: Vec<Option<NodeOutcome>>,
    /// For each node how many of those that it waits for have not settled.
    waiting: Vec<u32>,
    /// Nodes that wait for nothing more, in the order in which that came about.
    ready: VecDeque<u32>,
    settled: usize,
}

impl<'a> GraphRun<'a> {
    pub(crate) fn new(
        mut nodes: Vec<GraphNode>,
        options: &'a GraphOptions,
    ) -> Result<Self, GraphError> {
        if options.limit == 0 {
            return Err(GraphError::ZeroLimit);
        }
        let executions = child_ids(&options.parent, &nodes)?;
        let topology = Topology::of(&nodes)?;
        for node in &mut nodes {
            // The topology knows it from here on.
            node.after = Vec::new();
        }
        let waiting = topology.upstream_counts();
        let ready = (0..).zip(&waiting).filter(|(_, waiting)| **waiting == 0);
        Ok(Self {
            options,
            ready: ready.map(|(node, _)| node).collect(),
            outcomes: nodes.iter().map(|_| None).collect(),
            nodes,
            executions,
            waiting,
            topology,
            settled: 0,
        })
    }

    /// The next node to dispatch, if any is ready: which one, and what to ask for. Nodes that can no longer
    /// run are skipped on the way.
    pub(crate) fn next(&mut self) -> Option<(u32, DispatchRequest)> {
        while let Some(number) = self.ready.pop_front() {
            match self.upstream_outputs(number) {
                Ok(upstream) => return Some((number, self.start(number, upstream))),
                Err(upstream) => self.settle(number, NodeOutcome::Skipped { upstream }),
            }
        }
        None
    }

    /// The outputs that a node is handed, or the key of the first upstream node that has none.
    fn upstream_outputs(&self, number: u32) -> Result<Vec<Upstream>, String> {
        let upstream = self.topology.upstream(number as usize).iter();
        let outputs = upstream.map(|up| {
            let key = self.nodes[*up as usize].key.clone();
            match &self.outcomes[*up as usize] {
                Some(NodeOutcome::Completed { output }) => Ok(Upstream::new(key, output.clone())),
                _ => Err(key),
            }
        });
        outputs.collect()
    }

    fn start(&mut self, number: u32, upstream: Vec<Upstream>) -> DispatchRequest {
        let index = number as usize;
        let node = &mut self.nodes[index];
        let execution = &self.executions[index];
        let request = DispatchRequest::new(execution.clone(), mem::take(&mut node.flow))
            .with_input(mem::take(&mut node.input))
            .with_upstream(upstream)
            .with_parent(self.options.parent.clone());
        self.options.observe(|| GraphEvent::Started {
            index,
            key: &node.key,
            execution,
        });
        request
    }

    pub(crate) fn key(&self, number: u32) -> &str {
        &self.nodes[number as usize].key
    }

    /// Notes how a node ended, and what may run because of it.
    pub(crate) fn settle(&mut self, number: u32, outcome: NodeOutcome) {
        let index = number as usize;
        self.settled += 1;
        self.options.observe(|| GraphEvent::Settled {
            index,
            key: &self.nodes[index].key,
            execution: &self.executions[index],
            outcome: &outcome,
            settled: self.settled,
            total: self.nodes.len(),
        });
        self.outcomes[index] = Some(outcome);
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
        debug_assert_eq!(self.settled, self.nodes.len(), "an acyclic graph settles");
        let nodes = self
            .nodes
            .into_iter()
            .zip(self.executions)
            .zip(self.outcomes);
        let results = nodes.filter_map(|((node, execution), outcome)| {
            Some(NodeResult {
                key: node.key,
                execution,
                outcome: outcome?,
            })
        });
        GraphOutcome {
            parent: self.options.parent.clone(),
            nodes: results.collect(),
        }
    }
}

fn child_ids(parent: &ExecutionId, nodes: &[GraphNode]) -> Result<Vec<ExecutionId>, GraphError> {
    let ids = nodes.iter().enumerate().map(|(index, node)| {
        child_id(parent, &node.key).map_err(|source| GraphError::InvalidKey {
            index,
            key: node.key.clone(),
            source,
        })
    });
    ids.collect()
}
