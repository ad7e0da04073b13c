//! Whole moves from one store to another.

use fastrand::Rng;
use loom_spi::{AcquireFence, Append, ExecutionId, Imported, RenewLease, StoreErrorKind};

use super::moving::{
    MINUTE, Packed, acquire, inspect, record, records, retire, seal, seen, unseal,
};
use super::random::{Parts, Run};
use crate::context::Cx;
use crate::model::Model;
use crate::outcome::{Stop, Verdict, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store moves as __moves;
    a_moved_record_is_the_same_at_its_new_place,
    a_moved_record_leaves_nothing_behind,
    a_record_moves_there_and_back,
    a_writer_goes_on_at_the_new_place,
    a_lease_is_renewed_at_the_new_place,
    an_import_that_was_reverted_is_retired_and_the_source_goes_on,
    a_move_that_was_given_up_can_be_made_later,
    random_records_are_moved_unchanged,
    random_operations_go_on_at_the_new_place,
}

/// Moves a record, in parts of `size` events.
async fn move_record(from: &Cx, to: &Cx, id: &ExecutionId, size: usize) -> Result<Imported, Stop> {
    let packed = Packed::of(from, id).await?;
    let answer = packed.send(to, size).await?;
    retire(from, id).await?;
    Ok(answer)
}

/// Makes a record of everything that the store knows.
async fn rich(cx: &Cx, name: &str) -> Result<ExecutionId, Stop> {
    let order = id(name)?;
    cx.append(&order, 0, 7).await?;
    if cx.branches().is_ok() {
        for child in ["m", "a", "z"] {
            record(cx, &order, &[&format!("{child} of {name}")]).await?;
        }
    }
    if cx.fencing().is_ok() {
        acquire(cx, &order, "zero").await?;
        let request = AcquireFence::new(order.clone()).with_holder("one".to_owned());
        let request = request.with_take_over(true).with_lease(MINUTE);
        cx.fencing()?.acquire_fence(request).await?;
    }
    Ok(order)
}

async fn a_moved_record_is_the_same_at_its_new_place(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    for size in [1, 3, 100] {
        let order = rich(&cx, &format!("order {size}")).await?;
        let before = seen(&cx, &order).await?;
        let answer = move_record(&cx, &to, &order, size).await?;
        check_eq!(answer, Imported::Visible, "the answer");
        check_eq!(seen(&to, &order).await?, before, "the record");
    }
    Ok(())
}

async fn a_moved_record_leaves_nothing_behind(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    move_record(&cx, &to, &order, 3).await?;
    check_eq!(inspect(&cx, &order).await?, None, "the record");
    check_eq!(cx.head(&order).await?, None, "the head");
    let left = records(&cx, loom_spi::Records::new(9)).await?;
    check_eq!(left, [], "the records");
    // It could begin anew there, as if it had never been.
    let again = rich(&cx, "order").await?;
    let first = seal(&cx, &again).await?.fence;
    check_eq!(
        first.is_none_or(|token| token.0 <= 2),
        true,
        "the first token is {first:?}"
    );
    Ok(())
}

async fn a_record_moves_there_and_back(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    let before = seen(&cx, &order).await?;
    for round in 1..4 {
        move_record(&cx, &to, &order, round).await?;
        check_eq!(seen(&to, &order).await?, before, "there");
        move_record(&to, &cx, &order, round + 1).await?;
        check_eq!(seen(&cx, &order).await?, before, "back");
    }
    Ok(())
}

async fn a_writer_goes_on_at_the_new_place(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    let token = inspect(&cx, &order).await?.and_then(|record| record.fence);
    let next = |at: u64| Append::new(order.clone(), at, vec![event(at)]).with_fence(token);
    seal(&cx, &order).await?;
    check_refused!(
        cx.store().append(next(7)).await,
        StoreErrorKind::Sealed,
        "an append at the old place, before it has moved"
    );
    move_record(&cx, &to, &order, 3).await?;
    to.store().append(next(7)).await?;
    check_refused!(
        cx.store().append(next(7)).await,
        StoreErrorKind::SequenceConflict { actual: 0, .. },
        "an append at the old place, after it has moved"
    );
    check_eq!(to.length(&order).await?, 8, "the length");
    Ok(())
}

