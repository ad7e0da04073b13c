//! dagrs: a graph in memory, a task for each node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dagrs::{Action, DefaultNode, EnvVar, Graph, InChannels, NodeTable, OutChannels, Output};
use tokio::runtime::Runtime;

use crate::writers::runtime;
use crate::{Failure, Peer};

struct Dagrs(Runtime);

pub fn open() -> Result<impl Peer + use<>, Failure> {
    Ok(Dagrs(runtime()?))
}

struct Noop;

#[dagrs::async_trait::async_trait]
impl Action for Noop {
    async fn run(&self, _: &mut InChannels, _: &mut OutChannels, _: Arc<EnvVar>) -> Output {
        Output::empty()
    }
}

impl Peer for Dagrs {
    fn setting(&self) -> (bool, &'static str) {
        (
            false,
            "in memory: its Graph keeps nothing unless it is given a CheckpointStore",
        )
    }

    fn graph(&mut self, nodes: usize) -> Result<Duration, Failure> {
        self.0.block_on(async {
            let started = Instant::now();
            let mut table = NodeTable::new();
            let mut graph = Graph::new();
            for node in 0..nodes {
                let node = DefaultNode::with_action(node.to_string(), Noop, &mut table);
                graph.add_node(node)?;
            }
            graph.set_env(EnvVar::new(table));
            let report = graph.async_start().await?;
            drop(graph);
            let took = started.elapsed();
            if report.node_succeeded != nodes {
                return Err(format!("{} of {nodes} nodes succeeded", report.node_succeeded).into());
            }
            Ok(took)
        })
    }
}
