//! A dispatcher whose executions end when the test says so.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use loom_graph_executor::{
    GraphError, GraphNode, GraphOptions, GraphOutcome, Timer, execute_graph,
};
use loom_spi::{
    BranchRegistry, CancelRequest, Cancellation, Children, DispatchError, DispatchRequest,
    ExecutionDispatcher, ExecutionId, ExecutionOutcome, Failure, Parent,
};
use loom_store_memory::MemoryStore;
use tokio::sync::oneshot;

type Answer = Result<ExecutionOutcome, DispatchError>;

/// Notes what is dispatched, and answers when told to.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) registry: MemoryStore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What ended, where the test wants it to be remembered, as logs do.
    recorded: Option<BTreeMap<ExecutionId, ExecutionOutcome>>,
    /// What it was asked to cancel.
    asked: Vec<CancelRequest>,
    cannot_cancel: bool,
    requests: Vec<DispatchRequest>,
    in_flight: BTreeMap<ExecutionId, oneshot::Sender<Answer>>,
    most_in_flight: usize,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Everything that was dispatched, in order.
    pub(crate) fn requests(&self) -> Vec<DispatchRequest> {
        self.state().requests.clone()
    }

    /// The executions that have not been answered, in the order of their ids.
    pub(crate) fn in_flight(&self) -> Vec<ExecutionId> {
        self.state().in_flight.keys().cloned().collect()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.state().most_in_flight
    }

    /// From now on what ended is returned to who dispatches it again.
    pub(crate) fn remember(&self) {
        self.state().recorded.get_or_insert_default();
    }

    /// What it was asked to cancel, and why.
    pub(crate) fn asked_to_cancel(&self) -> Vec<(String, String)> {
        let state = self.state();
        let asked = state.asked.iter();
        asked
            .map(|asked| (asked.id.to_string(), asked.reason.clone()))
            .collect()
    }

    pub(crate) fn can_cancel(&self, can: bool) {
        self.state().cannot_cancel = !can;
    }

    pub(crate) fn fail(&self, id: &ExecutionId, message: &str) {
        self.answer(id, Ok(ExecutionOutcome::Failed(Failure::error(message))));
    }

    pub(crate) fn answer(&self, id: &ExecutionId, answer: Answer) {
        let mut state = self.state();
        if let (Some(recorded), Ok(outcome)) = (&mut state.recorded, &answer) {
            recorded.insert(id.clone(), outcome.clone());
        }
        let sender = state.in_flight.remove(id).expect("it is in flight");
        drop(state);
        // Whoever waited may have been dropped.
        let _ = sender.send(answer);
    }

    pub(crate) fn complete(&self, id: &ExecutionId, output: impl Into<bytes::Bytes>) {
        let output = output.into();
        self.answer(id, Ok(ExecutionOutcome::Completed { output }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[async_trait]
impl ExecutionDispatcher for Scripted {
    async fn dispatch(&self, request: DispatchRequest) -> Answer {
        // Lineage comes first.
        let link = self
            .registry
            .parent(Parent::new(request.id.clone()))
            .await
            .unwrap();
        assert_eq!(link.map(|link| link.parent), request.parent);
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            let recorded = state
                .recorded
                .as_ref()
                .and_then(|logs| logs.get(&request.id).cloned());
            if let Some(outcome) = recorded {
                state.requests.push(request);
                return Ok(outcome);
            }
            state.in_flight.insert(request.id.clone(), sender);
            state.most_in_flight = state.most_in_flight.max(state.in_flight.len());
            state.requests.push(request);
        }
        receiver.await.expect("an answer")
    }

    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError> {
        let CancelRequest { id, reason, .. } = request.clone();
        let runs = {
            let mut state = self.state();
            state.asked.push(request);
            let recorded = state
                .recorded
                .as_ref()
                .and_then(|logs| logs.get(&id).cloned());
            if let Some(outcome) = recorded {
                return Ok(Cancellation::AlreadyFinished(outcome));
            }
            !state.cannot_cancel && state.in_flight.contains_key(&id)
        };
        if !runs {
            return Ok(Cancellation::NotRunning);
        }
        self.answer(&id, Ok(ExecutionOutcome::Cancelled { reason }));
        Ok(Cancellation::Requested)
    }
}

/// A clock that the test moves.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Ticks>);

#[derive(Debug, Default)]
struct Ticks {
    now: Duration,
    sleepers: Vec<(Duration, oneshot::Sender<()>)>,
}

impl Clock {
    pub(crate) fn timer(self: &Arc<Self>) -> Arc<dyn Timer> {
        Arc::<Self>::clone(self)
    }

    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// When those who wait will be woken, in the order of that.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let mut ticks = self.0.lock().unwrap();
        ticks.sleepers.retain(|(_, sleeper)| !sleeper.is_closed());
        let mut waits: Vec<_> = ticks
            .sleepers
            .iter()
            .map(|(end, _)| *end - ticks.now)
            .collect();
        waits.sort();
        waits
    }

    pub(crate) fn advance(&self, by: Duration) {
        let mut ticks = self.0.lock().unwrap();
        ticks.now += by;
        let now = ticks.now;
        let (due, later) = std::mem::take(&mut ticks.sleepers)
            .into_iter()
            .partition::<Vec<_>, _>(|(end, _)| *end <= now);
        ticks.sleepers = later;
        drop(ticks);
        for (_, sleeper) in due {
            // It may have been dropped.
            let _ = sleeper.send(());
        }
    }
}

impl Timer for Clock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (sender, receiver) = oneshot::channel();
        let mut ticks = self.0.lock().unwrap();
        let end = ticks.now + duration;
        ticks.sleepers.push((end, sender));
        Box::pin(async move {
            receiver.await.expect("the clock goes on");
        })
    }
}

