//! The futures of a graph that is running.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};
use std::thread;

use bytes::Bytes;
use futures_util::future::{CatchUnwind, FutureExt as _};
use loom_spi::{
    BranchRegistry, DispatchError, ExecutionDispatcher, ExecutionId, Parent, Retry as StoreRetry,
};

use crate::attempt::{Context, Ended, Job};
use crate::execute::run_graph;
use crate::limit::{Limit, Place, Queue};
use crate::node::Expand;
use crate::run::{AttemptEnd, Follows, GraphRun, Ready};
use crate::slots::Slots;
use crate::stop::Stop;
use crate::{GraphEvent, GraphNode, GraphOptions, GraphOutcome, NodeOutcome, NodeResult};

/// How many nodes may settle before other tasks on the thread get their turn: as many as Tokio lets a
/// task take steps.
const STEPS: usize = 128;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Guarded<F> = CatchUnwind<AssertUnwindSafe<F>>;
/// Whether an earlier run of the graph began the attempt that follows.
type IsBegun = bool;
type Branches = Result<Vec<NodeResult>, String>;

/// Lets a [`GraphRun`] go on: attempts, waits between them, graphs inside of nodes.
pub(crate) struct Driver<'a, D: ?Sized, R: ?Sized, S, F> {
    context: &'a Context<'a, D, R>,
    options: &'a GraphOptions,
    run: GraphRun<'a>,
    /// Makes the future of an attempt.
    start: S,
    attempts: Slots<Guarded<F>, (u32, Option<Place>)>,
    /// Nodes between two attempts.
    waits: Slots<Boxed<'a, IsBegun>, u32>,
    /// Nodes whose output made more nodes.
    inside: Slots<Boxed<'a, Branches>, (u32, Bytes, Option<Place>)>,
    /// For a limit that more than this graph uses.
    shared: Option<(Limit, Queue)>,
    /// A node that has no place yet.
    next: Option<Ready>,
    cancelled: Option<Boxed<'static, String>>,
    is_stopped: bool,
}

