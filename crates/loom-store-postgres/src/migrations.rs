//! The tables, version by version.

use loom_spi::{DeploymentId, ExecutionId, ShardIdentity, StoreErrorKind};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::connector::{Connector, quoted};
use crate::failure::Failure;
use crate::{Location, OpenFailure};

/// The version of the tables that this release writes.
pub const SCHEMA_VERSION: i32 = 1;

/// What brings the tables from each version to the next, beginning with none.
const MIGRATIONS: &[&str] = &[concat!(
    include_str!("sql/tables.sql"),
    include_str!("sql/append.sql")
)];

/// What a schema holds.
#[derive(Debug)]
pub(crate) enum Found {
    /// No schema, or an empty one.
    Nothing,
    /// Tables of somebody else.
    Foreign { table: String },
    /// A store.
    Store {
        version: i32,
        identity: Option<ShardIdentity>,
    },
}

/// Looks at a schema. The connection's search path is that schema alone.
pub(crate) async fn look(client: &Client, schema: &str) -> Result<Found, Error> {
    let marked = client
        .query_one(
            "SELECT to_regclass('loom_schema') IS NOT NULL,
                    (SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                     WHERE n.nspname = $1 AND c.relkind IN ('r', 'v', 'm', 'f', 'p') LIMIT 1)",
            &[&schema],
        )
        .await?;
    if !marked.try_get::<_, bool>(0)? {
        return Ok(match marked.try_get::<_, Option<String>>(1)? {
            None => Found::Nothing,
            Some(table) => Found::Foreign { table },
        });
    }
    let version = client
        .query_one("SELECT version FROM loom_schema", &[])
        .await?
        .try_get(0)?;
    // Of the tables of a newer release nothing else is known.
    if version > SCHEMA_VERSION {
        return Ok(Found::Store {
            version,
            identity: None,
        });
    }
    let row = client
        .query_one("SELECT deployment, shard FROM shard WHERE one = 1", &[])
        .await?;
    let deployment = row.try_get::<_, Option<&str>>(0)?;
    let deployment = deployment.and_then(|name| DeploymentId::new(name).ok());
    let shard = row.try_get::<_, Option<i32>>(1)?;
    let shard = shard.and_then(|shard| u16::try_from(shard).ok());
    let identity = deployment
        .zip(shard)
        .map(|(deployment, shard)| ShardIdentity::new(deployment, shard));
    Ok(Found::Store { version, identity })
}

/// Refuses tables that this release cannot work on as they are.
pub(crate) fn check_version(location: &Location, version: i32) -> Result<(), Failure> {
    match version {
        SCHEMA_VERSION => Ok(()),
        found if found > SCHEMA_VERSION => Err(too_new(location, found)),
        found => Err(Failure::from(OpenFailure::Damaged {
            location: location.clone(),
            reason: format!("it has version {found}: expected {SCHEMA_VERSION}"),
        })),
    }
}

/// Creates the tables, or brings them up to date. Several processes may do it at once: one does, the others wait for it
/// and find it done. `expected` is written into a store that did not exist before, and compared with that of one that
/// did. Returns which shard it is, and whether it is new.
pub(crate) async fn migrate(
    connector: &Connector,
    client: &mut Client,
    create: bool,
    expected: Option<&ShardIdentity>,
) -> Result<(Option<ShardIdentity>, bool), Failure> {
    let location = connector.location();
    let failed = |error: Error| connector.not_opened(&error);
    check_encoding(location, client).await?;
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = lock_of(location.schema());
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&lock])
        .await
        .map_err(failed)?;
    let found = look(transaction.client(), location.schema())
        .await
        .map_err(failed)?;
    let (from, identity) = match found {
        Found::Store { version, .. } if version > SCHEMA_VERSION => {
            return Err(too_new(location, version));
        }
        // Before anything is changed in what may be the wrong store.
        Found::Store {
            version, identity, ..
        } => match expected {
            Some(expected) if identity.as_ref() != Some(expected) => {
                return Err(Failure::Refused(StoreErrorKind::WrongShard {
                    expected: expected.clone(),
                    found: identity,
                }));
            }
            _ => (version, identity),
        },
        Found::Nothing if create => (0, expected.cloned()),
        Found::Nothing => {
            return Err(Failure::from(OpenFailure::Missing {
                location: location.clone(),
            }));
        }
        Found::Foreign { table } => {
            return Err(Failure::from(OpenFailure::Foreign {
                location: location.clone(),
                table,
            }));
        }
    };
    let done = usize::try_from(from).unwrap_or_default();
    let steps = MIGRATIONS.get(done..).unwrap_or_default();
    if from == 0 {
        create_schema(location, transaction.client())
            .await
            .map_err(failed)?;
    }
    for step in steps {
        transaction.batch_execute(step).await.map_err(failed)?;
    }
    if !steps.is_empty() {
        transaction
            .batch_execute(&format!(
                "DELETE FROM loom_schema; INSERT INTO loom_schema (version) VALUES ({SCHEMA_VERSION})"
            ))
            .await
            .map_err(failed)?;
    }
    if from == 0
        && let Some(identity) = &identity
    {
        let (deployment, shard) = (identity.deployment.as_str(), i32::from(identity.shard));
        transaction
            .execute(
                "UPDATE shard SET deployment = $1, shard = $2 WHERE one = 1",
                &[&deployment, &shard],
            )
            .await
            .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    Ok((identity, from == 0))
}

fn too_new(location: &Location, found: i32) -> Failure {
    Failure::from(OpenFailure::NewerSchema {
        location: location.clone(),
        found,
    })
}

/// Only when it is missing: whoever may not create schemas can be given an empty one.
async fn create_schema(location: &Location, client: &Client) -> Result<(), Error> {
    let there = client
        .query_opt(
            "SELECT 1 FROM pg_namespace WHERE nspname = $1",
            &[&location.schema()],
        )
        .await?;
    if there.is_none() {
        let schema = quoted(location.schema());
        client
            .batch_execute(&format!("CREATE SCHEMA {schema}"))
            .await?;
    }
    Ok(())
}

/// Ids are compared bytewise, as UTF-8.
async fn check_encoding(location: &Location, client: &Client) -> Result<(), Failure> {
    let encoding = client
        .query_one("SELECT current_setting('server_encoding')", &[])
        .await
        .and_then(|row| row.try_get::<_, String>(0));
    match encoding {
        Ok(encoding) if encoding == "UTF8" => Ok(()),
        Ok(encoding) => Err(Failure::from(OpenFailure::Encoding {
            location: location.clone(),
            encoding,
        })),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What processes that create or upgrade the same schema wait for: the routing hash of its name.
pub(crate) fn lock_of(schema: &str) -> i64 {
    ExecutionId::new(schema).map_or(0, |name| name.route_hash().0.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_step_to_every_version() {
        assert_eq!(i32::try_from(MIGRATIONS.len()), Ok(SCHEMA_VERSION));
    }
}
