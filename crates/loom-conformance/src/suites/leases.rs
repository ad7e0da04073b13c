//! Leases: honest workers do not fence each other out for ever.

use std::time::Duration;

use loom_spi::{AcquireFence, ExecutionId, FenceToken, ReleaseLease, RenewLease, StoreErrorKind};

use super::fencing::append;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::id;

crate::macros::suite! { ($) Store leases as __leases;
    a_lease_keeps_other_holders_waiting,
    one_who_gives_no_name_waits_as_well,
    the_holder_of_a_lease_may_acquire_again,
    a_lease_can_be_taken_over_on_purpose,
    a_released_lease_keeps_nobody_waiting,
    a_lease_is_renewed_and_released_by_its_token,
    what_was_never_fenced_has_no_lease,
    releasing_without_a_lease_does_nothing,
    a_lease_needs_a_holder_and_a_length,
    leases_of_different_executions_are_independent,
    a_lease_lapses_by_the_clock_of_the_store,
    a_renewed_lease_runs_from_the_renewal,
    a_lapsed_lease_leaves_the_token_valid_until_someone_acquires,
}

// Long, because the clock of a real store moves on by itself while the case runs.
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn leased(id: &ExecutionId, holder: &str) -> AcquireFence {
    AcquireFence::new(id.clone())
        .with_holder(holder.to_owned())
        .with_lease(HOUR)
}

async fn acquire(cx: &Cx, request: AcquireFence) -> Result<FenceToken, Stop> {
    Ok(cx.fencing()?.acquire_fence(request).await?)
}

/// Checks that an acquisition is refused because of `holder`, and returns how long the lease still runs.
async fn refused(cx: &Cx, request: AcquireFence, holder: &str) -> Result<Duration, Stop> {
    match cx.fencing()?.acquire_fence(request).await {
        Ok(token) => Err(Stop::failed(format_args!(
            "token {token} was handed out although `{holder}` holds a lease"
        ))),
        Err(error) => match error.kind() {
            StoreErrorKind::Leased {
                holder: found,
                remaining,
            } if found == holder => Ok(*remaining),
            _ => Err(Stop::failed(format_args!(
                "expected to hear of the lease of `{holder}`, got: {error}"
            ))),
        },
    }
}

async fn a_lease_keeps_other_holders_waiting(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, leased(&id, "one")).await?;
    let remaining = refused(&cx, leased(&id, "two"), "one").await?;
    check!(
        remaining <= HOUR,
        "a lease of an hour still runs for {remaining:?}"
    );
    check!(
        !remaining.is_zero(),
        "a lease that keeps others waiting does not run"
    );
    let no_lease = AcquireFence::new(id.clone()).with_holder("two".to_owned());
    refused(&cx, no_lease, "one").await?;
    // The refused ones took nothing away.
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    Ok(())
}

async fn one_who_gives_no_name_waits_as_well(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, leased(&id, "one")).await?;
    refused(&cx, AcquireFence::new(id.clone()), "one").await?;
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    Ok(())
}

async fn the_holder_of_a_lease_may_acquire_again(cx: Cx) -> Verdict {
    let id = id("order")?;
    let first = acquire(&cx, leased(&id, "one")).await?;
    let second = acquire(&cx, leased(&id, "one")).await?;
    check!(second > first, "token {second} came after {first}");
    refused(&cx, leased(&id, "two"), "one").await?;
    Ok(())
}

async fn a_lease_can_be_taken_over_on_purpose(cx: Cx) -> Verdict {
    let id = id("order")?;
    let first = acquire(&cx, leased(&id, "one")).await?;
    let second = acquire(&cx, leased(&id, "two").with_take_over(true)).await?;
    check!(second > first, "token {second} came after {first}");
    check_refused!(
        cx.store().append(append(&id, 0).with_fence(first)).await,
        StoreErrorKind::Fenced { .. },
        "the one that was taken over"
    );
    cx.store().append(append(&id, 0).with_fence(second)).await?;
    refused(&cx, leased(&id, "one"), "two").await?;
    Ok(())
}

async fn a_released_lease_keeps_nobody_waiting(cx: Cx) -> Verdict {
    let id = id("order")?;
    let first = acquire(&cx, leased(&id, "one")).await?;
    cx.fencing()?
        .release_lease(ReleaseLease::new(id.clone(), first))
        .await?;
    // The lease ended, the fence did not.
    check_refused!(
        cx.store().append(append(&id, 0)).await,
        StoreErrorKind::Fenced { .. },
        "an append without a token"
    );
    cx.store().append(append(&id, 0).with_fence(first)).await?;
    let second = acquire(&cx, leased(&id, "two")).await?;
    check!(second > first, "token {second} came after {first}");
    refused(&cx, leased(&id, "one"), "two").await?;
    Ok(())
}