impl<'a, D, R, S, F> Driver<'a, D, R, S, F>
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
    S: Fn(Job) -> F,
    F: Future<Output = Ended>,
{
    pub(crate) fn new(
        context: &'a Context<'a, D, R>,
        options: &'a GraphOptions,
        limit: Option<Limit>,
        run: GraphRun<'a>,
        start: S,
    ) -> Self {
        Self {
            context,
            options,
            run,
            start,
            attempts: Slots::new(),
            waits: Slots::new(),
            inside: Slots::new(),
            shared: limit.map(|limit| {
                let queue = limit.queue();
                (limit, queue)
            }),
            next: None,
            cancelled: options.cancelled(),
            is_stopped: false,
        }
    }

    pub(crate) fn into_outcome(self) -> GraphOutcome {
        self.run.into_outcome()
    }

    /// Goes on as far as it can; ready when all nodes have settled.
    pub(crate) fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if let Some(cancelled) = &mut self.cancelled
            && let Poll::Ready(reason) = cancelled.as_mut().poll(cx)
        {
            self.cancelled = None;
            self.run.stop(&reason);
        }
        if let Some(reason) = self.context.stop.reason() {
            self.run.stop(reason);
        }
        for _ in 0..STEPS {
            self.stop_if_asked();
            if let Some((number, place, ended)) = self.begin(cx) {
                self.attempted(number, place, ended);
            } else if let Poll::Ready(Some(((number, place), ended))) = self.attempts.poll_next(cx)
            {
                self.attempted(number, place, ended);
            } else if let Poll::Ready(Some((number, is_begun))) = self.waits.poll_next(cx) {
                self.waited(number, is_begun);
            } else if let Poll::Ready(Some(((number, output, place), branches))) =
                self.inside.poll_next(cx)
            {
                drop(place);
                self.run.expanded(number, output, branches);
            } else if self.run.stop_reason().is_some() && !self.is_stopped {
                // Something that settled just now asks for it.
            } else if self.is_idle() {
                if !self.run.let_go() {
                    return Poll::Ready(());
                }
            } else {
                self.tell_of_timeouts();
                return Poll::Pending;
            }
            self.tell_of_timeouts();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_idle(&self) -> bool {
        self.attempts.len() + self.waits.len() + self.inside.len() == 0 && self.next.is_none()
    }

    /// Begins what may be begun, until an attempt ends at once.
    fn begin(
        &mut self,
        cx: &task::Context<'_>,
    ) -> Option<(u32, Option<Place>, thread::Result<Ended>)> {
        while self.attempts.len() < self.options.limit
            && let Some(ready) = self.next.take().or_else(|| self.run.next())
        {
            let place = match &mut self.shared {
                None => None,
                Some((_, queue)) => match queue.poll_place(&self.run.execution(ready.number), cx) {
                    Poll::Ready(place) => Some(place),
                    Poll::Pending => {
                        self.next = Some(ready);
                        return None;
                    }
                },
            };
            let number = ready.number;
            let attempt = AssertUnwindSafe((self.start)(self.run.job(ready))).catch_unwind();
            if let Some(((number, place), ended)) = self.attempts.enter((number, place), attempt) {
                return Some((number, place, ended));
            }
        }
        if let Some((_, queue)) = &mut self.shared {
            queue.leave();
        }
        None
    }

    fn attempted(&mut self, number: u32, place: Option<Place>, ended: thread::Result<Ended>) {
        let Some(end) = attempt_end(ended) else {
            return self.run.give_up(number);
        };
        let is_closed = end.is_closed;
        match self.run.attempted(number, end) {
            Follows::Nothing => {}
            Follows::Wait(delay, next) => {
                drop(place);
                let wait = wait(self.context, delay, next, is_closed);
                if let Some((number, is_begun)) = self.waits.enter(number, Box::pin(wait)) {
                    self.waited(number, is_begun);
                }
            }
            Follows::Expand(expand, output, execution) => {
                self.expand(number, place, &expand, output, execution);
            }
        }
    }

    fn waited(&mut self, number: u32, is_begun: IsBegun) {
        if !is_begun {
            self.run.know(number);
        }
        self.run.put_first(number);
    }

    /// Runs the nodes that an output makes as a graph inside the node.
    fn expand(
        &mut self,
        number: u32,
        place: Option<Place>,
        expand: &Expand,
        output: Bytes,
        execution: ExecutionId,
    ) {
        let nodes = match catch_unwind(AssertUnwindSafe(|| expand(&output))) {
            Ok(Ok(nodes)) => Ok(nodes),
            Ok(Err(error)) => Err(format!("its output makes no nodes: {error}")),
            Err(panic) => Err(format!(
                "its expansion panicked: {}",
                panic_message(&*panic)
            )),
        };
        let (nodes, limit) = match (nodes, &self.shared) {
            (Ok(nodes), Some((limit, _))) => (nodes, limit.clone()),
            (Ok(nodes), None) => (nodes, Limit::new(self.options.limit)),
            (Err(reason), _) => return self.run.expanded(number, output, Err(reason)),
        };
        let (index, key, branches) = (number as usize, self.run.key(number), nodes.len());
        self.options.observe(|| GraphEvent::Expanded {
            index,
            key,
            branches,
        });
        let options = self.options.inside(execution, limit);
        let graph = inside(self.context, nodes, options);
        let tag = (number, output, place);
        if let Some(((number, output, place), branches)) = self.inside.enter(tag, graph) {
            drop(place);
            self.run.expanded(number, output, branches);
        }
    }

    /// Has what runs cancelled, once, when the graph is to stop.
    fn stop_if_asked(&mut self) {
        let Some(reason) = self.run.stop_reason() else {
            return;
        };
        if self.is_stopped {
            return;
        }
        self.is_stopped = true;
        self.context.stop.set(reason.to_owned());
        self.options.observe(|| GraphEvent::Stopping { reason });
        for number in self.waits.clear() {
            self.run.put_first(number);
        }
        if let Some(ready) = self.next.take() {
            self.run.put_first(ready.number);
        }
        self.attempts.wake_all();
        self.inside.wake_all();
    }

    fn tell_of_timeouts(&self) {
        for number in self.context.timed_out.take() {
            let (index, key) = (number as usize, self.run.key(number));
            self.options.observe(|| GraphEvent::TimedOut { index, key });
        }
    }
}

/// Waits between two attempts, unless the next one was begun by an earlier run of the graph.
async fn wait<D: ?Sized, R: BranchRegistry + ?Sized>(
    context: &Context<'_, D, R>,
    delay: std::time::Duration,
    next: ExecutionId,
    is_new: bool,
) -> IsBegun {
    let is_begun = is_new
        && matches!(
            context.registry.parent(Parent::new(next)).await,
            Ok(Some(_))
        );
    if !is_begun
        && !delay.is_zero()
        && let Some(timer) = context.timer
    {
        timer.sleep(delay).await;
    }
    is_begun
}

/// A graph inside a node.
fn inside<'a, D, R>(
    context: &'a Context<'a, D, R>,
    nodes: Vec<GraphNode>,
    options: GraphOptions,
) -> Boxed<'a, Branches>
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
{
    Box::pin(async move {
        let stop = Stop::within(context.stop);
        let graph = run_graph(context.dispatcher, context.registry, nodes, &options, &stop);
        match graph.await {
            Ok(outcome) => Ok(outcome.nodes),
            Err(error) => Err(format!("its output makes no graph: {error}")),
        }
    })
}

/// `None` for what was not begun.
fn attempt_end(ended: thread::Result<Ended>) -> Option<AttemptEnd> {
    Some(match ended {
        Ok(Ended::Outcome(outcome)) => {
            let outcome = NodeOutcome::from(Ok(outcome));
            let may_pass = matches!(
                outcome,
                NodeOutcome::Failed { .. }
                    | NodeOutcome::Panicked { .. }
                    | NodeOutcome::TimedOut { .. }
            );
            AttemptEnd {
                outcome,
                is_closed: true,
                may_pass,
            }
        }
        Ok(Ended::Error(error)) => AttemptEnd {
            may_pass: may_pass(&error),
            outcome: NodeOutcome::Error(Box::new(error)),
            is_closed: false,
        },
        // The dispatcher's, so nothing is known of the execution: it is dispatched again, under the same id.
        Err(panic) => AttemptEnd {
            outcome: NodeOutcome::Panicked {
                message: panic_message(&*panic),
            },
            is_closed: false,
            may_pass: true,
        },
        Ok(Ended::NotBegun) => return None,
    })
}

/// Whether dispatching the same execution again may help. It looks at the log first, so it is never wrong to.
fn may_pass(error: &DispatchError) -> bool {
    match error {
        DispatchError::Store { source, .. } => source.retry() != StoreRetry::Never,
        DispatchError::TakenOver { .. } | DispatchError::Leased { .. } => true,
        _ => false,
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
