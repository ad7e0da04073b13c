//! Where requests go under one plan, or under none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loom_shard_plan::{HashFunction, Placement, ShardId, ShardPlan};
use loom_spi::{PlanEpoch, PlanFingerprint, RouteFilter, RouteHash};

use crate::OpenError;
use crate::shard::{Shard, Side};

/// The placement of every execution, and the shards that it names. Never changes: another plan is
/// another routing.
#[derive(Debug)]
pub(crate) struct Routing {
    rule: Rule,
    /// The name of the plan, which every request under it carries.
    epoch: Option<PlanEpoch>,
    /// Ascending by id; at least one, and every one that the rule can name.
    shards: Box<[Shard]>,
    /// By shard id, where it stands in `shards`.
    places: Box<[u16]>,
    /// Shards that some bucket migrates away from.
    sources: Box<[ShardId]>,
    /// Shards that hold a settled bucket, or that one migrates to.
    destinations: Box<[ShardId]>,
}

#[derive(Debug)]
enum Rule {
    /// `hash % shard_count`.
    Unplanned(u64),
    Planned(Planned),
}

#[derive(Debug)]
struct Planned {
    plan: Arc<ShardPlan>,
    /// By bucket, the epoch since which this node has seen its placement unchanged and without a gap.
    /// Empty when no bucket migrates.
    since: Box<[u64]>,
}

/// Where one execution may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route<'a> {
    /// On this shard and nowhere else.
    Settled(Side<'a>),
    /// On either of two.
    Migrating(Sides<'a>),
}

/// The two shards of a migrating bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<'a> {
    pub(crate) source: Side<'a>,
    pub(crate) destination: Side<'a>,
    /// What a cached resolution has to carry to say anything about this bucket.
    pub(crate) since: u64,
}

impl<'a> Sides<'a> {
    /// The side that is not `side`.
    pub(crate) fn other(self, side: Side<'_>) -> Side<'a> {
        if side.id() == self.source.id() {
            self.destination
        } else {
            self.source
        }
    }
}

/// The shards that a listing reads: first all of the sources, then all of the destinations.
#[derive(Debug)]
pub(crate) struct Passes<'a> {
    pub(crate) sources: Vec<Side<'a>>,
    pub(crate) destinations: Vec<Side<'a>>,
}

