//! Records that move while others work on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom_spi::{
    AcquireFence, Append, EventStore, ExecutionId, FenceToken, Fencing, Head, Import, Imported,
    RecordLineage, Relocation, Retire, Seal, SealedRecord, StoreError, StoreErrorKind,
};

use super::moving::{Packed, children, inspect, seal, seen};
use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id, log_in_pages, race, stored};

crate::macros::suite! { ($) Store move_races as __move_races;
    an_acknowledged_append_is_in_the_sealed_head_and_a_refused_one_is_not,
    an_acknowledged_token_is_in_the_sealed_record,
    an_acknowledged_branch_is_in_the_sealed_record,
    racing_sealers_hear_the_same,
    racing_imports_of_one_record_all_succeed,
    racing_movers_move_a_record_once,
    a_record_moves_under_its_writer,
}

fn relocation(store: &dyn EventStore) -> Result<&dyn Relocation, Stop> {
    let offered = store.capabilities().relocation;
    offered.ok_or(Stop::Skipped(Need::Relocation))
}

fn fencing(store: &dyn EventStore) -> Result<&dyn Fencing, Stop> {
    let offered = store.capabilities().fencing;
    offered.ok_or(Stop::Skipped(Need::Fencing))
}

/// Lets a mover begin when the others are at work.
async fn after_some(begun: &AtomicBool) {
    while !begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
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

fn kind(error: StoreError) -> StoreErrorKind {
    error.kind().clone()
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

/// Imports a record in parts of `size`, going on where the answers say.
async fn send(to: &dyn EventStore, packed: &Packed, size: usize) -> Result<Imported, Stop> {
    let mut from = 0;
    loop {
        let until = (from + size).min(packed.events.len());
        let part: Import = packed.part(from..until);
        let answer = relocation(to)?.import(part).await?;
        let Imported::Staged { next_sequence } = answer else {
            return Ok(answer);
        };
        let next = usize::try_from(next_sequence).unwrap_or(usize::MAX);
        check!(
            next >= until && next < packed.events.len(),
            "the part until {until} is to be followed by {next}"
        );
        from = next;
    }
}

async fn racing_imports_of_one_record_all_succeed(cx: Cx) -> Verdict {
    cx.relocation()?;
    for round in 0..cx.effort().rounds {
        let packed = Packed::made(&id(format!("order-{round}"))?, 24);
        let answers = cx
            .race(|racer, store| {
                let packed = packed.clone();
                async move { send(&*store, &packed, 1 + racer % 5).await }
            })
            .await?;
        let mut made_it_visible = 0;
        for answer in answers {
            match answer? {
                Imported::Visible => made_it_visible += 1,
                answer => check_eq!(answer, Imported::AlreadyThere, "the answer in the end"),
            }
        }
        check_eq!(made_it_visible, 1, "how many made it visible");
        check_eq!(cx.log(&packed.id).await?, stored(0, 24), "the log");
    }
    Ok(())
}

/// Moves a record as anybody would who may be one of several: each step may find that another one was quicker.
async fn carry(
    from: &dyn EventStore,
    to: &dyn EventStore,
    id: &ExecutionId,
    size: usize,
) -> Result<(), Stop> {
    let sealed = match relocation(from)?.seal(Seal::new(id.clone())).await {
        Ok(sealed) => sealed,
        Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut events = Vec::new();
    if sealed.head.is_some() {
        let read = loom_spi::Read::new(id.clone(), 0, 100);
        match from.read(read.clone()).await {
            Ok(_) => {}
            Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        match log_in_pages(from, read).await {
            Ok(log) => events = log,
            // Another mover may have retired it between two pages.
            Err(stop) => match from.head(Head::new(id.clone())).await? {
                None => return Ok(()),
                Some(_) => return Err(stop),
            },
        }
    }
    let packed = Packed {
        id: id.clone(),
        sealed,
        events,
        epoch: None,
    };
    send(to, &packed, size).await?;
    Ok(relocation(from)?.retire(Retire::new(id.clone())).await?)
}

async fn racing_movers_move_a_record_once(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    for round in 0..cx.effort().rounds {
        let on = super::operations::subject(&cx, &format!("order-{round}")).await?;
        let append = Append::new(on.id.clone(), 1, crate::support::events(1, 15));
        cx.store().append(append.with_fence(on.token)).await?;
        let before = seen(&cx, &on.id).await?;
        let moved = race(cx.effort().racers, |racer| {
            let (from, to, id) = (cx.shared(), to.shared(), on.id.clone());
            async move { carry(&*from, &*to, &id, 1 + racer).await }
        })
        .await?;
        for moved in moved {
            moved?;
        }
        check_eq!(seen(&to, &on.id).await?, before, "the record");
        check_eq!(inspect(&cx, &on.id).await?, None, "what is left of it");
        let append = Append::new(on.id.clone(), 16, vec![event(16)]);
        to.store().append(append.with_fence(on.token)).await?;
    }
    Ok(())
}

/// Appends one event after another, here or there, to `until` events. Counts those that were acknowledged.
async fn write(
    stores: [Arc<dyn EventStore>; 2],
    id: ExecutionId,
    until: u64,
    begun: Arc<AtomicBool>,
) -> Result<u64, Stop> {
    let (mut next, mut place, mut acknowledged) = (1, 0, 1);
    while next < until {
        let append = Append::new(id.clone(), next, vec![event(next)]);
        match stores[place].append(append).await.map_err(kind) {
            Ok(done) => (next, acknowledged) = (done.next_sequence, acknowledged + 1),
            Err(StoreErrorKind::Sealed | StoreErrorKind::SequenceConflict { actual: 0, .. }) => {
                // It is on its way, or has arrived.
                place = 1 - place;
                tokio::task::yield_now().await;
            }
            Err(other) => return Err(Stop::failed(other)),
        }
        begun.store(true, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    Ok(acknowledged)
}

async fn a_record_moves_under_its_writer(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    for round in 0..cx.effort().rounds {
        let order = id(format!("order-{round}"))?;
        cx.append(&order, 0, 1).await?;
        let begun = Arc::new(AtomicBool::new(false));
        let stores = [cx.shared(), to.shared()];
        let writer = tokio::spawn(write(stores, order.clone(), 60, Arc::clone(&begun)));
        after_some(&begun).await;
        let moved = race(3, |racer| {
            let (from, to, id) = (cx.shared(), to.shared(), order.clone());
            async move { carry(&*from, &*to, &id, 1 + racer).await }
        })
        .await?;
        for moved in moved {
            moved?;
        }
        let acknowledged = writer.await.map_err(Stop::failed)??;
        check_eq!(acknowledged, 60, "how many events were acknowledged");
        check_eq!(to.log(&order).await?, stored(0, 60), "the log");
        check_eq!(inspect(&cx, &order).await?, None, "what is left of it");
        check_refused!(
            cx.append(&order, 60, 1).await,
            StoreErrorKind::SequenceConflict { actual: 0, .. },
            "an append at the old place"
        );
    }
    Ok(())
}
