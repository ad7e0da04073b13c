//! What the table `records` says of an execution.

use std::sync::Arc;

use loom_spi::{
    ExecutionId, ExecutionState, FenceToken, LogHead, PlanEpoch, PlanFingerprint, RecordState,
    RouteHash, Timestamp,
};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};

use crate::failure::{Failure, corrupt};

/// One row of `records`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Its number; edges refer to it.
    pub(crate) record: i64,
    /// The number of the log; its events refer to it.
    pub(crate) log: Option<i64>,
    pub(crate) head: Option<LogHead>,
    pub(crate) fence: Option<FenceToken>,
    pub(crate) holder: Option<Holder>,
    pub(crate) branches: u64,
    pub(crate) sealed: bool,
}

/// Who acquired a fence last, and the lease that came with it, if any.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) name: Arc<str>,
    /// What was handed out. The fence may have risen since, through an append.
    pub(crate) token: FenceToken,
    pub(crate) lease_end: Option<Timestamp>,
}

impl Record {
    pub(crate) const FIND: &str = "
        SELECT next_seq, closed, sealed, created_at, updated_at,
               log, record, fence, branches, holder, holder_fence, lease_end
        FROM records WHERE index_key = ?1 AND id = ?2";

    pub(crate) const INSERT: &str = "
        INSERT INTO records (index_key, id, log, next_seq, closed, created_at, updated_at, fence,
                             branches, sealed, holder, holder_fence, lease_end)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

    pub(crate) const UPDATE: &str = "
        UPDATE records
        SET log = ?2, next_seq = ?3, closed = ?4, created_at = ?5, updated_at = ?6, fence = ?7,
            branches = ?8, sealed = ?9, holder = ?10, holder_fence = ?11, lease_end = ?12
        WHERE record = ?1";

    /// What an append changes in most cases.
    pub(crate) const UPDATE_HEAD: &str = "
        UPDATE records SET next_seq = ?2, closed = ?3, updated_at = ?4 WHERE record = ?1";

    /// Looks a record up with [`Self::FIND`]: one descent of the index, one of the table.
    pub(crate) fn find(
        statement: &mut Statement<'_>,
        id: &ExecutionId,
    ) -> Result<Option<Self>, Failure> {
        let mut rows = statement.query((id.route_hash().index_key(), id.as_str()))?;
        rows.next()?.map(Self::from_row).transpose()
    }

