//! Recording branches of one execution together. Each changes the record of the parent: one at a time, each would wait
//! until those before it are synced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::AHashMap;
use loom_spi::{ExecutionId, Operation, RecordLineage, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::failure::{Failure, Fault, shared_error};
use crate::lineage::Branches;
use crate::store::Shared;

/// The most branches in one transaction.
const MOST: usize = 512;

type Answer = Result<(), StoreError>;

/// A branch, with whoever waits for it.
struct Waiting {
    request: RecordLineage,
    reply: oneshot::Sender<Answer>,
}

/// What waits, by parent. A parent is there for as long as somebody is at it.
#[derive(Default)]
pub(crate) struct Siblings {
    waiting: Mutex<AHashMap<ExecutionId, Vec<Waiting>>>,
}

impl Siblings {
    fn lock(&self) -> MutexGuard<'_, AHashMap<ExecutionId, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request. Says whether nobody is at its parent.
    fn add(&self, waiting: Waiting) -> bool {
        let mut all = self.lock();
        let parent = waiting.request.parent.clone();
        if let Some(siblings) = all.get_mut(&parent) {
            siblings.push(waiting);
            return false;
        }
        all.insert(parent, vec![waiting]);
        true
    }

    /// What waits for a parent, up to as many as fit into a transaction. After `None` nobody is at it.
    fn take(&self, parent: &ExecutionId) -> Option<Vec<Waiting>> {
        let mut all = self.lock();
        let siblings = all.get_mut(parent).filter(|waiting| !waiting.is_empty());
        let Some(siblings) = siblings else {
            all.remove(parent);
            return None;
        };
        let most = siblings.len().min(MOST);
        Some(siblings.drain(..most).collect())
    }
}

impl std::fmt::Debug for Siblings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Siblings")
            .field("parents", &self.lock().len())
            .finish()
    }
}

impl Shared {
    /// Has a branch recorded on a runtime, with those of the same parent that are asked for meanwhile.
    pub(crate) async fn record_branch(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        request: RecordLineage,
    ) -> Answer {
        let (reply, answer) = oneshot::channel();
        let parent = request.parent.clone();
        if self.siblings.add(Waiting { request, reply }) {
            let shared = Arc::clone(self);
            let turn = Turn {
                shared,
                parent: Some(parent),
            };
            runtime.spawn(turn.run());
        }
        answer
            .await
            .unwrap_or_else(|_| Err(Fault::abandoned().to_error(Operation::RecordLineage)))
    }
}

/// Being at a parent.
struct Turn {
    shared: Arc<Shared>,
    /// `None` when the turn is over.
    parent: Option<ExecutionId>,
}

impl Turn {
    async fn run(mut self) {
        while let Some(parent) = &self.parent {
            match self.shared.siblings.take(parent) {
                Some(waiting) => record(&self.shared, parent, waiting).await,
                None => self.parent = None,
            }
        }
    }
}

impl Drop for Turn {
    /// A turn that does not come to its end, as when the runtime ends, leaves nobody waiting.
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            self.shared.siblings.lock().remove(parent);
        }
    }
}

/// Records branches of one parent and answers whoever waits for them.
async fn record(shared: &Arc<Shared>, parent: &ExecutionId, waiting: Vec<Waiting>) {
    let (requests, replies): (Vec<_>, Vec<_>) = waiting
        .into_iter()
        .map(|waiting| (waiting.request, waiting.reply))
        .unzip();
    let branches = Branches(requests);
    let answers = match shared.make(parent, &branches).await {
        Ok(answers) => answers.into_iter().map(answer).collect(),
        // Whom it concerns is found out one by one, so that the others are recorded.
        Err(Failure::Fault(fault)) if fault.concerns_one() && branches.0.len() > 1 => {
            let mut answers = Vec::with_capacity(branches.0.len());
            for request in branches.0 {
                answers.push(alone(shared, parent, request).await);
            }
            answers
        }
        Err(failure) => {
            let failure = Arc::new(failure);
            let error = |_: &_| Err(shared_error(&failure, Operation::RecordLineage));
            branches.0.iter().map(error).collect::<Vec<Answer>>()
        }
    };
    for (reply, answer) in replies.into_iter().zip(answers) {
        // Whoever has stopped waiting does not want to know.
        drop(reply.send(answer));
    }
}

