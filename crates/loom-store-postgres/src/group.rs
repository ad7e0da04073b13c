//! Committing appends of many callers together.

use std::sync::{Arc, Mutex, PoisonError};

use ahash::AHashSet;
use loom_spi::{
    Append, Appended, ExecutionId, Limits, Operation, RecordState, StoreError, StoreErrorKind,
};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::append::{self, Answer, Patience};
use crate::failure::{Failure, Fault, closed, shared_error};
use crate::pool::Connections;

/// The most appends in one transaction.
const MAX_APPENDS: usize = 512;
/// A group gets no further append once it writes this much, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// How many groups are under way at a time: while one is being synced the next is worked on.
const COMMITTERS: usize = 2;
/// How often an append is tried anew when what refused it was gone a moment later, or its transaction was given up for
/// another.
const TRIES: u32 = 50;

/// Takes appends, and has those that wait at the same time committed together.
#[derive(Debug)]
pub(crate) struct Groups {
    queue: Mutex<Option<mpsc::Sender<Waiting>>>,
    committers: Mutex<Vec<JoinHandle<()>>>,
}

type Reply = oneshot::Sender<Result<Appended, StoreError>>;

/// An append, with whoever waits for it.
struct Waiting {
    append: Append,
    tries: u32,
    reply: Reply,
}

/// What the committers share.
struct Shared {
    incoming: AsyncMutex<mpsc::Receiver<Waiting>>,
    connections: Connections,
    limits: Limits,
    /// How many appends may at a time wait for a record that somebody else holds: not all connections.
    alone: Arc<Semaphore>,
}

impl Groups {
    pub(crate) fn start(
        runtime: &Handle,
        connections: &Connections,
        limits: Limits,
        queue: usize,
        most_connections: usize,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(queue);
        let shared = Arc::new(Shared {
            incoming: AsyncMutex::new(receiver),
            connections: connections.clone(),
            limits,
            alone: Arc::new(Semaphore::new((most_connections / 2).max(1))),
        });
        let committers = (0..COMMITTERS)
            .map(|_| runtime.spawn(commit_groups(Arc::clone(&shared))))
            .collect();
        Self {
            queue: Mutex::new(Some(sender)),
            committers: Mutex::new(committers),
        }
    }

    /// Has an append made, and waits until it is durable or refused.
    pub(crate) async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let failed = |kind| Err(StoreError::new(Operation::Append, kind));
        let queue = {
            let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.clone()
        };
        let Some(queue) = queue else {
            return failed(closed());
        };
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            append,
            tries: 0,
            reply,
        };
        if queue.send(waiting).await.is_err() {
            return failed(closed());
        }
        // Does not keep the queue open for longer than it takes to get into it.
        drop(queue);
        answer
            .await
            .unwrap_or_else(|_| Err(Fault::abandoned().to_error(Operation::Append)))
    }

    /// Takes no more appends, and waits until those that were taken are answered.
    pub(crate) async fn close(&self) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let committers = std::mem::take(
            &mut *self
                .committers
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for committer in committers {
            // One that failed has told whoever waited for it.
            drop(committer.await);
        }
    }
}

/// Appends that may be made in one statement: under one plan, each execution once.
#[derive(Default)]
struct Group {
    appends: Vec<Waiting>,
    ids: AHashSet<ExecutionId>,
    bytes: usize,
}

impl Group {
    /// Takes an append, or gives it back when it cannot be in this group. One that nobody waits for any more is gone.
    fn add(&mut self, waiting: Waiting) -> Option<Waiting> {
        if waiting.reply.is_closed() {
            return None;
        }
        let append = &waiting.append;
        let same_plan = self
            .appends
            .first()
            .is_none_or(|first| first.append.epoch == append.epoch);
        if !same_plan || self.is_full() || !self.ids.insert(append.id.clone()) {
            return Some(waiting);
        }
        self.bytes += weight(append);
        self.appends.push(waiting);
        None
    }

    fn is_full(&self) -> bool {
        self.appends.len() >= MAX_APPENDS || self.bytes >= MAX_BYTES
    }
}

/// Ends when nobody can ask for more and all are answered.
async fn commit_groups(shared: Arc<Shared>) {
    let mut left = Vec::new();
    loop {
        let group = shared.gather(&mut left).await;
        if group.appends.is_empty() {
            return;
        }
        shared.commit(group, &mut left).await;
    }
}

