//! Reads a plan from a JSON document, straight into the plan.

use super::cursor::{Cursor, Fault, Field, Read};
use super::{DecodeProblem, NAME, VERSION};
use crate::format::assemble::{check_bucket_count, check_epoch};
use crate::format::{Assembler, InvalidPlan};
use crate::{HashFunction, Placement, ShardId, ShardPlan, UnknownHash};

pub(super) fn plan(json: &str) -> Read<ShardPlan> {
    document(json).map_err(|fault| other_version(json).unwrap_or(fault))
}

/// A value, or not yet.
struct Seen<T>(Option<T>);

impl<T> Seen<T> {
    /// Takes the value of a key that must not have come before.
    fn set(
        &mut self,
        cursor: &mut Cursor<'_>,
        key: &'static str,
        read: impl FnOnce(&mut Cursor<'_>) -> Read<T>,
    ) -> Read<()> {
        let within = |fault: Box<Fault>| fault.within(Field::Key(key));
        if self.0.is_some() {
            let problem = DecodeProblem::Syntax(format!(
                "expected the key `{key}` once, found it a second time"
            ));
            return Err(within(Fault::new(cursor.key(), problem)));
        }
        self.0 = Some(read(cursor).map_err(within)?);
        Ok(())
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// What a plan starts with.
#[derive(Default)]
struct Head {
    format: Seen<()>,
    version: Seen<()>,
    epoch: Seen<u64>,
    hash: Seen<HashFunction>,
    buckets: Seen<u32>,
}

impl Head {
    fn is_complete(&self) -> bool {
        self.missing().is_none()
    }

    fn missing(&self) -> Option<&'static str> {
        let seen = [
            ("format", self.format.0.is_some()),
            ("version", self.version.0.is_some()),
            ("epoch", self.epoch.0.is_some()),
            ("hash", self.hash.0.is_some()),
            ("buckets", self.buckets.0.is_some()),
        ];
        seen.into_iter().find(|(_, seen)| !seen).map(|(key, _)| key)
    }
}

/// A list that has been read, or where it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Read,
    At(usize),
}

fn document(json: &str) -> Read<ShardPlan> {
    let mut cursor = Cursor::new(json);
    let mut head = Head::default();
    let (mut shards, mut placements) = (Seen::default(), Seen::default());
    let mut reader = Reader::default();
    let end = cursor.object("a plan, which is an object", |cursor, key| match key {
        "format" => head.format.set(cursor, "format", format),
        "version" => head.version.set(cursor, "version", version),
        "epoch" => head.epoch.set(cursor, "epoch", epoch),
        "hash" => head.hash.set(cursor, "hash", hash),
        "buckets" => head.buckets.set(cursor, "buckets", buckets),
        "shards" => shards.set(cursor, "shards", |cursor| {
            if reader.starts(&head) {
                reader.shards(cursor)
            } else {
                later(cursor)
            }
        }),
        "placements" => placements.set(cursor, "placements", |cursor| {
            if reader.has_shards {
                reader.placements(cursor)
            } else {
                later(cursor)
            }
        }),
        other => Err(unknown(
            cursor,
            "`format`, `version`, `epoch`, `hash`, `buckets`, `shards` or `placements`",
            other,
        )),
    })?;
    cursor.end()?;
    let lists = [("shards", shards.0), ("placements", placements.0)];
    let missing_list = lists.iter().find(|(_, list)| list.is_none());
    if let Some(key) = head.missing().or(missing_list.map(|(key, _)| *key)) {
        return Err(missing(end, key));
    }
    // Whatever came too early.
    reader.starts(&head);
    for (key, list) in lists {
        if let Some(List::At(start)) = list {
            cursor.go_to(start);
            let read = match key {
                "shards" => reader.shards(&mut cursor),
                _ => reader.placements(&mut cursor),
            };
            read.map_err(|fault| fault.within(Field::Key(key)))?;
        }
    }
    reader.finish()
}

fn format(cursor: &mut Cursor<'_>) -> Read<()> {
    let expected = || format!("the text `{NAME}`");
    let start = cursor.here();
    if cursor.text(&expected())? == NAME {
        return Ok(());
    }
    cursor.go_to(start);
    Err(cursor.expected(&expected()))
}

fn version(cursor: &mut Cursor<'_>) -> Read<()> {
    let start = cursor.here();
    match cursor.number("a format version, which is a number", u64::MAX)? {
        version if version == u64::from(VERSION) => Ok(()),
        version => Err(Fault::new(start, DecodeProblem::Version(version))),
    }
}

fn epoch(cursor: &mut Cursor<'_>) -> Read<u64> {
    let start = cursor.here();
    let epoch = cursor.number("an epoch, which is a whole number", u64::MAX)?;
    check_epoch(epoch).map_err(|problem| Fault::invalid(start, problem))
}

fn hash(cursor: &mut Cursor<'_>) -> Read<HashFunction> {
    let start = cursor.here();
    let name = cursor.text("the name of a hash function")?;
    name.parse().map_err(|_: UnknownHash| {
        cursor.go_to(start);
        cursor.expected("the hash function `xxh3-64` or `fnv1a-64`")
    })
}

fn buckets(cursor: &mut Cursor<'_>) -> Read<u32> {
    let start = cursor.here();
    let buckets = cursor.number("a number of buckets from 1 to 65536", u64::MAX)?;
    check_bucket_count(buckets).map_err(|problem| Fault::invalid(start, problem))
}

/// A list whose turn has not come.
fn later(cursor: &mut Cursor<'_>) -> Read<List> {
    let start = cursor.here();
    if cursor.skip() {
        Ok(List::At(start))
    } else {
        Err(cursor.expected("the rest of this list"))
    }
}

/// The two lists of a plan, on their way into it.
#[derive(Default)]
struct Reader {
    plan: Option<Assembler>,
    /// Where each leaving shard is listed.
    leaving: Vec<(ShardId, usize, usize)>,
    has_shards: bool,
    /// Where the placements end.
    end: usize,
}

impl Reader {
    /// Starts a plan if all that it starts with is known.
    fn starts(&mut self, head: &Head) -> bool {
        if let (None, true, Some(epoch), Some(hash), Some(buckets)) = (
            &self.plan,
            head.is_complete(),
            head.epoch.0,
            head.hash.0,
            head.buckets.0,
        ) {
            self.plan = Assembler::new(epoch, hash, u64::from(buckets)).ok();
        }
        self.plan.is_some()
    }

