//! The binary format: for the wire and the ledger. See `docs/specification/plan-format.md`.
//!
//! The only place that knows bincode, which writes. Reading is by hand: what comes from outside meets
//! no decoder that nobody maintains, and every error has its offset.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::enc::{Encode, Encoder, EncoderImpl};
use bincode::error::EncodeError;

use super::assemble::check_epoch;
use super::numbers::Numbers;
use super::text::follows;
use super::{Assembler, DecodeError, DecodeProblem, Location, PlanFormat, VERSION};
use crate::placement::PackedPlacement as Slot;
use crate::segments::Segments;
use crate::{HashFunction, Placement, Shard, ShardId, ShardPlan};

/// More than the largest plan has: 65,536 buckets that all differ (10 bytes each) and as many
/// shards (8 bytes each).
const MAX_BYTES: usize = 2 << 20;
const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_BYTES>> =
    bincode::config::standard().with_limit::<MAX_BYTES>();
const MAGIC: [u8; 3] = *b"LSP";

impl ShardPlan {
    /// The canonical bytes: equal plans, equal bytes. A plan of 4 shards has 34.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "writing to memory does not fail"
    )]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut encoder = EncoderImpl::new(Bytes(Vec::with_capacity(128)), CONFIG);
        encode(self, &mut encoder).expect("a vector takes any bytes");
        encoder.into_writer().0
    }

    /// Reads the canonical bytes, and nothing else: one plan has one form.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with the offset.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_BYTES {
            let problem = DecodeProblem::TooLong {
                length: bytes.len(),
                limit: MAX_BYTES,
            };
            return Err(fail(MAX_BYTES, problem));
        }
        let mut input = Numbers::new(bytes);
        let plan = decode(&mut input).map_err(|problem| fail(input.piece(), problem))?;
        if input.left() > 0 {
            let problem = DecodeProblem::TrailingBytes(input.left());
            return Err(fail(bytes.len() - input.left(), problem));
        }
        Ok(plan)
    }
}

fn encode<E: Encoder>(plan: &ShardPlan, to: &mut E) -> Result<(), EncodeError> {
    (MAGIC, VERSION).encode(to)?;
    (plan.epoch, plan.hash.code(), plan.bucket_count()).encode(to)?;
    let runs = plan.shards.chunk_by(follows);
    wire_u32(runs.clone().count()).encode(to)?;
    let mut next = 0_u16;
    for run in runs {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        let skip = first.id().0 - next;
        let more = last.id().0 - first.id().0;
        Shards {
            skip,
            more,
            leaving: first.is_leaving(),
            weight: first.weight(),
        }
        .encode(to)?;
        next = last.id().0.wrapping_add(1);
    }
    for segment in Segments::new(&plan.table) {
        segment.len.encode(to)?;
        wire_u32(segment.pattern.len()).encode(to)?;
        for slot in segment.pattern {
            WirePlacement(slot.get()).encode(to)?;
        }
    }
    Ok(())
}

fn decode(input: &mut Numbers<'_>) -> Result<ShardPlan, DecodeProblem> {
    for expected in MAGIC {
        if input.byte()? != expected {
            input.back_to(0);
            return Err(DecodeProblem::Syntax(
                "expected `LSP`, the start of a plan".to_owned(),
            ));
        }
    }
    let version = input.byte()?;
    if version != VERSION {
        return Err(DecodeProblem::Version(u64::from(version)));
    }
    let epoch = check_epoch(input.number("an epoch", u64::MAX)?)?;
    let code = input.byte()?;
    let hash = HashFunction::from_code(code)
        .ok_or_else(|| DecodeProblem::Syntax(format!("{code} is the code of no hash function")))?;
    let buckets = input.number("a number of buckets", u64::MAX)?;
    let mut plan = Assembler::new(epoch, hash, buckets)?;
    let mut next = Some(0);
    for _ in 0..input.number("a number of shard groups", u64::from(u32::MAX))? {
        next = shards(input, &mut plan, next)?;
    }
    plan.end_of_shards()?;
    let mut cut = Cut::default();
    while let Some(first) = plan.next_bucket() {
        let start = input.read();
        if let Some((len, from, to)) = input.short_run() {
            let last = first.wrapping_add(len).wrapping_sub(1);
            if plan.run(first, last, from, to) {
                let slot = Some(Slot::migrating(from, to));
                cut.add(start, len, 1, [slot, slot]);
                check_cut(&mut cut, input, &plan)?;
                continue;
            }
            input.go_on_from(start);
        }
        let len = input.number_u32("the length of a segment")?;
        let place = input.piece();
        let period = input.number_u32("a number of placements")?;
        let (mut leading, mut slot) = (None, None);
        for _ in 0..period {
            slot = Some(placement(input, &mut plan)?);
            leading = leading.or(slot);
        }
        input.back_to(place);
        let Some(last) = len.checked_sub(1).and_then(|more| first.checked_add(more)) else {
            return Err(DecodeProblem::Syntax(format!(
                "{len} is no length of a segment"
            )));
        };
        plan.segment(first, last)?;
        cut.add(start, len, period, [leading, slot]);
        check_cut(&mut cut, input, &plan)?;
    }
    cut.ends = true;
    check_cut(&mut cut, input, &plan)?;
    Ok(plan.finish()?)
}

