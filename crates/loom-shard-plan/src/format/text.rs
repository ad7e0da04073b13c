//! The text format: for people, reviews and merges. See `docs/specification/plan-format.md`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::assemble::{check_bucket_count, check_epoch};
use super::{
    Assembler, DecodeError, DecodeProblem, InvalidPlan, Location, NAME, PlanFormat, VERSION,
};
use crate::segments::Segments;
use crate::{HashFunction, Placement, Shard, ShardId, ShardPlan};

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
        return Err(lines.error_at_token(DecodeProblem::Version(version)));
    }
    lines.end_of_line()?;

    lines.keyword("epoch")?;
    let epoch = lines.number(u64::MAX)?;
    check_epoch(epoch).map_err(|problem| lines.invalid(problem))?;
    lines.end_of_line()?;

    lines.keyword("hash")?;
    let hash: HashFunction = lines
        .word()
        .parse()
        .map_err(|unknown| lines.error_at_token(DecodeProblem::Syntax(format!("{unknown}"))))?;
    lines.end_of_line()?;

    lines.keyword("buckets")?;
    let buckets = lines.number(u64::MAX)?;
    check_bucket_count(buckets).map_err(|problem| lines.invalid(problem))?;
    let mut plan =
        Assembler::new(epoch, hash, buckets).map_err(|problem| lines.invalid(problem))?;
    lines.end_of_line()?;

    let mut leaving = Vec::new();
    while let Some(ids) = shards_of(lines)? {
        let place = lines.token_location();
        lines.expect(":")?;
        let (weight, is_leaving) = if lines.eat("leaving") {
            leaving.push((ids.clone(), place.clone()));
            (0, true)
        } else {
            lines.expect("weight")?;
            (narrow(lines.number(u64::from(u32::MAX))?), false)
        };
        lines.end_of_line()?;
        for id in ids {
            plan.shard(ShardId(id), weight, is_leaving)
                .map_err(|problem| fail(place.clone(), problem.into()))?;
        }
    }
    plan.end_of_shards()
        .map_err(|problem| lines.invalid_here(problem))?;

    while plan.next_bucket().is_some() && lines.next_line()? {
        let first = narrow(lines.number(u64::from(u32::MAX))?);
        let range = lines.token_location();
        let last = if lines.eat("-") {
            narrow(lines.number(u64::from(u32::MAX))?)
        } else {
            first
        };
        lines.expect(":")?;
        let cycle = lines.eat("cycle");
        loop {
            let (placement, place) = placement_of(lines)?;
            plan.placement(placement)
                .map_err(|problem| fail(place, problem.into()))?;
            if !cycle || !lines.eat(",") {
                break;
            }
        }
        lines.end_of_line()?;
        plan.segment(first, last)
            .map_err(|problem| fail(range, problem.into()))?;
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
        match listed {
            Some(place) => fail(place, problem.into()),
            None => lines.invalid_here(problem),
        }
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
            return Err(lines.error_at_token(DecodeProblem::Syntax(message)));
        }
        return Ok(Some(first.0..=last.0));
    }
    if lines.eat("shard") {
        let id = shard_id(lines)?;
        return Ok(Some(id.0..=id.0));
    }
    if !lines.rest().starts_with(|c: char| c.is_ascii_digit()) {
        return Err(lines.expected("`shard`, `shards` or a range of buckets"));
    }
    lines.unread_line();
    Ok(None)
}

/// A placement and where it starts.
fn placement_of(lines: &mut Lines<'_>) -> Result<(Placement, Location), DecodeError> {
    let shard = shard_id(lines)?;
    let place = lines.token_location();
    if lines.eat("->") {
        return Ok((
            Placement::Migrating {
                from: shard,
                to: shard_id(lines)?,
            },
            place,
        ));
    }
    Ok((Placement::Settled(shard), place))
}

fn shard_id(lines: &mut Lines<'_>) -> Result<ShardId, DecodeError> {
    let id = lines.number(u64::from(u16::MAX))?;
    Ok(ShardId(u16::try_from(id).unwrap_or(u16::MAX)))
}

/// A number that [`Lines::number`] has checked.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

const fn fail(location: Location, problem: DecodeProblem) -> DecodeError {
    DecodeError::new(PlanFormat::Text, location, problem)
}

/// The words of a text, line by line; without comments and blank lines.
struct Lines<'a> {
    text: &'a str,
    /// Where the next line starts.
    next: usize,
    /// The line being read: its number, start and end (without its comment).
    line: usize,
    start: usize,
    end: usize,
    /// Where the token that was read last starts, and where the next one is looked for.
    token: usize,
    at: usize,
    /// Read the same line once more.
    unread: bool,
}

