//! The plan, the identity and the directory.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use loom_spi::{
    DeploymentId, Operation, PlanLedger, Publish, PublishedPlan, ShardIdentity, ShardLocation,
    StoreError, StoreErrorKind,
};
use tokio_postgres::Row;

use crate::change::{begin_alone, no_shard_row};
use crate::failure::{Failure, corrupt};
use crate::record::{self, column};
use crate::session::Session;
use crate::{PostgresStore, marks, staged};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for PostgresStore {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.look(Operation::CurrentPlan, None, |session| async move {
            let row = session.query_opt(CURRENT, &[]).await?;
            current(&row.ok_or_else(no_shard_row)?)
        })
        .await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        let shared = Arc::clone(self.shared());
        self.run(Operation::PublishPlan, None, async move {
            let session = shared.connections.get().await?;
            let patience = i64::try_from(shared.publish_timeout.as_millis()).unwrap_or(i64::MAX);
            in_transaction(&session, publish(&session, patience, &request)).await
        })
        .await?;
        // What was arriving under the former plan.
        self.collect_garbage();
        Ok(())
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.look(Operation::Identity, None, |session| async move {
            identity(&session).await
        })
        .await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let shared = Arc::clone(self.shared());
        self.run(Operation::Identity, None, async move {
            let session = shared.connections.get().await?;
            in_transaction(&session, initialize(&session, &identity)).await?;
            shared.connector.know_identity(identity);
            Ok(())
        })
        .await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.look(Operation::Directory, None, |session| async move {
            let rows = session.query(DIRECTORY, &[]).await?;
            rows.iter().map(location).collect()
        })
        .await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        let shared = Arc::clone(self.shared());
        self.run(Operation::Directory, None, async move {
            let session = shared.connections.get().await?;
            in_transaction(&session, record_locations(&session, locations)).await
        })
        .await
    }
}

/// Has `work` done in a transaction.
async fn in_transaction(
    session: &Session,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    match work.await {
        Ok(()) => Ok(session.commit().await?),
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

async fn publish(session: &Session, patience: i64, request: &Publish) -> Result<(), Failure> {
    let current = begin_alone(session, patience).await?;
    if !request.admit(current)? {
        return Ok(());
    }
    let PublishedPlan { epoch, bytes, .. } = &request.plan;
    session
        .execute(
            PUBLISH,
            &[
                &epoch.epoch.cast_signed(),
                &epoch.fingerprint.0.to_be_bytes().as_slice(),
                &bytes.as_ref(),
            ],
        )
        .await?;
    // Both belong to the plan that has just ended.
    session.execute(marks::CLEAR, &[]).await?;
    session.execute(staged::DROP_ALL, &[]).await?;
    Ok(())
}

async fn initialize(session: &Session, expected: &ShardIdentity) -> Result<(), Failure> {
    session.begin().await?;
    let (deployment, shard) = (expected.deployment.as_str(), i32::from(expected.shard));
    // Of several at once one succeeds; the others wait for it, and compare.
    session.execute(INITIALIZE, &[&deployment, &shard]).await?;
    let found = identity(session).await?;
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    Err(StoreErrorKind::WrongShard {
        expected: expected.clone(),
        found,
    }
    .into())
}

async fn record_locations(
    session: &Session,
    mut locations: Vec<ShardLocation>,
) -> Result<(), Failure> {
    session.begin().await?;
    // In one order, so that nobody waits in a circle. Of several for one shard the last counts.
    locations.sort_by_key(|location| location.shard);
    for ShardLocation {
        shard, location, ..
    } in &locations
    {
        session
            .execute(RECORD_LOCATION, &[&i32::from(*shard), location])
            .await?;
    }
    Ok(())
}

fn current(row: &Row) -> Result<Option<PublishedPlan>, Failure> {
    let Some(epoch) = record::plan(row, 0)? else {
        return Ok(None);
    };
    let bytes = Bytes::copy_from_slice(column(row, 2)?);
    Ok(Some(PublishedPlan::new(epoch, bytes)))
}

/// Which shard the store says that it is.
async fn identity(session: &Session) -> Result<Option<ShardIdentity>, Failure> {
    let row = session.query_opt(IDENTITY, &[]).await?;
    let row = row.ok_or_else(no_shard_row)?;
    let Some(deployment) = column::<Option<&str>>(&row, 0)? else {
        return Ok(None);
    };
    let deployment = DeploymentId::new(deployment)
        .map_err(|_| corrupt("the stored deployment id is not valid"))?;
    Ok(Some(ShardIdentity::new(deployment, shard(&row, 1)?)))
}

fn location(row: &Row) -> Result<ShardLocation, Failure> {
    Ok(ShardLocation::new(shard(row, 0)?, column::<&str>(row, 1)?))
}

fn shard(row: &Row, at: usize) -> Result<u16, Failure> {
    let number: i32 = column(row, at)?;
    u16::try_from(number).map_err(|_| corrupt(format!("the number of a shard is {number}")))
}

const CURRENT: &str = "SELECT epoch, fingerprint, plan FROM shard WHERE one = 1";

const PUBLISH: &str = "UPDATE shard SET epoch = $1, fingerprint = $2, plan = $3 WHERE one = 1";

const IDENTITY: &str = "SELECT deployment, shard FROM shard WHERE one = 1";

const INITIALIZE: &str = "
    UPDATE shard SET deployment = $1, shard = $2 WHERE one = 1 AND deployment IS NULL";

const DIRECTORY: &str = "SELECT shard, location FROM locations ORDER BY shard";

const RECORD_LOCATION: &str = "
    INSERT INTO locations (shard, location) VALUES ($1, $2)
    ON CONFLICT (shard) DO UPDATE SET location = excluded.location";
