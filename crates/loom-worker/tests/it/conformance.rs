//! The conformance suite of dispatchers, over the runtimes of this crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use loom_conformance::DispatcherSubject;
use loom_spi::{BoxError, EventStore, ExecutionId};
use loom_store_memory::MemoryStore;
use loom_worker::{
    FlowContext, FlowError, InstanceOptions, InstanceWorkerRuntime, LocalWorkerRuntime,
};
use serde_json::Value;

use crate::platform::TestPlatform;

/// How often bodies have begun, by execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<Mutex<HashMap<ExecutionId, usize>>>);

impl Begun {
    fn note(&self, flow: &FlowContext) {
        *self.0.lock().unwrap().entry(flow.id().clone()).or_insert(0) += 1;
    }

    fn of(&self, id: &ExecutionId) -> usize {
        self.0.lock().unwrap().get(id).copied().unwrap_or(0)
    }
}

/// A runtime that knows the flows of the suite.
pub(crate) fn worker(store: Arc<dyn EventStore>, begun: &Begun) -> LocalWorkerRuntime {
    let (echo, wait) = (begun.clone(), begun.clone());
    LocalWorkerRuntime::builder(store)
        .flow("echo", move |flow: FlowContext| {
            let echo = echo.clone();
            async move {
                echo.note(&flow);
                let input: Value = flow.input()?;
                let effect = flow.effect("echo", |_| async move { Ok::<_, FlowError>(input) });
                Ok(effect.await?)
            }
        })
        .flow("sum", |flow: FlowContext| async move {
            let mut sum: u64 = 0;
            for upstream in flow.upstream() {
                sum += flow.upstream_output::<u64>(&upstream.key)?;
            }
            Ok(sum)
        })
        .flow("fail", |_| async {
            Err::<(), _>(FlowError::new("as told"))
        })
        .flow("panic", |_| async {
            panic!("out of paper") as Result<(), FlowError>
        })
        .flow("wait", move |flow: FlowContext| {
            let wait = wait.clone();
            async move {
                wait.note(&flow);
                std::future::pending::<()>().await;
                Ok(())
            }
        })
        .build()
}

async fn local() -> Result<DispatcherSubject, BoxError> {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let begun = Begun::default();
    let [first, second] = [0; 2].map(|_| Arc::new(worker(Arc::clone(&store), &begun)));
    let runs = move |id: &ExecutionId| begun.of(id);
    Ok(DispatcherSubject::new(store, first, second, runs))
}

async fn instances() -> Result<DispatcherSubject, BoxError> {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let begun = Begun::default();
    let [first, second] = [0; 2].map(|_| {
        let worker = worker(Arc::clone(&store), &begun);
        let platform = TestPlatform::running(worker);
        let options = InstanceOptions::default();
        Arc::new(InstanceWorkerRuntime::new(
            Arc::clone(&store),
            platform,
            options,
        ))
    });
    let runs = move |id: &ExecutionId| begun.of(id);
    Ok(DispatcherSubject::new(store, first, second, runs))
}

loom_conformance::dispatcher!(local_worker_runtime, local);
loom_conformance::dispatcher!(instance_worker_runtime, instances);
