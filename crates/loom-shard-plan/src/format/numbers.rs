//! The numbers of the binary format, each in its shortest form.

use super::DecodeProblem;
use crate::ShardId;

/// First bytes of numbers that do not fit into that byte.
const TWO_BYTES: u8 = 0xfb;
const FOUR_BYTES: u8 = 0xfc;
const EIGHT_BYTES: u8 = 0xfd;

/// Bytes, how many of them have been read, and where the piece that was read last starts.
pub(super) struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
    piece: usize,
}

impl<'a> Numbers<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            piece: 0,
        }
    }

    /// Where errors point to.
    pub(super) const fn piece(&self) -> usize {
        self.piece
    }

    /// Errors point there from now on, until the next piece is read.
    pub(super) const fn back_to(&mut self, piece: usize) {
        self.piece = piece;
    }

    /// How many bytes have been read.
    pub(super) const fn read(&self) -> usize {
        self.at
    }

    pub(super) const fn go_on_from(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The length, the source and the destination of a run if that is next, in small numbers, as in
    /// most. Source and destination are the same if it is settled.
    #[inline]
    pub(super) fn short_run(&mut self) -> Option<(u32, ShardId, ShardId)> {
        let bytes = self.bytes.get(self.at..)?;
        let (len, code, from, read) = match *bytes {
            [len @ ..TWO_BYTES, 1, code @ ..TWO_BYTES, ..] if code & 1 == 0 => {
                (len, code, code >> 1, 3)
            }
            [
                len @ ..TWO_BYTES,
                1,
                code @ ..TWO_BYTES,
                from @ ..TWO_BYTES,
                ..,
            ] if from != code >> 1 => (len, code, from, 4),
            _ => return None,
        };
        self.piece = self.at;
        self.at += read;
        let shard = |id: u8| ShardId(u16::from(id));
        Some((u32::from(len), shard(from), shard(code >> 1)))
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, DecodeProblem> {
        self.piece = self.at;
        let byte = *self.bytes.get(self.at).ok_or_else(ends)?;
        self.at += 1;
        Ok(byte)
    }

    /// A number up to `max`; `what` it is if it is not.
    #[inline]
    pub(super) fn number(&mut self, what: &str, max: u64) -> Result<u64, DecodeProblem> {
        let first = self.byte()?;
        let number = if first < TWO_BYTES {
            u64::from(first)
        } else {
            self.long(first)?
        };
        if number > max {
            return Err(too_large(what, max, number));
        }
        Ok(number)
    }

    pub(super) fn number_u32(&mut self, what: &str) -> Result<u32, DecodeProblem> {
        let number = self.number(what, u64::from(u32::MAX))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn number_u16(&mut self, what: &str) -> Result<u16, DecodeProblem> {
        let number = self.number(what, u64::from(u16::MAX))?;
        Ok(u16::try_from(number).unwrap_or(u16::MAX))
    }

    fn long(&mut self, first: u8) -> Result<u64, DecodeProblem> {
        let (number, shorter) = match first {
            TWO_BYTES => (
                u64::from(u16::from_le_bytes(self.take()?)),
                u64::from(TWO_BYTES - 1),
            ),
            FOUR_BYTES => (
                u64::from(u32::from_le_bytes(self.take()?)),
                u64::from(u16::MAX),
            ),
            EIGHT_BYTES => (u64::from_le_bytes(self.take()?), u64::from(u32::MAX)),
            _ => {
                let message = format!("expected a number of up to 64 bits, found {first:#04x}");
                return Err(DecodeProblem::Syntax(message));
            }
        };
        if number <= shorter {
            return Err(DecodeProblem::NotCanonical);
        }
        Ok(number)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeProblem> {
        let bytes = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let bytes = *bytes.ok_or_else(ends)?;
        self.at += N;
        Ok(bytes)
    }
}

#[cold]
fn ends() -> DecodeProblem {
    DecodeProblem::Syntax("the bytes end in the middle of a plan".to_owned())
}

#[cold]
fn too_large(what: &str, max: u64, found: u64) -> DecodeProblem {
    DecodeProblem::Syntax(format!("expected {what} up to {max}, found {found}"))
}
