//! `loom init`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom_shard_plan::ShardPlan;
use loom_sharded_store::ShardedStore;
use loom_spi::{EventStore, ShardLocation};
use serde::Serialize;

use crate::args::{Global, Init};
use crate::backend::Backend;
use crate::config::{Config, Draft, FILE_NAME, StoreUrl, already_there, folder_of};
use crate::deployment::create_shard;
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};

#[derive(Serialize)]
struct Created {
    deployment: String,
    config: String,
    shards: usize,
    epoch: u64,
    buckets: u32,
}

/// Everything is done before `loom.toml` is there, so that a deployment exists as a whole or not at all.
/// Interrupted, it goes on where it was when it is run again.
pub(super) async fn run(init: &Init, global: &Global, output: Output) -> Result<(), Failure> {
    let target = match (&init.dir, &global.config) {
        (Some(dir), None) => dir.join(FILE_NAME),
        _ => global.config_path(),
    };
    let urls = urls(init, &target)?;
    let plan = u16::try_from(urls.len())
        .map_err(|_| Failure::usage("there are too many shards"))
        .and_then(|shards| {
            ShardPlan::new(shards).map_err(|error| Failure::usage(error.to_string()))
        })?;
    if target.exists() {
        return Err(already_there(&target));
    }
    fs::create_dir_all(folder_of(&target))
        .map_err(|error| Failure::io("create", folder_of(&target), error))?;
    let draft = Draft::open_or_create(&target, &urls)?;
    let stores = create_shards(&draft.config).await?;
    let mut builder = ShardedStore::builder()
        .deployment(draft.config.deployment.clone())
        .plan(plan.clone());
    for (shard, store) in &stores {
        builder = builder.shard(*shard, Arc::clone(store) as Arc<dyn EventStore>);
    }
    let store = builder.create().await?;
    let locations = draft.config.shards.iter();
    let locations = locations.map(|(shard, url)| ShardLocation::new(*shard, url.to_string()));
    store.record_locations(locations.collect()).await?;
    for (_, store) in &stores {
        store.close().await?;
    }
    let config = draft.finish()?;
    let created = Created {
        deployment: config.deployment.to_string(),
        config: config.path.display().to_string(),
        shards: config.shards.len(),
        epoch: plan.epoch(),
        buckets: plan.bucket_count(),
    };
    output.print(&created, |output| {
        format!(
            "{} `{}`: {}, plan epoch {}\n",
            output.paint(Tone::Good, "created"),
            created.config,
            counted(created.shards as u64, "shard"),
            created.epoch
        )
    })
}

async fn create_shards(config: &Config) -> Result<Vec<(u16, Arc<Backend>)>, Failure> {
    let mut stores = Vec::with_capacity(config.shards.len());
    for (shard, url) in &config.shards {
        if let Some(file) = url.file(config.folder())
            && let Some(folder) = file.parent()
        {
            fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, error))?;
        }
        stores.push((*shard, create_shard(config, *shard, url).await?));
    }
    Ok(stores)
}

/// The urls given, or one file for each shard.
fn urls(init: &Init, target: &Path) -> Result<Vec<StoreUrl>, Failure> {
    if init.url.is_empty() {
        let folder = match &init.dir {
            Some(dir) if dir != folder_of(target) => std::path::absolute(dir)
                .map_err(|error| Failure::io("use the folder", dir, error))?,
            _ => PathBuf::new(),
        };
        let shards = init.shards.unwrap_or(1);
        return Ok((0..shards)
            .map(|shard| shard_file(&folder, shard))
            .collect());
    }
    if let Some(shards) = init.shards
        && usize::from(shards) != init.url.len()
    {
        return Err(Failure::usage(format!(
            "--shards is {shards} and --url is given {} times: expected one url for each shard",
            init.url.len()
        )));
    }
    init.url
        .iter()
        .map(|url| {
            StoreUrl::parse(url).map_err(|message| Failure::usage(format!("--url: {message}")))
        })
        .collect()
}

/// The file of a shard for which no url is given.
pub(super) fn shard_file(folder: &Path, shard: u16) -> StoreUrl {
    StoreUrl::Sqlite(folder.join(format!("shard-{shard}.db")))
}
