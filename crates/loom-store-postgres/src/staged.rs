//! Logs that arrive in parts: their events are stored under a log that no record refers to yet.
//!
//! Whoever looks at the row of an execution runs exclusively for it.

use loom_spi::{ExecutionId, LogHead, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::{Failure, corrupt};
use crate::garbage;
use crate::record::{self, column};
use crate::session::Session;

/// A row of `staged`: a log of which some parts are here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) log: Uuid,
    /// How many events of it are here: at least 1, and fewer than the whole log has.
    pub(crate) next: u64,
    /// What the whole log is: tells it apart from one that was deleted and made anew on the source.
    pub(crate) head: LogHead,
}

impl Staged {
    /// What has arrived of an execution's log.
    pub(crate) async fn find(session: &Session, id: &ExecutionId) -> Result<Option<Self>, Failure> {
        let row = session.query_opt(FIND, &[&id.as_str()]).await?;
        row.as_ref().map(Self::from_row).transpose()
    }

    fn from_row(row: &Row) -> Result<Self, Failure> {
        let next = record::count(column(row, 1)?, "events that were staged")?;
        let events = record::count(column(row, 2)?, "events of a log that is staged")?;
        if next == 0 || next >= events {
            return Err(corrupt(format!(
                "of a log of {events} events {next} are staged: expected at least one, and not all"
            )));
        }
        let state = record::state(column(row, 3)?);
        let created_at = Timestamp::from_millis(column(row, 4)?);
        let updated_at = Timestamp::from_millis(column(row, 5)?);
        Ok(Self {
            log: column(row, 0)?,
            next,
            head: LogHead::new(events, state, created_at, updated_at),
        })
    }

    /// Notes how far it got.
    pub(crate) async fn put(&self, session: &Session, id: &ExecutionId) -> Result<(), Failure> {
        session
            .execute(
                PUT,
                &[
                    &id.as_str(),
                    &self.log,
                    &self.next.cast_signed(),
                    &self.head.next_sequence.cast_signed(),
                    &self.head.is_closed(),
                    &self.head.created_at.as_millis(),
                    &self.head.updated_at.as_millis(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Takes the row away, because the log has a record now.
    pub(crate) async fn attached(session: &Session, id: &ExecutionId) -> Result<(), Failure> {
        session.execute(REMOVE, &[&id.as_str()]).await?;
        Ok(())
    }

    /// Drops what has arrived: it will not be completed.
    pub(crate) async fn drop(self, session: &Session, id: &ExecutionId) -> Result<(), Failure> {
        Self::attached(session, id).await?;
        garbage::leave(session, self.log).await
    }
}

const FIND: &str = "
    SELECT log, next_seq, events, closed, created_at, updated_at FROM staged WHERE id = $1";

const PUT: &str = "
    INSERT INTO staged (id, log, next_seq, events, closed, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (id) DO UPDATE SET next_seq = excluded.next_seq";

const REMOVE: &str = "DELETE FROM staged WHERE id = $1";

/// Drops all that has arrived and is not complete, because the plan changes.
pub(crate) const DROP_ALL: &str = "
    WITH dropped AS (DELETE FROM staged RETURNING log)
    INSERT INTO garbage (log) SELECT log FROM dropped ON CONFLICT DO NOTHING";
