//! What the table `records` says of an execution.

use loom_spi::{
    ExecutionId, ExecutionState, FenceToken, LogHead, PlanEpoch, PlanFingerprint, RecordState,
    RouteHash, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::failure::{Failure, corrupt};

/// One row of `records`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Names the log; its events refer to it.
    pub(crate) log: Option<Uuid>,
    pub(crate) head: Option<LogHead>,
    pub(crate) fence: Option<FenceToken>,
    pub(crate) holder: Option<Holder>,
    pub(crate) branches: u64,
    /// The place of the branch that is recorded next.
    pub(crate) next_branch: i64,
    pub(crate) sealed: bool,
}

/// Who acquired a fence last, and the lease that came with it, if any.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) name: String,
    /// What was handed out. The fence may have risen since, through an append.
    pub(crate) token: FenceToken,
    pub(crate) lease_end: Option<Timestamp>,
}

impl Record {
    /// Keeps others from changing the record until the transaction ends.
    pub(crate) const LOCK: &str = "
        SELECT next_seq, closed, sealed, created_at, updated_at,
               log, fence, branches, next_branch, holder, holder_fence, lease_end
        FROM records WHERE index_key = $1 AND id = $2 FOR UPDATE";

    /// Changes nothing when somebody else has created the record in between.
    pub(crate) const INSERT: &str = "
        INSERT INTO records (index_key, id, log, next_seq, closed, created_at, updated_at, fence, branches,
                             next_branch, sealed, holder, holder_fence, lease_end)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        ON CONFLICT DO NOTHING";

    pub(crate) const UPDATE: &str = "
        UPDATE records
        SET log = $3, next_seq = $4, closed = $5, created_at = $6, updated_at = $7, fence = $8, branches = $9,
            next_branch = $10, sealed = $11, holder = $12, holder_fence = $13, lease_end = $14
        WHERE index_key = $1 AND id = $2";

    pub(crate) const REMOVE: &str = "DELETE FROM records WHERE index_key = $1 AND id = $2";

    /// Reads a row of [`Self::LOCK`].
    pub(crate) fn from_row(row: &Row) -> Result<Self, Failure> {
        let (head, log) = log(row, 0)?.unzip();
        let holder = match column::<Option<&[u8]>>(row, 9)? {
            None => None,
            Some(name) => Some(Holder {
                name: text(name, "a holder's name")?,
                token: token(column(row, 10)?),
                lease_end: column::<Option<i64>>(row, 11)?.map(Timestamp::from_millis),
            }),
        };
        Ok(Self {
            log,
            head,
            holder,
            sealed: column(row, 2)?,
            fence: column::<Option<i64>>(row, 6)?.map(token),
            branches: count(column(row, 7)?, "branches of an execution")?,
            next_branch: column(row, 8)?,
        })
    }

    /// The holder, if it was given this very token.
    pub(crate) fn holder_under(&mut self, token: FenceToken) -> Option<&mut Holder> {
        self.holder.as_mut().filter(|holder| holder.token == token)
    }

    /// Seals or unseals the record, and with it the log.
    pub(crate) fn set_sealed(&mut self, sealed: bool) {
        self.sealed = sealed;
        self.head = self.head.map(|head| head.with_sealed(sealed));
    }

    /// Takes over a fence from another shard, without the lease's time, unless the one here is higher. Says whether that
    /// changed anything.
    pub(crate) fn raise_fence(&mut self, fence: Option<FenceToken>, holder: Option<&str>) -> bool {
        let Some(token) = fence.filter(|token| Some(*token) >= self.fence) else {
            return false;
        };
        let holder = holder.map(|name| Holder {
            name: name.into(),
            token,
            lease_end: None,
        });
        if self.fence == fence && (holder.is_none() || self.holder_under(token).is_some()) {
            return false;
        }
        self.fence = fence;
        self.holder = holder;
        true
    }

    /// What the contract decides by.
    pub(crate) fn state(found: Option<&Self>, plan: Option<PlanEpoch>) -> RecordState {
        let state = RecordState::new().with_plan(plan);
        let Some(record) = found else { return state };
        state
            .with_head(record.head)
            .with_fence(record.fence)
            .with_branches(record.branches > 0)
            .with_sealed(record.sealed)
    }

    /// Whether nothing is left that the record would have to be kept for.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none() && self.fence.is_none() && self.branches == 0 && !self.sealed
    }

    pub(crate) fn next_seq(&self) -> i64 {
        self.head.map_or(0, |head| head.next_sequence.cast_signed())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.head.is_some_and(|head| head.is_closed())
    }

    pub(crate) fn created_at(&self) -> i64 {
        self.head.map_or(0, |head| head.created_at.as_millis())
    }

    pub(crate) fn updated_at(&self) -> i64 {
        self.head.map_or(0, |head| head.updated_at.as_millis())
    }
}

