//! The binary format: for the wire and the ledger. See `docs/specification/plan-format.md`.
//!
//! The only place that knows bincode.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::de::read::Reader;
use bincode::de::{Decode, Decoder, DecoderImpl};
use bincode::enc::write::Writer;
use bincode::enc::{Encode, Encoder, EncoderImpl};
use bincode::error::{DecodeError as BadBytes, EncodeError};

use super::assemble::check_epoch;
use super::text::follows;
use super::{Assembler, DecodeError, DecodeProblem, Location, PlanFormat, VERSION};
use crate::segments::Segments;
use crate::{HashFunction, Placement, ShardId, ShardPlan};

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
        let reader = Tracked { bytes, at: 0 };
        let mut input = Input {
            decoder: DecoderImpl::new(reader, CONFIG, ()),
            piece: 0,
        };
        let plan = decode(&mut input).map_err(|problem| fail(input.piece, problem))?;
        let end = input.decoder.reader().at;
        if end < bytes.len() {
            return Err(fail(end, DecodeProblem::TrailingBytes(bytes.len() - end)));
        }
        let canonical = plan.to_bytes();
        if canonical != bytes {
            let same = canonical
                .iter()
                .zip(bytes)
                .take_while(|(a, b)| a == b)
                .count();
            return Err(fail(same, DecodeProblem::NotCanonical));
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

fn decode(input: &mut Input<'_>) -> Result<ShardPlan, DecodeProblem> {
    if input.read::<[u8; 3]>()? != MAGIC {
        return Err(DecodeProblem::Syntax(
            "expected `LSP`, the start of a plan".to_owned(),
        ));
    }
    let version: u8 = input.read()?;
    if version != VERSION {
        return Err(DecodeProblem::Version(u64::from(version)));
    }
    let epoch = check_epoch(input.read()?)?;
    let code: u8 = input.read()?;
    let hash = HashFunction::from_code(code)
        .ok_or_else(|| DecodeProblem::Syntax(format!("{code} is the code of no hash function")))?;
    let buckets: u32 = input.read()?;
    let mut plan = Assembler::new(epoch, hash, u64::from(buckets))?;

    let mut next = Some(0_u16);
    for _ in 0..input.read::<u32>()? {
        let run: Shards = input.read()?;
        let first = next.and_then(|next| next.checked_add(run.skip));
        let ids = first.and_then(|first| Some(first..=first.checked_add(run.more)?));
        let Some(ids) = ids else {
            return Err(DecodeProblem::Syntax(
                "expected shard ids up to 65535".to_owned(),
            ));
        };
        next = ids.end().checked_add(1);
        for id in ids {
            plan.shard(ShardId(id), run.weight, run.leaving)?;
        }
    }
    plan.end_of_shards()?;

    while let Some(first) = plan.next_bucket() {
        let len: u32 = input.read()?;
        let place = input.piece;
        for _ in 0..input.read::<u32>()? {
            let WirePlacement(placement) = input.read()?;
            plan.placement(placement)?;
        }
        input.piece = place;
        let Some(last) = len.checked_sub(1).and_then(|more| first.checked_add(more)) else {
            return Err(DecodeProblem::Syntax(format!(
                "{len} is no length of a segment"
            )));
        };
        plan.segment(first, last)?;
    }
    Ok(plan.finish()?)
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

impl<C> Decode<C> for Shards {
    fn decode<D: Decoder<Context = C>>(from: &mut D) -> Result<Self, BadBytes> {
        let (skip, more, leaving, weight) = Decode::decode(from)?;
        Ok(Self {
            skip,
            more,
            leaving,
            weight,
        })
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

impl<C> Decode<C> for WirePlacement {
    fn decode<D: Decoder<Context = C>>(from: &mut D) -> Result<Self, BadBytes> {
        let code = u32::decode(from)?;
        let Ok(destination) = u16::try_from(code >> 1).map(ShardId) else {
            return Err(BadBytes::Other("expected a shard id up to 65535"));
        };
        Ok(Self(if code & 1 == 0 {
            Placement::Settled(destination)
        } else {
            Placement::Migrating {
                from: ShardId(u16::decode(from)?),
                to: destination,
            }
        }))
    }
}

/// A decoder that knows where the piece that it read last starts.
struct Input<'a> {
    decoder: DecoderImpl<Tracked<'a>, Configuration<LittleEndian, Varint, Limit<MAX_BYTES>>, ()>,
    piece: usize,
}

impl Input<'_> {
    fn read<T: Decode<()>>(&mut self) -> Result<T, DecodeProblem> {
        self.piece = self.decoder.reader().at;
        T::decode(&mut self.decoder).map_err(|error| {
            DecodeProblem::Syntax(match error {
                BadBytes::UnexpectedEnd { .. } => {
                    "the bytes end in the middle of a plan".to_owned()
                }
                BadBytes::InvalidIntegerType { expected, found } => {
                    let expected = format!("{expected:?}").to_lowercase();
                    let found = format!("{found:?}").to_lowercase();
                    format!("expected a number of type {expected}, found one of {found}")
                }
                BadBytes::InvalidBooleanValue(byte) => format!("expected 0 or 1, found {byte}"),
                BadBytes::Other(message) => message.to_owned(),
                other => format!("{other:?}"),
            })
        })
    }
}

/// Bytes, and how many of them have been read.
struct Tracked<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader for Tracked<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<(), BadBytes> {
        let end = self.at.saturating_add(into.len());
        let Some(bytes) = self.bytes.get(self.at..end) else {
            return Err(BadBytes::UnexpectedEnd {
                additional: end - self.bytes.len(),
            });
        };
        into.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    fn peek_read(&mut self, n: usize) -> Option<&[u8]> {
        self.bytes.get(self.at..self.at.checked_add(n)?)
    }

    fn consume(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
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
