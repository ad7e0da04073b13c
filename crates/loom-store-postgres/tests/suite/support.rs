//! Schemas of servers.

use std::sync::Arc;

use loom_spi::{Append, ExecutionId, NewEvent};
use loom_store_postgres::Location;
use loom_test_postgres::{Server, unique_name};
use tokio_postgres::error::SqlState;

/// A schema of its own on a server that the tests of this process share.
pub(crate) struct Schema {
    pub(crate) server: Arc<Server>,
    pub(crate) location: Location,
}

impl Schema {
    pub(crate) fn new(server: &Arc<Server>) -> Self {
        Self {
            server: Arc::clone(server),
            location: location(&server.url(), &unique_name()),
        }
    }

    /// Removes the schema where the server is there after the tests.
    pub(crate) async fn remove(&self) -> Result<(), tokio_postgres::Error> {
        if self.server.outlives_the_tests() {
            let client = client(&self.server.url()).await?;
            let schema = self.location.schema();
            let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
            // A store that was not closed may be removing garbage, and locks its tables in another order.
            while let Err(error) = client.batch_execute(&drop).await {
                if error.code() != Some(&SqlState::T_R_DEADLOCK_DETECTED) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// A schema of a server, by the URL of its database.
pub(crate) fn location(url: &str, schema: &str) -> Location {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}schema={schema}").parse().unwrap()
}

/// A connection past the store.
pub(crate) async fn client(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

/// An append of one event.
pub(crate) fn append(text: &str, expected: u64) -> Append {
    Append::new(
        id(text),
        expected,
        vec![NewEvent::new("k", text.to_owned())],
    )
}
