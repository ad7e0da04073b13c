//! Executions that come and go while others look.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom_spi::{Delete, EventStore, List, StoreErrorKind};

use super::concurrency::signed;
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{id, listing, many_ids};

crate::macros::suite! { ($) Store churn as __churn;
    of_racing_deletes_one_counts_the_events,
    a_conditional_delete_and_an_append_do_not_both_happen,
    a_listing_during_writes_has_all_that_stays,
}

async fn of_racing_deletes_one_counts_the_events(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds {
        let id = id(format!("order-{round}"))?;
        cx.append(&id, 0, 3).await?;
        let results = cx
            .race(|_, store| {
                let request = Delete::new(id.clone());
                async move { store.delete(request).await }
            })
            .await?;
        let mut counted = 0;
        for result in results {
            match result {
                Ok(deleted) => counted += deleted.events,
                lost => check_refused!(lost, StoreErrorKind::NotFound, "deleting it too late"),
            }
        }
        check_eq!(counted, 3, "how many events were counted by all together");
        check_eq!(cx.head(&id).await?, None, "the head");
    }
    Ok(())
}

async fn a_conditional_delete_and_an_append_do_not_both_happen(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds * 4 {
        let id = id(format!("order-{round}"))?;
        cx.append(&id, 0, 2).await?;
        let results = cx
            .race(|racer, store| {
                let id = id.clone();
                async move {
                    if racer % 2 == 0 {
                        (true, store.append(signed(&id, 2, racer, 1)).await.map(drop))
                    } else {
                        let request = Delete::new(id).with_expected(2);
                        (false, store.delete(request).await.map(drop))
                    }
                }
            })
            .await?;
        let mut winners = Vec::new();
        for (appended, result) in results {
            match result {
                Ok(()) => winners.push(appended),
                lost => check_refused!(
                    lost,
                    StoreErrorKind::SequenceConflict { .. } | StoreErrorKind::NotFound,
                    "appending or deleting too late"
                ),
            }
        }
        check_eq!(
            winners.len(),
            1,
            "how many of the appends and deletes happened"
        );
        let expected = if winners[0] { 3 } else { 0 };
        check_eq!(cx.length(&id).await?, expected, "the length");
    }
    Ok(())
}

async fn a_listing_during_writes_has_all_that_stays(cx: Cx) -> Verdict {
    let stay: BTreeSet<_> = many_ids(cx.effort().many / 3)?.into_iter().collect();
    for id in &stay {
        cx.append(id, 0, 1).await?;
    }
    let (racers, rounds) = (cx.effort().racers, cx.effort().rounds);
    let writing = Arc::new(AtomicUsize::new(racers / 2));
    let results = cx
        .race(|racer, store| {
            let (stay, writing) = (stay.clone(), Arc::clone(&writing));
            async move {
                if racer < racers / 2 {
                    let result = come_and_go(&*store, racer, rounds * 5).await;
                    writing.fetch_sub(1, Ordering::SeqCst);
                    return result;
                }
                while writing.load(Ordering::SeqCst) > 0 {
                    // Checks the order, and with it that nothing comes twice.
                    let found = listing(&*store, List::new(10)).await?;
                    let found: BTreeSet<_> = found.into_iter().map(|summary| summary.id).collect();
                    let missed: Vec<_> = stay.difference(&found).collect();
                    check!(
                        missed.is_empty(),
                        "not listed, though it was there: {missed:?}"
                    );
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        })
        .await?;
    results.into_iter().collect()
}

async fn come_and_go(store: &dyn EventStore, racer: usize, rounds: usize) -> Verdict {
    for round in 0..rounds {
        let passing = id(format!("passing-{racer}-{round}"))?;
        store.append(signed(&passing, 0, racer, 1)).await?;
        tokio::task::yield_now().await;
        store.delete(Delete::new(passing)).await?;
    }
    Ok(())
}