    fn shards(&mut self, cursor: &mut Cursor<'_>) -> Read<List> {
        let start = cursor.here();
        let Some(plan) = &mut self.plan else {
            return Ok(List::At(start));
        };
        let leaving = &mut self.leaving;
        let mut index = 0;
        cursor.array("an array of shards", |cursor| {
            let start = cursor.here();
            let shard = shard(cursor)?;
            plan.shard(shard.id, shard.weight, shard.leaving)
                .map_err(|problem| Fault::invalid(start, problem))?;
            if shard.leaving {
                leaving.push((shard.id, index, start));
            }
            index += 1;
            Ok(())
        })?;
        plan.end_of_shards()
            .map_err(|problem| Fault::invalid(start, problem))?;
        self.has_shards = true;
        Ok(List::Read)
    }

    fn placements(&mut self, cursor: &mut Cursor<'_>) -> Read<List> {
        let start = cursor.here();
        let Some(plan) = &mut self.plan else {
            return Ok(List::At(start));
        };
        self.end = cursor.array("an array of placements", |cursor| segment(cursor, plan))?;
        Ok(List::Read)
    }

    fn finish(self) -> Read<ShardPlan> {
        let end = self.end;
        let Some(plan) = self.plan else {
            return Err(missing(end, "buckets"));
        };
        plan.finish().map_err(|problem| {
            let listed = problem.listed_shard();
            let of_shard = self.leaving.iter().find(|(id, ..)| Some(*id) == listed);
            match of_shard {
                Some((_, index, start)) => Fault::invalid(*start, problem)
                    .within(Field::Item(*index))
                    .within(Field::Key("shards")),
                None => Fault::invalid(end, problem).within(Field::Key("placements")),
            }
        })
    }
}

struct ReadShard {
    id: ShardId,
    weight: u32,
    leaving: bool,
}

fn shard(cursor: &mut Cursor<'_>) -> Read<ReadShard> {
    let start = cursor.here();
    if let Some([id, weight]) = cursor.exactly(["{\"id\":", ",\"weight\":"], "}")
        && let Ok(id) = u16::try_from(id)
    {
        return Ok(ReadShard {
            id: ShardId(id),
            weight,
            leaving: false,
        });
    }
    cursor.go_to(start);
    any_shard(cursor)
}

/// A shard with its keys in any order.
fn any_shard(cursor: &mut Cursor<'_>) -> Read<ReadShard> {
    let (mut id, mut weight) = (Seen::default(), Seen::default());
    let mut leaving = Seen::default();
    let end = cursor.object("a shard, which is an object", |cursor, key| match key {
        "id" => id.set(cursor, "id", shard_id),
        "weight" => weight.set(cursor, "weight", |cursor| {
            let weight = cursor.number("a weight from 0 to 4294967295", u64::from(u32::MAX))?;
            Ok(u32::try_from(weight).unwrap_or(u32::MAX))
        }),
        "leaving" => leaving.set(cursor, "leaving", flag),
        other => Err(unknown(cursor, "`id`, `weight` or `leaving`", other)),
    })?;
    Ok(ReadShard {
        id: id.0.ok_or_else(|| missing(end, "id"))?,
        weight: weight.0.ok_or_else(|| missing(end, "weight"))?,
        leaving: leaving.0.unwrap_or(false),
    })
}

fn shard_id(cursor: &mut Cursor<'_>) -> Read<ShardId> {
    let id = cursor.number("a shard id from 0 to 65535", u64::from(u16::MAX))?;
    Ok(ShardId(u16::try_from(id).unwrap_or(u16::MAX)))
}

fn flag(cursor: &mut Cursor<'_>) -> Read<bool> {
    cursor.flag()
}

fn bucket(cursor: &mut Cursor<'_>) -> Read<u32> {
    let bucket = cursor.number("the number of a bucket", u64::from(u32::MAX))?;
    Ok(u32::try_from(bucket).unwrap_or(u32::MAX))
}

fn segment(cursor: &mut Cursor<'_>, plan: &mut Assembler) -> Read<()> {
    let start = cursor.here();
    let settled = ["{\"first\":", ",\"last\":", ",\"shard\":"];
    if let Some([first, last, shard]) = cursor.exactly(settled, "}")
        && let Ok(shard) = u16::try_from(shard)
        && plan.run(first, last, ShardId(shard), ShardId(shard))
    {
        return Ok(());
    }
    cursor.go_to(start);
    let [first, last, shard] = settled;
    let migrating = [first, last, shard, ",\"migrating_from\":"];
    if let Some([first, last, to, from]) = cursor.exactly(migrating, "}")
        && let (Ok(from), Ok(to)) = (u16::try_from(from), u16::try_from(to))
        && from != to
        && plan.run(first, last, ShardId(from), ShardId(to))
    {
        return Ok(());
    }
    cursor.go_to(start);
    any_segment(cursor, plan)
}

/// A segment of any form, with its keys in any order.
fn any_segment(cursor: &mut Cursor<'_>, plan: &mut Assembler) -> Read<()> {
    let start = cursor.here();
    let (mut first, mut last) = (Seen::default(), Seen::default());
    let (mut shard, mut from) = (Seen::default(), Seen::default());
    let mut cycle = Seen::default();
    let end = cursor.object("a placement, which is an object", |cursor, key| match key {
        "first" => first.set(cursor, "first", bucket),
        "last" => last.set(cursor, "last", bucket),
        "shard" => shard.set(cursor, "shard", shard_id),
        "migrating_from" => from.set(cursor, "migrating_from", shard_id),
        "cycle" => cycle.set(cursor, "cycle", |cursor| {
            let mut is_empty = true;
            cursor.array("an array of placements", |cursor| {
                is_empty = false;
                entry(cursor, plan)
            })?;
            Ok(is_empty)
        }),
        other => Err(unknown(
            cursor,
            "`first`, `last`, `shard`, `migrating_from` or `cycle`",
            other,
        )),
    })?;
    let first = first.0.ok_or_else(|| missing(end, "first"))?;
    let last = last.0.ok_or_else(|| missing(end, "last"))?;
    match (shard.0, cycle.0.unwrap_or(true)) {
        (Some(shard), true) => {
            plan.placement(placement(shard, from.0))
                .map_err(|problem| Fault::invalid(start, problem))?;
        }
        (None, false) if from.0.is_none() => {}
        _ => {
            let problem =
                "expected either `shard`, with `migrating_from` if it is migrating, or `cycle`";
            return Err(Fault::new(start, DecodeProblem::Syntax(problem.to_owned())));
        }
    }
    plan.segment(first, last)
        .map_err(|problem| Fault::invalid(start, problem))
}

/// A placement of a cycle.
fn entry(cursor: &mut Cursor<'_>, plan: &mut Assembler) -> Read<()> {
    let start = cursor.here();
    let (mut shard, mut from) = (Seen::default(), Seen::default());
    let end = cursor.object("a placement, which is an object", |cursor, key| match key {
        "shard" => shard.set(cursor, "shard", shard_id),
        "migrating_from" => from.set(cursor, "migrating_from", shard_id),
        other => Err(unknown(cursor, "`shard` or `migrating_from`", other)),
    })?;
    let shard = shard.0.ok_or_else(|| missing(end, "shard"))?;
    plan.placement(placement(shard, from.0))
        .map_err(|problem: InvalidPlan| Fault::invalid(start, problem))?;
    Ok(())
}

fn placement(shard: ShardId, from: Option<ShardId>) -> Placement {
    match from {
        None => Placement::Settled(shard),
        Some(from) => Placement::Migrating { from, to: shard },
    }
}

#[cold]
fn missing(end: usize, key: &str) -> Box<Fault> {
    let message = format!("expected the key `{key}`, found the end of the object");
    Fault::new(end, DecodeProblem::Syntax(message))
}

#[cold]
fn unknown(cursor: &Cursor<'_>, expected: &str, found: &str) -> Box<Fault> {
    let found: String = found.chars().take(40).collect();
    let message = format!(
        "expected the key {expected}, found `{}`",
        found.escape_debug()
    );
    Fault::new(cursor.key(), DecodeProblem::Syntax(message))
}

/// What is wrong with a document of another version is its version, whatever else is.
#[cold]
fn other_version(json: &str) -> Option<Box<Fault>> {
    let mut cursor = Cursor::new(json);
    let mut fault = None;
    let _ = cursor
        .object("a plan", |cursor, key| {
            if key == "version" {
                version(cursor).map_err(|other| other.within(Field::Key("version")))
            } else if cursor.skip() {
                Ok(())
            } else {
                Err(cursor.expected("a value"))
            }
        })
        .map_err(|found| fault = Some(found));
    fault.filter(|fault| matches!(fault.problem, DecodeProblem::Version(_)))
}
