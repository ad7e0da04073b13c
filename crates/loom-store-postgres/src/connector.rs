//! Making connections.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use loom_spi::{ShardIdentity, StoreErrorKind};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::failure::{Failure, in_full};
use crate::migrations::{self, Found};
use crate::session::Session;
use crate::{Location, OpenFailure, Options, tls};

/// Beyond the server's own timeout, for the way there and back.
const GRACE: Duration = Duration::from_secs(5);

/// Makes connections to one store, and makes sure that they lead to it.
pub(crate) struct Connector {
    location: Location,
    config: Config,
    tls: Option<MakeRustlsConnect>,
    connect_timeout: Duration,
    statement_timeout: Duration,
    settings: String,
    /// Which shard the store is, once that is known.
    identity: OnceLock<ShardIdentity>,
}

impl Connector {
    pub(crate) fn new(location: &Location, options: &Options) -> Result<Self, Failure> {
        let tls = if location.is_encrypted() {
            let made = tls::connector(location.root_certificates());
            Some(made.map_err(|reason| unreachable(location, reason))?)
        } else {
            None
        };
        let mut config = location.config().clone();
        if config.get_application_name().is_none() {
            config.application_name("loom");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        Ok(Self {
            location: location.clone(),
            config,
            tls,
            connect_timeout: options.connect_timeout,
            statement_timeout: options.statement_timeout,
            settings: settings(location.schema(), options.statement_timeout),
            identity: OnceLock::new(),
        })
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    pub(crate) fn identity(&self) -> Option<&ShardIdentity> {
        self.identity.get()
    }

    /// Notes which shard the store is. That never changes.
    pub(crate) fn know_identity(&self, identity: ShardIdentity) {
        self.identity.get_or_init(|| identity);
    }

    /// A connection that is set up, but may lead to anything.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        let connecting = async {
            let client = match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    tokio::spawn(async move { drop(connection.await) });
                    client
                }
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    tokio::spawn(async move { drop(connection.await) });
                    client
                }
            };
            client.batch_execute(&self.settings).await?;
            Ok(client)
        };
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| self.not_connected(&error)),
            Err(_) => Err(unreachable(
                &self.location,
                format!(
                    "it did not answer within {} ms",
                    self.connect_timeout.as_millis()
                ),
            )),
        }
    }

    /// A connection that leads to the store: to the shard that it was, in tables of this version.
    pub(crate) async fn session(&self) -> Result<Session, Failure> {
        let client = self.connect().await?;
        let found = self.look(&client).await?;
        self.verify(found)?;
        Ok(Session::new(client, self.statement_timeout + GRACE))
    }

    /// What the schema holds.
    pub(crate) async fn look(&self, client: &Client) -> Result<Found, Failure> {
        migrations::look(client, self.location.schema())
            .await
            .map_err(|error| self.not_opened(&error))
    }

    pub(crate) fn verify(&self, found: Found) -> Result<(), Failure> {
        let wrong_shard = |found: Option<&ShardIdentity>| match self.identity() {
            Some(expected) if found != Some(expected) => {
                Some(Failure::Refused(StoreErrorKind::WrongShard {
                    expected: expected.clone(),
                    found: found.cloned(),
                }))
            }
            _ => None,
        };
        match found {
            Found::Nothing => Err(wrong_shard(None).unwrap_or_else(|| {
                Failure::from(OpenFailure::Missing {
                    location: self.location.clone(),
                })
            })),
            Found::Foreign { table } => Err(Failure::from(OpenFailure::Foreign {
                location: self.location.clone(),
                table,
            })),
            Found::Store { version, identity } => {
                migrations::check_version(&self.location, version)?;
                wrong_shard(identity.as_ref()).map_or(Ok(()), Err)
            }
        }
    }

    fn not_connected(&self, error: &Error) -> Failure {
        let location = self.location.clone();
        let Some(said) = error.as_db_error() else {
            return unreachable(&location, in_full(error));
        };
        let reason = said.message().to_owned();
        // Classes of SQLSTATE.
        Failure::from(match said.code().code().get(..2) {
            // The login.
            Some("28") => OpenFailure::Refused {
                location,
                reason,
                passing: false,
            },
            // Out of resources, or an operator is at it.
            Some("53" | "57") => OpenFailure::Refused {
                location,
                reason,
                passing: true,
            },
            _ => return unreachable(&location, format!("the server says: {reason}")),
        })
    }

    /// What an error in setting the store up means.
    pub(crate) fn not_opened(&self, error: &Error) -> Failure {
        let location = self.location.clone();
        let Some(said) = error.as_db_error() else {
            return unreachable(&self.location, in_full(error));
        };
        let reason = said.message().to_owned();
        Failure::from(match said.code() {
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                OpenFailure::Privilege { location, reason }
            }
            code if matches!(code.code().get(..2), Some("42" | "22" | "23" | "XX")) => {
                OpenFailure::Damaged { location, reason }
            }
            _ => return unreachable(&self.location, format!("the server says: {reason}")),
        })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("location", &self.location)
            .field("identity", &self.identity.get())
            .finish_non_exhaustive()
    }
}

fn unreachable(location: &Location, reason: impl Into<String>) -> Failure {
    Failure::from(OpenFailure::Unreachable {
        location: location.clone(),
        reason: reason.into(),
    })
}

/// What every connection starts with.
///
/// - What decides about durability and isolation does not hang on how the database or the role is set up.
/// - Everything is looked up by an index. The planner cannot know how much a table will hold when it plans a statement
///   once and for all, and with other plans forbidden it need not.
fn settings(schema: &str, statement_timeout: Duration) -> String {
    let schema = quoted(schema);
    let timeout = statement_timeout.as_millis();
    let idle = (statement_timeout + GRACE).as_millis();
    format!(
        "SET search_path = {schema};
         SET default_transaction_isolation = 'read committed';
         SET default_transaction_read_only = off;
         SET statement_timeout = {timeout};
         SET idle_in_transaction_session_timeout = {idle};
         SET client_min_messages = warning;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET plan_cache_mode = force_generic_plan;
         SET jit = off;
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
}

/// A name as it stands in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
