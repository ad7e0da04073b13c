//! dagx: a graph in memory, a task for each node.

use std::hint::black_box;
use std::time::{Duration, Instant};

use dagx::{DagRunner, task_fn};
use tokio::runtime::Runtime;

use crate::writers::runtime;
use crate::{Failure, Peer};

struct Dagx(Runtime);

pub fn open() -> Result<impl Peer + use<>, Failure> {
    Ok(Dagx(runtime()?))
}

impl Peer for Dagx {
    fn setting(&self) -> (bool, &'static str) {
        (
            false,
            "in memory: it keeps nothing, no lineage and no journal",
        )
    }

    fn graph(&mut self, nodes: usize) -> Result<Duration, Failure> {
        self.0.block_on(async {
            let started = Instant::now();
            let graph = DagRunner::new();
            for node in 0..nodes {
                graph.add_task(task_fn(move |_: ()| async move { black_box(node) }));
            }
            graph.run(|task| drop(tokio::spawn(task))).await?;
            drop(graph);
            Ok(started.elapsed())
        })
    }
}
