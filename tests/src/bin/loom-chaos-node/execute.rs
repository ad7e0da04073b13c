//! One operation.

use futures_util::TryStreamExt as _;
use loom_sharded_store::{DrainOptions, MigrateError, ShardedStore};
use loom_spi::{
    AcquireFence, Append, BranchRegistry, Children, Delete, EventStore as _, EventStoreExt as _,
    ExecutionId, FenceToken, Fencing, Forget, Head, List, Parent, Read, RecordLineage, StoreError,
    StoreErrorKind,
};
use loom_tests::chaos::{Op, Outcome, event, event_tags, tag_of};

use crate::report::chain;

/// What all branches are called.
const LABEL: &str = "branch";
/// Executions that are listed at a time.
const PAGE: usize = 64;

/// Does `op` and says what came of it.
pub(crate) async fn execute(store: &ShardedStore, op: &Op) -> Outcome {
    match attempt(store, op).await {
        Ok(outcome) => outcome,
        Err(Stopped::Store(error)) => match error.kind() {
            StoreErrorKind::NotFound => Outcome::Gone,
            StoreErrorKind::SequenceConflict { actual, .. } => {
                Outcome::Conflict { actual: *actual }
            }
            StoreErrorKind::Fenced { current, .. } => Outcome::Fenced { current: current.0 },
            StoreErrorKind::Closed { next_sequence } => Outcome::Closed {
                next: *next_sequence,
            },
            _ => Outcome::Error(chain(&error)),
        },
        Err(Stopped::Other(text)) => Outcome::Error(text),
    }
}

enum Stopped {
    Store(StoreError),
    Other(String),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn id(text: &str) -> Result<ExecutionId, Stopped> {
    ExecutionId::new(text).map_err(|error| Stopped::Other(error.to_string()))
}

fn fencing(store: &ShardedStore) -> Result<&dyn Fencing, Stopped> {
    let fencing = store.capabilities().fencing;
    fencing.ok_or_else(|| Stopped::Other("the store offers no fencing".to_owned()))
}

fn branches(store: &ShardedStore) -> Result<&dyn BranchRegistry, Stopped> {
    let branches = store.capabilities().branches;
    branches.ok_or_else(|| Stopped::Other("the store keeps no lineage".to_owned()))
}

async fn attempt(store: &ShardedStore, op: &Op) -> Result<Outcome, Stopped> {
    Ok(match op {
        Op::Append {
            id: name,
            expected,
            token,
            tag,
            events,
            terminal,
        } => {
            let mut new: Vec<_> = event_tags(tag, *events).map(|tag| event(&tag)).collect();
            if *terminal && let Some(last) = new.pop() {
                new.push(last.terminal());
            }
            let append = Append::new(id(name)?, *expected, new).with_fence(token.map(FenceToken));
            Outcome::Next(store.append(append).await?.next_sequence)
        }
        Op::Read { id: name } => read(store, id(name)?).await?,
        Op::Head { id: name } => match store.head(Head::new(id(name)?)).await? {
            None => Outcome::Gone,
            Some(head) => Outcome::Head {
                next: head.next_sequence,
                closed: head.is_closed(),
            },
        },
        Op::Delete { id: name, expected } => {
            let delete = Delete::new(id(name)?).with_expected(*expected);
            Outcome::Removed(store.delete(delete).await?.events)
        }
        Op::Acquire { id: name } => {
            let acquire = AcquireFence::new(id(name)?);
            Outcome::Token(fencing(store)?.acquire_fence(acquire).await?.0)
        }
        Op::Edge { parent, child } => {
            let edge = RecordLineage::new(id(parent)?, id(child)?, LABEL.to_owned());
            branches(store)?.record_lineage(edge).await?;
            Outcome::Done
        }
        Op::Children { parent } => {
            let children = Children::new(id(parent)?);
            let children = branches(store)?.children(children).await?;
            let children = children.into_iter().map(|branch| branch.child.to_string());
            Outcome::Children(children.collect())
        }
        Op::Parent { child } => {
            let link = branches(store)?.parent(Parent::new(id(child)?)).await?;
            Outcome::Parent(link.map(|link| link.parent.to_string()))
        }
        Op::Forget { parent } => {
            let forget = Forget::new(id(parent)?);
            Outcome::Removed(branches(store)?.forget(forget).await?)
        }
        Op::List { prefix } => list(store, prefix).await?,
        Op::Move { id: name } => match store.migrate_execution(&id(name)?).await {
            Ok(_) => Outcome::Done,
            Err(MigrateError::Store(error)) => return Err(error.into()),
            Err(error) => Outcome::Error(chain(&error)),
        },
        Op::Drain => drain(store).await,
        // Whoever runs this waits.
        Op::Pause => Outcome::Done,
    })
}

async fn read(store: &ShardedStore, id: ExecutionId) -> Result<Outcome, Stopped> {
    let page = store.read(Read::new(id, 0, 4096)).await?;
    if page.events.len() as u64 != page.head.next_sequence {
        return Ok(Outcome::Error(format!(
            "{} events were read of a log that has {}",
            page.events.len(),
            page.head.next_sequence
        )));
    }
    let (mut tags, mut terminal) = (Vec::with_capacity(page.events.len()), false);
    for (event, sequence) in page.events.iter().zip(0..) {
        if event.sequence != sequence || terminal {
            return Ok(Outcome::Error(format!("out of place: {event:?}")));
        }
        terminal = event.terminal;
        match tag_of(event) {
            Ok(tag) => tags.push(tag),
            Err(difference) => return Ok(Outcome::Error(difference)),
        }
    }
    let closed = page.head.is_closed();
    if closed != terminal {
        return Ok(Outcome::Error(
            "the head and the last event disagree".to_owned(),
        ));
    }
    Ok(Outcome::Log { tags, closed })
}

async fn list(store: &ShardedStore, prefix: &str) -> Result<Outcome, Stopped> {
    let mut listed = Vec::new();
    let mut executions = std::pin::pin!(store.list_all(List::new(PAGE)));
    while let Some(execution) = executions.try_next().await? {
        if execution.id.as_str().starts_with(prefix) {
            let head = execution.head;
            listed.push((
                execution.id.to_string(),
                head.next_sequence,
                head.is_closed(),
            ));
        }
    }
    Ok(Outcome::Listed(listed))
}

async fn drain(store: &ShardedStore) -> Outcome {
    let options = DrainOptions::new().with_live(true).with_settle(false);
    match store.drain(&options, |_| {}).await {
        Ok(drained) if drained.reasons.is_empty() => Outcome::Done,
        Ok(drained) => Outcome::Error(format!("stuck: {:?}", drained.reasons)),
        Err(error) => Outcome::Error(chain(&error)),
    }
}
