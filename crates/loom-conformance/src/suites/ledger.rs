//! The plan ledger: compare and set, identity, directory.

use loom_spi::{
    DeploymentId, EventStore, PlanEpoch, PlanFingerprint, Publish, PublishedPlan, ShardIdentity,
    ShardLocation, StoreErrorKind,
};

use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};

crate::macros::suite! { ($) Store ledger as __ledger;
    a_new_store_has_no_plan,
    a_published_plan_comes_back_as_it_was_given,
    a_plan_replaces_the_one_it_expects,
    publishing_over_an_unexpected_plan_is_a_conflict,
    publishing_the_current_plan_again_changes_nothing,
    a_plan_that_is_not_newer_is_refused,
    epochs_count_from_1_to_the_largest_signed_number,
    a_shard_may_join_at_any_epoch,
    of_racing_publishers_one_wins,
    a_new_store_has_no_identity,
    an_identity_is_given_once_for_all,
    a_new_store_has_an_empty_directory,
    locations_are_added_and_replaced_by_shard,
}

pub(super) fn plan(epoch: u64, fingerprint: u128) -> PlanEpoch {
    PlanEpoch::new(epoch, PlanFingerprint(fingerprint))
}

pub(super) fn published(epoch: PlanEpoch) -> PublishedPlan {
    PublishedPlan::new(epoch, format!("the plan of {epoch}"))
}

pub(super) async fn publish(
    cx: &Cx,
    new: PlanEpoch,
    expected: Option<PlanEpoch>,
) -> Result<(), Stop> {
    let request = Publish::new(published(new), expected);
    Ok(cx.ledger()?.publish(request).await?)
}

fn identity(deployment: &str, shard: u16) -> Result<ShardIdentity, Stop> {
    Ok(ShardIdentity::new(DeploymentId::new(deployment)?, shard))
}

async fn a_new_store_has_no_plan(cx: Cx) -> Verdict {
    check_eq!(cx.ledger()?.current().await?, None, "the plan");
    Ok(())
}

async fn a_published_plan_comes_back_as_it_was_given(cx: Cx) -> Verdict {
    let every_byte: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    let mut last = None;
    for (epoch, fingerprint, bytes) in [
        (1, 0, vec![]),
        (2, 1, every_byte),
        (3, u128::MAX, b"text".to_vec()),
        (4, 1 << 127, vec![0]),
        (5, u128::from(u64::MAX), vec![0xff]),
    ] {
        let epoch = plan(epoch, fingerprint);
        let new = PublishedPlan::new(epoch, bytes);
        cx.ledger()?
            .publish(Publish::new(new.clone(), last))
            .await?;
        check!(
            cx.ledger()?.current().await? == Some(new),
            "the plan of {epoch} has changed"
        );
        last = Some(epoch);
    }
    Ok(())
}

async fn a_plan_replaces_the_one_it_expects(cx: Cx) -> Verdict {
    publish(&cx, plan(1, 7), None).await?;
    publish(&cx, plan(2, 8), Some(plan(1, 7))).await?;
    publish(&cx, plan(5, 9), Some(plan(2, 8))).await?;
    let current = cx.ledger()?.current().await?;
    check_eq!(current, Some(published(plan(5, 9))), "the plan");
    Ok(())
}

async fn publishing_over_an_unexpected_plan_is_a_conflict(cx: Cx) -> Verdict {
    check_refused!(
        cx.ledger()?
            .publish(Publish::new(published(plan(2, 1)), Some(plan(1, 1))))
            .await,
        StoreErrorKind::PublishConflict { current: None },
        "expecting a plan where there is none"
    );
    publish(&cx, plan(3, 1), None).await?;
    let now = Some(plan(3, 1));
    for expected in [None, Some(plan(2, 1)), Some(plan(3, 2)), Some(plan(4, 1))] {
        check_refused!(
            cx.ledger()?.publish(Publish::new(published(plan(9, 9)), expected)).await,
            StoreErrorKind::PublishConflict { current } if *current == now,
            "expecting {expected:?}"
        );
    }
    let current = cx.ledger()?.current().await?;
    check_eq!(current, Some(published(plan(3, 1))), "the plan");
    Ok(())
}

async fn publishing_the_current_plan_again_changes_nothing(cx: Cx) -> Verdict {
    publish(&cx, plan(1, 7), None).await?;
    publish(&cx, plan(2, 8), Some(plan(1, 7))).await?;
    // A publisher that heard no answer asks again, with what it expected then.
    publish(&cx, plan(2, 8), Some(plan(1, 7))).await?;
    publish(&cx, plan(2, 8), Some(plan(2, 8))).await?;
    let current = cx.ledger()?.current().await?;
    check_eq!(current, Some(published(plan(2, 8))), "the plan");
    Ok(())
}