/// The next group of shards; gives the first id that may follow it.
fn shards(
    input: &mut Numbers<'_>,
    plan: &mut Assembler,
    next: Option<u16>,
) -> Result<Option<u16>, DecodeProblem> {
    let skip = input.number_u16("a number of shard ids left out")?;
    let place = input.piece();
    let more = input.number_u16("a number of shard ids")?;
    let leaving = match input.byte()? {
        0 => false,
        1 => true,
        other => {
            let message = format!("expected 0 or 1 for leaving, found {other}");
            return Err(DecodeProblem::Syntax(message));
        }
    };
    let weight = input.number_u32("a weight")?;
    input.back_to(place);
    let first = next.and_then(|next| next.checked_add(skip));
    let Some((first, last)) = first.and_then(|first| Some((first, first.checked_add(more)?)))
    else {
        return Err(DecodeProblem::Syntax(
            "expected shard ids up to 65535".to_owned(),
        ));
    };
    let before = plan.last_shard();
    for id in first..=last {
        plan.shard(ShardId(id), weight, leaving)?;
    }
    let shard = if leaving {
        Shard::leaving(ShardId(first))
    } else {
        Shard::member(ShardId(first), weight)
    };
    if before.is_some_and(|before| follows(&before, &shard)) {
        return Err(DecodeProblem::NotCanonical);
    }
    Ok(last.checked_add(1))
}

fn placement(input: &mut Numbers<'_>, plan: &mut Assembler) -> Result<Slot, DecodeProblem> {
    let code = input.number("a shard id, doubled,", 2 * u64::from(u16::MAX) + 1)?;
    let place = input.piece();
    // Half of a number that has just been checked.
    let destination = ShardId(u16::try_from(code >> 1).unwrap_or(u16::MAX));
    let placement = if code & 1 == 0 {
        Placement::Settled(destination)
    } else {
        let from = ShardId(input.number_u16("a shard id")?);
        input.back_to(place);
        Placement::Migrating {
            from,
            to: destination,
        }
    };
    Ok(plan.placement(placement)?)
}

/// What decides whether segments are cut as the specification says.
///
/// A run of two or more is never cut and never part of a cycle, so it is enough to look at the
/// stretches between them: at those that have a cycle, or so many runs of one bucket that they could be
/// one.
#[derive(Default)]
struct Cut {
    /// The placement of the run before.
    previous: Option<Slot>,
    /// A run goes on in the segment after it.
    is_split: bool,
    /// Where the stretch starts that is not a run of two or more: its byte and its bucket.
    stretch: (usize, usize),
    /// How many segments of it there are.
    segments: u32,
    has_cycle: bool,
    /// How many buckets there are before the next segment.
    buckets: usize,
    /// The stretch is complete.
    ends: bool,
}

/// A cycle has two placements or more, and comes twice.
const SHORTEST_CYCLE: u32 = 4;

impl Cut {
    #[inline]
    fn add(&mut self, start: usize, len: u32, period: u32, [first, last]: [Option<Slot>; 2]) {
        let is_run = period == 1;
        // Whether a run or a cycle: it begins with one bucket more of the run before.
        self.is_split = self.previous.is_some() && self.previous == first;
        self.previous = if is_run { last } else { None };
        self.ends = is_run && len > 1;
        if !self.ends {
            if self.segments == 0 {
                self.stretch = (start, self.buckets);
            }
            self.segments += 1;
            self.has_cycle |= !is_run;
        }
        self.buckets += len as usize;
    }
}

/// Compares the stretch that ends here, if one does, with the segments that it should have.
#[inline]
fn check_cut(
    cut: &mut Cut,
    input: &mut Numbers<'_>,
    plan: &Assembler,
) -> Result<(), DecodeProblem> {
    if cut.is_split {
        return Err(DecodeProblem::NotCanonical);
    }
    if cut.ends {
        if cut.has_cycle || cut.segments >= SHORTEST_CYCLE {
            check_stretch(cut, input, plan)?;
        }
        cut.segments = 0;
        cut.has_cycle = false;
    }
    Ok(())
}

fn check_stretch(
    cut: &Cut,
    input: &mut Numbers<'_>,
    plan: &Assembler,
) -> Result<(), DecodeProblem> {
    let (end, piece) = (input.read(), input.piece());
    input.go_on_from(cut.stretch.0);
    let segments = Segments::from(plan.table(), cut.stretch.1);
    for segment in segments.take(cut.segments as usize) {
        let place = input.read();
        let len = input.number_u32("the length of a segment")?;
        let period = input.number_u32("a number of placements")?;
        if (len, period as usize) != (segment.len, segment.pattern.len()) {
            input.back_to(place);
            return Err(DecodeProblem::NotCanonical);
        }
        for slot in segment.pattern {
            input.number_u32("a shard id")?;
            if !slot.is_settled() {
                input.number_u16("a shard id")?;
            }
        }
    }
    input.go_on_from(end);
    input.back_to(piece);
    Ok(())
}

const fn fail(offset: usize, problem: DecodeProblem) -> DecodeError {
    DecodeError::new(PlanFormat::Binary, Location::Offset(offset), problem)
}

/// Counts here are bounded by the number of buckets or of shard ids.
fn wire_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A run of shards with consecutive ids and the same state.
struct Shards {
    /// Ids left out before it.
    skip: u16,
    /// Ids after its first.
    more: u16,
    leaving: bool,
    weight: u32,
}

impl Encode for Shards {
    fn encode<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        (self.skip, self.more, self.leaving, self.weight).encode(to)
    }
}

/// The destination doubled, plus 1 and the source if it is migrating.
struct WirePlacement(Placement);

impl Encode for WirePlacement {
    fn encode<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        let destination = u32::from(self.0.destination().0) << 1;
        match self.0.source() {
            None => destination.encode(to),
            Some(source) => (destination | 1, source.0).encode(to),
        }
    }
}

/// Bytes being written.
struct Bytes(Vec<u8>);

impl Writer for Bytes {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
