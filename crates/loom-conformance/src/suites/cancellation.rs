//! Dropping a future at any moment leaves nothing half done.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::slice::from_ref;
use std::task::Poll;

use loom_spi::{
    AcquireFence, Append, Branch, Children, Delete, ExecutionId, FenceToken, Head, List, Parent,
    ParentLink, Publish, Read, RecordLineage, StoreErrorKind,
};

use super::ledger::{plan, publish, published};
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq};
use crate::support::{events, id, stored};

crate::macros::suite! { ($) Store cancellation as __cancellation;
    a_dropped_creation_is_whole_or_absent,
    a_dropped_append_is_whole_or_absent,
    a_dropped_delete_is_whole_or_absent,
    a_dropped_acquisition_hands_out_no_token_twice,
    a_dropped_recording_is_seen_from_both_ends_or_from_neither,
    a_dropped_publication_is_whole_or_absent,
    dropped_reads_change_nothing,
    an_aborted_writer_leaves_whole_appends,
}

/// No operation should need to be woken more often than this.
pub(super) const MOST_POLLS: usize = 200;

/// Polls a future up to `polls` times, each time when it asks for it, and drops it then. `None` when it had
/// not ended.
pub(super) async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|waker| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(waker) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Checks a log to which `count` events were appended after `before`, by a call that may have been dropped: it
/// has all of them or none, and goes on from there. The call may take effect late, but not in part.
async fn whole_or_absent(cx: &Cx, id: &ExecutionId, before: u64, count: u64) -> Verdict {
    let mut length = cx.length(id).await?;
    loop {
        check!(
            length == before || length == before + count,
            "an append of {count} events to {before} left {length}"
        );
        match cx.append(id, length, count).await {
            Ok(_) => break,
            Err(error) => match error.kind() {
                StoreErrorKind::SequenceConflict { actual, .. } if *actual > length => {
                    length = *actual;
                }
                _ => return Err(error.into()),
            },
        }
    }
    check_eq!(cx.log(id).await?, stored(0, length + count), "the log");
    Ok(())
}

async fn a_dropped_creation_is_whole_or_absent(cx: Cx) -> Verdict {
    for polls in 0..MOST_POLLS {
        let id = id(format!("order-{polls}"))?;
        let ended = polled(cx.append(&id, 0, 5), polls).await;
        whole_or_absent(&cx, &id, 0, 5).await?;
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("an append is still not done"))
}

async fn a_dropped_append_is_whole_or_absent(cx: Cx) -> Verdict {
    for polls in 0..MOST_POLLS {
        let id = id(format!("order-{polls}"))?;
        cx.append(&id, 0, 4).await?;
        let ended = polled(cx.append(&id, 4, 5), polls).await;
        whole_or_absent(&cx, &id, 4, 5).await?;
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("an append is still not done"))
}