/// Reads one column.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Failure> {
    row.try_get(at)
        .map_err(|error| corrupt(format!("a column cannot be read: {error}")))
}

/// Reads the columns `next_seq, closed, sealed, created_at, updated_at, log`, the first of which is column `at`.
pub(crate) fn log(row: &Row, at: usize) -> Result<Option<(LogHead, Uuid)>, Failure> {
    match (head(row, at)?, column(row, at + 5)?) {
        (Some(head), Some(log)) => Ok(Some((head, log))),
        (None, None) => Ok(None),
        _ => Err(corrupt(
            "a record has a log without a name, or the name of no log",
        )),
    }
}

/// Reads the columns `next_seq, closed, sealed, created_at, updated_at`, the first of which is column `at`.
pub(crate) fn head(row: &Row, at: usize) -> Result<Option<LogHead>, Failure> {
    let next = count(column(row, at)?, "events of a log")?;
    if next == 0 {
        return Ok(None);
    }
    let state = state(column(row, at + 1)?);
    let created_at = Timestamp::from_millis(column(row, at + 3)?);
    let updated_at = Timestamp::from_millis(column(row, at + 4)?);
    let sealed = column(row, at + 2)?;
    Ok(Some(
        LogHead::new(next, state, created_at, updated_at).with_sealed(sealed),
    ))
}

pub(crate) fn state(closed: bool) -> ExecutionState {
    if closed {
        ExecutionState::Closed
    } else {
        ExecutionState::Open
    }
}

/// Reads the columns `epoch, fingerprint`, the first of which is column `at`.
pub(crate) fn plan(row: &Row, at: usize) -> Result<Option<PlanEpoch>, Failure> {
    let Some(epoch) = column::<Option<i64>>(row, at)? else {
        return Ok(None);
    };
    let bytes: &[u8] = column(row, at + 1)?;
    let fingerprint = bytes
        .try_into()
        .map_err(|_| corrupt("the plan's fingerprint does not have 16 bytes"))?;
    let fingerprint = PlanFingerprint(u128::from_be_bytes(fingerprint));
    Ok(Some(PlanEpoch::new(epoch.cast_unsigned(), fingerprint)))
}

/// Reads an id.
pub(crate) fn id(row: &Row, at: usize) -> Result<ExecutionId, Failure> {
    ExecutionId::new(column::<&str>(row, at)?)
        .map_err(|_| corrupt("a stored execution id is not valid"))
}

/// Text that may hold any character, zero as well, and is stored as bytes for that.
pub(crate) fn text(bytes: &[u8], of: &str) -> Result<String, Failure> {
    str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| corrupt(format!("{of} is not UTF-8")))
}

/// The hash that an index key stands for.
pub(crate) fn hash_of(index_key: i64) -> RouteHash {
    RouteHash((index_key.cast_unsigned() ^ (1 << 63)).reverse_bits())
}

pub(crate) fn key_of(id: &ExecutionId) -> i64 {
    id.route_hash().index_key()
}

pub(crate) fn token(stored: i64) -> FenceToken {
    FenceToken(stored.cast_unsigned())
}

pub(crate) fn count(stored: i64, of: &str) -> Result<u64, Failure> {
    u64::try_from(stored).map_err(|_| corrupt(format!("the number of {of} is {stored}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_comes_back_from_its_index_key() {
        for hash in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, 1 << 63] {
            assert_eq!(hash_of(RouteHash(hash).index_key()), RouteHash(hash));
        }
    }

    #[test]
    fn of_two_fences_the_higher_counts_and_so_does_its_holder() {
        let mut record = Record::default();
        let holder = |record: &Record| {
            let holder = record.holder.as_ref()?;
            Some((holder.name.clone(), holder.token.0))
        };
        assert!(record.raise_fence(Some(FenceToken(5)), Some("here")));
        assert!(!record.raise_fence(None, Some("nobody")));
        assert!(!record.raise_fence(Some(FenceToken(4)), Some("lower")));
        assert!(!record.raise_fence(Some(FenceToken(5)), Some("equal")));
        assert_eq!(holder(&record), Some(("here".into(), 5)));
        record.fence = Some(FenceToken(6));
        assert!(record.raise_fence(Some(FenceToken(6)), Some("there")));
        assert_eq!(holder(&record), Some(("there".into(), 6)));
        assert!(record.raise_fence(Some(FenceToken(7)), None));
        assert_eq!((record.fence, holder(&record)), (Some(FenceToken(7)), None));
    }
}
