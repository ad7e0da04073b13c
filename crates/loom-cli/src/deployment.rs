//! An open deployment: its shards, and the one store over them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_sharded_store::{Connect, OpenError, PlanChangeError, ShardedStore};
use loom_spi::{
    BoxError, EventStore, ExecutionId, Head, PlanEpoch, PlanLedger as _, ShardIdentity, StoreError,
    StoreErrorKind,
};
use tokio::sync::Mutex;

use crate::backend::{Backend, Settings};
use crate::config::{Config, StoreUrl};
use crate::failure::{Exit, Failure, repair_help};

/// The shards that are open, by id.
type Shards = BTreeMap<u16, Arc<Backend>>;

/// An open deployment.
pub(crate) struct Deployment {
    pub(crate) config: Config,
    pub(crate) store: ShardedStore,
    shards: Arc<Mutex<Shards>>,
}

impl Deployment {
    /// Opens the shards of the deployment file at `path`, and the store over them under the plan that they keep.
    pub(crate) async fn open(path: &Path) -> Result<Self, Failure> {
        let config = Config::load(path)?;
        let mut shards = Shards::new();
        for (shard, store) in open_shards(&config).await {
            shards.insert(shard, store?);
        }
        let connect = Arc::new(Mutex::new(shards.clone()));
        let mut builder = ShardedStore::builder()
            .deployment(config.deployment.clone())
            .connect(FileConnect {
                config: config.clone(),
                shards: Arc::clone(&connect),
            });
        if let Some(capacity) = config.limits.resolution_cache {
            builder = builder.cache_capacity(capacity);
        }
        for (shard, store) in &shards {
            builder = builder.shard(*shard, Arc::clone(store) as Arc<dyn EventStore>);
        }
        let store = builder.open().await?;
        if store.plan().is_none() {
            return Err(no_plan());
        }
        Ok(Self {
            config,
            store,
            shards: connect,
        })
    }

    /// The plan that requests are routed by.
    pub(crate) fn plan(&self) -> Result<Arc<ShardPlan>, Failure> {
        let plan = self.store.plan();
        plan.ok_or_else(no_plan)
    }

    /// The shards that are open, by id, whether the plan names them or not.
    pub(crate) async fn shards(&self) -> Shards {
        self.shards.lock().await.clone()
    }

    /// Gives the store a shard that a later plan will name.
    pub(crate) async fn add_shard(&self, shard: u16, store: Arc<Backend>) -> Result<(), Failure> {
        if self.shards().await.contains_key(&shard) {
            return Ok(());
        }
        self.store
            .add_shard(shard, Arc::clone(&store) as Arc<dyn EventStore>)
            .await?;
        self.shards.lock().await.insert(shard, store);
        Ok(())
    }

    /// The shard that has the log of an execution; `None` when none of those that may have it does.
    pub(crate) async fn locate(&self, id: &ExecutionId) -> Result<Option<ShardId>, Failure> {
        let sides = match self.plan()?.route_id(id.as_str()) {
            Placement::Settled(shard) => vec![shard],
            // It may move from the source to the destination between the looks.
            Placement::Migrating { from, to } => vec![to, from, to],
        };
        let shards = self.shards().await;
        for side in sides {
            if let Some(store) = shards.get(&side.get())
                && is_on(store, id).await?
            {
                return Ok(Some(side));
            }
        }
        Ok(None)
    }

    /// The file of a shard, if it is in a file.
    pub(crate) fn file(&self, shard: ShardId) -> Option<PathBuf> {
        self.config.file(shard.get())
    }

    /// Where a shard is, for people: its file, or the url of its server.
    pub(crate) fn place(&self, shard: ShardId) -> Option<String> {
        match self.file(shard) {
            Some(file) => Some(file.display().to_string()),
            None => Some(self.config.shards.get(&shard.get())?.to_string()),
        }
    }

    /// Brings the files up to date and closes them.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let closed = join_all(self.shards().await.values().map(|store| store.close())).await;
        for closed in closed {
            closed?;
        }
        Ok(())
    }
}

fn no_plan() -> Failure {
    Failure::refused("no shard holds a plan: this deployment was never finished")
        .with_help("create it with `loom init`")
}

/// Whether a shard has the log of an execution, under whichever plan it is.
async fn is_on(store: &Backend, id: &ExecutionId) -> Result<bool, Failure> {
    let head = under_own_plan(store, async |epoch| {
        store.head(Head::new(id.clone()).with_epoch(epoch)).await
    });
    Ok(head.await?.is_some())
}

