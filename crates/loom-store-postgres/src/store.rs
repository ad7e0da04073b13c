//! The store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, ExecutionId, Head, Limits, List,
    ListPage, LogHead, Operation, Read, ReadPage, RecordLineage, StoreError,
};
use tokio::runtime::Handle;

use crate::change::{self, Work};
use crate::connector::Connector;
use crate::failure::{Failure, Fault, unavailable};
use crate::garbage::Garbage;
use crate::group::Groups;
use crate::migrations::migrate;
use crate::options::Clock;
use crate::pool::{Connections, Pooled};
use crate::siblings::Siblings;
use crate::{Location, OpenFailure, Options, append, head, list, read};

/// How often a change is tried anew when somebody else changed the same record in between.
const TRIES: u32 = 100;

/// An event store in a schema of a PostgreSQL database, with all of [`Fencing`](loom_spi::Fencing),
/// [`Relocation`](loom_spi::Relocation), [`PlanLedger`](loom_spi::PlanLedger) and
/// [`BranchRegistry`](loom_spi::BranchRegistry).
///
/// Share it in an `Arc`. Any number of handles, in any number of processes, may be open on one schema. It lives on the
/// tokio runtime on which it was opened; it may be used from anywhere, and answers as unavailable once that has ended.
///
/// Dropping it closes the connections after what was asked for before is done; [`close`](Self::close) waits for that.
pub struct PostgresStore {
    shared: Arc<Shared>,
    runtime: Handle,
    groups: Groups,
    limits: Limits,
}

/// What requests under way keep alive.
pub(crate) struct Shared {
    pub(crate) connector: Arc<Connector>,
    pub(crate) connections: Connections,
    pub(crate) garbage: Garbage,
    pub(crate) siblings: Siblings,
    pub(crate) publish_timeout: std::time::Duration,
    clock: Clock,
}

impl PostgresStore {
    /// Creates a store at `location`, its schema included where that is missing, and opens it. One that is there already
    /// is opened if it has the very identity that `options` states, so that an interrupted set-up can be repeated.
    ///
    /// # Errors
    /// Of [`Operation::Open`]. `WrongShard` when the store there has another identity; otherwise the source is
    /// an [`OpenFailure`], [`AlreadyExists`](OpenFailure::AlreadyExists) when no identity was stated.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still create the store; it may be repeated.
    pub async fn create(location: &Location, options: Options) -> Result<Self, StoreError> {
        start(location, options, true).await
    }

    /// Opens the store at `location`, which has to exist: a mistyped name never becomes an empty store. Tables of an
    /// earlier release are brought up to date.
    ///
    /// # Errors
    /// Of [`Operation::Open`]. `WrongShard` when the store has another identity than `options` states;
    /// otherwise the source is an [`OpenFailure`].
    ///
    /// # Cancel safety
    /// Nothing is changed in the store but the version of its tables.
    pub async fn open(location: &Location, options: Options) -> Result<Self, StoreError> {
        start(location, options, false).await
    }

    /// Where it is. Shows no password.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.shared.connector.location()
    }

    /// Finishes the appends that were asked for before, and closes the connections. Afterwards every operation is refused
    /// as `Unavailable`. Closing again does nothing.
    ///
    /// # Errors
    /// None today; a way to report one without breaking callers.
    ///
    /// # Cancel safety
    /// A dropped call goes on in the background.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.groups.close().await;
        self.shared.connections.close();
        Ok(())
    }

    /// Makes a change of one execution's record.
    pub(crate) async fn change<W: Work>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        work: W,
    ) -> Result<W::Output, StoreError> {
        let (shared, subject) = (Arc::clone(&self.shared), id.clone());
        self.run(operation, Some(id), async move {
            shared.make(&subject, &work).await
        })
        .await
    }

    /// Runs a request on the store's own runtime, to its end even if whoever asked goes away: a connection is never left
    /// in the middle of something.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
        request: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.runtime.spawn(request).await;
        done.unwrap_or_else(|_| Err(Fault::abandoned().into()))
            .map_err(|failure| self.explained(failure.into_error(operation), id))
    }

    /// Asks something that changes nothing.
    pub(crate) async fn look<T, F, Looked>(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
        look: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(Pooled) -> Looked + Send + Sync + 'static,
        Looked: Future<Output = Result<T, Failure>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        self.run(operation, id, async move {
            match look(shared.connections.get().await?).await {
                // The server was started anew, perhaps, since the connection was last used.
                Err(Failure::Fault(fault)) if fault.is_broken_connection() => {
                    look(shared.connections.get().await?).await
                }
                looked => looked,
            }
        })
        .await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Has a branch recorded on the store's own runtime.
    pub(crate) async fn record_branch(&self, request: RecordLineage) -> Result<(), StoreError> {
        let parent = request.parent.clone();
        let recorded = self.shared.record_branch(&self.runtime, request).await;
        recorded.map_err(|error| self.explained(error, Some(&parent)))
    }

    fn explained(&self, error: StoreError, id: Option<&ExecutionId>) -> StoreError {
        let error = match id {
            Some(id) => error.with_execution(id),
            None => error,
        };
        match self.shared.connector.identity() {
            Some(identity) => error.with_shard(identity.shard),
            None => error,
        }
    }
}

