//! Removing a store.

use loom_spi::{Operation, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::connector::{Connector, quoted};
use crate::failure::Failure;
use crate::migrations::lock_of;
use crate::{Location, Options, PostgresStore};

/// Everything that the migrations made. A table goes with its indexes.
const DROP: &str = "
    DROP TABLE loom_schema, shard, records, events, edges, locations, staged, deletions, garbage;
    DROP ROUTINE append_group";

/// How often a deadlock is borne. Who uses the tables meets one each time, and then errors.
const TRIES: u32 = 20;

impl PostgresStore {
    /// Removes the store at `location` for good, with every log in it, and its schema if nothing else is there and the
    /// role may. For stores that were made for a moment, to test or to measure; processes that still have it open get
    /// errors.
    ///
    /// # Errors
    /// Of [`Operation::Open`], as those of [`open`](Self::open): `WrongShard`, too, when `options` state another identity. Nothing is removed
    /// then.
    ///
    /// # Cancel safety
    /// All is removed, or nothing. A dropped call may still do it.
    pub async fn remove(location: &Location, options: Options) -> Result<(), StoreError> {
        removed(location, &options)
            .await
            .map_err(|failure| failure.into_error(Operation::Open))
    }
}

async fn removed(location: &Location, options: &Options) -> Result<(), Failure> {
    let connector = Connector::new(location, options)?;
    if let Some(expected) = &options.identity {
        connector.know_identity(expected.clone());
    }
    let mut client = connector.connect().await?;
    let mut tries = 0;
    while !tables_dropped(&connector, &mut client, tries == TRIES).await? {
        tries += 1;
    }
    drop_schema(&client, location.schema())
        .await
        .map_err(|error| connector.not_opened(&error))
}

/// Says no when somebody who still used the tables was in the way, unless it is the last try.
async fn tables_dropped(
    connector: &Connector,
    client: &mut Client,
    last: bool,
) -> Result<bool, Failure> {
    let failed = |error: Error| connector.not_opened(&error);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = lock_of(connector.location().schema());
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&lock])
        .await
        .map_err(failed)?;
    let found = connector.look(transaction.client()).await?;
    connector.verify(found)?;
    match transaction.batch_execute(DROP).await {
        Ok(()) => {}
        // Others lock the tables in another order.
        Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) && !last => {
            return Ok(false);
        }
        Err(error) => return Err(failed(error)),
    }
    transaction.commit().await.map_err(failed)?;
    Ok(true)
}

/// What is in it of others stays, and so does a schema that somebody else made for the role.
async fn drop_schema(client: &Client, schema: &str) -> Result<(), Error> {
    let dropped = client
        .batch_execute(&format!("DROP SCHEMA IF EXISTS {}", quoted(schema)))
        .await;
    match dropped {
        Err(error)
            if error.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST)
                || error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) =>
        {
            Ok(())
        }
        dropped => dropped,
    }
}