/// Answers at once: the node's flow says how.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    pub(crate) dispatched: Mutex<Vec<DispatchRequest>>,
}

impl Prompt {
    pub(crate) fn count(&self) -> usize {
        self.dispatched.lock().unwrap().len()
    }
}

#[async_trait]
impl ExecutionDispatcher for Prompt {
    async fn dispatch(&self, request: DispatchRequest) -> Answer {
        self.dispatched.lock().unwrap().push(request.clone());
        match request.flow.as_str() {
            "echo" => Ok(ExecutionOutcome::Completed {
                output: request.input,
            }),
            "fail" => Ok(ExecutionOutcome::Failed(Failure::error("no stock"))),
            "panic recorded" => Ok(ExecutionOutcome::Failed(Failure::panicked("out of bounds"))),
            "panic" => panic!("the dispatcher broke at {}", request.id),
            "cancel" => Ok(ExecutionOutcome::Cancelled {
                reason: "by the user".into(),
            }),
            flow => Err(DispatchError::UnknownFlow {
                id: request.id,
                flow: flow.to_owned(),
                known: "echo".into(),
            }),
        }
    }

    async fn cancel(&self, _: CancelRequest) -> Result<Cancellation, DispatchError> {
        Ok(Cancellation::NotRunning)
    }
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

pub(crate) fn options() -> GraphOptions {
    GraphOptions::new(id("incident-42"))
}

/// A graph that is polled by hand.
pub(crate) struct Running(Pin<Box<dyn Future<Output = Result<GraphOutcome, GraphError>> + Send>>);

impl Running {
    pub(crate) fn start(
        script: &Arc<Scripted>,
        nodes: Vec<GraphNode>,
        options: GraphOptions,
    ) -> Self {
        let script = Arc::clone(script);
        let graph = async move { execute_graph(&*script, &script.registry, nodes, options).await };
        Self(Box::pin(graph))
    }

    /// Lets it go on as far as it can.
    pub(crate) fn poll(&mut self) -> Option<Result<GraphOutcome, GraphError>> {
        let again = Arc::new(Again::default());
        let waker = Waker::from(Arc::clone(&again));
        loop {
            match self.0.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => return Some(outcome),
                Poll::Pending if again.0.swap(false, Ordering::SeqCst) => {}
                Poll::Pending => return None,
            }
        }
    }
}

/// Whether it was woken.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The branches of `incident-42` and what it calls them, in the order recorded.
pub(crate) async fn children(registry: &dyn BranchRegistry) -> Vec<(String, String)> {
    let children = registry
        .children(Children::new(id("incident-42")))
        .await
        .unwrap();
    let pairs = children
        .into_iter()
        .map(|branch| (branch.child.to_string(), branch.label));
    pairs.collect()
}

/// How the nodes ended, in words.
pub(crate) fn outcomes(outcome: &GraphOutcome) -> Vec<String> {
    outcome
        .nodes
        .iter()
        .map(|node| node.outcome.to_string())
        .collect()
}