impl Shared {
    /// Waits for an append, and takes what else is waiting and may go with it. What may not is left for the next group.
    async fn gather(&self, left: &mut Vec<Waiting>) -> Group {
        let mut group = Group::default();
        for waiting in std::mem::take(left) {
            left.extend(group.add(waiting));
        }
        let mut incoming = if group.appends.is_empty() {
            // Held while waiting: whoever waits for an append is the one to take it.
            let mut incoming = self.incoming.lock().await;
            while group.appends.is_empty() {
                match incoming.recv().await {
                    Some(waiting) => left.extend(group.add(waiting)),
                    None => return group,
                }
            }
            incoming
        } else {
            match self.incoming.try_lock() {
                Ok(incoming) => incoming,
                // Another committer waits there, so nothing is there.
                Err(_) => return group,
            }
        };
        while !group.is_full() && left.len() < MAX_APPENDS {
            match incoming.try_recv() {
                Ok(waiting) => left.extend(group.add(waiting)),
                Err(_) => break,
            }
        }
        group
    }

    async fn commit(&self, group: Group, left: &mut Vec<Waiting>) {
        let mut group = group.appends;
        group.sort_by(|one, other| {
            append::position(&one.append).cmp(&append::position(&other.append))
        });
        match self.attempt(&group, Patience::Short).await {
            Ok(answers) => {
                for (waiting, answer) in group.into_iter().zip(answers) {
                    left.extend(settle(&self.limits, waiting, answer));
                }
            }
            Err(failure) if failure.is_transient() => {
                left.extend(group.into_iter().filter_map(Waiting::again));
            }
            Err(failure) if append::concerns_one(&failure) => {
                // Whom it concerns is found out one by one, so that the others need not wait for it.
                for waiting in group {
                    self.commit_alone(waiting);
                }
            }
            Err(failure) => {
                let failure = Arc::new(failure);
                for waiting in group {
                    waiting.answer(Err(shared_error(&failure, Operation::Append)));
                }
            }
        }
    }

    /// Makes an append in a transaction of its own, in the background.
    fn commit_alone(&self, mut waiting: Waiting) {
        let (connections, limits, permits) = (
            self.connections.clone(),
            self.limits,
            Arc::clone(&self.alone),
        );
        tokio::spawn(async move {
            // Never closed.
            let _permit = permits.acquire_owned().await;
            loop {
                let append = [&waiting.append];
                let made = match connections.get().await {
                    Ok(session) => append::append(&session, &append, Patience::Long).await,
                    Err(failure) => Err(failure),
                };
                let again = match made {
                    Ok(answers) => answers
                        .into_iter()
                        .next()
                        .and_then(|answer| settle(&limits, waiting, answer)),
                    Err(failure) if failure.is_transient() => waiting.again(),
                    Err(failure) => {
                        waiting.answer(Err(failure.into_error(Operation::Append)));
                        None
                    }
                };
                match again {
                    Some(again) => waiting = again,
                    None => return,
                }
            }
        });
    }

    async fn attempt(&self, group: &[Waiting], patience: Patience) -> Result<Vec<Answer>, Failure> {
        let session = self.connections.get().await?;
        let appends: Vec<&Append> = group.iter().map(|waiting| &waiting.append).collect();
        append::append(&session, &appends, patience).await
    }
}

/// Gives an append its answer; gives it back when it should be tried again.
fn settle(limits: &Limits, waiting: Waiting, answer: Answer) -> Option<Waiting> {
    match answer {
        Answer::Made(next) => {
            waiting.answer(Ok(Appended::new(next)));
            None
        }
        Answer::Found(state) => match refusal(&state, &waiting.append, limits) {
            Some(kind) => {
                waiting.answer(Err(StoreError::new(Operation::Append, kind)));
                None
            }
            // What was in the way was gone when it was looked at.
            None => waiting.again(),
        },
    }
}

/// Why an append is refused, in the words of the rules that all stores share.
fn refusal(state: &RecordState, append: &Append, limits: &Limits) -> Option<StoreErrorKind> {
    state.admit_append(append, limits).err()
}

impl Waiting {
    fn answer(self, answer: Result<Appended, StoreError>) {
        // Whoever has stopped waiting does not want to know.
        drop(self.reply.send(answer));
    }

    /// The same once more, unless that was done too often: then it is answered.
    fn again(mut self) -> Option<Self> {
        self.tries += 1;
        if self.tries < TRIES {
            return Some(self);
        }
        self.answer(Err(Failure::Again.into_error(Operation::Append)));
        None
    }
}

fn weight(append: &Append) -> usize {
    let bytes = |event: &loom_spi::NewEvent| 64 + event.kind.len() + event.payload.len();
    append.events.iter().map(bytes).sum()
}
