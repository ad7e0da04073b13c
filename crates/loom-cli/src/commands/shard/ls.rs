//! `loom shard ls`: also when not all of them can be reached.

use std::sync::Arc;

use futures_util::future::join_all;
use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{EventStore as _, PlanEpoch, PlanLedger as _, Records, ShardIdentity};
use serde::Serialize;

use crate::backend::Backend;
use crate::config::Config;
use crate::deployment::open_shards;
use crate::failure::Failure;
use crate::output::{Output, Table, Tone, count};
use crate::source::redact;

/// Records that are listed at a time.
const PAGE: usize = 1024;

#[derive(Serialize)]
struct Report {
    deployment: String,
    /// Of the newest plan that a shard has.
    epoch: Option<u64>,
    shards: Vec<ShardReport>,
}

#[derive(Serialize)]
struct ShardReport {
    shard: u16,
    url: Option<String>,
    reachable: bool,
    /// Why it is not.
    problem: Option<String>,
    /// Which shard of which deployment it says it is.
    identity: Option<String>,
    /// Of the plan that it is under.
    epoch: Option<u64>,
    /// `member`, `leaving`, or `spare`: not in the plan; `unknown` where no plan could be read.
    role: &'static str,
    /// Buckets that it takes new executions of.
    buckets: u32,
    /// Buckets that migrate away from it.
    departing: usize,
    /// Executions, fences and lineage that it holds, by id.
    records: Option<u64>,
}

struct Found {
    identity: Option<ShardIdentity>,
    epoch: Option<PlanEpoch>,
    plan: Option<ShardPlan>,
    records: u64,
}

pub(crate) async fn run(config: &Config, output: Output) -> Result<(), Failure> {
    let opened = open_shards(config).await;
    let found = join_all(opened.into_iter().map(|(shard, opened)| async move {
        let found = match opened {
            Ok(store) => look(&store).await,
            Err(failure) => Err(failure),
        };
        (shard, found)
    }))
    .await;
    let plans = found.iter().filter_map(|(_, found)| found.as_ref().ok());
    let newest = plans
        .filter_map(|found| found.plan.clone())
        .max_by_key(ShardPlan::epoch);
    let mut shards: Vec<ShardReport> = found
        .into_iter()
        .map(|(shard, found)| report(config, newest.as_ref(), shard, found))
        .collect();
    // Joined by another machine's deployment file.
    for member in newest.iter().flat_map(ShardPlan::shards) {
        let shard = member.id().get();
        if !config.shards.contains_key(&shard) {
            let problem = format!("`{}` does not say where it is", config.path.display());
            let found = Err(Failure::failed(problem));
            shards.push(report(config, newest.as_ref(), shard, found));
        }
    }
    shards.sort_by_key(|shard| shard.shard);
    let report = Report {
        deployment: config.deployment.to_string(),
        epoch: newest.map(|plan| plan.epoch()),
        shards,
    };
    output.print(&report, |output| report.text(output))
}

async fn look(store: &Arc<Backend>) -> Result<Found, Failure> {
    let result = ask(store).await;
    // What was asked is answered; closing only tidies up.
    let _ = store.close().await;
    result
}

async fn ask(store: &Backend) -> Result<Found, Failure> {
    let published = store.current().await?;
    let epoch = published.as_ref().map(|plan| plan.epoch);
    let mut records = 0;
    if let Some(relocation) = store.capabilities().relocation {
        let mut cursor = None;
        loop {
            let request = Records::new(PAGE).with_epoch(epoch).with_cursor(cursor);
            let page = relocation.records(request).await?;
            records += page.records.len() as u64;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(Found {
        identity: store.identity().await?,
        epoch,
        plan: published.and_then(|plan| ShardPlan::from_bytes(&plan.bytes).ok()),
        records,
    })
}

fn report(
    config: &Config,
    plan: Option<&ShardPlan>,
    shard: u16,
    found: Result<Found, Failure>,
) -> ShardReport {
    let id = ShardId(shard);
    let departing = plan.map_or(0, |plan| {
        plan.migrating().filter(|bucket| bucket.from == id).count()
    });
    let (found, problem) = match found {
        Ok(found) => (Some(found), None),
        Err(failure) => {
            let text = failure.to_string();
            let first = text.lines().next().unwrap_or_default();
            (None, Some(first.trim_start_matches("error: ").to_owned()))
        }
    };
    ShardReport {
        shard,
        url: config
            .shards
            .get(&shard)
            .map(|url| redact(&url.to_string())),
        reachable: found.is_some(),
        problem,
        identity: found
            .as_ref()
            .and_then(|found| found.identity.as_ref())
            .map(ToString::to_string),
        epoch: found
            .as_ref()
            .and_then(|found| found.epoch)
            .map(|epoch| epoch.epoch),
        role: match plan.and_then(|plan| plan.shard(id)) {
            None if plan.is_none() && found.is_none() => "unknown",
            None => "spare",
            Some(shard) if shard.is_leaving() => "leaving",
            Some(_) => "member",
        },
        buckets: plan.map_or(0, |plan| plan.buckets_of(id).len()),
        departing,
        records: found.map(|found| found.records),
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let mut text = match self.epoch {
            Some(epoch) => format!("deployment {}, plan epoch {epoch}\n\n", self.deployment),
            None if self.shards.iter().any(|shard| !shard.reachable) => {
                format!("deployment {}, plan unknown\n\n", self.deployment)
            }
            None => format!("deployment {}, no plan\n\n", self.deployment),
        };
        let mut table = Table::new(&[
            ">shard",
            "where",
            "role",
            ">epoch",
            ">buckets",
            ">departing",
            ">records",
        ]);
        for shard in &self.shards {
            let or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), count);
            table.row([
                shard.shard.to_string(),
                shard.url.clone().unwrap_or_default(),
                shard.role.to_owned(),
                or_dash(shard.epoch),
                count(u64::from(shard.buckets)),
                count(shard.departing as u64),
                or_dash(shard.records),
            ]);
        }
        text.push_str(&table.render(output));
        for shard in &self.shards {
            if let Some(problem) = &shard.problem {
                text.push_str(&format!(
                    "{} shard {}: {problem}\n",
                    output.paint(Tone::Bad, "unreachable"),
                    shard.shard
                ));
            }
            let behind = shard.epoch.zip(self.epoch);
            if let Some((has, newest)) = behind.filter(|(has, newest)| has + 1 < *newest)
                && shard.role != "spare"
            {
                text.push_str(&format!(
                    "{} shard {} is under epoch {has}, and the others under {newest}: it was restored from a backup; see `loom repair {}`\n",
                    output.paint(Tone::Warn, "behind"),
                    shard.shard,
                    shard.shard
                ));
            }
        }
        text
    }
}
