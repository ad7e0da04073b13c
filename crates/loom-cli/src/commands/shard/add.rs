//! `loom shard add`.

use serde_json::json;

use super::super::joining::create;
use crate::args::AddShard;
use crate::config::StoreUrl;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone};
use crate::source::redact;

pub(crate) async fn run(
    args: &AddShard,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let url = StoreUrl::parse(&args.url)
        .map_err(|message| Failure::usage(format!("the url of the shard: {message}")))?;
    let config = &deployment.config;
    let place = url.place(config.folder());
    let listed = config
        .shards
        .iter()
        .find(|(_, listed)| listed.place(config.folder()) == place);
    if let Some((&shard, _)) = listed {
        if args.id.is_some_and(|id| id != shard) {
            return Err(Failure::refused(format!(
                "`{}` is shard {shard} already",
                redact(&args.url)
            )));
        }
        return report(output, shard, &url, false);
    }
    let shard = match args.id {
        Some(id) => id,
        None => next_id(deployment)?,
    };
    if config.shards.contains_key(&shard) {
        return Err(
            Failure::refused(format!("there is a shard {shard} already, at another url"))
                .with_help("`loom shard ls` lists them; leave --id out for the next free one"),
        );
    }
    create(deployment, &[(shard, url.clone())]).await?;
    report(output, shard, &url, true)
}

/// The one after the highest that the file or the plan names.
fn next_id(deployment: &Deployment) -> Result<u16, Failure> {
    let planned = deployment
        .plan()?
        .shards()
        .last()
        .map(|shard| shard.id().get());
    let listed = deployment.config.shards.keys().next_back().copied();
    match planned.max(listed) {
        None => Ok(0),
        Some(highest) => highest.checked_add(1).ok_or_else(|| {
            Failure::usage("the highest shard id is taken").with_help("choose a free one with --id")
        }),
    }
}

fn report(output: Output, shard: u16, url: &StoreUrl, added: bool) -> Result<(), Failure> {
    let url = redact(&url.to_string());
    let document = json!({ "shard": shard, "url": url, "added": added });
    output.print(&document, |output| {
        if added {
            format!(
                "{} shard {shard} at `{url}`; nothing is routed to it before `loom rebalance --add {shard}`\n",
                output.paint(Tone::Good, "added")
            )
        } else {
            format!("nothing to do: `{url}` is shard {shard} already\n")
        }
    })
}
