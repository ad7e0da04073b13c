//! A plan that is published while others write.

use std::sync::Arc;

use loom_spi::{Append, EventStore, ExecutionId, Head, PlanEpoch, StoreError, StoreErrorKind};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::ledger::{plan, publish};
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store epoch_races as __epoch_races;
    no_append_of_an_older_plan_lands_after_the_newer_one_was_published,
    racing_publication_refuses_every_writer_in_the_end,
}

/// Appends one event after another under a plan until it is refused. Says so when it has begun.
async fn write(
    store: Arc<dyn EventStore>,
    id: ExecutionId,
    under: PlanEpoch,
    begun: Arc<Semaphore>,
) -> (ExecutionId, u64, StoreError) {
    let mut next = 0;
    loop {
        let append = Append::new(id.clone(), next, vec![event(next)]).with_epoch(under);
        if let Err(error) = store.append(append).await {
            return (id, next, error);
        }
        next += 1;
        if next == 1 {
            begun.add_permits(1);
        }
        tokio::task::yield_now().await;
    }
}

/// Starts as many writers as there are racers, and returns when all of them are at work.
async fn writers(
    cx: &Cx,
    ids: &[ExecutionId],
    under: PlanEpoch,
) -> Result<JoinSet<(ExecutionId, u64, StoreError)>, Stop> {
    let begun = Arc::new(Semaphore::new(0));
    let mut writers = JoinSet::new();
    for id in ids {
        writers.spawn(write(cx.shared(), id.clone(), under, Arc::clone(&begun)));
    }
    for _ in ids {
        // A writer that is refused at once never begins, and is found out when it is joined.
        tokio::select! {
            permit = begun.acquire() => permit.map_err(Stop::failed)?.forget(),
            Some(ended) = writers.join_next() => {
                let (_, _, error) = ended.map_err(Stop::failed)?;
                return Err(error.into());
            }
        }
    }
    Ok(writers)
}

fn ids(cx: &Cx, round: u64) -> Result<Vec<ExecutionId>, Stop> {
    (0..cx.effort().racers)
        .map(|racer| id(format!("order-{round}-{racer}")))
        .collect()
}

async fn length(cx: &Cx, id: &ExecutionId, under: PlanEpoch) -> Result<u64, Stop> {
    let head = Head::new(id.clone()).with_epoch(under);
    let head = cx.store().head(head).await?;
    Ok(head.map_or(0, |head| head.next_sequence))
}

async fn no_append_of_an_older_plan_lands_after_the_newer_one_was_published(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut now = plan(1, 7);
    publish(&cx, now, None).await?;
    for round in 0..cx.effort().rounds as u64 {
        let ids = ids(&cx, round)?;
        let mut writers = writers(&cx, &ids, now).await?;
        let new = plan(round + 2, 7);
        publish(&cx, new, Some(now)).await?;
        let mut seen = Vec::new();
        for id in &ids {
            seen.push(length(&cx, id, new).await?);
        }
        while let Some(ended) = writers.join_next().await {
            ended.map_err(Stop::failed)?;
        }
        for (id, seen) in ids.iter().zip(seen) {
            let at_the_end = length(&cx, id, new).await?;
            check_eq!(
                at_the_end,
                seen,
                "the length of {id} since the plan was published"
            );
        }
        now = new;
    }
    Ok(())
}

async fn racing_publication_refuses_every_writer_in_the_end(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut now = plan(1, 7);
    publish(&cx, now, None).await?;
    for round in 0..cx.effort().rounds as u64 {
        let mut writers = writers(&cx, &ids(&cx, round)?, now).await?;
        let new = plan(round + 2, 7);
        publish(&cx, new, Some(now)).await?;
        while let Some(ended) = writers.join_next().await {
            let (id, acknowledged, error) = ended.map_err(Stop::failed)?;
            check_refused!(
                Err::<(), _>(error),
                StoreErrorKind::StalePlan { presented: Some(found), current }
                    if *found == now && *current == new,
                "the last append to {id}"
            );
            let length = length(&cx, &id, new).await?;
            check_eq!(
                length,
                acknowledged,
                "the length of {id}, and what was acknowledged"
            );
        }
        now = new;
    }
    Ok(())
}
