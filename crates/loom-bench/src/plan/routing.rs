//! Looking ids up, and what a new node moves.

use std::time::Duration;

use loom_shard_plan::{RebalanceOptions, ShardPlan};

use super::SUITE;
use super::peers::{PEERS, Router};
use crate::report::{Row, Target};
use crate::timing::{Ratio, pair};

/// Ids of a lookup round.
const IDS: u32 = 20_000;

/// Ids of a movement count.
const SAMPLE: u32 = 100_000;

/// 36 bytes each, as long as a UUID. They live as long as the program, as some peers' keys must.
fn ids(count: u32) -> Vec<&'static str> {
    let id = |n: u32| format!("execution-{:08x}-{n:017}", n.wrapping_mul(0x9e37_79b9));
    (0..count).map(|n| &*id(n).leak()).collect()
}

/// Routes one id after the other, beside each peer.
pub(super) fn lookups(shards: u16) -> Vec<Row> {
    let Ok(plan) = ShardPlan::new(shards) else {
        return Vec::new();
    };
    let ids = ids(IDS);
    PEERS
        .iter()
        .map(|peer| {
            let route = (peer.build)(u32::from(shards));
            let timed = pair(|| route_all(&plan, &ids), || route_all_by(&route, &ids));
            let note = format!("{} against {} an id", each(timed.ours), each(timed.theirs));
            let what = format!("route a 36-byte id, N = {shards}");
            Row::new(
                SUITE,
                what,
                peer.name,
                timed.ratio,
                Some(Target::AtMost(0.25)),
                note,
            )
        })
        .collect()
}

/// Ids of a batch: as many as a request might bring.
const BATCH: usize = 256;

/// Routes ids in batches, beside one after the other; both add the destinations up.
pub(super) fn batches(shards: u16) -> Option<Row> {
    let plan = ShardPlan::new(shards).ok()?;
    let ids = ids(IDS);
    let mut placements = Vec::with_capacity(BATCH);
    let timed = pair(
        || {
            ids.chunks(BATCH)
                .map(|ids| {
                    plan.route_batch(ids, &mut placements);
                    placements
                        .iter()
                        .map(|placement| u64::from(placement.destination().0))
                        .sum::<u64>()
                })
                .sum::<u64>()
        },
        || route_all(&plan, &ids),
    );
    let note = format!("{} against {} an id", each(timed.ours), each(timed.theirs));
    Some(Row::new(
        SUITE,
        format!("route {BATCH} ids at once, N = {shards}"),
        "one at a time",
        timed.ratio,
        Some(Target::Below(1.0)),
        note,
    ))
}

fn route_all(plan: &ShardPlan, ids: &[&'static str]) -> u64 {
    ids.iter()
        .map(|id| u64::from(plan.route_id(id).destination().0))
        .sum()
}

fn route_all_by(route: &Router, ids: &[&'static str]) -> u64 {
    ids.iter().map(|id| u64::from(route(id))).sum()
}

fn each(all: Duration) -> String {
    format!("{:.1} ns", all.as_secs_f64() * 1e9 / f64::from(IDS))
}

/// What the fullest and the emptiest shard have of the sample, over their fair share.
fn spread(plan: &ShardPlan) -> (f64, f64) {
    let mut load = vec![0_u32; plan.shards().len()];
    for id in ids(SAMPLE) {
        if let Some(load) = load.get_mut(usize::from(plan.route_id(id).destination().0)) {
            *load += 1;
        }
    }
    let fair = f64::from(SAMPLE) / f64::from(u32::try_from(load.len()).unwrap_or(u32::MAX));
    let over_fair = |load: Option<&u32>| f64::from(load.copied().unwrap_or_default()) / fair;
    (over_fair(load.iter().max()), over_fair(load.iter().min()))
}

/// What share of the ids moves when one node joins, as a multiple of the least that must.
pub(super) fn movement(from: u16, to: u16) -> Vec<Row> {
    let Ok(plan) = ShardPlan::new(from) else {
        return Vec::new();
    };
    let Ok(grown) = plan.rebalanced(to, RebalanceOptions::default()) else {
        return Vec::new();
    };
    let what = format!("movement {from} -> {to}");
    let least = f64::from(to - from) / f64::from(to);
    // Whole buckets move: the least is what the joining shards' targets come to.
    let buckets = plan.bucket_count();
    let moved = u32::try_from(grown.migrating().count()).unwrap_or(u32::MAX);
    let minimum = buckets / u32::from(to) * u32::from(to - from);
    let held = |shard: &loom_shard_plan::Shard| grown.buckets_of(shard.id()).len();
    let most = grown.shards().iter().map(held).max().unwrap_or_default();
    let fewest = grown.shards().iter().map(held).min().unwrap_or_default();
    let mut rows = vec![
        Row::new(
            SUITE,
            &*what,
            "the least possible",
            Ratio::exact(f64::from(moved) / f64::from(minimum)),
            Some(Target::Exactly(1.0)),
            {
                // As the peers' are: by ids, not by buckets.
                let (most, fewest) = spread(&grown);
                format!(
                    "{moved} of {buckets} buckets; fullest node {most:.2} x fair, emptiest {fewest:.2} x"
                )
            },
        ),
        Row::new(
            SUITE,
            format!("skew after {from} -> {to}"),
            "one bucket",
            Ratio::exact(f64::from(most - fewest)),
            Some(Target::AtMost(1.0)),
            format!("{fewest} to {most} buckets a shard"),
        ),
    ];
    let ids = ids(SAMPLE);
    for peer in PEERS.iter().filter(|peer| peer.moves_by_itself) {
        let (old, new) = ((peer.build)(u32::from(from)), (peer.build)(u32::from(to)));
        let mut load = vec![0_u32; usize::from(to)];
        let mut moved = 0_u32;
        for id in &ids {
            let node = new(id);
            moved += u32::from(old(id) != node);
            if let Some(load) = load.get_mut(node as usize) {
                *load += 1;
            }
        }
        let share = f64::from(moved) / f64::from(SAMPLE);
        let fair = f64::from(SAMPLE) / f64::from(to);
        let most = f64::from(load.iter().copied().max().unwrap_or_default()) / fair;
        let fewest = f64::from(load.iter().copied().min().unwrap_or_default()) / fair;
        rows.push(Row::new(
            SUITE,
            format!("{what}: {} instead", peer.name),
            "the least possible",
            Ratio::exact(share / least),
            None,
            format!(
                "{:.1} % of ids; fullest node {most:.2} x fair, emptiest {fewest:.2} x",
                share * 100.0
            ),
        ));
    }
    rows
}
