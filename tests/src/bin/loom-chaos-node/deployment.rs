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
use loom_store_sqlite::{Options, SqliteStore};
use serde::Deserialize;

/// Many processes share two cores and one disk here: waiting for a lock is no failure.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

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
    let (deployment, files) = known.read()?;
    let mut builder = ShardedStore::builder()
        .deployment(deployment)
        .cache_capacity(cache);
    for shard in files.keys() {
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
    fn read(&self) -> crate::Result<(DeploymentId, BTreeMap<u16, PathBuf>)> {
        let text = fs::read_to_string(self.folder.join("loom.toml"))?;
        let file: File = toml::from_str(&text)?;
        let mut files = BTreeMap::new();
        for shard in file.shard {
            files.insert(shard.id, self.file(&shard.url)?);
        }
        Ok((DeploymentId::new(file.deployment)?, files))
    }

    fn file(&self, url: &str) -> crate::Result<PathBuf> {
        let path = url.strip_prefix("sqlite:");
        let path = path.ok_or_else(|| format!("`{url}`: expected sqlite:PATH"))?;
        Ok(self.folder.join(path))
    }
}

#[async_trait]
impl Connect for Known {
    async fn connect(
        &self,
        shard: ShardId,
        location: Option<&str>,
    ) -> Result<Arc<dyn EventStore>, BoxError> {
        let (deployment, files) = self.read()?;
        let file = match (files.get(&shard.get()), location) {
            (Some(file), _) => file.clone(),
            (None, Some(location)) => self.file(location)?,
            (None, None) => return Err(format!("nobody says where shard {shard} is").into()),
        };
        let options = Options::new()
            .with_identity(ShardIdentity::new(deployment, shard.get()))
            .with_busy_timeout(BUSY_TIMEOUT);
        Ok(Arc::new(SqliteStore::open(file, options).await?))
    }
}