impl Routing {
    /// Where an execution of this hash may be.
    #[inline]
    pub(crate) fn route(&self, hash: RouteHash) -> Route<'_> {
        match &self.rule {
            Rule::Unplanned(count) => {
                // Below the number of shards, which fits.
                let place = usize::try_from(hash.0 % count).unwrap_or(0);
                Route::Settled(Side::new(&self.shards[place], &None))
            }
            Rule::Planned(planned) => match planned.plan.route(hash.0) {
                Placement::Settled(shard) => Route::Settled(self.side(shard)),
                Placement::Migrating { from, to } => Route::Migrating(Sides {
                    source: self.side(from),
                    destination: self.side(to),
                    since: planned.since[planned.plan.bucket(hash.0) as usize],
                }),
            },
        }
    }

    /// A shard that the rule names.
    #[inline]
    fn side(&self, shard: ShardId) -> Side<'_> {
        let place = self.places[usize::from(shard.get())];
        Side::new(&self.shards[usize::from(place)], &self.epoch)
    }

    /// The plan, if there is one.
    pub(crate) fn plan(&self) -> Option<&Arc<ShardPlan>> {
        match &self.rule {
            Rule::Unplanned(_) => None,
            Rule::Planned(planned) => Some(&planned.plan),
        }
    }

    /// The name of the plan, which every request under it carries.
    #[inline]
    pub(crate) fn epoch(&self) -> Option<PlanEpoch> {
        self.epoch
    }

    /// All shards, ascending by id.
    pub(crate) fn sides(&self) -> impl ExactSizeIterator<Item = Side<'_>> {
        self.shards
            .iter()
            .map(|shard| Side::new(shard, &self.epoch))
    }

    /// The two shards of a bucket, if it is migrating.
    pub(crate) fn sides_of_bucket(&self, bucket: u32) -> Option<Sides<'_>> {
        let Rule::Planned(planned) = &self.rule else {
            return None;
        };
        match planned.plan.placement(bucket)? {
            Placement::Settled(_) => None,
            Placement::Migrating { from, to } => Some(Sides {
                source: self.side(from),
                destination: self.side(to),
                since: *planned.since.get(bucket as usize)?,
            }),
        }
    }

    /// Which shards a listing has to read for the executions that `filter` selects.
    pub(crate) fn passes(&self, filter: Option<RouteFilter>) -> Passes<'_> {
        if let Some(placement) = filter.and_then(|filter| self.only_placement(filter)) {
            return Passes {
                sources: placement
                    .source()
                    .map(|id| self.side(id))
                    .into_iter()
                    .collect(),
                destinations: vec![self.side(placement.destination())],
            };
        }
        let sides = |ids: &[ShardId]| ids.iter().map(|id| self.side(*id)).collect();
        Passes {
            sources: sides(&self.sources),
            destinations: sides(&self.destinations),
        }
    }

    /// The placement that everything `filter` selects has, where the filter is that narrow.
    fn only_placement(&self, filter: RouteFilter) -> Option<Placement> {
        let buckets = match &self.rule {
            Rule::Unplanned(count) => *count,
            Rule::Planned(planned) => u64::from(planned.plan.bucket_count()),
        };
        // Then a hash's residue determines its bucket.
        filter
            .modulus()
            .is_multiple_of(buckets)
            .then(|| self.placement(RouteHash(filter.residue())))
    }

    /// The placement of a hash.
    pub(crate) fn placement(&self, hash: RouteHash) -> Placement {
        match self.route(hash) {
            Route::Settled(side) => Placement::Settled(side.id()),
            Route::Migrating(sides) => Placement::Migrating {
                from: sides.source.id(),
                to: sides.destination.id(),
            },
        }
    }

    /// `hash % shard_count` over shards `0..shard_count`.
    pub(crate) fn unplanned(known: &BTreeMap<ShardId, Shard>) -> Result<Self, OpenError> {
        if known.is_empty() {
            return Err(OpenError::NoShards);
        }
        let mut ids = (0_usize..).zip(known.keys());
        if let Some((_, found)) = ids.find(|(place, id)| usize::from(id.get()) != *place) {
            return Err(OpenError::UnplannedIds { found: *found });
        }
        let shards: Box<[Shard]> = known.values().cloned().collect();
        Ok(Self {
            rule: Rule::Unplanned(shards.len() as u64),
            epoch: None,
            places: places(&shards),
            shards,
            sources: Box::default(),
            destinations: known.keys().copied().collect(),
        })
    }

    /// Routes by `plan`, whose shards have to be among `known`. `before` is the routing that this one
    /// replaces, if any.
    pub(crate) fn planned(
        plan: Arc<ShardPlan>,
        known: &BTreeMap<ShardId, Shard>,
        before: Option<&Self>,
    ) -> Result<Self, OpenError> {
        if plan.hash() != HashFunction::Xxh3_64 {
            return Err(OpenError::HashFunction { found: plan.hash() });
        }
        let mut sources = BTreeSet::new();
        let mut destinations = BTreeSet::new();
        for placement in plan.placements() {
            sources.extend(placement.source());
            destinations.insert(placement.destination());
        }
        let shards = plan.shards().iter().map(|shard| {
            let shard = shard.id();
            known
                .get(&shard)
                .cloned()
                .ok_or(OpenError::MissingShard { shard })
        });
        let shards = shards.collect::<Result<Box<[Shard]>, _>>()?;
        let since = if sources.is_empty() {
            Box::default()
        } else {
            since(&plan, before)
        };
        Ok(Self {
            epoch: Some(plan_epoch(&plan)),
            rule: Rule::Planned(Planned { plan, since }),
            places: places(&shards),
            shards,
            sources: sources.into_iter().collect(),
            destinations: destinations.into_iter().collect(),
        })
    }
}

/// By shard id, its place in `shards`. Ids that are not there are never asked for.
fn places(shards: &[Shard]) -> Box<[u16]> {
    let highest = shards.last().map_or(0, |shard| usize::from(shard.id.get()));
    let mut places = vec![0; highest + 1];
    for (place, shard) in (0..).zip(shards) {
        places[usize::from(shard.id.get())] = place;
    }
    places.into_boxed_slice()
}

