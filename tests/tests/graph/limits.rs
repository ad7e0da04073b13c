//! What is larger than the store takes.

use std::sync::Arc;

use loom_graph_executor::{GraphNode, GraphOptions, NodeOutcome, Retry, TokioTimer};
use loom_journal::JournalError;
use loom_spi::{
    Append, DispatchError, EventStore, Limits, NewEvent, Retry as StoreRetry, StoreErrorKind,
};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Tally, id, kinds, run};

/// More than the store takes.
const LARGE: usize = 5000;

async fn effect(flow: FlowContext, tally: Tally) -> Result<String, FlowError> {
    let large = flow.effect("large", |_| async {
        tally.count(flow.id());
        Ok::<_, std::convert::Infallible>("x".repeat(LARGE))
    });
    match large.await {
        Err(error @ JournalError::EffectFailed { .. }) => Ok(error.to_string()),
        other => Err(FlowError::new(format!(
            "expected EffectFailed, got {other:?}"
        ))),
    }
}

#[tokio::test]
async fn e16_an_event_larger_than_the_limit_is_refused_for_good_at_once() {
    let limits = Limits::default().with_max_payload_bytes(1024);
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::builder().limits(limits).build());

    // By the store itself.
    let large = NewEvent::new("large", vec![b'x'; LARGE]);
    let refused = store.append(Append::new(id("bare"), 0, vec![large])).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::InvalidArgument { .. }),
        "{error:?}"
    );
    assert_eq!(error.retry(), StoreRetry::Never);

    // As an input, a result of an effect, and an output, however often the graph may try.
    let tally = Tally::default();
    let (outputs, effects) = (tally.clone(), tally.clone());
    let runtime = LocalWorkerRuntime::builder(Arc::clone(&store))
        .flow("output", move |flow: FlowContext| {
            outputs.count(flow.id());
            async { Ok("x".repeat(LARGE)) }
        })
        .flow("effect", move |flow: FlowContext| {
            effect(flow, effects.clone())
        })
        .build();
    let nodes = vec![
        GraphNode::new("input", "output")
            .with_input(format!("\"{}\"", "x".repeat(LARGE)))
            .with_retry(Retry::attempts(9)),
        GraphNode::new("effect", "effect").with_retry(Retry::attempts(9)),
        GraphNode::new("output", "output"),
    ];
    let options = GraphOptions::new(id("g")).with_timer(Arc::new(TokioTimer));
    let outcome = run(&runtime, &*store, nodes, options).await;
    let [input, effect, output] = &outcome.nodes[..] else {
        panic!("{outcome:?}");
    };
    let NodeOutcome::Error(error) = &input.outcome else {
        panic!("{input:?}");
    };
    assert!(
        matches!(&**error, DispatchError::InvalidRequest { reason, .. } if reason.contains("at most 1024")),
        "{error:?}"
    );
    assert_eq!(input.attempts, 1);
    let NodeOutcome::Completed { output: caught } = &effect.outcome else {
        panic!("{effect:?}");
    };
    let caught = String::from_utf8_lossy(caught);
    assert!(caught.contains("at most 1024"), "{caught}");
    let NodeOutcome::Failed { message } = &output.outcome else {
        panic!("{output:?}");
    };
    assert!(message.contains("1024"), "{message}");
    assert_eq!(
        kinds(&*store, &output.execution).await,
        ["loom.started", "loom.failed"]
    );
    let counts: Vec<_> = tally.counts().into_iter().collect();
    assert_eq!(counts, [("g/effect".into(), 1), ("g/output".into(), 1)]);
}
