//! Creations beside whoever works on the source at the same moment.

use futures_util::FutureExt as _;
use loom_spi::{AcquireFence, Append, Children, EventStore, Head, RecordLineage, StoreErrorKind};

use crate::support::{Migrating, append, event, id, open};

/// A worker creates with the token that it holds while another acquires: once the other has its token, nothing
/// more is taken from the first.
#[test]
fn a_creation_and_an_acquisition_at_once_do_not_leave_the_older_token_in_force() {
    for seed in 0..400 {
        let at = Migrating::new().now_or_never().unwrap();
        let other = open(&at.shards, &at.plan).now_or_never().unwrap();
        let order = id("order-7");
        let early = loom_spi::Fencing::acquire_fence(at.source(), AcquireFence::new(order.clone()));
        let early = early.now_or_never().unwrap().unwrap();
        at.shards.iter().for_each(|shard| shard.yields());
        let taken = std::cell::Cell::new(None);
        let first = async {
            for expected in 0..12 {
                let after = taken.get();
                let append = Append::new(order.clone(), expected, vec![event("step")]);
                let answer = at.store.append(append.with_fence(early)).await;
                let refused = answer
                    .is_err_and(|error| matches!(error.kind(), StoreErrorKind::Fenced { .. }));
                assert!(
                    refused || after.is_none(),
                    "seed {seed}: taken after {after:?}"
                );
                if refused {
                    break;
                }
            }
        };
        let second = async {
            let fencing = other.capabilities().fencing.unwrap();
            let token = fencing
                .acquire_fence(AcquireFence::new(order.clone()))
                .await
                .unwrap();
            assert!(token > early, "seed {seed}");
            taken.set(Some(token));
        };
        crate::support::interleave(seed, vec![first.boxed_local(), second.boxed_local()]);
        let check = async {
            // Whoever acquires then can write, wherever the log is by now.
            let store = &at.store;
            let fencing = store.capabilities().fencing.unwrap();
            let token = fencing
                .acquire_fence(AcquireFence::new(order.clone()))
                .await
                .unwrap();
            assert!(Some(token) > taken.get(), "seed {seed}");
            let next = store.head(Head::new(order.clone())).await.unwrap();
            let next = next.map_or(0, |head| head.next_sequence);
            let append = Append::new(order.clone(), next, vec![event("after")]);
            store.append(append.with_fence(token)).await.unwrap();
        };
        crate::support::interleave(seed, vec![check.boxed_local()]);
    }
}

/// A parent is created by one process while another records a branch of it.
#[test]
fn a_creation_and_a_recording_at_once_lose_no_edge() {
    for seed in 0..400 {
        let at = Migrating::new().now_or_never().unwrap();
        let other = open(&at.shards, &at.plan).now_or_never().unwrap();
        let incident = id("incident-1");
        let edge = |child: &str| RecordLineage::new(incident.clone(), id(child), child.to_owned());
        let early = loom_spi::BranchRegistry::record_lineage(at.source(), edge("metrics"));
        early.now_or_never().unwrap().unwrap();
        at.shards.iter().for_each(|shard| shard.yields());
        let creates = async {
            append(&at.store, &incident, 0, &["opened"]).await.unwrap();
        };
        let records = async {
            let branches = other.capabilities().branches.unwrap();
            branches.record_lineage(edge("logs")).await.unwrap();
        };
        crate::support::interleave(seed, vec![creates.boxed_local(), records.boxed_local()]);
        let check = async {
            // With the log, whatever is still on the source.
            let children = Children::new(incident.clone());
            let found = loom_spi::BranchRegistry::children(at.destination(), children).await;
            let found: Vec<_> = found.unwrap().iter().map(|it| it.label.clone()).collect();
            assert_eq!(found, ["metrics", "logs"], "seed {seed}");
        };
        crate::support::interleave(seed, vec![check.boxed_local()]);
    }
}
