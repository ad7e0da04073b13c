//! dbos on PostgreSQL: a workflow over workflows, or over steps.

use std::time::{Duration, Instant};

use dbos::{Config, DBOS, WorkflowRef};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::runtime::Runtime;

use crate::writers::runtime;
use crate::{Failure, LIMIT, Peer};

/// What a node of a graph is.
pub enum Node {
    /// A workflow of its own, as our nodes are executions of their own.
    Workflow,
    /// A step of the one workflow: a result is recorded under its number, and that is all.
    Step,
}

struct Dbos {
    /// Runs what was started for as long as it is there.
    _dbos: DBOS,
    graph: WorkflowRef<usize, ()>,
    runtime: Runtime,
}

pub fn open(url: &str, node: Node) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let dbos = DBOS::new(Config {
        app_version: Some("1".to_owned()),
        ..Config::new("loom-bench", url)
    });
    let noop = dbos.register_workflow("noop", |()| async { dbos::Result::Ok(()) })?;
    let graph = match node {
        Node::Workflow => dbos.register_workflow("graph", move |nodes: usize| {
            let noop = noop.clone();
            async move {
                // Ids are taken in this order, whichever is done first.
                stream::iter((0..nodes).map(|_| noop.run(())))
                    .buffer_unordered(LIMIT)
                    .try_for_each(|()| std::future::ready(Ok(())))
                    .await
            }
        })?,
        Node::Step => dbos.register_workflow("graph", |nodes: usize| async move {
            stream::iter((0..nodes).map(|_| dbos::step("noop", || async { dbos::Result::Ok(()) })))
                .buffer_unordered(LIMIT)
                .try_for_each(|()| std::future::ready(Ok(())))
                .await
        })?,
    };
    runtime.block_on(dbos.launch())?;
    Ok(Dbos {
        _dbos: dbos,
        graph,
        runtime,
    })
}

impl Peer for Dbos {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "10 connections, its default; it leaves synchronous_commit as the server has it (sysdb/postgres.rs)",
        )
    }

    fn graph(&mut self, nodes: usize) -> Result<Duration, Failure> {
        self.runtime.block_on(async {
            let started = Instant::now();
            self.graph.run(nodes).await?;
            Ok(started.elapsed())
        })
    }
}
