//! The text format: for people, reviews and merges. See `docs/specification/plan-format.md`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::assemble::{check_bucket_count, check_epoch};
use super::lines::Lines;
use super::{Assembler, DecodeError, DecodeProblem, NAME, PlanFormat, VERSION};
use crate::segments::Segments;
use crate::{HashFunction, Placement, Shard, ShardId, ShardPlan, UnknownHash};

/// The canonical text: equal plans, equal text.
///
/// ```
/// let plan = loom_shard_plan::ShardPlan::new(2)?;
/// assert_eq!(plan.to_string(), "\
/// loom-shard-plan v1
/// epoch 1
/// hash xxh3-64
/// buckets 4096
/// shards 0-1: weight 1
/// 0-2047: 0
/// 2048-4095: 1
/// ");
/// # Ok::<(), loom_shard_plan::PlanError>(())
/// ```
impl fmt::Display for ShardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{NAME} v{VERSION}")?;
        writeln!(f, "epoch {}", self.epoch)?;
        writeln!(f, "hash {}", self.hash)?;
        writeln!(f, "buckets {}", self.bucket_count())?;
        for run in self.shards.chunk_by(follows) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            if run.len() == 1 {
                write!(f, "shard {}: ", first.id())?;
            } else {
                write!(f, "shards {}-{}: ", first.id(), last.id())?;
            }
            if first.is_leaving() {
                writeln!(f, "leaving")?;
            } else {
                writeln!(f, "weight {}", first.weight())?;
            }
        }
        for segment in Segments::new(&self.table) {
            if segment.len == 1 {
                write!(f, "{}:", segment.first)?;
            } else {
                write!(
                    f,
                    "{}-{}:",
                    segment.first,
                    segment.first + (segment.len - 1)
                )?;
            }
            let cycle = if segment.pattern.len() == 1 {
                " "
            } else {
                " cycle "
            };
            for (i, slot) in segment.pattern.iter().enumerate() {
                write!(f, "{}{}", if i == 0 { cycle } else { ", " }, slot.get())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Whether two shards stand in one run: the next id, the same state.
pub(super) fn follows(shard: &Shard, next: &Shard) -> bool {
    shard.id().0.checked_add(1) == Some(next.id().0) && shard.same_state(next)
}

/// Reads the text format. Besides the canonical text this takes comments (from `#` to the end of
/// the line), blank lines, any spaces or tabs between words, and runs that are written as several
/// lines: what an editor or the resolution of a merge conflict leaves behind.
impl FromStr for ShardPlan {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        parse(&mut Lines::new(text))
    }
}

fn parse(lines: &mut Lines<'_>) -> Result<ShardPlan, DecodeError> {
    lines.keyword(NAME)?;
    lines.expect("v")?;
    let version = lines.number(u64::MAX)?;
    if version != u64::from(VERSION) {
        return Err(lines.error_at(lines.token(), DecodeProblem::Version(version)));
    }
    lines.end_of_line()?;

    lines.keyword("epoch")?;
    let epoch = lines.number(u64::MAX)?;
    check_epoch(epoch).map_err(|problem| lines.error_at(lines.token(), problem.into()))?;
    lines.end_of_line()?;

    lines.keyword("hash")?;
    let name = lines.word();
    let hash: HashFunction = name.parse().map_err(|_: UnknownHash| {
        lines.unread_word();
        lines.expected("the hash function `xxh3-64` or `fnv1a-64`")
    })?;
    lines.end_of_line()?;

    lines.keyword("buckets")?;
    let buckets = lines.number(u64::MAX)?;
    check_bucket_count(buckets).map_err(|problem| lines.error_at(lines.token(), problem.into()))?;
    let mut plan = Assembler::new(epoch, hash, buckets)
        .map_err(|problem| lines.error_at(lines.token(), problem.into()))?;
    lines.end_of_line()?;

    let mut leaving = Vec::new();
    while let Some(ids) = shards_of(lines)? {
        let ids_at = lines.token();
        lines.expect(":")?;
        let (weight, is_leaving) = if lines.eat("leaving") {
            leaving.push((ids.clone(), lines.location(ids_at)));
            (0, true)
        } else {
            lines.expect("weight")?;
            (narrow(lines.number(u64::from(u32::MAX))?), false)
        };
        lines.end_of_line()?;
        for id in ids {
            plan.shard(ShardId(id), weight, is_leaving)
                .map_err(|problem| lines.error_at(ids_at, problem.into()))?;
        }
    }
    plan.end_of_shards()
        .map_err(|problem| DecodeError::new(PlanFormat::Text, lines.here(), problem.into()))?;

    while plan.next_bucket().is_some() && lines.next_line()? {
        if let Some((first, last, from, to)) = lines.run() {
            if plan.run(first, last, from, to) {
                continue;
            }
            lines.restart_line();
        }
        let first = narrow(lines.number(u64::from(u32::MAX))?);
        let range_at = lines.token();
        let last = if lines.eat("-") {
            narrow(lines.number(u64::from(u32::MAX))?)
        } else {
            first
        };
        lines.expect(":")?;
        let cycle = lines.eat("cycle");
        loop {
            let (placement, at) = placement_of(lines)?;
            plan.placement(placement)
                .map_err(|problem| lines.error_at(at, problem.into()))?;
            if !cycle || !lines.eat(",") {
                break;
            }
        }
        lines.end_of_line()?;
        plan.segment(first, last)
            .map_err(|problem| lines.error_at(range_at, problem.into()))?;
    }
    if lines.next_line()? {
        return Err(lines.expected("the end, since every bucket has a placement"));
    }
    plan.finish().map_err(|problem| {
        let listed = problem.listed_shard().and_then(|shard| {
            leaving
                .into_iter()
                .find(|(ids, _)| ids.contains(&shard.0))
                .map(|(_, place)| place)
        });
        let place = listed.unwrap_or_else(|| lines.here());
        DecodeError::new(PlanFormat::Text, place, problem.into())
    })
}

/// The ids of the next line if it is about shards.
fn shards_of(lines: &mut Lines<'_>) -> Result<Option<RangeInclusive<u16>>, DecodeError> {
    if !lines.next_line()? {
        return Ok(None);
    }
    if lines.eat("shards") {
        let first = shard_id(lines)?;
        lines.expect("-")?;
        let last = shard_id(lines)?;
        if last < first {
            let message = format!("the shards {first}-{last} run backwards");
            return Err(lines.error_at(lines.token(), DecodeProblem::Syntax(message)));
        }
        return Ok(Some(first.0..=last.0));
    }
    if lines.eat("shard") {
        let id = shard_id(lines)?;
        return Ok(Some(id.0..=id.0));
    }
    if !lines.at_digit() {
        return Err(lines.expected("`shard`, `shards` or a range of buckets"));
    }
    lines.unread_line();
    Ok(None)
}

/// A placement and where it starts.
fn placement_of(lines: &mut Lines<'_>) -> Result<(Placement, usize), DecodeError> {
    let shard = shard_id(lines)?;
    let at = lines.token();
    if lines.eat("->") {
        return Ok((
            Placement::Migrating {
                from: shard,
                to: shard_id(lines)?,
            },
            at,
        ));
    }
    Ok((Placement::Settled(shard), at))
}

fn shard_id(lines: &mut Lines<'_>) -> Result<ShardId, DecodeError> {
    let id = lines.number(u64::from(u16::MAX))?;
    Ok(ShardId(u16::try_from(id).unwrap_or(u16::MAX)))
}

/// A number that [`Lines::number`] has checked.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
