//! The connections that are open.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{
    Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, TimeoutType, Timeouts,
};

use crate::Options;
use crate::connector::Connector;
use crate::failure::{Failure, closed, unavailable};
use crate::session::Session;

/// A connection for as long as it is held.
pub(crate) type Pooled = Object<Sessions>;

/// Opens connections and looks at them when they come back.
#[derive(Debug)]
pub(crate) struct Sessions(pub(crate) Arc<Connector>);

impl Manager for Sessions {
    type Type = Session;
    type Error = Failure;

    async fn create(&self) -> Result<Session, Failure> {
        self.0.session().await
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<Failure> {
        if session.is_usable() {
            Ok(())
        } else {
            Err(RecycleError::message("the connection is closed"))
        }
    }
}

/// At most so many connections, lent to one request at a time.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pool: Pool<Sessions>,
    wait: Duration,
}

impl Connections {
    pub(crate) fn new(connector: Arc<Connector>, options: &Options) -> Result<Self, Failure> {
        let pool = Pool::builder(Sessions(connector))
            .max_size(options.connections)
            .timeouts(Timeouts {
                wait: Some(options.wait_timeout),
                // The connector has a timeout of its own, with a message of its own.
                create: None,
                recycle: None,
            })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Failure::Refused(unavailable(error.to_string(), true)))?;
        Ok(Self {
            pool,
            wait: options.wait_timeout,
        })
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(&self) -> Result<Pooled, Failure> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(failure) => failure,
            PoolError::Timeout(TimeoutType::Wait) => Failure::Refused(unavailable(
                format!(
                    "all {} connections were in use for {} ms",
                    self.pool.status().max_size,
                    self.wait.as_millis()
                ),
                true,
            )),
            PoolError::Closed => Failure::Refused(closed()),
            PoolError::Timeout(_)
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => Failure::Refused(unavailable(
                "the pool of connections could not provide one",
                true,
            )),
        })
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }
}
