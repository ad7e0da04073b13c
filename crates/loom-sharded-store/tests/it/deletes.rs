//! Deleting in a migrating bucket.

use loom_spi::{Delete, EventStore, Head, StoreErrorKind};

use crate::support::{Fault, Migrating, append, closed, id, kinds};

#[tokio::test]
async fn what_an_interrupted_move_left_behind_goes_with_the_execution() {
    let at = Migrating::new().await;
    let order = id("order-7");
    closed(at.source(), &order, &["placed"]).await;
    at.source().fault(Fault::fails(loom_spi::Operation::Delete));
    at.store.migrate_execution(&order).await.unwrap_err();
    assert_eq!(
        kinds(at.source(), &order).await,
        kinds(at.destination(), &order).await
    );

    let deleted = at.store.delete(Delete::new(order.clone())).await.unwrap();
    assert_eq!(deleted.events, 2);
    // It does not come back from the other side.
    assert_eq!(at.store.head(Head::new(order.clone())).await.unwrap(), None);
    append(&at.store, &order, 0, &["placed again"])
        .await
        .unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed again"]);
}

#[tokio::test]
async fn a_delete_that_is_cut_off_between_the_copies_leaves_the_one_that_counts() {
    let at = Migrating::new().await;
    let order = id("order-7");
    closed(at.source(), &order, &["placed"]).await;
    at.source().fault(Fault::fails(loom_spi::Operation::Delete));
    at.store.migrate_execution(&order).await.unwrap_err();

    at.destination()
        .fault(Fault::fails(loom_spi::Operation::Delete));
    at.store
        .delete(Delete::new(order.clone()))
        .await
        .unwrap_err();
    assert_eq!(
        at.source().head(Head::new(order.clone())).await.unwrap(),
        None
    );
    assert_eq!(kinds(&at.store, &order).await, ["placed", "end"]);
    at.store.delete(Delete::new(order.clone())).await.unwrap();
    assert_eq!(at.store.head(Head::new(order)).await.unwrap(), None);
}

#[tokio::test]
async fn a_conditional_delete_is_judged_by_the_copy_that_counts() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    append(at.destination(), &order, 0, &["placed"])
        .await
        .unwrap();
    append(&at.store, &order, 1, &["shipped"]).await.unwrap();
    let stale = Delete::new(order.clone()).with_expected(1);
    let error = at.store.delete(stale).await.unwrap_err();
    assert_eq!(
        *error.kind(),
        StoreErrorKind::SequenceConflict {
            expected: 1,
            actual: 2
        }
    );
    assert_eq!(kinds(at.source(), &order).await, ["placed"]);
    at.store
        .delete(Delete::new(order.clone()).with_expected(2))
        .await
        .unwrap();
    assert_eq!(at.store.head(Head::new(order)).await.unwrap(), None);
}

#[tokio::test]
async fn deleting_what_is_on_one_side_or_none_is_as_anywhere() {
    let at = Migrating::new().await;
    let (old, new, none) = (id("old"), id("new"), id("none"));
    append(at.source(), &old, 0, &["placed"]).await.unwrap();
    append(&at.store, &new, 0, &["placed"]).await.unwrap();
    at.store.delete(Delete::new(old.clone())).await.unwrap();
    at.store.delete(Delete::new(new.clone())).await.unwrap();
    let error = at.store.delete(Delete::new(none)).await.unwrap_err();
    assert_eq!(*error.kind(), StoreErrorKind::NotFound);
    for id in [old, new] {
        assert_eq!(at.store.head(Head::new(id)).await.unwrap(), None);
    }
}