async fn a_lease_is_renewed_and_released_by_its_token(cx: Cx) -> Verdict {
    let id = id("order")?;
    let fencing = cx.fencing()?;
    let old = acquire(&cx, leased(&id, "one")).await?;
    let new = acquire(&cx, leased(&id, "two").with_take_over(true)).await?;
    for wrong in [old, FenceToken(new.0 + 1)] {
        check_refused!(
            fencing.renew_lease(RenewLease::new(id.clone(), wrong, HOUR)).await,
            StoreErrorKind::Fenced { presented: Some(found), current }
                if *found == wrong && *current == new,
            "renewing with {wrong} what is held under {new}"
        );
        check_refused!(
            fencing.release_lease(ReleaseLease::new(id.clone(), wrong)).await,
            StoreErrorKind::Fenced { presented: Some(found), current }
                if *found == wrong && *current == new,
            "releasing with {wrong} what is held under {new}"
        );
    }
    refused(&cx, leased(&id, "three"), "two").await?;
    fencing
        .renew_lease(RenewLease::new(id.clone(), new, HOUR))
        .await?;
    refused(&cx, leased(&id, "three"), "two").await?;
    fencing
        .release_lease(ReleaseLease::new(id.clone(), new))
        .await?;
    acquire(&cx, leased(&id, "three")).await?;
    Ok(())
}

async fn what_was_never_fenced_has_no_lease(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    let fencing = cx.fencing()?;
    cx.append(&here, 0, 1).await?;
    for id in [here, absent] {
        check_refused!(
            fencing
                .renew_lease(RenewLease::new(id.clone(), FenceToken(1), HOUR))
                .await,
            StoreErrorKind::NotFound,
            "renewing the lease of {id}"
        );
        check_refused!(
            fencing
                .release_lease(ReleaseLease::new(id.clone(), FenceToken(1)))
                .await,
            StoreErrorKind::NotFound,
            "releasing the lease of {id}"
        );
    }
    Ok(())
}

async fn releasing_without_a_lease_does_nothing(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, AcquireFence::new(id.clone())).await?;
    for _ in 0..2 {
        cx.fencing()?
            .release_lease(ReleaseLease::new(id.clone(), token))
            .await?;
    }
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    Ok(())
}

async fn a_lease_needs_a_holder_and_a_length(cx: Cx) -> Verdict {
    let id = id("order")?;
    let fencing = cx.fencing()?;
    for bad in [
        AcquireFence::new(id.clone()).with_lease(HOUR),
        leased(&id, "one").with_lease(Duration::ZERO),
        leased(&id, ""),
    ] {
        check_refused!(
            fencing.acquire_fence(bad.clone()).await,
            StoreErrorKind::InvalidArgument { .. },
            "{bad:?}"
        );
    }
    // The refusals fenced nothing.
    cx.append(&id, 0, 1).await?;
    let token = acquire(&cx, leased(&id, "one")).await?;
    check_refused!(
        fencing
            .renew_lease(RenewLease::new(id.clone(), token, Duration::ZERO))
            .await,
        StoreErrorKind::InvalidArgument { .. },
        "renewing for no time"
    );
    refused(&cx, leased(&id, "two"), "one").await?;
    Ok(())
}

async fn leases_of_different_executions_are_independent(cx: Cx) -> Verdict {
    let (left, right) = (id("order")?, id("order-1")?);
    acquire(&cx, leased(&left, "one")).await?;
    let token = acquire(&cx, leased(&right, "two")).await?;
    cx.fencing()?
        .release_lease(ReleaseLease::new(right.clone(), token))
        .await?;
    refused(&cx, leased(&left, "two"), "one").await?;
    acquire(&cx, leased(&right, "one")).await?;
    Ok(())
}

async fn a_lease_lapses_by_the_clock_of_the_store(cx: Cx) -> Verdict {
    let id = id("order")?;
    acquire(&cx, leased(&id, "one")).await?;
    cx.advance(HOUR - MINUTE).await?;
    let remaining = refused(&cx, leased(&id, "two"), "one").await?;
    check!(
        remaining <= MINUTE,
        "the last minute still runs for {remaining:?}"
    );
    cx.advance(MINUTE).await?;
    acquire(&cx, leased(&id, "two")).await?;
    refused(&cx, leased(&id, "one"), "two").await?;
    Ok(())
}

async fn a_renewed_lease_runs_from_the_renewal(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, leased(&id, "one")).await?;
    for _ in 0..3 {
        cx.advance(HOUR - MINUTE).await?;
        let renewal = RenewLease::new(id.clone(), token, HOUR);
        cx.fencing()?.renew_lease(renewal).await?;
    }
    cx.advance(HOUR - MINUTE).await?;
    let remaining = refused(&cx, leased(&id, "two"), "one").await?;
    check!(
        remaining <= MINUTE,
        "the last minute still runs for {remaining:?}"
    );
    // A renewal may also shorten a lease.
    let renewal = RenewLease::new(id.clone(), token, 2 * HOUR);
    cx.fencing()?.renew_lease(renewal).await?;
    let renewal = RenewLease::new(id.clone(), token, MINUTE);
    cx.fencing()?.renew_lease(renewal).await?;
    cx.advance(MINUTE).await?;
    acquire(&cx, leased(&id, "two")).await?;
    Ok(())
}

async fn a_lapsed_lease_leaves_the_token_valid_until_someone_acquires(cx: Cx) -> Verdict {
    let id = id("order")?;
    let first = acquire(&cx, leased(&id, "one")).await?;
    cx.advance(2 * HOUR).await?;
    cx.store().append(append(&id, 0).with_fence(first)).await?;
    let second = acquire(&cx, leased(&id, "two")).await?;
    check_refused!(
        cx.store().append(append(&id, 1).with_fence(first)).await,
        StoreErrorKind::Fenced { .. },
        "the token of the lapsed lease"
    );
    cx.store().append(append(&id, 1).with_fence(second)).await?;
    check_eq!(cx.length(&id).await?, 2, "the length");
    Ok(())
}
