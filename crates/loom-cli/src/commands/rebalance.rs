//! `loom rebalance`.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _};

use loom_shard_plan::{PlanDiff, PlanError, RebalanceOptions, ShardId, ShardPlan};
use loom_spi::ShardLocation;
use serde_json::json;

use super::init::shard_file;
use crate::args::Rebalance;
use crate::config::{StoreUrl, add_shards};
use crate::deployment::{Deployment, create_shard};
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, write_stderr};

/// The new shards are created first, then `loom.toml` names them, then the plan is published: wherever it is
/// interrupted, every process can reach what its plan names, and running it again goes on.
pub(super) async fn run(
    args: &Rebalance,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let plan = deployment.plan()?;
    if let Some(text) = under_way(&plan, args.shards) {
        // Run again, for want of an answer perhaps: what was asked for is what is happening.
        let diff = plan.diff(&plan).map_err(refusal)?;
        return report(output, &plan, &diff, false, |_| text);
    }
    let options = RebalanceOptions::default().allow_shrink(args.allow_shrink);
    let next = plan.rebalanced(args.shards, options).map_err(refusal)?;
    let diff = plan.diff(&next).map_err(refusal)?;
    let joining: Vec<ShardId> = diff.joins().collect();
    let new = new_urls(args, deployment, &joining)?;
    if diff.is_no_change() {
        return report(output, &plan, &diff, false, |_| {
            format!(
                "nothing to do: the plan of epoch {} has {} already, and no bucket has to move\n",
                plan.epoch(),
                counted(u64::from(args.shards), "shard")
            )
        });
    }
    if args.dry_run {
        return report(output, &next, &diff, false, |_| {
            format!("{diff}\nnothing was changed: this was a dry run\n")
        });
    }
    confirm(args, output, &diff)?;
    create(deployment, &new).await?;
    let published = deployment.store.publish(next.clone()).await.map_err(|error| {
        let failure = Failure::from(error);
        match new.len() {
            0 => failure,
            new => failure.context(format_args!(
                "{} created and named in `{}`, but no plan that uses them was published; run it again to go on",
                counted(new as u64, "shard"),
                deployment.config.path.display()
            )),
        }
    })?;
    for (shard, error) in &published.unreached {
        write_stderr(&format!(
            "warning: shard {shard} was not told yet ({error}); nothing more can be published before it is\n"
        ));
    }
    report(output, &next, &diff, true, |output| {
        let mut text = String::new();
        if args.yes {
            text.push_str(&format!("{diff}\n"));
        }
        text.push_str(&format!(
            "{} epoch {}: {} of {} buckets are migrating\n",
            output.paint(Tone::Good, "published"),
            next.epoch(),
            count(next.migrating().count() as u64),
            count(u64::from(next.bucket_count()))
        ));
        text
    })
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

/// Where the shards are that join and that `loom.toml` does not name yet.
fn new_urls(
    args: &Rebalance,
    deployment: &Deployment,
    joining: &[ShardId],
) -> Result<Vec<(u16, StoreUrl)>, Failure> {
    let config = &deployment.config;
    let unknown: Vec<u16> = joining
        .iter()
        .map(|shard| shard.get())
        .filter(|shard| !config.shards.contains_key(shard))
        .collect();
    if !args.add_url.is_empty() && args.add_url.len() != unknown.len() {
        return Err(Failure::usage(format!(
            "--add-url is given {} times: expected one for each of the {} that `{}` does not name yet",
            args.add_url.len(),
            counted(unknown.len() as u64, "joining shard"),
            config.path.display()
        )));
    }
    let given: Result<Vec<StoreUrl>, Failure> = args
        .add_url
        .iter()
        .map(|url| {
            StoreUrl::parse(url).map_err(|message| Failure::usage(format!("--add-url: {message}")))
        })
        .collect();
    let given = given?;
    // Beside the others: in the folder of the last one.
    let Some(StoreUrl::Sqlite(beside)) = config.shards.values().next_back() else {
        return Ok(Vec::new());
    };
    let folder = beside.parent().unwrap_or(beside);
    let new = unknown.iter().enumerate();
    Ok(new
        .map(|(place, &shard)| {
            let url = given.get(place).cloned();
            (shard, url.unwrap_or_else(|| shard_file(folder, shard)))
        })
        .collect())
}

async fn create(deployment: &Deployment, new: &[(u16, StoreUrl)]) -> Result<(), Failure> {
    let config = &deployment.config;
    for (shard, url) in new {
        if let Some(folder) = url.file(config.folder()).parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, error))?;
        }
        let store = create_shard(config, *shard, url).await?;
        deployment.add_shard(*shard, store).await?;
    }
    if !new.is_empty() {
        add_shards(config, new)?;
        let locations = config.shards.iter().map(|(shard, url)| (*shard, url));
        let locations = locations.chain(new.iter().map(|(shard, url)| (*shard, url)));
        let locations = locations.map(|(shard, url)| ShardLocation::new(shard, url.to_string()));
        deployment
            .store
            .record_locations(locations.collect())
            .await?;
    }
    Ok(())
}

fn refusal(error: PlanError) -> Failure {
    let help = match &error {
        PlanError::StillMigrating { .. } => Some(
            "`loom drain` moves what may move and settles what is empty; `loom status` shows what is left",
        ),
        PlanError::ShrinkNotAllowed { .. } => Some("say --allow-shrink if that is meant"),
        _ => None,
    };
    let failure = match &error {
        PlanError::NoActiveShard | PlanError::MoreShardsThanBuckets { .. } => {
            Failure::usage(error.to_string())
        }
        _ => Failure::refused(error.to_string()),
    };
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

/// Asks on a terminal; without one somebody has to have said yes before.
fn confirm(args: &Rebalance, output: Output, diff: &PlanDiff) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if output.json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::refused(
            "this changes where executions live, and there is no terminal to ask on: nothing was changed",
        )
        .with_help("look at it with --dry-run, then run it with --yes"));
    }
    write_stderr(&format!("{diff}\nPublish this plan? [y/N] "));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed("cannot read the answer").with_cause(error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::refused(
            "the answer was not yes: nothing was changed",
        )),
    }
}

fn report(
    output: Output,
    plan: &ShardPlan,
    diff: &PlanDiff,
    published: bool,
    text: impl FnOnce(Output) -> String,
) -> Result<(), Failure> {
    let document = json!({
        "epoch": plan.epoch(),
        "buckets": plan.bucket_count(),
        "moved": diff.moved().len(),
        "moved_fraction": diff.moved_fraction(),
        "migrating": plan.migrating().count(),
        "joins": diff.joins().collect::<Vec<_>>(),
        "leaves": diff.leaves().collect::<Vec<_>>(),
        "published": published,
    });
    output.print(&document, text)
}
