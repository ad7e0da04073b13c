//! Many who want the same fence, and writers that are replaced while they write.

use std::collections::BTreeSet;
use std::time::Duration;

use loom_spi::{AcquireFence, EventStore, FenceToken, StoreError, StoreErrorKind};

use super::concurrency::signed;
use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::id;

crate::macros::suite! { ($) Store fence_races as __fence_races;
    racing_acquirers_get_different_tokens,
    of_racing_holders_one_gets_the_lease,
    a_replaced_writer_appends_nothing_after_the_acquisition,
}

async fn acquire(
    store: &dyn EventStore,
    request: AcquireFence,
) -> Result<Result<FenceToken, StoreError>, Stop> {
    let fencing = store
        .capabilities()
        .fencing
        .ok_or(Stop::Skipped(Need::Fencing))?;
    Ok(fencing.acquire_fence(request).await)
}

async fn racing_acquirers_get_different_tokens(cx: Cx) -> Verdict {
    cx.fencing()?;
    let rounds = cx.effort().rounds;
    let request = AcquireFence::new(id("order")?);
    let results = cx
        .race(|_, store| {
            let request = request.clone();
            async move {
                let mut tokens = Vec::new();
                for _ in 0..rounds {
                    tokens.push(acquire(&*store, request.clone()).await??);
                }
                Ok::<_, Stop>(tokens)
            }
        })
        .await?;
    let mut all = BTreeSet::new();
    for tokens in results {
        let tokens = tokens?;
        check!(
            tokens.is_sorted_by(|a, b| a < b),
            "tokens that do not grow: {tokens:?}"
        );
        all.extend(tokens);
    }
    check_eq!(
        all.len(),
        cx.effort().racers * rounds,
        "how many different tokens"
    );
    Ok(())
}

async fn of_racing_holders_one_gets_the_lease(cx: Cx) -> Verdict {
    cx.fencing()?;
    for round in 0..cx.effort().rounds {
        let request =
            AcquireFence::new(id(format!("order-{round}"))?).with_lease(Duration::from_secs(3600));
        let results = cx
            .race(|racer, store| {
                let request = request.clone().with_holder(format!("holder {racer}"));
                async move { acquire(&*store, request).await }
            })
            .await?;
        let mut holders = 0;
        for result in results {
            match result? {
                Ok(_) => holders += 1,
                lost => check_refused!(lost, StoreErrorKind::Leased { .. }, "coming too late"),
            }
        }
        check_eq!(holders, 1, "how many holders got the lease");
    }
    Ok(())
}

async fn a_replaced_writer_appends_nothing_after_the_acquisition(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds {
        let id = id(format!("order-{round}"))?;
        let acquisition = AcquireFence::new(id.clone());
        let old = cx.fencing()?.acquire_fence(acquisition.clone()).await?;
        let (store, writer_id) = (cx.shared(), id.clone());
        let (running, started) = tokio::sync::oneshot::channel();
        let writer = tokio::spawn(async move {
            let mut running = Some(running);
            let mut next = 0;
            loop {
                let append = signed(&writer_id, next, 0, 1).with_fence(old);
                if let Err(error) = store.append(append).await {
                    return (next, error);
                }
                next += 1;
                // The other side waits for it, so it is there.
                let _ = running.take().map(|running| running.send(()));
                tokio::task::yield_now().await;
            }
        });
        let _ = started.await;
        let new = cx.fencing()?.acquire_fence(acquisition).await?;
        let length = cx.length(&id).await?;
        let (written, error) = writer.await.map_err(Stop::failed)?;
        check_refused!(
            Err::<(), _>(error),
            StoreErrorKind::Fenced { current, .. } if *current == new,
            "the end of the replaced writer"
        );
        check_eq!(
            written,
            length,
            "its appends that were acknowledged, and the length"
        );
        check_eq!(cx.length(&id).await?, length, "the length at the end");
    }
    Ok(())
}