/// Asks one shard under its own plan, again if another one is published meanwhile.
pub(crate) async fn under_own_plan<T>(
    store: &dyn EventStore,
    ask: impl AsyncFn(Option<PlanEpoch>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    loop {
        match ask(ledger_epoch(store).await?).await {
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::StalePlan { .. } | StoreErrorKind::ShardBehind { .. }
                ) => {}
            answer => return Ok(answer?),
        }
    }
}

/// The plan that a shard is under by itself: for looking at one shard, whatever the others are under.
pub(crate) async fn ledger_epoch(store: &dyn EventStore) -> Result<Option<PlanEpoch>, Failure> {
    let Some(ledger) = store.capabilities().ledger else {
        return Ok(None);
    };
    Ok(ledger.current().await?.map(|plan| plan.epoch))
}

/// Opens the shards of a deployment file, each by itself.
pub(crate) async fn open_shards(config: &Config) -> Vec<(u16, Result<Arc<Backend>, Failure>)> {
    let opened = config.shards.keys().map(|&shard| async move {
        let opened = open_shard(config, shard).await;
        (shard, opened)
    });
    join_all(opened).await
}

/// The shards that are left when one is gone.
pub(crate) struct Survivors {
    config: Config,
    shards: Arc<Mutex<Shards>>,
    given: Vec<(u16, Arc<Backend>)>,
}

impl Survivors {
    pub(crate) fn new(config: &Config, given: Vec<(u16, Arc<Backend>)>) -> Self {
        Self {
            config: config.clone(),
            shards: Arc::new(Mutex::new(given.iter().cloned().collect())),
            given,
        }
    }

    /// Those that the deployment file names.
    pub(crate) fn stores(&self) -> Vec<(ShardId, Arc<dyn EventStore>)> {
        let given = self.given.iter();
        given
            .map(|(shard, store)| (ShardId(*shard), Arc::clone(store) as Arc<dyn EventStore>))
            .collect()
    }

    /// Where the others say that a shard is.
    pub(crate) async fn locations(&self, shard: u16) -> Result<BTreeSet<String>, Failure> {
        let mut locations = BTreeSet::new();
        for (_, store) in &self.given {
            let directory = store.directory().await?.into_iter();
            let told = directory.filter(|entry| entry.shard == shard);
            locations.extend(told.map(|entry| entry.location));
        }
        Ok(locations)
    }

    /// How to reach those that it does not name.
    pub(crate) fn connect(&self) -> Arc<dyn Connect> {
        Arc::new(FileConnect {
            config: self.config.clone(),
            shards: Arc::clone(&self.shards),
        })
    }

    /// Closes them. What was done is done, so that a failure to tidy up says nothing.
    pub(crate) async fn close(&self) {
        let shards = self.shards.lock().await.clone();
        join_all(shards.values().map(|store| store.close())).await;
    }
}

async fn open_shard(config: &Config, shard: u16) -> Result<Arc<Backend>, Failure> {
    let Some(url) = config.shards.get(&shard) else {
        return Err(Failure::failed(format!("there is no shard {shard}")));
    };
    match open_at(config, shard, url).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(failure) => {
            Err(match failure.exit() {
                Exit::Unreachable if is_there(&failure) => failure,
                Exit::Unreachable => failure.with_help(format!(
                    "bring shard {shard} back, or restore it from a backup and run `loom repair {shard}`; if it is gone for good, `loom shard abandon {shard}`"
                )),
                _ => failure,
            })
        }
    }
}

/// Opens what is at `url`, if that is this shard of the deployment.
pub(crate) async fn open_at(
    config: &Config,
    shard: u16,
    url: &StoreUrl,
) -> Result<Backend, Failure> {
    let opened = Backend::open(url, config.folder(), settings(config, shard)).await;
    opened.map_err(|error| error.with_shard(shard).into())
}

/// Creates the file of a shard, or opens it if that was done before.
pub(crate) async fn create_shard(
    config: &Config,
    shard: u16,
    url: &StoreUrl,
) -> Result<Arc<Backend>, Failure> {
    if url.file(config.folder()).is_some_and(|file| file.is_dir()) {
        return Err(Failure::usage(format!(
            "`{url}` is a folder: expected the path of a file for shard {shard}"
        )));
    }
    match Backend::create(url, config.folder(), settings(config, shard)).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => {
            let failure = Failure::from(error.with_shard(shard));
            Err(if failure.exit() == Exit::Refused {
                failure.with_help(format!(
                    "`{url}` is there already and is not this shard: move it away, or choose another url"
                ))
            } else {
                failure
            })
        }
    }
}

fn settings(config: &Config, shard: u16) -> Settings {
    Settings {
        identity: ShardIdentity::new(config.deployment.clone(), shard),
        busy_timeout: config.limits.busy_timeout_ms.map(Duration::from_millis),
    }
}