/// Since when each bucket has been placed as it is. Where an epoch was missed, or the buckets are others,
/// nothing is known of what happened between, and every placement counts as new.
fn since(plan: &ShardPlan, before: Option<&Routing>) -> Box<[u64]> {
    let known = match before.map(|before| &before.rule) {
        Some(Rule::Planned(before))
            if before.plan.epoch().checked_add(1) == Some(plan.epoch())
                && before.plan.bucket_count() == plan.bucket_count()
                && !before.since.is_empty() =>
        {
            Some(before)
        }
        _ => None,
    };
    let mut since = vec![plan.epoch(); plan.bucket_count() as usize].into_boxed_slice();
    if let Some(before) = known {
        let old = before.plan.placements().zip(&before.since);
        for ((since, now), (old, old_since)) in since.iter_mut().zip(plan.placements()).zip(old) {
            if now == old {
                *since = *old_since;
            }
        }
    }
    since
}

/// The name by which requests refer to a plan.
pub(crate) fn plan_epoch(plan: &ShardPlan) -> PlanEpoch {
    PlanEpoch::new(plan.epoch(), PlanFingerprint(plan.fingerprint().get()))
}

/// Whether `plan` sends every hash where `hash % shard_count` over `shards` shards does.
pub(crate) fn routes_as_unplanned(plan: &ShardPlan, shards: u64) -> bool {
    u64::from(plan.bucket_count()).is_multiple_of(shards)
        && (0_u64..)
            .zip(plan.placements())
            .all(|(bucket, placement)| match placement {
                Placement::Settled(shard) => u64::from(shard.get()) == bucket % shards,
                Placement::Migrating { .. } => false,
            })
}

/// Whether data of `id` may be on `shard`, in the role in which it was read.
pub(crate) fn belongs(placement: Placement, shard: ShardId, as_source: bool) -> bool {
    if as_source {
        placement.source() == Some(shard)
    } else {
        placement.destination() == shard
    }
}

#[cfg(test)]
mod tests {
    use loom_spi::EventStore;
    use loom_store_memory::MemoryStore;

    use super::*;

    fn known(count: u16) -> BTreeMap<ShardId, Shard> {
        let ids = (0..count).map(ShardId);
        let shard = |id| Shard {
            id,
            store: Arc::new(MemoryStore::new()) as Arc<dyn EventStore>,
        };
        ids.map(|id| (id, shard(id))).collect()
    }

    fn since_of(routing: &Routing, bucket: u32) -> u64 {
        routing.sides_of_bucket(bucket).unwrap().since
    }

    #[test]
    fn the_adopting_plan_routes_as_no_plan_does_and_others_do_not() {
        for shards in 1..40 {
            let plan = ShardPlan::adopting(shards).unwrap();
            assert!(routes_as_unplanned(&plan, u64::from(shards)), "{shards}");
        }
        assert!(routes_as_unplanned(&ShardPlan::new(1).unwrap(), 1));
        assert!(!routes_as_unplanned(&ShardPlan::new(2).unwrap(), 2));
        assert!(!routes_as_unplanned(&ShardPlan::adopting(4).unwrap(), 2));
        assert!(!routes_as_unplanned(&ShardPlan::adopting(3).unwrap(), 2));
    }

    #[test]
    fn a_placement_dates_from_the_epoch_that_brought_it_while_no_epoch_is_missed() {
        let known = known(2);
        let plan = |plan: ShardPlan, before: Option<&Routing>| {
            Routing::planned(Arc::new(plan), &known, before).unwrap()
        };
        let first = ShardPlan::with_buckets(1, 4).unwrap();
        let moving = first
            .rebalanced(2, loom_shard_plan::RebalanceOptions::default())
            .unwrap();
        let buckets: Vec<u32> = moving
            .migrating()
            .map(|migration| migration.bucket)
            .collect();
        let [one, other] = buckets[..] else {
            panic!("{moving}")
        };
        let settled = plan(first, None);
        assert!(settled.sides_of_bucket(one).is_none());

        let began = plan(moving.clone(), Some(&settled));
        assert_eq!((since_of(&began, one), since_of(&began, other)), (2, 2));
        let turned = moving.reverted(one).unwrap();
        let after = plan(turned.clone(), Some(&began));
        assert_eq!((since_of(&after, one), since_of(&after, other)), (3, 2));
        // An epoch that was missed may have moved anything.
        let back = turned.reverted(one).unwrap();
        let missed = plan(back, Some(&began));
        assert_eq!((since_of(&missed, one), since_of(&missed, other)), (4, 4));
        // Other buckets have other numbers.
        let split = plan(turned.split(2).unwrap(), Some(&after));
        assert_eq!(since_of(&split, one), 4);
    }
}