    fn from_row(row: &Row<'_>) -> Result<Self, Failure> {
        let (head, log) = log(row, 0)?.unzip();
        Ok(Self {
            head,
            log,
            sealed: row.get(2)?,
            record: row.get(6)?,
            fence: row.get::<_, Option<i64>>(7)?.map(token),
            branches: count(row.get(8)?, "branches of an execution")?,
            holder: match row.get(9)? {
                None => None,
                Some(name) => Some(Holder {
                    name,
                    token: token(row.get(10)?),
                    lease_end: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_millis),
                }),
            },
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

    /// Adds the row of `id` with [`Self::INSERT`], and notes its number.
    pub(crate) fn insert(
        &mut self,
        statement: &mut Statement<'_>,
        id: &ExecutionId,
    ) -> Result<(), Failure> {
        self.record = statement.insert((
            id.route_hash().index_key(),
            id.as_str(),
            self.log,
            self.next_seq(),
            self.is_closed(),
            self.created_at(),
            self.updated_at(),
            self.fence.map(|token| token.0.cast_signed()),
            self.branches.cast_signed(),
            self.sealed,
            self.holder.as_ref().map(|holder| &*holder.name),
            self.holder_fence(),
            self.lease_end(),
        ))?;
        Ok(())
    }

    /// Writes the row back with [`Self::UPDATE`].
    pub(crate) fn update(&self, statement: &mut Statement<'_>) -> Result<(), Failure> {
        statement.execute((
            self.record,
            self.log,
            self.next_seq(),
            self.is_closed(),
            self.created_at(),
            self.updated_at(),
            self.fence.map(|token| token.0.cast_signed()),
            self.branches.cast_signed(),
            self.sealed,
            self.holder.as_ref().map(|holder| &*holder.name),
            self.holder_fence(),
            self.lease_end(),
        ))?;
        Ok(())
    }

    /// Writes the row back with [`Self::UPDATE_HEAD`].
    pub(crate) fn update_head(&self, statement: &mut Statement<'_>) -> Result<(), Failure> {
        statement.execute((
            self.record,
            self.next_seq(),
            self.is_closed(),
            self.updated_at(),
        ))?;
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.head.is_some_and(|head| head.is_closed())
    }

    fn created_at(&self) -> i64 {
        self.head.map_or(0, |head| head.created_at.as_millis())
    }

    fn updated_at(&self) -> i64 {
        self.head.map_or(0, |head| head.updated_at.as_millis())
    }

    fn holder_fence(&self) -> Option<i64> {
        Some(self.holder.as_ref()?.token.0.cast_signed())
    }

    fn lease_end(&self) -> Option<i64> {
        Some(self.holder.as_ref()?.lease_end?.as_millis())
    }

    fn next_seq(&self) -> i64 {
        self.head.map_or(0, |head| head.next_sequence.cast_signed())
    }
}

/// Reads the columns `next_seq, closed, sealed, created_at, updated_at, log`, the first of which is column `at`.
pub(crate) fn log(row: &Row<'_>, at: usize) -> Result<Option<(LogHead, i64)>, Failure> {
    match (head(row, at)?, row.get(at + 5)?) {
        (Some(head), Some(log)) => Ok(Some((head, log))),
        (None, None) => Ok(None),
        _ => Err(corrupt(
            "a record has a log without a number, or the number of no log",
        )),
    }
}

/// Reads the columns `next_seq, closed, sealed, created_at, updated_at`, the first of which is column `at`.
pub(crate) fn head(row: &Row<'_>, at: usize) -> Result<Option<LogHead>, Failure> {
    let next = count(row.get(at)?, "events of a log")?;
    if next == 0 {
        return Ok(None);
    }
    let state = match row.get(at + 1)? {
        false => ExecutionState::Open,
        true => ExecutionState::Closed,
    };
    let created_at = Timestamp::from_millis(row.get(at + 3)?);
    let updated_at = Timestamp::from_millis(row.get(at + 4)?);
    Ok(Some(
        LogHead::new(next, state, created_at, updated_at).with_sealed(row.get(at + 2)?),
    ))
}

/// Reads the columns `epoch, fingerprint`, the first of which is column `at`.
pub(crate) fn plan(row: &Row<'_>, at: usize) -> Result<Option<PlanEpoch>, rusqlite::Error> {
    let Some(epoch) = row.get::<_, Option<i64>>(at)? else {
        return Ok(None);
    };
    let fingerprint: [u8; 16] = row.get(at + 1)?;
    let fingerprint = PlanFingerprint(u128::from_be_bytes(fingerprint));
    Ok(Some(PlanEpoch::new(epoch.cast_unsigned(), fingerprint)))
}

/// Reads an id.
pub(crate) fn id(row: &Row<'_>, at: usize) -> Result<ExecutionId, Failure> {
    let text = match row.get_ref(at)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    };
    text.and_then(|text| ExecutionId::new(text).ok())
        .ok_or_else(|| corrupt("a stored execution id is not valid"))
}

/// The hash that an index key stands for.
pub(crate) fn hash_of(index_key: i64) -> RouteHash {
    RouteHash((index_key.cast_unsigned() ^ (1 << 63)).reverse_bits())
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

    fn held(token: u64, name: &str) -> Record {
        let mut record = Record::default();
        assert!(record.raise_fence(Some(FenceToken(token)), Some(name)));
        record
    }

    fn holder(record: &Record) -> Option<(&str, u64)> {
        let holder = record.holder.as_ref()?;
        Some((&*holder.name, holder.token.0))
    }

    #[test]
    fn of_two_fences_the_higher_counts_and_so_does_its_holder() {
        let mut record = held(5, "here");
        assert!(!record.raise_fence(None, Some("nobody")));
        assert!(!record.raise_fence(Some(FenceToken(4)), Some("lower")));
        assert!(!record.raise_fence(Some(FenceToken(5)), Some("equal")));
        assert_eq!(holder(&record), Some(("here", 5)));
        assert!(record.raise_fence(Some(FenceToken(6)), Some("there")));
        assert_eq!(holder(&record), Some(("there", 6)));
        assert!(record.raise_fence(Some(FenceToken(7)), None));
        assert_eq!((record.fence, holder(&record)), (Some(FenceToken(7)), None));
    }

    #[test]
    fn a_token_that_came_with_an_append_gets_the_name_of_its_holder() {
        let mut record = held(5, "earlier");
        record.fence = Some(FenceToken(6));
        assert!(record.raise_fence(Some(FenceToken(6)), Some("there")));
        assert_eq!(holder(&record), Some(("there", 6)));
        assert!(!record.raise_fence(Some(FenceToken(6)), Some("there")));
    }

    #[test]
    fn a_hash_comes_back_from_its_index_key() {
        for hash in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, 1 << 63] {
            assert_eq!(hash_of(RouteHash(hash).index_key()), RouteHash(hash));
        }
    }
}
