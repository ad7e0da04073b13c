//! `loom rebalance`.

use loom_shard_plan::{PlanDiff, RebalanceOptions, ShardId, ShardPlan};
use loom_sharded_store::PlanChangeError;

use super::change::{consented, document, refusal, report, warn_unreached};
use super::init::shard_file;
use super::joining::{agree, create, refuse_used};
use crate::args::Rebalance;
use crate::config::StoreUrl;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, count, counted};
use crate::plan::topology;

/// The new shards are created first, then `loom.toml` names them, then the plan is published: wherever it is
/// interrupted, every process can reach what its plan names, and running it again goes on.
pub(super) async fn run(
    args: &Rebalance,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    deployment.store.refresh().await?;
    let plan = deployment.plan()?;
    let given = given_urls(args)?;
    if let Some(text) = args.shards.and_then(|shards| under_way(&plan, shards)) {
        refuse_unnamed(deployment, &given)?;
        // Run again, for want of an answer perhaps: what was asked for is what is happening.
        let diff = plan.diff(&plan).map_err(refusal)?;
        return output.print(&document(&plan, &diff, false), |_| text);
    }
    let next = match args.shards {
        Some(shards) => {
            let options = RebalanceOptions::default().allow_shrink(args.allow_shrink);
            plan.rebalanced(shards, options)
        }
        None => plan.rebalance(&topology(&plan, &args.members, refusal)?),
    }
    .map_err(refusal)?;
    let diff = plan.diff(&next).map_err(refusal)?;
    let joining: Vec<ShardId> = diff.joins().collect();
    let new = new_urls(deployment, &joining, given)?;
    if diff.is_no_change() {
        return output.print(&document(&plan, &diff, false), |_| {
            format!(
                "nothing to do: the plan of epoch {} has {} already, and no bucket has to move\n",
                plan.epoch(),
                counted(plan.shards().len() as u64, "shard")
            )
        });
    }
    refuse_used(deployment, joining).await?;
    let published = publish(args, deployment, &next, &diff, &new, output).await?;
    report(output, &next, &diff, &args.consent, published)
}

async fn publish(
    args: &Rebalance,
    deployment: &Deployment,
    next: &ShardPlan,
    diff: &PlanDiff,
    new: &[(u16, StoreUrl)],
    output: Output,
) -> Result<bool, Failure> {
    if !consented(&args.consent, output, diff, "Publish this plan?")? {
        return Ok(false);
    }
    create(deployment, new).await?;
    let published = deployment.store.publish(next.clone()).await.map_err(|error| {
        let lost = matches!(error, PlanChangeError::Lost { .. });
        let failure = Failure::from(error);
        match new.len() {
            0 => failure,
            new if lost => failure.context(format_args!(
                "{} created and named in `{}`, and not used: nothing is routed there",
                counted(new as u64, "shard"),
                deployment.config.path.display()
            )),
            new => failure.context(format_args!(
                "{} created and named in `{}`, but no plan that uses them was published; run it again to go on",
                counted(new as u64, "shard"),
                deployment.config.path.display()
            )),
        }
    })?;
    warn_unreached(&published);
    agree(deployment, new).await?;
    Ok(true)
}

/// What to say when the deployment is on its way to that many shards already.
fn under_way(plan: &ShardPlan, shards: u16) -> Option<String> {
    let active = plan
        .shards()
        .iter()
        .filter(|shard| shard.is_active())
        .count();
    let migrating = plan.migrating().count() as u64;
    (migrating > 0 && active == usize::from(shards)).then(|| {
        format!(
            "nothing to do: the plan of epoch {} has {} already; {} still migrating, which `loom drain` brings to an end\n",
            plan.epoch(),
            counted(u64::from(shards), "shard"),
            match migrating {
                1 => "1 bucket is".to_owned(),
                many => format!("{} buckets are", count(many)),
            }
        )
    })
}

fn given_urls(args: &Rebalance) -> Result<Vec<StoreUrl>, Failure> {
    let urls = args.add_url.iter().map(|url| {
        StoreUrl::parse(url).map_err(|message| Failure::usage(format!("--add-url: {message}")))
    });
    urls.collect()
}

/// Nothing joins: a url that no shard has would be dropped without a word.
fn refuse_unnamed(deployment: &Deployment, given: &[StoreUrl]) -> Result<(), Failure> {
    let config = &deployment.config;
    let named = |url: &StoreUrl| config.shards.values().any(|shard| shard == url);
    match given.iter().filter(|url| !named(url)).count() {
        0 => Ok(()),
        unnamed => Err(Failure::refused(format!(
            "the deployment grows to that many shards already, and {} of --add-url {} not named in `{}`: no further shard joins",
            counted(unnamed as u64, "url"),
            if unnamed == 1 { "is" } else { "are" },
            config.path.display()
        ))
        .with_help("leave --add-url out, or ask for more shards once no bucket is migrating")),
    }
}

/// Where the shards are that join and that `loom.toml` does not name yet.
fn new_urls(
    deployment: &Deployment,
    joining: &[ShardId],
    mut given: Vec<StoreUrl>,
) -> Result<Vec<(u16, StoreUrl)>, Failure> {
    let config = &deployment.config;
    if let Some(twice) = (1..)
        .zip(&given)
        .find(|(at, url)| given[*at..].contains(*url))
    {
        return Err(Failure::usage(format!(
            "--add-url names `{}` twice",
            twice.1
        )));
    }
    let times = given.len();
    // An earlier run named them, whether it was interrupted or not.
    given.retain(|url| !config.shards.values().any(|named| named == url));
    let unknown: Vec<u16> = joining
        .iter()
        .map(|shard| shard.get())
        .filter(|shard| !config.shards.contains_key(shard))
        .collect();
    if given.len() != unknown.len() && times > 0 {
        return Err(Failure::usage(format!(
            "--add-url: expected a url for each joining shard that `{}` does not name yet, and there {} of those; {} given that it does not name",
            config.path.display(),
            match unknown.len() {
                0 => "is none".to_owned(),
                1 => "is 1".to_owned(),
                many => format!("are {many}"),
            },
            match given.len() {
                0 => "none is".to_owned(),
                1 => "1 is".to_owned(),
                many => format!("{many} are"),
            }
        )));
    }
    if !given.is_empty() {
        return Ok(unknown.into_iter().zip(given).collect());
    }
    // Beside the others: in the folder of the last one that is in a file.
    let beside = config.shards.values().rev().find_map(|url| match url {
        StoreUrl::Sqlite(path) => Some(path),
        StoreUrl::Postgres(_) => None,
    });
    let folder = match beside {
        Some(beside) => beside.parent().unwrap_or(beside),
        None if unknown.is_empty() => return Ok(Vec::new()),
        None => {
            return Err(Failure::usage(format!(
                "where shall {} be? The others are on servers",
                counted(unknown.len() as u64, "joining shard")
            ))
            .with_help("name a url for each with --add-url"));
        }
    };
    Ok(unknown
        .into_iter()
        .map(|shard| (shard, shard_file(folder, shard)))
        .collect())
}
