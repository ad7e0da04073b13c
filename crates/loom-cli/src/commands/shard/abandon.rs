//! `loom shard abandon`: without the shard, and without a store over all of them.

use std::fmt::Write as _;
use std::sync::Arc;

use loom_shard_plan::ShardId;
use loom_sharded_store::{AbandonError, Abandonment, Loss};
use loom_spi::{EventStore, Records};
use serde_json::json;

use super::super::change::{answer, can_ask, warn_unreached};
use crate::args::Abandon;
use crate::backend::Backend;
use crate::config::{Config, StoreUrl, remove_shard};
use crate::deployment::{Survivors, is_another, is_there, open_at, open_shards, under_own_plan};
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, write_stderr};
use crate::source::redact;

pub(crate) async fn run(args: &Abandon, config: &Config, output: Output) -> Result<(), Failure> {
    let shard = args.shard;
    let mut there = None;
    let mut remaining = Vec::new();
    for (id, opened) in open_shards(config).await {
        match opened {
            Ok(store) if id == shard => there = Some(store),
            Ok(store) => remaining.push((id, store)),
            // Unless it is something else, that is why it is given up.
            Err(failure) if id == shard => refuse_present(shard, failure)?,
            Err(failure) => {
                return Err(failure.context(format_args!(
                    "to give shard {shard} up, all the others have to answer"
                )));
            }
        }
    }
    let survivors = Survivors::new(config, remaining);
    let result = abandon(args, config, there, &survivors, output).await;
    survivors.close().await;
    result
}

/// Refuses to give up a shard of which there is a sign where it should be.
fn refuse_present(shard: u16, failure: Failure) -> Result<(), Failure> {
    let (there, another) = (is_there(&failure), is_another(&failure));
    let reason = failure.without_help().to_string();
    let reason = reason.trim_start_matches("error: ").to_owned();
    if there {
        return Err(Failure::refused(format!(
            "shard {shard} is there and cannot be opened now: give up only what is gone for good"
        ))
        .with_cause(reason));
    }
    if another {
        return Err(Failure::refused(format!(
            "something else is where `loom.toml` says that shard {shard} is: the shard may be alive, at another url"
        ))
        .with_cause(reason)
        .with_help(format!(
            "correct the url of shard {shard}; if the shard is gone for good, and another store has taken its place, name a file that is not there"
        )));
    }
    Ok(())
}

/// Refuses to give up a shard that answers where the others say that it is, whatever `loom.toml` says.
async fn refuse_elsewhere(
    config: &Config,
    shard: u16,
    survivors: &Survivors,
) -> Result<(), Failure> {
    let named = config.shards.get(&shard);
    let known = named.map(|url| url.place(config.folder()));
    for location in survivors.locations(shard).await? {
        let Ok(url) = StoreUrl::parse(&location) else {
            continue;
        };
        if known.as_ref() == Some(&url.place(config.folder())) {
            continue;
        }
        match open_at(config, shard, &url).await {
            Ok(store) => store.close().await?,
            Err(failure) if is_there(&failure) => {}
            Err(_) => continue,
        }
        let named = named.map_or_else(
            || "does not name it".to_owned(),
            |url| format!("says `{}`", redact(&url.to_string())),
        );
        let right = redact(&location);
        return Err(Failure::refused(format!(
            "shard {shard} is alive, at `{right}`, where the other shards say that it is; `loom.toml` {named}"
        ))
        .with_help(format!(
            "write `url = \"{right}\"` for shard {shard}; if that is an old copy of it, take the copy away first"
        )));
    }
    Ok(())
}