impl<'a> Lines<'a> {
    const fn new(text: &'a str) -> Self {
        Self {
            text,
            next: 0,
            line: 0,
            start: 0,
            end: 0,
            token: 0,
            at: 0,
            unread: false,
        }
    }

    /// Goes to the next line that says something; false at the end.
    fn next_line(&mut self) -> Result<bool, DecodeError> {
        if self.unread {
            self.unread = false;
            return Ok(true);
        }
        while let Some(rest) = self.text.get(self.next..).filter(|rest| !rest.is_empty()) {
            let line = rest.split('\n').next().unwrap_or(rest);
            let content = line.split('#').next().unwrap_or(line).trim_ascii_end();
            self.line += 1;
            self.start = self.next;
            self.end = self.start + content.len();
            self.next = self.start + line.len() + 1;
            self.token = self.start;
            self.at = self.start;
            self.skip_spaces();
            if ["<<<<<<<", "=======", ">>>>>>>"]
                .iter()
                .any(|marker| content.starts_with(marker))
            {
                return Err(self.expected("a plan without merge conflicts; resolve this one"));
            }
            if self.at < self.end {
                return Ok(true);
            }
        }
        // Past the end: errors point behind the last line, however often it is looked for.
        if self.next <= self.text.len() + 1 {
            self.line += 1;
            self.next = usize::MAX;
        }
        self.start = self.text.len();
        (self.end, self.token, self.at) = (self.start, self.start, self.start);
        Ok(false)
    }

    const fn unread_line(&mut self) {
        self.unread = true;
        self.at = self.start;
    }

    /// The next line, which starts with `word`.
    fn keyword(&mut self, word: &str) -> Result<(), DecodeError> {
        if self.next_line()? && self.eat(word) {
            Ok(())
        } else {
            Err(self.expected_word(word))
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), DecodeError> {
        if self.eat(word) {
            Ok(())
        } else {
            Err(self.expected_word(word))
        }
    }

    /// Takes `word` if it is next: whole if it is a word, without regard to what follows if not.
    fn eat(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let Some(rest) = self.rest().strip_prefix(word) else {
            return false;
        };
        let letters = word.len() > 1 && word.ends_with(|c: char| c.is_ascii_alphanumeric());
        if letters && rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return false;
        }
        self.token = self.at;
        self.at += word.len();
        true
    }

    /// Everything up to the next space.
    fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let word = self.rest().split([' ', '\t']).next().unwrap_or_default();
        self.token = self.at;
        self.at += word.len();
        word
    }

    fn number(&mut self, max: u64) -> Result<u64, DecodeError> {
        self.skip_spaces();
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(self.expected("a number"));
        }
        self.token = self.at;
        match rest.get(..digits).and_then(|number| number.parse().ok()) {
            Some(number) if number <= max => {
                self.at += digits;
                Ok(number)
            }
            _ => Err(self.expected(&format!("a number up to {max}"))),
        }
    }

    fn end_of_line(&mut self) -> Result<(), DecodeError> {
        self.skip_spaces();
        if self.at == self.end {
            Ok(())
        } else {
            Err(self.expected("the end of the line"))
        }
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    fn expected_word(&self, word: &str) -> DecodeError {
        self.expected(&format!("`{word}`"))
    }

    /// Names what is found where the next token was looked for.
    fn expected(&self, what: &str) -> DecodeError {
        let word = self
            .rest()
            .split([' ', '\t', ':', ','])
            .next()
            .unwrap_or_default();
        let found = match word {
            "" if self.rest().is_empty() && self.start == self.text.len() => "the end".to_owned(),
            "" if self.rest().is_empty() => "the end of the line".to_owned(),
            "" => self
                .rest()
                .chars()
                .take(1)
                .map(|c| format!("`{c}`"))
                .collect(),
            word => format!(
                "`{}`",
                word.chars().take(40).collect::<String>().escape_debug()
            ),
        };
        let message = format!("expected {what}, found {found}");
        fail(self.location(self.at), DecodeProblem::Syntax(message))
    }

    fn invalid(&self, problem: InvalidPlan) -> DecodeError {
        self.error_at_token(problem.into())
    }

    fn invalid_here(&self, problem: InvalidPlan) -> DecodeError {
        fail(self.location(self.at), problem.into())
    }

    fn error_at_token(&self, problem: DecodeProblem) -> DecodeError {
        fail(self.token_location(), problem)
    }

    fn token_location(&self) -> Location {
        self.location(self.token)
    }

    fn location(&self, at: usize) -> Location {
        let before = self.text.get(self.start..at).unwrap_or_default();
        Location::Line {
            line: self.line.max(1),
            column: before.chars().count() + 1,
        }
    }
}