async fn a_plan_that_is_not_newer_is_refused(cx: Cx) -> Verdict {
    let now = plan(5, 1);
    publish(&cx, now, None).await?;
    for old in [plan(5, 2), plan(4, 1), plan(1, 1)] {
        check_refused!(
            cx.ledger()?
                .publish(Publish::new(published(old), Some(now)))
                .await,
            StoreErrorKind::InvalidArgument { .. },
            "publishing {old} over {now}"
        );
    }
    check_eq!(
        cx.ledger()?.current().await?,
        Some(published(now)),
        "the plan"
    );
    Ok(())
}

async fn epochs_count_from_1_to_the_largest_signed_number(cx: Cx) -> Verdict {
    let last = plan(i64::MAX as u64, 1);
    for outside in [plan(0, 1), plan(last.epoch + 1, 1), plan(u64::MAX, 1)] {
        check_refused!(
            cx.ledger()?
                .publish(Publish::new(published(outside), None))
                .await,
            StoreErrorKind::InvalidArgument { .. },
            "publishing {outside}"
        );
    }
    check_eq!(cx.ledger()?.current().await?, None, "the plan");
    publish(&cx, last, None).await?;
    check_eq!(
        cx.ledger()?.current().await?,
        Some(published(last)),
        "the last plan"
    );
    Ok(())
}

async fn a_shard_may_join_at_any_epoch(cx: Cx) -> Verdict {
    publish(&cx, plan(41, 1), None).await?;
    let current = cx.ledger()?.current().await?;
    check_eq!(current, Some(published(plan(41, 1))), "the plan");
    Ok(())
}

async fn of_racing_publishers_one_wins(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut last = None;
    for round in 1..=cx.effort().rounds as u64 {
        let results = cx
            .race(|racer, store| async move {
                let new = plan(round, racer as u128 + 1);
                let request = Publish::new(published(new), last);
                Ok::<_, Stop>((new, ledger(&*store)?.publish(request).await))
            })
            .await?;
        let mut winners = Vec::new();
        for result in results {
            match result? {
                (new, Ok(())) => winners.push(new),
                (new, lost) => check_refused!(
                    lost,
                    StoreErrorKind::PublishConflict { current: Some(_) },
                    "publishing {new} too late"
                ),
            }
        }
        check_eq!(winners.len(), 1, "how many of the publishers won");
        last = winners.pop();
        let current = cx.ledger()?.current().await?;
        check_eq!(current.map(|plan| plan.epoch), last, "the plan");
    }
    Ok(())
}

fn ledger(store: &dyn EventStore) -> Result<&dyn loom_spi::PlanLedger, Stop> {
    store
        .capabilities()
        .ledger
        .ok_or(Stop::Skipped(Need::Ledger))
}

async fn a_new_store_has_no_identity(cx: Cx) -> Verdict {
    check_eq!(cx.ledger()?.identity().await?, None, "the identity");
    Ok(())
}

async fn an_identity_is_given_once_for_all(cx: Cx) -> Verdict {
    let ours = identity("Zürich/prod 1", 65_535)?;
    cx.ledger()?.initialize(ours.clone()).await?;
    cx.ledger()?.initialize(ours.clone()).await?;
    check_eq!(
        cx.ledger()?.identity().await?,
        Some(ours.clone()),
        "the identity"
    );
    for other in [
        identity("Zürich/prod 1", 0)?,
        identity("zürich/prod 1", 65_535)?,
        identity("Zürich/prod 2", 65_535)?,
    ] {
        check_refused!(
            cx.ledger()?.initialize(other.clone()).await,
            StoreErrorKind::WrongShard { expected, found: Some(found) }
                if *expected == other && *found == ours,
            "becoming {other}"
        );
    }
    check_eq!(
        cx.ledger()?.identity().await?,
        Some(ours),
        "the identity afterwards"
    );
    Ok(())
}

async fn a_new_store_has_an_empty_directory(cx: Cx) -> Verdict {
    check_eq!(cx.ledger()?.directory().await?, [], "the directory");
    Ok(())
}

async fn locations_are_added_and_replaced_by_shard(cx: Cx) -> Verdict {
    let at = ShardLocation::new;
    let ledger = cx.ledger()?;
    ledger
        .record_locations(vec![at(7, "file:///b"), at(0, "file:///a")])
        .await?;
    let expected = [at(0, "file:///a"), at(7, "file:///b")];
    check_eq!(ledger.directory().await?, expected, "the directory");
    ledger
        .record_locations(vec![at(65_535, "postgres://ü/x"), at(7, "file:///c")])
        .await?;
    let expected = [
        at(0, "file:///a"),
        at(7, "file:///c"),
        at(65_535, "postgres://ü/x"),
    ];
    check_eq!(
        ledger.directory().await?,
        expected,
        "the directory, changed"
    );
    ledger.record_locations(vec![]).await?;
    check_eq!(
        ledger.directory().await?,
        expected,
        "the directory, unchanged"
    );
    Ok(())
}
