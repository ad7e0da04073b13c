//! What a rebalance should come to, by the definition and in the slowest way: nothing here is shared
//! with what it checks.

use std::collections::BTreeMap;

use loom_shard_plan::{Placement, Shard, ShardId, ShardPlan, Topology};

/// The fair share of a member as a fraction, or the exact number if pins decide.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Share {
    Pinned(u64),
    Fair { numerator: u128, denominator: u128 },
}

impl Share {
    /// The share rounded down and rounded up.
    pub(crate) fn bounds(self) -> (u64, u64) {
        match self {
            Self::Pinned(exactly) => (exactly, exactly),
            Self::Fair {
                numerator,
                denominator,
            } => (
                u64::try_from(numerator / denominator).unwrap(),
                u64::try_from(numerator.div_ceil(denominator)).unwrap(),
            ),
        }
    }

    /// What rounding down takes away. All fractions of a topology have one denominator.
    pub(crate) fn remainder(self) -> u128 {
        match self {
            Self::Pinned(_) => 0,
            Self::Fair {
                numerator,
                denominator,
            } => numerator % denominator,
        }
    }
}

pub(crate) type Counts = BTreeMap<ShardId, u64>;

/// What each member should have.
pub(crate) fn shares(buckets: u32, topology: &Topology) -> BTreeMap<ShardId, Share> {
    let mut pins = Counts::new();
    for (_, shard) in topology.pins() {
        *pins.entry(shard).or_default() += 1;
    }
    let pinned = |id: ShardId| number(&pins, id);
    let mut free: Vec<_> = topology.members().to_vec();
    let mut shares = BTreeMap::new();
    let mut rest = u128::from(buckets);
    loop {
        let denominator: u128 = free.iter().map(|shard| u128::from(shard.weight())).sum();
        let over = free.iter().position(|shard| {
            let weight = u128::from(shard.weight());
            weight == 0 || u128::from(pinned(shard.id())) * denominator > weight * rest
        });
        let Some(at) = over else {
            for shard in free {
                let numerator = u128::from(shard.weight()) * rest;
                let share = Share::Fair {
                    numerator,
                    denominator,
                };
                shares.insert(shard.id(), share);
            }
            return shares;
        };
        let shard = free.remove(at);
        rest -= u128::from(pinned(shard.id()));
        shares.insert(shard.id(), Share::Pinned(pinned(shard.id())));
    }
}

/// How many buckets every shard takes new executions of.
pub(crate) fn counts(plan: &ShardPlan) -> Counts {
    plan.loads()
        .into_iter()
        .map(|load| (load.shard, u64::from(load.buckets())))
        .collect()
}

pub(crate) fn number(of: &Counts, id: ShardId) -> u64 {
    of.get(&id).copied().unwrap_or(0)
}

/// Whether every member has its share, rounded down or up, and all together have all buckets.
pub(crate) fn is_fair(counts: &Counts, buckets: u32, topology: &Topology) -> bool {
    let within = |(id, share): (ShardId, Share)| {
        let (least, most) = share.bounds();
        (least..=most).contains(&number(counts, id))
    };
    shares(buckets, topology).into_iter().all(within)
        && counts.values().sum::<u64>() == u64::from(buckets)
}

/// What every shard has when the pinned buckets have gone where they belong, and how many went.
pub(crate) fn once_pinned(old: &ShardPlan, topology: &Topology) -> (Counts, u64) {
    let mut held = counts(old);
    let mut went = 0;
    for (bucket, to) in topology.pins() {
        let from = old.placement(bucket).unwrap().destination();
        if from != to {
            *held.get_mut(&from).unwrap() -= 1;
            *held.entry(to).or_default() += 1;
            went += 1;
        }
    }
    (held, went)
}