async fn a_dropped_delete_is_whole_or_absent(cx: Cx) -> Verdict {
    for polls in 0..MOST_POLLS {
        let id = id(format!("order-{polls}"))?;
        cx.append(&id, 0, 5).await?;
        let ended = polled(cx.store().delete(Delete::new(id.clone())), polls).await;
        // Whoever deletes again either finds it whole or finds nothing; a late effect is no third case.
        match cx.store().read(Read::new(id.clone(), 0, 100)).await {
            Ok(page) => {
                let found = page.events.len() as u64;
                check_eq!(page.events, stored(0, found), "what is left");
                check_eq!(page.head.next_sequence, 5, "the length of what is left");
            }
            Err(error) if *error.kind() == StoreErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        match cx.store().delete(Delete::new(id.clone())).await {
            Ok(deleted) => check_eq!(deleted.events, 5, "how many events were left"),
            Err(error) if *error.kind() == StoreErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        check_eq!(cx.head(&id).await?, None, "the head");
        if let Some(done) = ended {
            check_eq!(done?.events, 5, "how many events were removed");
            return Ok(());
        }
    }
    Err(Stop::failed("a delete is still not done"))
}

async fn a_dropped_acquisition_hands_out_no_token_twice(cx: Cx) -> Verdict {
    let id = id("order")?;
    let request = AcquireFence::new(id.clone());
    let mut last = FenceToken(0);
    for polls in 0..MOST_POLLS {
        let ended = polled(cx.fencing()?.acquire_fence(request.clone()), polls).await;
        let next = cx.fencing()?.acquire_fence(request.clone()).await?;
        check!(next > last, "token {next} came after {last}");
        last = next;
        if let Some(done) = ended {
            check!(done? < next, "token {next} was handed out twice");
            return Ok(());
        }
    }
    Err(Stop::failed("an acquisition is still not done"))
}

async fn a_dropped_recording_is_seen_from_both_ends_or_from_neither(cx: Cx) -> Verdict {
    let branches = cx.branches()?;
    for polls in 0..MOST_POLLS {
        let (parent, child) = (
            id(format!("incident-{polls}"))?,
            id(format!("child-{polls}"))?,
        );
        let edge = RecordLineage::new(parent.clone(), child.clone(), "label".to_owned());
        let ended = polled(branches.record_lineage(edge.clone()), polls).await;
        // It may take effect between the looks, so what is seen first is seen ever after.
        let down = branches.children(Children::new(parent.clone())).await?;
        let up = branches.parent(Parent::new(child.clone())).await?;
        check!(
            down.is_empty() || up.is_some(),
            "the parent has the edge, the child does not"
        );
        let down = branches.children(Children::new(parent.clone())).await?;
        check!(
            up.is_none() || !down.is_empty(),
            "the child has the edge, the parent does not"
        );
        branches.record_lineage(edge).await?;
        let down = branches.children(Children::new(parent.clone())).await?;
        check_eq!(down, [Branch::new(child.clone(), "label")], "the branches");
        let up = branches.parent(Parent::new(child)).await?;
        check_eq!(up, Some(ParentLink::new(parent, "label")), "the parent");
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("a recording is still not done"))
}

async fn a_dropped_publication_is_whole_or_absent(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut now = plan(1, 1);
    publish(&cx, now, None).await?;
    for polls in 0..MOST_POLLS {
        let new = plan(now.epoch + 1, 7);
        let request = Publish::new(published(new), Some(now));
        let ended = polled(cx.ledger()?.publish(request.clone()), polls).await;
        let current = cx.ledger()?.current().await?;
        check!(
            current == Some(published(now)) || current == Some(published(new)),
            "neither the plan before nor the plan after: {current:?}"
        );
        cx.ledger()?.publish(request).await?;
        check_eq!(
            cx.ledger()?.current().await?,
            Some(published(new)),
            "the plan"
        );
        let append = Append::new(id(format!("order-{polls}"))?, 0, events(0, 1));
        cx.store().append(append.with_epoch(new)).await?;
        now = new;
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("a publication is still not done"))
}

async fn dropped_reads_change_nothing(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 5).await?;
    let store = cx.store();
    for polls in 0..MOST_POLLS {
        let read = polled(store.read(Read::new(id.clone(), 0, 100)), polls).await;
        let head = polled(store.head(Head::new(id.clone())), polls).await;
        let list = polled(store.list(List::new(10)), polls).await;
        check_eq!(cx.log(&id).await?, stored(0, 5), "the log");
        check_eq!(cx.ids(List::new(10)).await?, from_ref(&id), "the listing");
        if let (Some(read), Some(head), Some(list)) = (read, head, list) {
            read?;
            head?;
            list?;
            cx.append(&id, 5, 1).await?;
            return Ok(());
        }
    }
    Err(Stop::failed("a read is still not done"))
}

async fn an_aborted_writer_leaves_whole_appends(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds {
        let id = id(format!("order-{round}"))?;
        let (store, of_writer) = (cx.shared(), id.clone());
        let (started, running) = tokio::sync::oneshot::channel();
        let writer = tokio::spawn(async move {
            let mut started = Some(started);
            let mut next = 0;
            while store
                .append(Append::new(of_writer.clone(), next, events(next, 3)))
                .await
                .is_ok()
            {
                next += 3;
                if next > 3 * round as u64 {
                    // The other side waits for it, so it is there.
                    let _ = started.take().map(|started| started.send(()));
                }
                tokio::task::yield_now().await;
            }
        });
        let _ = running.await;
        writer.abort();
        let _ = writer.await;
        let length = cx.length(&id).await?;
        check_eq!(length % 3, 0, "the rest of {length} events by threes");
        // At most one append of the writer is still on its way.
        let before = length;
        whole_or_absent(&cx, &id, before, 3).await?;
    }
    Ok(())
}
