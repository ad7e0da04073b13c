//! The plan as serde sees it: what is written, and what is read as a part of other documents.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DecodeProblem, NAME, VERSION};
use crate::format::{Assembler, InvalidPlan};
use crate::placement::PackedPlacement as Slot;
use crate::segments::{Segment, Segments};
use crate::{Placement, ShardId, ShardPlan};

impl Serialize for ShardPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WirePlan {
            format: Cow::Borrowed(NAME),
            version: u64::from(VERSION),
            epoch: self.epoch,
            hash: Cow::Borrowed(self.hash.name()),
            buckets: u64::from(self.bucket_count()),
            shards: self
                .shards
                .iter()
                .map(|shard| WireShard {
                    id: shard.id(),
                    weight: shard.weight(),
                    leaving: shard.is_leaving(),
                })
                .collect(),
            placements: Segments::new(&self.table).map(WireSegment::from).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ShardPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WirePlan::deserialize(deserializer)?;
        wire.assemble()
            .map_err(|(path, problem)| D::Error::custom(format!("{path}: {problem}")))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePlan<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u64,
    epoch: u64,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    buckets: u64,
    shards: Vec<WireShard>,
    placements: Vec<WireSegment>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireShard {
    id: ShardId,
    weight: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    leaving: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Either `shard` (with `migrating_from`) or `cycle`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSegment {
    first: u32,
    last: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shard: Option<ShardId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migrating_from: Option<ShardId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cycle: Vec<WirePlacement>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePlacement {
    shard: ShardId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migrating_from: Option<ShardId>,
}

impl From<Segment<'_>> for WireSegment {
    fn from(segment: Segment<'_>) -> Self {
        let (first, last) = (segment.first, segment.first + (segment.len - 1));
        match *segment.pattern {
            [slot] => {
                let WirePlacement {
                    shard,
                    migrating_from,
                } = slot.into();
                Self {
                    first,
                    last,
                    shard: Some(shard),
                    migrating_from,
                    cycle: Vec::new(),
                }
            }
            ref cycle => {
                let cycle = cycle.iter().map(|slot| (*slot).into()).collect();
                Self {
                    first,
                    last,
                    shard: None,
                    migrating_from: None,
                    cycle,
                }
            }
        }
    }
}

impl From<Slot> for WirePlacement {
    fn from(slot: Slot) -> Self {
        let placement = slot.get();
        Self {
            shard: placement.destination(),
            migrating_from: placement.source(),
        }
    }
}

impl WirePlacement {
    fn get(&self) -> Placement {
        match self.migrating_from {
            None => Placement::Settled(self.shard),
            Some(from) => Placement::Migrating {
                from,
                to: self.shard,
            },
        }
    }
}

impl WirePlan<'_> {
    fn assemble(self) -> Result<ShardPlan, (Path, DecodeProblem)> {
        if self.format != NAME {
            let message = format!("expected `{NAME}`");
            return Err((Path::key("format"), DecodeProblem::Syntax(message)));
        }
        if self.version != u64::from(VERSION) {
            return Err((Path::key("version"), DecodeProblem::Version(self.version)));
        }
        let hash = self.hash.parse().map_err(|unknown: crate::UnknownHash| {
            (
                Path::key("hash"),
                DecodeProblem::Syntax(unknown.to_string()),
            )
        })?;
        let mut plan = Assembler::new(self.epoch, hash, self.buckets).map_err(|problem| {
            let key = if matches!(problem, InvalidPlan::Epoch(_)) {
                "epoch"
            } else {
                "buckets"
            };
            (Path::key(key), problem.into())
        })?;
        for (i, shard) in self.shards.iter().enumerate() {
            plan.shard(shard.id, shard.weight, shard.leaving)
                .map_err(|problem| (Path::item("shards", i), problem.into()))?;
        }
        plan.end_of_shards()
            .map_err(|problem| (Path::key("shards"), problem.into()))?;
        for (i, segment) in self.placements.iter().enumerate() {
            segment
                .add_to(&mut plan)
                .map_err(|problem| (Path::item("placements", i), problem))?;
        }
        plan.finish().map_err(|problem| {
            let listed = problem.listed_shard();
            let path = match self
                .shards
                .iter()
                .position(|shard| Some(shard.id) == listed)
            {
                Some(i) => Path::item("shards", i),
                None => Path::key("placements"),
            };
            (path, problem.into())
        })
    }
}

impl WireSegment {
    fn add_to(&self, plan: &mut Assembler) -> Result<(), DecodeProblem> {
        match (self.shard, self.cycle.is_empty()) {
            (Some(shard), true) => {
                let migrating_from = self.migrating_from;
                plan.placement(
                    WirePlacement {
                        shard,
                        migrating_from,
                    }
                    .get(),
                )?;
            }
            (None, false) if self.migrating_from.is_none() => {
                for placement in &self.cycle {
                    plan.placement(placement.get())?;
                }
            }
            _ => {
                return Err(DecodeProblem::Syntax(
                    "expected either `shard`, with `migrating_from` if it is migrating, or `cycle`"
                        .to_owned(),
                ));
            }
        }
        Ok(plan.segment(self.first, self.last)?)
    }
}

/// A place in the document: a key of the plan, or an item of the array under it.
#[derive(Clone, Copy)]
struct Path {
    key: &'static str,
    item: Option<usize>,
}

impl Path {
    const fn key(key: &'static str) -> Self {
        Self { key, item: None }
    }

    const fn item(key: &'static str, item: usize) -> Self {
        Self {
            key,
            item: Some(item),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            None => f.write_str(self.key),
            Some(item) => write!(f, "{}[{item}]", self.key),
        }
    }
}
