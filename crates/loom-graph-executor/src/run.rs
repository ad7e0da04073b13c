//! A graph that is running: what is ready, what has settled.

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use loom_spi::{DispatchRequest, RecordLineage, Upstream};

use crate::child_id::ChildIds;
use crate::topology::Topology;
use crate::{
    GraphError, GraphEvent, GraphNode, GraphOptions, GraphOutcome, NodeOutcome, NodeResult,
};

/// Decides what runs next. Knows nothing of futures.
#[derive(Debug)]
pub(crate) struct GraphRun<'a> {
    options: &'a GraphOptions,
    topology: Topology,
    /// What each node runs, until it is dispatched.
    work: Vec<(String, Bytes)>,
    /// In the order of the nodes. A node that has not settled counts as skipped.
    results: Vec<NodeResult>,
    /// For each node how many of those that it waits for have not settled.
    waiting: Vec<u32>,
    /// Nodes that wait for nothing more, in the order in which that came about.
    ready: VecDeque<u32>,
    settled: usize,
}

impl<'a> GraphRun<'a> {
    pub(crate) fn new(
        nodes: Vec<GraphNode>,
        options: &'a GraphOptions,
    ) -> Result<Self, GraphError> {
        if options.limit == 0 {
            return Err(GraphError::ZeroLimit);
        }
        let topology = Topology::of(&nodes)?;
        let waiting = topology.upstream_counts();
        let ready = (0..).zip(&waiting).filter(|(_, waiting)| **waiting == 0);
        let ready = ready.map(|(node, _)| node).collect();
        let mut ids = ChildIds::of(&options.parent);
        let mut work = Vec::with_capacity(nodes.len());
        let mut results = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            let key = node.key;
            let execution = match ids.child(&key) {
                Ok(execution) => execution,
                Err(source) => return Err(GraphError::InvalidKey { index, key, source }),
            };
            work.push((node.flow, node.input));
            results.push(NodeResult {
                key,
                execution,
                outcome: NodeOutcome::Skipped {
                    upstream: String::new(),
                },
            });
        }
        Ok(Self {
            options,
            topology,
            work,
            results,
            waiting,
            ready,
            settled: 0,
        })
    }

    /// The next node to dispatch, if any is ready: which one, of whom it is a branch, and what to ask for.
    /// Nodes that can no longer run are skipped on the way.
    pub(crate) fn next(&mut self) -> Option<(u32, RecordLineage, DispatchRequest)> {
        while let Some(number) = self.ready.pop_front() {
            match self.upstream_outputs(number) {
                Ok(upstream) => {
                    let (lineage, request) = self.start(number, upstream);
                    return Some((number, lineage, request));
                }
                Err(upstream) => self.settle(number, NodeOutcome::Skipped { upstream }),
            }
        }
        None
    }

    /// The outputs that a node is handed, or the key of the first upstream node that has none.
    fn upstream_outputs(&self, number: u32) -> Result<Vec<Upstream>, String> {
        let upstream = self.topology.upstream(number as usize);
        let mut outputs = Vec::with_capacity(upstream.len());
        for up in upstream {
            let NodeResult {
                key,
                execution,
                outcome,
            } = &self.results[*up as usize];
            let NodeOutcome::Completed { output } = outcome else {
                return Err(key.clone());
            };
            let upstream = Upstream::new(key, output.clone());
            outputs.push(upstream.with_execution(execution.clone()));
        }
        Ok(outputs)
    }

    fn start(&mut self, number: u32, upstream: Vec<Upstream>) -> (RecordLineage, DispatchRequest) {
        let index = number as usize;
        let (flow, input) = mem::take(&mut self.work[index]);
        let NodeResult { key, execution, .. } = &self.results[index];
        let parent = &self.options.parent;
        let lineage = RecordLineage::new(parent.clone(), execution.clone(), key.clone());
        let mut request = DispatchRequest::new(execution.clone(), flow);
        request.input = input;
        request.upstream = upstream;
        request.parent = Some(parent.clone());
        self.options.observe(|| GraphEvent::Started {
            index,
            key,
            execution,
        });
        (lineage, request)
    }

    /// Notes how a node ended, and what may run because of it.
    pub(crate) fn settle(&mut self, number: u32, outcome: NodeOutcome) {
        let index = number as usize;
        self.settled += 1;
        let total = self.results.len();
        let result = &mut self.results[index];
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
