//! The store shows every behaviour that it can.
//!
//! One test for all cases: they share a server, and a test runner may give each test a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{Effort, Need, Outcome, StoreFactory, Subject, cases, run_case, run_store};
use loom_spi::{BoxError, EventStore};
use loom_store_postgres::{Options, PostgresStore};
use loom_test_postgres::{Server, server};

use crate::proxy::Proxy;
use crate::support::{Schema, location};

/// Schemas of one server.
struct Postgres {
    server: Arc<Server>,
    /// Whether the store is reached through a proxy that can cut it off. That takes longer.
    can_be_cut_off: bool,
}

#[async_trait]
impl StoreFactory for Postgres {
    async fn create(&self) -> Result<Subject, BoxError> {
        let schema = Schema::new(&self.server);
        let proxy = match &*self.server {
            Server::Own(cluster) if self.can_be_cut_off => Some(Proxy::to(cluster.port()).await),
            _ => None,
        };
        let location = match &proxy {
            Some(proxy) => location(&proxy.url(), schema.location.schema()),
            None => schema.location.clone(),
        };
        let ahead = Arc::new(AtomicU64::new(0));
        let options = {
            let ahead = Arc::clone(&ahead);
            Options::new()
                .with_clock_ahead(move || Duration::from_millis(ahead.load(Ordering::SeqCst)))
        };
        let store = PostgresStore::create(&location, options.clone()).await?;
        let reopen = move |store: Arc<dyn EventStore>| {
            let (location, options) = (location.clone(), options.clone());
            async move {
                // Not closed first: the store has to come through without.
                drop(store);
                let store = PostgresStore::open(&location, options).await?;
                Ok(Arc::new(store) as Arc<dyn EventStore>)
            }
        };
        let advance = move |by: Duration| {
            let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            ahead.fetch_add(by, Ordering::SeqCst);
            async { Ok(()) }
        };
        let subject = match proxy {
            None => Subject::new(store),
            Some(proxy) => Subject::new(store).with_outage(move |down| {
                proxy.set_down(down);
                async { Ok(()) }
            }),
        };
        Ok(subject
            .with_reopen(reopen)
            .with_clock(advance)
            .with_close(move || async move { Ok(schema.remove().await?) }))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Relocation,
            Need::Ledger,
            Need::Branches,
            Need::Reopen,
            Need::Clock,
            Need::ReachableLimits,
        ]
    }

    fn effort(&self) -> Effort {
        // Every operation is a few round trips.
        Effort::default()
            .with_rounds(5)
            .with_many(120)
            .with_seeds(1, 3)
            .with_steps(150)
    }
}

#[test]
fn the_store_shows_every_behaviour_that_the_suite_asks_for() {
    // Held, so that all cases share it.
    let Some(server) = server() else { return };
    let factory = |can_be_cut_off| -> Arc<dyn StoreFactory> {
        Arc::new(Postgres {
            server: Arc::clone(&server),
            can_be_cut_off,
        })
    };
    let mut reports = run_store(factory(false), |_| {});
    if !server.outlives_the_tests() {
        let cut_off = factory(true);
        for (case, report) in cases().iter().zip(&mut reports) {
            if let Outcome::Skipped {
                missing: Need::Outage,
            } = report.outcome
            {
                *report = run_case(&cut_off, case);
            }
        }
    }
    // The server of somebody else is not stopped.
    let may_be_skipped = |outcome: &Outcome| {
        server.outlives_the_tests()
            && matches!(
                outcome,
                Outcome::Skipped {
                    missing: Need::Outage
                }
            )
    };
    let failures: Vec<String> = reports
        .iter()
        .filter(|report| report.outcome != Outcome::Passed && !may_be_skipped(&report.outcome))
        .map(|report| format!("{}::{}: {}", report.group, report.name, report.outcome))
        .collect();
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    reports.sort_by_key(|report| std::cmp::Reverse(report.took));
    println!("the slowest of {} cases:", reports.len());
    for report in reports.iter().take(15) {
        println!("{}::{} {:?}", report.group, report.name, report.took);
    }
}
