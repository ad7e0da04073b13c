//! Creating shards, and naming them where processes look for them, before a plan does.

use std::fs;

use loom_shard_plan::ShardId;
use loom_spi::{EventStore as _, PlanLedger as _, Records, ShardLocation};

use crate::config::{Config, StoreUrl, add_shards, remove_shard};
use crate::deployment::{Deployment, create_shard, under_own_plan};
use crate::failure::Failure;

/// The new shards are created first, then `loom.toml` and the directories name them: wherever it is interrupted,
/// running it again goes on. Returns the deployment file as it is then.
pub(super) async fn create(
    deployment: &Deployment,
    new: &[(u16, StoreUrl)],
) -> Result<Config, Failure> {
    let config = &deployment.config;
    for (shard, url) in new {
        if let Some(file) = url.file(config.folder())
            && let Some(folder) = file.parent()
        {
            fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, error))?;
        }
        let store = create_shard(config, *shard, url).await?;
        deployment.add_shard(*shard, store).await?;
    }
    let joining = new.iter().map(|(shard, _)| ShardId(*shard));
    refuse_used(deployment, joining).await?;
    if new.is_empty() {
        return Ok(config.clone());
    }
    not_joined(deployment, new).await?;
    let config = add_shards(config, new)?;
    let locations = config.shards.iter();
    let locations = locations.map(|(shard, url)| ShardLocation::new(*shard, url.to_string()));
    deployment
        .store
        .record_locations(locations.collect())
        .await?;
    let alone = match agree(deployment, new).await {
        Ok(()) => not_joined(deployment, new).await,
        refused => refused,
    };
    if let Err(refused) = alone {
        // Then the shard is where the others say, here too.
        let mut config = config;
        for (shard, _) in new {
            config = remove_shard(&config, *shard)?;
        }
        return Err(refused);
    }
    Ok(config)
}

/// Whoever let the shards join meanwhile did so with stores of their own: that the plan is the same one does not help.
async fn not_joined(deployment: &Deployment, new: &[(u16, StoreUrl)]) -> Result<(), Failure> {
    deployment.store.refresh().await?;
    let plan = deployment.plan()?;
    match new.iter().find(|(shard, _)| plan.shard(ShardId(*shard)).is_some()) {
        None => Ok(()),
        Some((shard, url)) => Err(Failure::refused(format!(
            "another process has let shard {shard} join at the same moment, with a store of its own: the one at `{url}` is not used"
        ))
        .with_help(format!(
            "`loom shard ls` shows where shard {shard} is for the others; the store at `{url}` can be removed if that is another one"
        ))),
    }
}

/// Makes sure that no other process has put a joining shard elsewhere at the same moment: each of the two would take its own
/// store for the shard, and what one writes there the other would not find.
pub(super) async fn agree(deployment: &Deployment, new: &[(u16, StoreUrl)]) -> Result<(), Failure> {
    for store in deployment.shards().await.values() {
        for location in store.directory().await? {
            let ours = new.iter().find(|(shard, _)| *shard == location.shard);
            if let Some((shard, url)) = ours
                && url.to_string() != location.location
            {
                return Err(Failure::refused(format!(
                    "another process has made shard {shard} at `{}` at the same moment, and here it is at `{url}`",
                    location.location
                ))
                .with_help(format!(
                    "`loom shard ls` shows where shard {shard} is: let no deployment file name another url for it, and remove the store that none of them names"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses shards that are about to join and hold something: it is from before they were given up, and would be
/// taken for the present.
pub(super) async fn refuse_used(
    deployment: &Deployment,
    joining: impl IntoIterator<Item = ShardId>,
) -> Result<(), Failure> {
    let (plan, shards) = (deployment.plan()?, deployment.shards().await);
    for shard in joining {
        // One that was leaving and is kept after all serves what it holds.
        if plan.shard(shard).is_some() {
            continue;
        }
        let Some(store) = shards.get(&shard.get()) else {
            continue;
        };
        let Some(relocation) = store.capabilities().relocation else {
            continue;
        };
        let page = under_own_plan(store, async |epoch| {
            relocation.records(Records::new(1).with_epoch(epoch)).await
        });
        let page = page.await?;
        if let Some(record) = page.records.first() {
            return Err(Failure::refused(format!(
                "shard {shard} is not in the plan and still holds `{}`: what it holds is from before it was given up, and would be taken for the present",
                record.id
            ))
            .with_help(format!(
                "`loom repair {shard}` takes what is nowhere else to where it belongs, and leaves the shard empty; or move `{}` away",
                store.place()
            )));
        }
    }
    Ok(())
}
