//! Graphs that broke off and are run again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use loom_graph_executor::{GraphNode, GraphOptions};
use loom_journal::JournalOptions;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, Head, List, ListPage, LogHead,
    Read, ReadPage, StoreError,
};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, LocalWorkerRuntime};
use tokio::sync::{Notify, Semaphore};

use crate::support::{Tally, children, id, kinds, run};

/// Two effects, between which a node waits for a permit.
fn runtime(
    store: Arc<dyn EventStore>,
    tally: &Tally,
    gate: &Arc<Semaphore>,
    waiting: &Arc<Notify>,
) -> LocalWorkerRuntime {
    let (tally, gate, waiting) = (tally.clone(), Arc::clone(gate), Arc::clone(waiting));
    LocalWorkerRuntime::builder(store)
        // The process that had it is known to have died: nobody waits for its lease to lapse.
        .journal_options(JournalOptions::default().with_take_over(true))
        .flow("step", move |flow: FlowContext| {
            let (tally, gate, waiting) = (tally.clone(), Arc::clone(&gate), Arc::clone(&waiting));
            async move {
                let mut total = 0_u32;
                for key in ["before", "after"] {
                    if key == "after" {
                        waiting.notify_one();
                        gate.acquire().await?.forget();
                    }
                    let (tally, what) = (tally.clone(), format!("{} {key}", flow.id()));
                    let effect =
                        flow.effect(
                            key,
                            |_| async move { Ok::<_, Infallible>(tally.count(what)) },
                        );
                    total += effect.await?;
                }
                Ok(total)
            }
        })
        .build()
}

fn nodes() -> Vec<GraphNode> {
    let node = |key: &str, after: &[&str]| GraphNode::new(key, "step").after(after.iter().copied());
    vec![
        node("a", &[]),
        node("b", &["a"]),
        node("c", &["a"]),
        node("d", &["b", "c"]),
    ]
}

/// The process dies after `permits` nodes have got past their gate, and another one runs the graph again.
fn crash_and_resume(permits: usize) {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    let options = || GraphOptions::new(id("g")).with_limit(1);
    let (gate, waiting) = (Arc::new(Semaphore::new(permits)), Arc::new(Notify::new()));
    let process = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    process.block_on(async {
        let runtime = runtime(Arc::clone(&store), &tally, &gate, &waiting);
        let graph = run(&runtime, &*store, nodes(), options());
        let blocked = async {
            // One node at a time: each says so before it waits, and the last one waits for ever.
            for _ in 0..=permits {
                waiting.notified().await;
            }
            // Let the last one get to the gate.
            tokio::task::yield_now().await;
        };
        tokio::select! {
            biased;
            outcome = graph => assert_eq!(outcome.nodes.len(), 4),
            () = blocked => {}
        }
    });
    drop(process);
    let before = tally.counts();

    let process = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    process.block_on(async {
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let runtime = runtime(Arc::clone(&store), &tally, &gate, &Arc::default());
        let outcome = run(&runtime, &*store, nodes(), options()).await;
        assert!(outcome.all_completed(), "{outcome:?}");
        for node in &outcome.nodes {
            // The result is the same as without a crash: every effect ran once.
            assert_eq!(node.outcome.to_string(), "completed");
            let kinds = kinds(&*store, &node.execution).await;
            assert_eq!(
                kinds,
                [
                    "loom.started",
                    "loom.effect",
                    "loom.effect",
                    "loom.completed"
                ]
            );
        }
        assert_eq!(children(&*store, "g").await.len(), 4);
    });
    let after = tally.counts();
    assert_eq!(after.len(), 8);
    assert!(
        after.values().all(|count| *count == 1),
        "{before:?} then {after:?}"
    );
    assert_eq!(before.len(), (2 * permits + 1).min(8), "{before:?}");
}

#[test]
fn a_graph_whose_process_dies_is_resumed_where_it_stood_and_repeats_no_effect() {
    for permits in 0..4 {
        crash_and_resume(permits);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_calls_that_run_one_graph_at_once_share_its_executions() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let runtime = runtime(Arc::clone(&store), &tally, &gate, &Arc::default());
    let options = || GraphOptions::new(id("g"));
    let (first, second) = tokio::join!(
        run(&runtime, &*store, nodes(), options()),
        run(&runtime, &*store, nodes(), options()),
    );
    assert!(
        first.all_completed() && second.all_completed(),
        "{first:?} {second:?}"
    );
    assert!(
        tally.counts().values().all(|count| *count == 1),
        "{:?}",
        tally.counts()
    );
}

/// Counts the reads that reach the store.
#[derive(Debug, Default)]
struct CountingStore {
    inner: MemoryStore,
    reads: AtomicUsize,
}

#[async_trait]
impl EventStore for CountingStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.inner.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.inner.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.inner.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner.capabilities()
    }
}

#[tokio::test]
async fn e9_the_reads_of_a_join_grow_linearly_with_its_branches() {
    let mut reads = Vec::new();
    for branches in [100, 1000] {
        let store = Arc::new(CountingStore::default());
        let runtime = LocalWorkerRuntime::builder(Arc::<CountingStore>::clone(&store))
            .flow("noop", |_| async { Ok(()) })
            .build();
        let nodes: Vec<_> = (0..branches)
            .map(|n| GraphNode::new(n.to_string(), "noop"))
            .collect();
        for _ in 0..2 {
            let outcome = run(&runtime, &*store, nodes.clone(), GraphOptions::new(id("g"))).await;
            assert!(outcome.all_completed());
            reads.push(store.reads.swap(0, Ordering::SeqCst));
        }
    }
    // One to begin a branch, two to learn that it has ended.
    assert_eq!(reads, [100, 200, 1000, 2000]);
}

#[tokio::test]
async fn the_branches_of_a_graph_that_is_dropped_go_on_and_the_graph_is_resumed_by_running_it_again()
 {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    let (gate, waiting) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let runtime = runtime(Arc::clone(&store), &tally, &gate, &waiting);
    let options = || GraphOptions::new(id("g"));
    let flat = || ["x", "y"].map(|key| GraphNode::new(key, "step")).to_vec();
    tokio::select! {
        biased;
        outcome = run(&runtime, &*store, flat(), options()) => panic!("{outcome:?}"),
        () = async {
            waiting.notified().await;
            tokio::task::yield_now().await;
        } => {}
    }
    assert_eq!(runtime.running(), 2, "they are not dropped with the graph");
    gate.add_permits(1);
    while runtime.running() == 2 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    let outcome = run(&runtime, &*store, flat(), options()).await;
    assert!(outcome.all_completed(), "{outcome:?}");
    let counts = tally.counts();
    assert_eq!(counts.len(), 4);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(children(&*store, "g").await, ["g/x", "g/y"]);
}