async fn abandon(
    args: &Abandon,
    config: &Config,
    there: Option<Arc<Backend>>,
    survivors: &Survivors,
    output: Output,
) -> Result<(), Failure> {
    let shard = args.shard;
    if there.is_none() {
        refuse_elsewhere(config, shard, survivors).await?;
    }
    let prepared = Abandonment::prepare(
        config.deployment.clone(),
        ShardId(shard),
        there
            .iter()
            .map(|store| Arc::clone(store) as Arc<dyn EventStore>),
        survivors.stores(),
        Some(survivors.connect()),
    )
    .await;
    let abandonment = match prepared {
        Ok(abandonment) => abandonment,
        // Given up before, by a command that was interrupted perhaps; or never used.
        Err(AbandonError::NotInPlan { epoch, .. }) if config.shards.contains_key(&shard) => {
            if let Some(store) = &there {
                refuse_used(shard, &**store).await?;
            }
            remove_shard(config, shard)?;
            let document = json!({ "shard": shard, "epoch": epoch, "lost_buckets": 0, "lost_share": 0.0, "published": false });
            return output.print(&document, |_| {
                format!(
                    "shard {shard} is not in the plan of epoch {epoch}: it was taken out of `{}`\n",
                    config.path.display()
                )
            });
        }
        Err(error) => return Err(refusal(shard, error)),
    };
    confirm(args, config, &abandonment, output)?;
    let (loss, epoch) = (abandonment.loss().clone(), abandonment.next().epoch());
    let published = abandonment.publish().await?;
    warn_unreached(&published);
    let removed = remove_shard(config, shard);
    let document = json!({
        "shard": shard,
        "epoch": epoch,
        "lost_buckets": loss.buckets(),
        "lost_share": loss.share(),
        "settled": &loss.settled,
        "arriving": &loss.arriving,
        "departing": &loss.departing,
        "published": true,
    });
    output.print(&document, |output| {
        format!(
            "{} shard {shard}; published epoch {epoch}, in which its {} are on the others\n",
            output.paint(Tone::Warn, "gave up"),
            counted(u64::from(loss.buckets()), "bucket")
        )
    })?;
    removed.map(drop)
}

/// Refuses to forget where a shard is that is no member and holds something all the same.
async fn refuse_used(shard: u16, store: &dyn EventStore) -> Result<(), Failure> {
    let Some(relocation) = store.capabilities().relocation else {
        return Ok(());
    };
    let page = under_own_plan(store, async |epoch| {
        relocation.records(Records::new(1).with_epoch(epoch)).await
    });
    match page.await?.records.first() {
        None => Ok(()),
        Some(record) => Err(Failure::refused(format!(
            "shard {shard} is not in the plan, so that there is nothing to give up; it still holds `{}`, from before it left",
            record.id
        ))
        .with_help(format!(
            "`loom repair {shard}` takes what is nowhere else to where it belongs, and leaves the shard empty"
        ))),
    }
}

fn confirm(
    args: &Abandon,
    config: &Config,
    abandonment: &Abandonment,
    output: Output,
) -> Result<(), Failure> {
    let report = lost(args.shard, abandonment.loss());
    write_stderr(&report);
    if args.yes_lose_data {
        return Ok(());
    }
    if !can_ask(output) {
        return Err(Failure::refused(
            "this loses data for good, and there is no terminal to ask on: nothing was changed",
        )
        .with_help("read the report above, then say --yes-lose-data"));
    }
    let name = config.deployment.as_str();
    let typed = answer(&format!(
        "To give it up, type the deployment's name, {name}: "
    ))?;
    if typed == name {
        Ok(())
    } else {
        Err(Failure::refused(
            "that is not the deployment's name: nothing was changed",
        ))
    }
}

/// What is lost, for people.
fn lost(shard: u16, loss: &Loss) -> String {
    // Writing to a String cannot fail.
    let mut text = format!(
        "giving up shard {shard} loses what only it holds, in {} of {} buckets, which is about {:.1} % of the executions:\n",
        count(u64::from(loss.buckets())),
        count(u64::from(loss.of)),
        100.0 * loss.share()
    );
    for (buckets, what) in [
        (&loss.settled, "settled there: everything in them is lost"),
        (
            &loss.arriving,
            "migrating to it: what has moved or began there is lost, what is on the source is kept",
        ),
        (
            &loss.departing,
            "migrating away from it: what has not moved yet is lost",
        ),
    ] {
        if !buckets.is_empty() {
            let _ = writeln!(
                text,
                "  {} ({buckets}) {what}",
                counted(u64::from(buckets.len()), "bucket")
            );
        }
    }
    text.push_str(
        "be sure that it is stopped for good: until they notice, processes that reach it go on writing to it\n",
    );
    text
}

fn refusal(shard: u16, error: AbandonError) -> Failure {
    let text = error.to_string();
    match error {
        AbandonError::Store(error) => error.into(),
        AbandonError::Shards(error) => error.into(),
        AbandonError::Answers { .. } => Failure::refused(text).with_help(format!(
            "`loom rebalance --remove {shard}`, then `loom drain --live --until-settled`; if it was restored from a backup, `loom repair {shard}`"
        )),
        AbandonError::NotInPlan { .. } => {
            Failure::usage(text).with_help("`loom shard ls` lists the members")
        }
        error => Failure::refused(text).with_cause(error),
    }
}