impl Shared {
    /// Makes a change in a transaction, anew as long as others come in between.
    pub(crate) async fn make<W: Work>(
        self: &Arc<Self>,
        id: &ExecutionId,
        work: &W,
    ) -> Result<W::Output, Failure> {
        let mut tries = 0;
        loop {
            let session = self.connections.get().await?;
            let made = change::make(&session, Some(id), self.clock.ahead(), work).await;
            drop(session);
            tries += 1;
            match made {
                Err(failure) if failure.is_transient() && tries < TRIES => {}
                Err(Failure::Fault(fault)) if fault.is_broken_connection() && tries == 1 => {}
                made => return made,
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for PostgresStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        let admitted = self
            .limits
            .check(&request)
            .and_then(|()| append::check_fence(&request));
        let appended = match admitted {
            Ok(()) => self.groups.append(request).await,
            Err(kind) => Err(StoreError::new(Operation::Append, kind)),
        };
        appended.map_err(|error| self.explained(error, Some(&id)))
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        let id = request.id.clone();
        let request = Arc::new(request);
        self.look(Operation::Read, Some(&id), move |session| {
            let request = Arc::clone(&request);
            async move { read::read(&session, &request).await }
        })
        .await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let id = request.id.clone();
        let request = Arc::new(request);
        self.look(Operation::Head, Some(&id), move |session| {
            let request = Arc::clone(&request);
            async move { head::head(&session, &request).await }
        })
        .await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        let request = Arc::new(request);
        self.look(Operation::List, None, move |session| {
            let request = Arc::clone(&request);
            async move { list::list(&session, &request).await }
        })
        .await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let id = request.id.clone();
        let deleted = self.change(Operation::Delete, &id, request).await?;
        self.collect_garbage();
        Ok(deleted)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_limits(self.limits)
            .with_fencing(self)
            .with_relocation(self)
            .with_ledger(self)
            .with_branches(self)
    }
}

impl PostgresStore {
    /// Has the events of logs that are gone removed, in the background.
    pub(crate) fn collect_garbage(&self) {
        self.shared
            .garbage
            .collect(&self.runtime, &self.shared.connections);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("location", self.location())
            .field("identity", &self.shared.connector.identity())
            .finish_non_exhaustive()
    }
}

async fn start(
    location: &Location,
    options: Options,
    create: bool,
) -> Result<PostgresStore, StoreError> {
    let started = match Handle::try_current() {
        Ok(runtime) => set_up(runtime, location, &options, create).await,
        Err(_) => Err(Failure::Refused(unavailable(
            "it was opened outside a tokio runtime: open it inside one",
            true,
        ))),
    };
    started.map_err(|failure| {
        let error = failure.into_error(Operation::Open);
        match &options.identity {
            Some(identity) => error.with_shard(identity.shard),
            None => error,
        }
    })
}

async fn set_up(
    runtime: Handle,
    location: &Location,
    options: &Options,
    create: bool,
) -> Result<PostgresStore, Failure> {
    let connector = Arc::new(Connector::new(location, options)?);
    let mut client = connector.connect().await?;
    let (identity, is_new) =
        migrate(&connector, &mut client, create, options.identity.as_ref()).await?;
    if create && !is_new && options.identity.is_none() {
        return Err(Failure::from(OpenFailure::AlreadyExists {
            location: location.clone(),
        }));
    }
    if let Some(identity) = identity {
        connector.know_identity(identity);
    }
    let connections = Connections::new(Arc::clone(&connector), options)?;
    let groups = Groups::start(
        &runtime,
        &connections,
        options.limits,
        options.queue,
        options.connections,
    );
    let store = PostgresStore {
        shared: Arc::new(Shared {
            connector,
            connections,
            garbage: Garbage::default(),
            siblings: Siblings::default(),
            publish_timeout: options.publish_timeout,
            clock: options.clock.clone(),
        }),
        runtime,
        groups,
        limits: options.limits,
    };
    if !is_new {
        // A process that ended before it got to it may have left some.
        store.collect_garbage();
    }
    Ok(store)
}
