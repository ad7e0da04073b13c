//! The plan, the identity and the directory.

use async_trait::async_trait;
use bytes::Bytes;
use loom_spi::{
    DeploymentId, Operation, PlanLedger, Publish, PublishedPlan, ShardIdentity, ShardLocation,
    StoreError, StoreErrorKind,
};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::failure::{Failure, corrupt};
use crate::readers::Size;
use crate::staged::Staged;
use crate::writer::{Transaction, Work};
use crate::{marks, record};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for SqliteStore {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.look(Operation::CurrentPlan, None, Size::Few, |reader| {
            current(reader.connection())
        })
        .await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        self.change_shard(Operation::PublishPlan, request).await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.look(Operation::Identity, None, Size::Few, |reader| {
            identity(reader.connection())
        })
        .await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let shard = identity.shard;
        self.change_shard(Operation::Identity, Initialize(identity))
            .await?;
        self.know_shard(shard);
        Ok(())
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.look(Operation::Directory, None, Size::Many, |reader| {
            directory(reader.connection())
        })
        .await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.change_shard(Operation::Directory, RecordLocations(locations))
            .await
    }
}

impl Work for Publish {
    type Output = ();

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        if !self.admit(transaction.plan())? {
            return Ok(());
        }
        let PublishedPlan { epoch, bytes, .. } = &self.plan;
        let connection = transaction.connection();
        connection.execute(
            "UPDATE shard SET epoch = ?1, fingerprint = ?2, plan = ?3 WHERE one = 1",
            (
                epoch.epoch.cast_signed(),
                epoch.fingerprint.0.to_be_bytes(),
                &**bytes,
            ),
        )?;
        // Both belong to the plan that has just ended.
        marks::clear(connection)?;
        Staged::drop_all(transaction)?;
        transaction.set_plan(*epoch);
        Ok(())
    }

    fn weight(&self) -> usize {
        self.plan.bytes.len()
    }
}

struct Initialize(ShardIdentity);

impl Work for Initialize {
    type Output = ();

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let Self(expected) = self;
        match identity(transaction.connection())? {
            None => write_identity(transaction.connection(), expected).map_err(Into::into),
            Some(found) if found == *expected => Ok(()),
            found => Err(StoreErrorKind::WrongShard {
                expected: expected.clone(),
                found,
            }
            .into()),
        }
    }
}

struct RecordLocations(Vec<ShardLocation>);

impl Work for RecordLocations {
    type Output = ();

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let mut insert = transaction.connection().prepare_cached(
            "INSERT INTO locations (shard, location) VALUES (?1, ?2)
             ON CONFLICT (shard) DO UPDATE SET location = excluded.location",
        )?;
        for ShardLocation {
            shard, location, ..
        } in &self.0
        {
            insert.execute((shard, location))?;
        }
        Ok(())
    }
}

pub(crate) fn current(connection: &Connection) -> Result<Option<PublishedPlan>, Failure> {
    let mut find = connection.prepare_cached(CURRENT)?;
    let mut rows = find.query([])?;
    let row = rows.next()?.ok_or_else(no_shard_row)?;
    let Some(epoch) = record::plan(row, 0)? else {
        return Ok(None);
    };
    Ok(Some(PublishedPlan::new(
        epoch,
        Bytes::from(row.get::<_, Vec<u8>>(2)?),
    )))
}

/// Which shard the store says that it is.
pub(crate) fn identity(connection: &Connection) -> Result<Option<ShardIdentity>, Failure> {
    let mut find = connection.prepare_cached(IDENTITY)?;
    let mut rows = find.query([])?;
    let row = rows.next()?.ok_or_else(no_shard_row)?;
    let Some(deployment) = row.get::<_, Option<String>>(0)? else {
        return Ok(None);
    };
    let deployment = DeploymentId::new(deployment)
        .map_err(|_| corrupt("the stored deployment id is not valid"))?;
    Ok(Some(ShardIdentity::new(deployment, row.get(1)?)))
}

pub(crate) fn write_identity(
    connection: &Connection,
    identity: &ShardIdentity,
) -> Result<(), rusqlite::Error> {
    connection.execute(
        "UPDATE shard SET deployment = ?1, shard = ?2 WHERE one = 1",
        (identity.deployment.as_str(), identity.shard),
    )?;
    Ok(())
}

fn directory(connection: &Connection) -> Result<Vec<ShardLocation>, Failure> {
    let mut find =
        connection.prepare_cached("SELECT shard, location FROM locations ORDER BY shard")?;
    let locations = find
        .query_map([], |row| {
            Ok(ShardLocation::new(row.get(0)?, row.get::<_, String>(1)?))
        })?
        .collect::<Result<_, _>>()?;
    Ok(locations)
}

fn no_shard_row() -> Failure {
    corrupt("the row that says which shard this is is missing")
}

pub(crate) const CURRENT: &str = "SELECT epoch, fingerprint, plan FROM shard WHERE one = 1";

pub(crate) const IDENTITY: &str = "SELECT deployment, shard FROM shard WHERE one = 1";
