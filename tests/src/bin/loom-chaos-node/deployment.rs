//! Opening the shards of a deployment, also those that join later.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loom_shard_plan::ShardId;
use loom_sharded_store::{Connect, ShardedStore};
use loom_spi::{BoxError, DeploymentId, EventStore, ShardIdentity};
use loom_store_postgres::PostgresStore;
use loom_store_sqlite::SqliteStore;
use serde::Deserialize;

/// Many processes share two cores and one disk here: waiting for a lock is no failure.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);
/// To a server. A killed process leaves its own behind for a moment.
const CONNECTIONS: usize = 4;

/// The parts of `loom.toml` that say where the shards are.
#[derive(Deserialize)]
struct File {
    deployment: String,
    shard: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    id: u16,
    url: String,
}

/// Opens the store over the shards that `loom.toml` in `folder` names.
pub(crate) async fn open(folder: &Path, cache: u64) -> crate::Result<ShardedStore> {
    let known = Known {
        folder: folder.to_owned(),
    };
    let (deployment, urls) = known.read()?;
    let mut builder = ShardedStore::builder()
        .deployment(deployment)
        .cache_capacity(cache);
    for shard in urls.keys() {
        let store = known.connect(ShardId(*shard), None).await?;
        builder = builder.shard(*shard, store);
    }
    Ok(builder.connect(known).open().await?)
}

/// What `loom.toml` says when it is asked.
#[derive(Debug)]
struct Known {
    folder: PathBuf,
}

impl Known {
    fn read(&self) -> crate::Result<(DeploymentId, BTreeMap<u16, String>)> {
        let text = fs::read_to_string(self.folder.join("loom.toml"))?;
        let file: File = toml::from_str(&text)?;
        let urls = file.shard.into_iter().map(|shard| (shard.id, shard.url));
        Ok((DeploymentId::new(file.deployment)?, urls.collect()))
    }

    async fn open(&self, url: &str, identity: ShardIdentity) -> crate::Result<Arc<dyn EventStore>> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let options = loom_store_sqlite::Options::new()
                .with_identity(identity)
                .with_busy_timeout(BUSY_TIMEOUT);
            let file = self.folder.join(path);
            return Ok(Arc::new(SqliteStore::open(file, options).await?));
        }
        let options = loom_store_postgres::Options::new()
            .with_identity(identity)
            .with_connections(CONNECTIONS)
            .with_statement_timeout(BUSY_TIMEOUT);
        Ok(Arc::new(PostgresStore::open(&url.parse()?, options).await?))
    }
}

#[async_trait]
impl Connect for Known {
    async fn connect(
        &self,
        shard: ShardId,
        location: Option<&str>,
    ) -> Result<Arc<dyn EventStore>, BoxError> {
        let (deployment, urls) = self.read()?;
        let url = urls.get(&shard.get()).map(String::as_str).or(location);
        let url = url.ok_or_else(|| format!("nobody says where shard {shard} is"))?;
        let identity = ShardIdentity::new(deployment, shard.get());
        self.open(url, identity).await
    }
}