async fn alone(shared: &Arc<Shared>, parent: &ExecutionId, request: RecordLineage) -> Answer {
    match shared.make(parent, &Branches(vec![request])).await {
        Ok(answers) => answers.into_iter().next().map_or(Ok(()), answer),
        Err(failure) => Err(failure.into_error(Operation::RecordLineage)),
    }
}

fn answer(answer: Result<(), StoreErrorKind>) -> Answer {
    answer.map_err(|kind| StoreError::new(Operation::RecordLineage, kind))
}

#[cfg(test)]
mod tests {
    use loom_spi::{BranchRegistry as _, Children};
    use loom_test_postgres::{server, unique_name};

    use super::*;
    use crate::{Location, Options, PostgresStore};

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    fn waiting(parent: &str) -> Waiting {
        Waiting {
            request: RecordLineage::new(id(parent), id("child"), "label".to_owned()),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn one_is_at_a_parent_until_nothing_waits_for_it() {
        let siblings = Siblings::default();
        assert!(siblings.add(waiting("one")));
        assert!(siblings.add(waiting("other")));
        for _ in 0..MOST {
            assert!(!siblings.add(waiting("one")));
        }
        let taken = |parent| siblings.take(&id(parent)).map(|taken| taken.len());
        assert_eq!(taken("one"), Some(MOST));
        assert!(!siblings.add(waiting("one")));
        assert_eq!(taken("one"), Some(2));
        assert_eq!(taken("one"), None);
        assert!(siblings.add(waiting("one")));
        assert_eq!(taken("other"), Some(1));
    }

    async fn store(server: &loom_test_postgres::Server) -> PostgresStore {
        let url = server.url();
        let mark = if url.contains('?') { '&' } else { '?' };
        let location = format!("{url}{mark}schema={}", unique_name());
        let location: Location = location.parse().unwrap();
        PostgresStore::create(&location, Options::new())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn of_branches_recorded_together_each_has_an_answer_of_its_own() {
        let Some(server) = server() else { return };
        let store = store(&server).await;
        let record = |child: &str, label: &str| {
            store.record_lineage(RecordLineage::new(
                id("parent"),
                id(child),
                label.to_owned(),
            ))
        };
        let taken = RecordLineage::new(id("elsewhere"), id("taken"), "x".to_owned());
        store.record_lineage(taken).await.unwrap();

        // The first is at it; the others wait together, in this order.
        let (first, again, same, conflict, elsewhere, last) = tokio::join!(
            record("a", "1"),
            record("b", "2"),
            record("b", "2"),
            record("b", "other"),
            record("taken", "x"),
            record("c", "3"),
        );
        first.unwrap();
        again.unwrap();
        same.unwrap();
        last.unwrap();
        let kind = |answer: Answer| answer.unwrap_err().kind().clone();
        let conflicts = |kind: StoreErrorKind, with: &str| matches!(kind, StoreErrorKind::LineageConflict { parent, .. } if parent.as_str() == with);
        assert!(conflicts(kind(conflict), "parent"));
        assert!(conflicts(kind(elsewhere), "elsewhere"));

        let children = store.children(Children::new(id("parent"))).await.unwrap();
        let children: Vec<_> = children
            .iter()
            .map(|branch| (branch.child.as_str(), branch.label.as_str()))
            .collect();
        assert_eq!(children, [("a", "1"), ("b", "2"), ("c", "3")]);
        remove(&server, &store).await;
    }

    #[test]
    fn when_the_runtime_ends_nobody_goes_on_waiting() {
        let Some(server) = server() else { return };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let store = runtime.block_on(store(&server));
        drop(runtime);
        let other = tokio::runtime::Runtime::new().unwrap();
        for _ in 0..2 {
            let request = RecordLineage::new(id("parent"), id("child"), "x".to_owned());
            let error = other.block_on(store.record_lineage(request)).unwrap_err();
            assert!(matches!(error.kind(), StoreErrorKind::Unavailable { .. }));
        }
        assert!(store.shared().siblings.lock().is_empty());
        other.block_on(remove(&server, &store));
    }

    /// Removes the schema where the server is there after the tests.
    async fn remove(server: &loom_test_postgres::Server, store: &PostgresStore) {
        if server.outlives_the_tests() {
            let connected = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            let schema = store.location().schema();
            let drop = format!("DROP SCHEMA {schema} CASCADE");
            client.batch_execute(&drop).await.unwrap();
        }
    }
}
