//! Sealing while others work on the record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom_spi::{
    AcquireFence, Append, EventStore, FenceToken, Fencing, RecordLineage, Seal, SealedRecord,
    StoreErrorKind,
};

use super::move_races::{after_some, kind, relocation};
use super::moving::{children, inspect, seal};
use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check_eq};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store seal_races as __seal_races;
    an_acknowledged_append_is_in_the_sealed_head_and_a_refused_one_is_not,
    an_acknowledged_token_is_in_the_sealed_record,
    an_acknowledged_branch_is_in_the_sealed_record,
    racing_sealers_hear_the_same,
}

fn fencing(store: &dyn EventStore) -> Result<&dyn Fencing, Stop> {
    let offered = store.capabilities().fencing;
    offered.ok_or(Stop::Skipped(Need::Fencing))
}

async fn an_acknowledged_append_is_in_the_sealed_head_and_a_refused_one_is_not(cx: Cx) -> Verdict {
    cx.relocation()?;
    for round in 0..cx.effort().rounds {
        let order = id(format!("order-{round}"))?;
        cx.append(&order, 0, 1).await?;
        let begun = Arc::new(AtomicBool::new(false));
        let results = cx
            .race(|racer, store| {
                let (order, begun) = (order.clone(), Arc::clone(&begun));
                async move {
                    if racer == 0 {
                        after_some(&begun).await;
                        let sealed = relocation(&*store)?.seal(Seal::new(order)).await?;
                        return Ok((sealed.events(), Some(sealed)));
                    }
                    let (mut next, mut acknowledged) = (1, 0);
                    loop {
                        let append = Append::new(order.clone(), next, vec![event(next)]);
                        match store.append(append).await.map_err(kind) {
                            Ok(done) => {
                                (next, acknowledged) = (done.next_sequence, done.next_sequence);
                            }
                            Err(StoreErrorKind::SequenceConflict { actual, .. }) => next = actual,
                            Err(StoreErrorKind::Sealed) => return Ok((acknowledged, None)),
                            Err(other) => return Err(Stop::failed(other)),
                        }
                        begun.store(true, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                    }
                }
            })
            .await?;
        let results = results.into_iter().collect::<Result<Vec<_>, Stop>>()?;
        let sealed = results.iter().find_map(|(_, sealed)| sealed.as_ref());
        let sealed = sealed.map_or(0, SealedRecord::events);
        let last = results.iter().map(|(acknowledged, _)| *acknowledged).max();
        check_eq!(
            Some(sealed),
            last,
            "the sealed length, and what was acknowledged"
        );
        check_eq!(cx.log(&order).await?, stored(0, sealed), "the log");
    }
    Ok(())
}

async fn an_acknowledged_token_is_in_the_sealed_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    cx.fencing()?;
    for round in 0..cx.effort().rounds {
        let order = id(format!("order-{round}"))?;
        cx.append(&order, 0, 1).await?;
        let begun = Arc::new(AtomicBool::new(false));
        let results = cx
            .race(|racer, store| {
                let (order, begun) = (order.clone(), Arc::clone(&begun));
                async move {
                    if racer == 0 {
                        after_some(&begun).await;
                        let sealed = relocation(&*store)?.seal(Seal::new(order)).await?;
                        return Ok((true, sealed.fence));
                    }
                    let mut last = None;
                    loop {
                        let request = AcquireFence::new(order.clone());
                        match fencing(&*store)?.acquire_fence(request).await.map_err(kind) {
                            Ok(token) => last = Some(token),
                            Err(StoreErrorKind::Sealed) => return Ok((false, last)),
                            Err(other) => return Err(Stop::failed(other)),
                        }
                        begun.store(true, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                    }
                }
            })
            .await?;
        let results = results.into_iter().collect::<Result<Vec<_>, Stop>>()?;
        let token = |of_sealer: bool| -> Option<FenceToken> {
            let of = results.iter().filter(|(sealer, _)| *sealer == of_sealer);
            of.filter_map(|(_, token)| *token).max()
        };
        check_eq!(
            token(true),
            token(false),
            "the sealed token, and the last one handed out"
        );
        let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
        check_eq!(fence, token(true), "the token of the record");
    }
    Ok(())
}

async fn an_acknowledged_branch_is_in_the_sealed_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    cx.branches()?;
    for round in 0..cx.effort().rounds {
        let incident = id(format!("incident-{round}"))?;
        cx.append(&incident, 0, 1).await?;
        let begun = Arc::new(AtomicBool::new(false));
        let results = cx
            .race(|racer, store| {
                let (incident, begun) = (incident.clone(), Arc::clone(&begun));
                async move {
                    if racer == 0 {
                        after_some(&begun).await;
                        let sealed = relocation(&*store)?.seal(Seal::new(incident)).await?;
                        return Ok((Some(sealed.branches), vec![]));
                    }
                    let mut acknowledged = Vec::new();
                    loop {
                        let child = id(format!("{incident}/{racer}/{}", acknowledged.len()))?;
                        let edge =
                            RecordLineage::new(incident.clone(), child.clone(), String::new());
                        let branches = store.capabilities().branches;
                        let branches = branches.ok_or(Stop::Skipped(Need::Branches))?;
                        match branches.record_lineage(edge).await.map_err(kind) {
                            Ok(()) => acknowledged.push(child),
                            Err(StoreErrorKind::Sealed) => return Ok((None, acknowledged)),
                            Err(other) => return Err(Stop::failed(other)),
                        }
                        begun.store(true, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                    }
                }
            })
            .await?;
        let (mut sealed, mut acknowledged) = (Vec::new(), Vec::new());
        for result in results {
            let (of_sealer, of_racer) = result?;
            sealed.extend(of_sealer.into_iter().flatten());
            acknowledged.extend(of_racer);
        }
        check_eq!(children(&cx, &incident).await?, sealed, "the branches");
        let mut found: Vec<_> = sealed.into_iter().map(|branch| branch.child).collect();
        found.sort();
        acknowledged.sort();
        check_eq!(
            found,
            acknowledged,
            "the sealed branches, and those acknowledged"
        );
    }
    Ok(())
}

async fn racing_sealers_hear_the_same(cx: Cx) -> Verdict {
    cx.relocation()?;
    for round in 0..cx.effort().rounds {
        let order = id(format!("order-{round}"))?;
        cx.append(&order, 0, 5).await?;
        let answers = cx
            .race(|_, store| {
                let order = order.clone();
                async move { Ok::<_, Stop>(relocation(&*store)?.seal(Seal::new(order)).await?) }
            })
            .await?;
        let expected = seal(&cx, &order).await?;
        for answer in answers {
            check_eq!(answer?, expected, "what has to move");
        }
    }
    Ok(())
}