/// The fewest moves that lead from `old` to these counts: the pinned buckets go, and then every
/// shard loses what it has too much.
pub(crate) fn moves_to(old: &ShardPlan, topology: &Topology, wanted: &Counts) -> u64 {
    let (held, went) = once_pinned(old, topology);
    let excess = |(id, held): (&ShardId, &u64)| held.saturating_sub(number(wanted, *id));
    went + held.iter().map(excess).sum::<u64>()
}

/// The fewest moves that lead from `old` to any fair counts: over all ways to choose the shares that
/// are rounded up, by how many have been so far.
pub(crate) fn fewest_moves(old: &ShardPlan, topology: &Topology) -> u64 {
    let (held, went) = once_pinned(old, topology);
    let shares = shares(old.bucket_count(), topology);
    let whole: u64 = shares.values().map(|share| share.bounds().0).sum();
    let to_round_up = usize::try_from(u64::from(old.bucket_count()) - whole).unwrap();
    let gone: u64 = held
        .iter()
        .filter(|(id, _)| !shares.contains_key(id))
        .map(|(_, held)| held)
        .sum();
    // By how many shares are rounded up: the fewest moves.
    let mut fewest = vec![None; to_round_up + 1];
    fewest[0] = Some(went + gone);
    for (id, share) in &shares {
        let (down, up) = share.bounds();
        let lost = |wanted: u64| number(&held, *id).saturating_sub(wanted);
        for rounded_up in (0..=to_round_up).rev() {
            let not_this = fewest[rounded_up].map(|moves| moves + lost(down));
            let this = rounded_up
                .checked_sub(1)
                .filter(|_| up > down)
                .and_then(|before| fewest[before].map(|moves: u64| moves + lost(up)));
            fewest[rounded_up] = not_this.into_iter().chain(this).min();
        }
    }
    // Fractions add up to what is left of the buckets.
    fewest[to_round_up].unwrap()
}

/// All ways to share `buckets` out to the members, fair or not.
pub(crate) fn distributions(buckets: u32, topology: &Topology) -> Vec<Counts> {
    let Some((last, others)) = topology.members().split_last() else {
        return Vec::new();
    };
    let mut partial = vec![(u64::from(buckets), Counts::new())];
    for member in others {
        partial = partial
            .into_iter()
            .flat_map(|(left, counts)| {
                (0..=left).map(move |taken| {
                    let mut counts = counts.clone();
                    counts.insert(member.id(), taken);
                    (left - taken, counts)
                })
            })
            .collect();
    }
    let complete = |(left, mut counts): (u64, Counts)| {
        counts.insert(last.id(), left);
        counts
    };
    partial.into_iter().map(complete).collect()
}

/// All ways to give the buckets to the members that heed the pins, fair or not.
pub(crate) fn assignments(
    plan: &ShardPlan,
    topology: &Topology,
) -> impl Iterator<Item = Vec<ShardId>> {
    let members: Vec<ShardId> = topology.members().iter().map(Shard::id).collect();
    let pins: BTreeMap<u32, ShardId> = topology.pins().collect();
    let buckets = plan.bucket_count();
    (0..members.len().pow(buckets)).filter_map(move |mut number| {
        let owners: Vec<ShardId> = (0..buckets)
            .map(|_| {
                let owner = members[number % members.len()];
                number /= members.len();
                owner
            })
            .collect();
        pins.iter()
            .all(|(bucket, shard)| owners[*bucket as usize] == *shard)
            .then_some(owners)
    })
}

/// How many buckets have another owner than in `plan`.
pub(crate) fn moves_of(plan: &ShardPlan, owners: &[ShardId]) -> u64 {
    let old = plan.placements().map(Placement::destination);
    old.zip(owners)
        .map(|(old, new)| u64::from(old != *new))
        .sum()
}

pub(crate) fn counts_of(owners: &[ShardId]) -> Counts {
    let mut counts = Counts::new();
    for owner in owners {
        *counts.entry(*owner).or_default() += 1;
    }
    counts
}