/// Reaches shards that joined after this process had read its deployment file: by that file as it is now, or
/// by what the shards' directory says.
#[derive(Debug)]
struct FileConnect {
    config: Config,
    shards: Arc<Mutex<Shards>>,
}

#[async_trait]
impl Connect for FileConnect {
    async fn connect(
        &self,
        shard: ShardId,
        location: Option<&str>,
    ) -> Result<Arc<dyn EventStore>, BoxError> {
        let mut shards = self.shards.lock().await;
        if let Some(store) = shards.get(&shard.get()) {
            return Ok(Arc::clone(store) as Arc<dyn EventStore>);
        }
        let listed = Config::load(&self.config.path)
            .ok()
            .and_then(|mut config| config.shards.remove(&shard.get()));
        let url = match (listed, location) {
            (Some(url), _) => url,
            (None, Some(location)) => StoreUrl::parse(location)?,
            (None, None) => {
                return Err(format!(
                    "`{}` does not say where shard {shard} is: expected a `[[shard]]` with that id",
                    self.config.path.display()
                )
                .into());
            }
        };
        let settings = settings(&self.config, shard.get());
        let store = Backend::open(&url, self.config.folder(), settings).await;
        let store = Arc::new(store.map_err(|error| error.with_shard(shard.get()))?);
        shards.insert(shard.get(), Arc::clone(&store));
        Ok(store)
    }
}

/// Whether a shard that could not be opened is there all the same, with what it holds.
pub(crate) fn is_there(failure: &Failure) -> bool {
    use loom_store_postgres::OpenFailure as Postgres;
    use loom_store_sqlite::OpenFailure as Sqlite;
    let Some(cause) = failure.cause() else {
        return false;
    };
    matches!(
        cause_of::<Sqlite>(cause),
        Some(Sqlite::Locked { .. } | Sqlite::ReadOnly { .. } | Sqlite::NewerSchema { .. })
    ) || matches!(
        cause_of::<Postgres>(cause),
        Some(Postgres::NewerSchema { .. } | Postgres::Privilege { .. } | Postgres::Refused { .. })
    )
}

/// Whether what was opened in the place of a shard is another one, of this deployment or of a different one.
pub(crate) fn is_another(failure: &Failure) -> bool {
    let error = failure.cause().and_then(cause_of::<StoreError>);
    matches!(
        error.map(StoreError::kind),
        Some(StoreErrorKind::WrongShard { found: Some(_), .. })
    )
}

/// The first error of a type among `error` and its causes.
fn cause_of<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// As the error of a store that caused it would exit.
fn exit_of(error: &(dyn Error + 'static), otherwise: Exit) -> Exit {
    match cause_of::<StoreError>(error).map(StoreError::kind) {
        Some(StoreErrorKind::Unavailable { .. }) => Exit::Unreachable,
        Some(StoreErrorKind::WrongShard { .. }) => Exit::Refused,
        Some(_) => Exit::Failed,
        None => otherwise,
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            error => Self::new(exit_of(&error, Exit::Refused), error.to_string()).with_cause(error),
        }
    }
}

impl From<PlanChangeError> for Failure {
    fn from(error: PlanChangeError) -> Self {
        let help = match &error {
            PlanChangeError::Store(store) => match (store.kind(), store.shard()) {
                (StoreErrorKind::Unavailable { .. }, Some(shard)) => Some(format!(
                    "no plan can be published while a shard does not answer: bring shard {shard} back; if it is gone for good, `loom shard abandon {shard}` gives it up"
                )),
                _ => None,
            },
            PlanChangeError::Lost { .. } => Some(
                "somebody else changed the plan at the same moment: `loom plan show` prints it, `loom status` says what it moves; \
                 if your change is still wanted, run the command again"
                    .to_owned(),
            ),
            PlanChangeError::FarBehind { shard, .. } => Some(repair_help(shard.get())),
            PlanChangeError::NotDrained(_) => Some(
                "`loom drain` moves what is closed, `loom drain --live` everything; `loom status` counts what is left".to_owned(),
            ),
            PlanChangeError::Shards(OpenError::MissingShard { shard } | OpenError::Connect { shard, .. }) => Some(format!(
                "`loom shard add URL --id {shard}` creates it and says where it is"
            )),
            _ => None,
        };
        let failure = match error {
            PlanChangeError::Store(error) => error.into(),
            PlanChangeError::Shards(error) => error.into(),
            error => Self::new(exit_of(&error, Exit::Refused), error.to_string()).with_cause(error),
        };
        match help {
            Some(help) => failure.with_help(help),
            None => failure,
        }
    }
}