async fn a_lease_is_renewed_at_the_new_place(cx: Cx) -> Verdict {
    cx.relocation()?;
    cx.fencing()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    let token = inspect(&cx, &order).await?.and_then(|record| record.fence);
    let token = token.ok_or_else(|| Stop::failed("it has no fence"))?;
    move_record(&cx, &to, &order, 3).await?;
    let renewal = RenewLease::new(order.clone(), token, MINUTE);
    check_refused!(
        cx.fencing()?.renew_lease(renewal.clone()).await,
        StoreErrorKind::NotFound,
        "a renewal at the old place"
    );
    to.fencing()?.renew_lease(renewal).await?;
    let other = AcquireFence::new(order).with_holder("two".to_owned());
    check_refused!(
        to.fencing()?.acquire_fence(other).await,
        StoreErrorKind::Leased { holder, .. } if holder == "one",
        "an acquisition while the renewed lease runs"
    );
    Ok(())
}

async fn an_import_that_was_reverted_is_retired_and_the_source_goes_on(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    let before = seen(&cx, &order).await?;
    Packed::of(&cx, &order).await?.send(&to, 2).await?;
    // The copy that is not to be goes first, so that never both are gone.
    seal(&to, &order).await?;
    retire(&to, &order).await?;
    unseal(&cx, &order).await?;
    check_eq!(seen(&cx, &order).await?, before, "the record");
    check_eq!(inspect(&to, &order).await?, None, "its copy");
    let token = inspect(&cx, &order).await?.and_then(|record| record.fence);
    let append = Append::new(order, 7, vec![event(7)]).with_fence(token);
    cx.store().append(append).await?;
    Ok(())
}

async fn a_move_that_was_given_up_can_be_made_later(cx: Cx) -> Verdict {
    cx.relocation()?;
    let to = cx.another().await?;
    let order = rich(&cx, "order").await?;
    let early = Packed::of(&cx, &order).await?;
    to.relocation()?.import(early.part(0..4)).await?;
    unseal(&cx, &order).await?;
    // It goes on, and is another one when it is moved at last.
    let token = early.sealed.fence;
    let append = Append::new(order.clone(), 7, vec![event(7)]).with_fence(token);
    cx.store().append(append).await?;
    if cx.fencing().is_ok() {
        acquire(&cx, &order, "one").await?;
    }
    let before = seen(&cx, &order).await?;
    move_record(&cx, &to, &order, 3).await?;
    check_eq!(seen(&to, &order).await?, before, "the record");
    Ok(())
}

/// What random operations there are.
fn parts(cx: &Cx) -> Parts {
    Parts {
        fences: cx.fencing().is_ok(),
        lineage: cx.branches().is_ok(),
        plans: false,
    }
}

/// Moves everything that a run has made, in parts of random sizes, now and then after a start that was given up,
/// and compares each record before and after.
async fn move_all(from: &Cx, to: &Cx, ids: &[ExecutionId], rng: &mut Rng) -> Verdict {
    for id in ids {
        let before = seen(from, id).await?;
        if inspect(from, id).await?.is_none() {
            continue;
        }
        if rng.u8(0..4) == 0 {
            let packed = Packed::of(from, id).await?;
            if packed.events.len() > 1 {
                let some = rng.usize(1..packed.events.len());
                to.relocation()?.import(packed.part(0..some)).await?;
            }
            unseal(from, id).await?;
            check_eq!(seen(from, id).await?, before, "{id}, unsealed");
        }
        move_record(from, to, id, rng.usize(1..9)).await?;
        check_eq!(seen(to, id).await?, before, "{id} at its new place");
        check_eq!(inspect(from, id).await?, None, "{id} at its old place");
    }
    Ok(())
}

/// Runs random operations, moving everything to and fro between two stores `legs` times on the way.
async fn run(cx: &Cx, legs: usize) -> Verdict {
    cx.relocation()?;
    let (effort, other) = (*cx.effort(), cx.another().await?);
    let mut model = Model::default();
    let (mut here, mut there) = (cx, &other);
    let mut old: Vec<ExecutionId> = Vec::new();
    for seed in effort.first_seed..effort.first_seed.saturating_add(effort.seeds) {
        let mut rng = Rng::with_seed(seed);
        let mut run = Run::new(seed, &mut model)?;
        old.extend_from_slice(run.ids());
        for leg in 0..legs {
            for step in 0..effort.steps / legs {
                let done = run.step(here, parts(cx)).await;
                done.map_err(|stop| {
                    run.failed(stop, format_args!("seed {seed}, leg {leg}, step {step}"))
                })?;
            }
            let moved = move_all(here, there, &old, &mut rng).await;
            moved.map_err(|stop| {
                run.failed(stop, format_args!("seed {seed}, the move after leg {leg}"))
            })?;
            (here, there) = (there, here);
        }
    }
    Ok(())
}

async fn random_records_are_moved_unchanged(cx: Cx) -> Verdict {
    run(&cx, 1).await
}

async fn random_operations_go_on_at_the_new_place(cx: Cx) -> Verdict {
    run(&cx, 10).await
}
