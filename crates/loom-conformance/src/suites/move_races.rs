//! Records that move while others work on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom_spi::{
    Append, EventStore, ExecutionId, Head, Import, Imported, Relocation, Retire, Seal, StoreError,
    StoreErrorKind,
};

use super::moving::{Packed, inspect, seen};
use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id, log_in_pages, race, stored};

crate::macros::suite! { ($) Store move_races as __move_races;
    racing_imports_of_one_record_all_succeed,
    racing_movers_move_a_record_once,
    a_record_moves_under_its_writer,
}

pub(super) fn relocation(store: &dyn EventStore) -> Result<&dyn Relocation, Stop> {
    let offered = store.capabilities().relocation;
    offered.ok_or(Stop::Skipped(Need::Relocation))
}

/// Lets a mover begin when the others are at work.
pub(super) async fn after_some(begun: &AtomicBool) {
    while !begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

pub(super) fn kind(error: StoreError) -> StoreErrorKind {
    error.kind().clone()
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
