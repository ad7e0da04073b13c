//! What a run makes of panics, hangs, promises and what is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{
    Case, Effort, Need, Outcome, StoreFactory, Subject, cases, registry_cases, run_case,
    run_registry, run_store,
};
use loom_spi::{
    Append, Appended, BoxError, BranchRegistry, Capabilities, Delete, Deleted, EventStore, Head,
    List, ListPage, LogHead, Read, ReadPage, StoreError,
};
use loom_store_memory::MemoryStore;

/// A store that has nothing beyond the event store, and an odd way of telling heads.
#[derive(Debug)]
struct Bare {
    inner: MemoryStore,
    head: Odd,
}

#[derive(Clone, Copy, Debug)]
enum Odd {
    Not,
    Panics,
    Hangs,
    Blocks,
}

#[async_trait]
impl EventStore for Bare {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.inner.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.inner.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        match self.head {
            Odd::Not => self.inner.head(request).await,
            Odd::Panics => panic!("no head for {}", request.id),
            Odd::Hangs => std::future::pending().await,
            Odd::Blocks => loop {
                std::thread::park();
            },
        }
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.inner.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.inner.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
    }
}

struct Factory {
    head: Odd,
    promises: &'static [Need],
    closed: Arc<AtomicUsize>,
}

impl Factory {
    fn new(head: Odd) -> Self {
        Self {
            head,
            promises: &[],
            closed: Arc::default(),
        }
    }
}

#[async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Result<Subject, BoxError> {
        let (inner, head) = (MemoryStore::new(), self.head);
        let closed = Arc::clone(&self.closed);
        Ok(
            Subject::new(Bare { inner, head }).with_close(move || async move {
                closed.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }),
        )
    }

    fn promises(&self) -> &[Need] {
        self.promises
    }

    fn effort(&self) -> Effort {
        match self.head {
            Odd::Hangs | Odd::Blocks => Effort::default().with_deadline(Duration::from_millis(20)),
            _ => Effort::default(),
        }
    }
}

fn case(path: &str) -> Case {
    let found = cases().into_iter().find(|case| case.path() == path);
    found.expect("a case of this name")
}

fn run(factory: Factory, path: &str) -> Outcome {
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    run_case(&factory, &case(path)).outcome
}

fn message(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { message } => message,
        other => panic!("expected a failure, got: {other}"),
    }
}

const HEAD: &str = "head::what_does_not_exist_has_no_head";
const FENCE: &str = "fencing::an_older_token_is_refused";

#[test]
fn a_panic_is_a_failure_with_its_message_and_the_store_is_closed_all_the_same() {
    let factory = Factory::new(Odd::Panics);
    let closed = Arc::clone(&factory.closed);
    assert_eq!(message(run(factory, HEAD)), "panicked: no head for absent");
    assert_eq!(closed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_case_that_waits_for_ever_is_a_failure() {
    assert_eq!(
        message(run(Factory::new(Odd::Hangs), HEAD)),
        "hangs: no end after 20ms"
    );
}

#[test]
fn a_store_that_blocks_its_thread_for_ever_is_a_failure() {
    assert_eq!(
        message(run(Factory::new(Odd::Blocks), HEAD)),
        "hangs: no end after 20ms"
    );
}

#[test]
fn a_case_whose_capability_is_missing_is_skipped_and_says_which() {
    let missing = Need::Fencing;
    assert_eq!(
        run(Factory::new(Odd::Not), FENCE),
        Outcome::Skipped { missing }
    );
}

#[test]
fn a_case_whose_promised_capability_is_missing_fails() {
    let mut factory = Factory::new(Odd::Not);
    factory.promises = &[Need::Fencing];
    let message = message(run(factory, FENCE));
    assert!(message.contains("promises fencing"), "{message}");
}

#[test]
fn a_store_that_cannot_be_made_fails_the_case() {
    let factory: Arc<dyn StoreFactory> =
        Arc::new(|| async { Err::<Subject, BoxError>("no disk".into()) });
    let outcome = run_case(&factory, &case(HEAD)).outcome;
    assert_eq!(message(outcome), "the store could not be made: no disk");
}

#[test]
fn a_bare_store_passes_what_it_can_and_skips_the_rest() {
    let mut heard = 0;
    let reports = run_store(Arc::new(Factory::new(Odd::Not)), |_| heard += 1);
    assert_eq!(heard, cases().len());
    let order: Vec<_> = reports
        .iter()
        .map(|report| (report.group, report.name))
        .collect();
    let expected: Vec<_> = cases()
        .iter()
        .map(|case| (case.group(), case.name()))
        .collect();
    assert_eq!(order, expected, "reports come in the order of the cases");
    for report in reports {
        let what = format!("{}::{}: {}", report.group, report.name, report.outcome);
        assert!(!matches!(report.outcome, Outcome::Failed { .. }), "{what}");
        if ["append", "read", "list", "pages", "terminal"].contains(&report.group)
            && !what.contains("fence")
        {
            assert_eq!(report.outcome, Outcome::Passed, "{what}");
        }
        if ["fencing", "leases", "ledger", "branches", "durability"].contains(&report.group) {
            assert!(matches!(report.outcome, Outcome::Skipped { .. }), "{what}");
        }
    }
}

#[test]
fn a_registry_can_be_run_alone() {
    let factory = || async { Ok(Arc::new(MemoryStore::new()) as Arc<dyn BranchRegistry>) };
    let reports = run_registry(Arc::new(factory), |_| {});
    assert_eq!(reports.len(), registry_cases().len());
    for report in reports {
        assert_eq!(report.outcome, Outcome::Passed, "{}", report.name);
    }
}

loom_conformance::branch_registry!(standalone, || async {
    Ok(Arc::new(MemoryStore::new()) as Arc<dyn BranchRegistry>)
});
