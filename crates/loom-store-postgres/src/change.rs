//! Changes that take more than one statement: what they see, and what makes them whole.

use std::future::Future;

use futures_util::future::{OptionFuture, join4, join5};
use loom_spi::{ExecutionId, PlanEpoch, RecordState, Timestamp};

use crate::failure::{Failure, corrupt};
use crate::record::{self, Record, key_of};
use crate::session::Session;

/// A change to the store.
pub(crate) trait Work: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Makes the change, or refuses it. It may be asked again in a new transaction, when somebody else was faster.
    fn run(
        &self,
        change: &mut Change<'_>,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;

    /// Whether no other such change of the same execution may run at the same time. A row lock does that where there is
    /// a row; this is for those that look for one that is not there.
    fn is_exclusive(&self) -> bool {
        false
    }
}

/// An open transaction in which the plan cannot change.
pub(crate) struct Change<'s> {
    session: &'s Session,
    plan: Option<PlanEpoch>,
    now: Timestamp,
    found: Option<Record>,
}

/// Held by every change until it is committed, and exclusively by a publisher.
pub(crate) const HOLD_PLAN: &str = "
    SELECT pg_advisory_xact_lock_shared((1280266061::int8 << 32) | 'shard'::regclass::oid::int8)";

/// A statement after [`HOLD_PLAN`], so that its snapshot is not older than the lock.
pub(crate) const PLAN: &str = "
    SELECT epoch, fingerprint, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8
    FROM shard WHERE one = 1";

const HOLD_ID: &str = "SELECT pg_advisory_xact_lock($1)";

/// Makes a change in a transaction of its own. `ahead` is added to the server's clock, in milliseconds.
pub(crate) async fn make<W: Work>(
    session: &Session,
    id: Option<&ExecutionId>,
    ahead: i64,
    work: &W,
) -> Result<W::Output, Failure> {
    let mut change = match begin(session, id, ahead, work.is_exclusive()).await {
        Ok(change) => change,
        Err(failure) => {
            session.roll_back().await;
            return Err(failure);
        }
    };
    match work.run(&mut change).await {
        Ok(output) => {
            session.commit().await?;
            Ok(output)
        }
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

/// Begins a transaction, and finds out what everything depends on: in one round trip.
async fn begin<'s>(
    session: &'s Session,
    id: Option<&ExecutionId>,
    ahead: i64,
    exclusive: bool,
) -> Result<Change<'s>, Failure> {
    let hold_plan = session.prepare(HOLD_PLAN).await?;
    let read_plan = session.prepare(PLAN).await?;
    let hold_id = session.prepare(HOLD_ID).await?;
    let lock = session.prepare(Record::LOCK).await?;
    let key = id.map_or(0, key_of);
    let text = id.map_or("", ExecutionId::as_str);
    // Another space of numbers than the lock of the plan: keys of all kinds are as likely, and that is one of 2^64.
    let id_lock = key.rotate_left(1);
    let id_parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&id_lock];
    let record_parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&key, &text];
    let hold_id: OptionFuture<_> = (exclusive && id.is_some())
        .then(|| session.query_prepared(&hold_id, &id_parameters))
        .into();
    let locked: OptionFuture<_> = id
        .map(|_| session.query_prepared(&lock, &record_parameters))
        .into();
    let (begun, held, id_held, plan, locked) = join5(
        session.begin(),
        session.query_prepared(&hold_plan, &[]),
        hold_id,
        session.query_prepared(&read_plan, &[]),
        locked,
    )
    .await;
    begun?;
    held?;
    id_held.transpose()?;
    let plan = plan?;
    let row = plan.first().ok_or_else(no_shard_row)?;
    let found = match locked.transpose()?.as_deref() {
        Some([row, ..]) => Some(Record::from_row(row)?),
        _ => None,
    };
    let now: i64 = record::column(row, 2)?;
    Ok(Change {
        session,
        plan: record::plan(row, 0)?,
        now: Timestamp::from_millis(now.saturating_add(ahead)),
        found,
    })
}

impl<'s> Change<'s> {
    pub(crate) fn session(&self) -> &'s Session {
        self.session
    }

    /// By the server's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// What is stored of the execution that the change is about, and what the contract decides by.
    pub(crate) fn find(&self) -> (Option<Record>, RecordState) {
        let state = Record::state(self.found.as_ref(), self.plan);
        (self.found.clone(), state)
    }

    /// Writes the record of the execution that the change is about, or removes it when nothing is left of it.
    pub(crate) async fn store(&self, id: &ExecutionId, record: &Record) -> Result<(), Failure> {
        let key = key_of(id);
        if record.is_empty() {
            if self.found.is_some() {
                self.session
                    .execute(Record::REMOVE, &[&key, &id.as_str()])
                    .await?;
            }
            return Ok(());
        }
        let sql = if self.found.is_some() {
            Record::UPDATE
        } else {
            Record::INSERT
        };
        let holder = record.holder.as_ref();
        let written = self
            .session
            .execute(
                sql,
                &[
                    &key,
                    &id.as_str(),
                    &record.log,
                    &record.next_seq(),
                    &record.is_closed(),
                    &record.created_at(),
                    &record.updated_at(),
                    &record.fence.map(|token| token.0.cast_signed()),
                    &record.branches.cast_signed(),
                    &record.next_branch,
                    &record.sealed,
                    &holder.map(|holder| holder.name.as_bytes()),
                    &holder.map(|holder| holder.token.0.cast_signed()),
                    &holder.and_then(|holder| Some(holder.lease_end?.as_millis())),
                ],
            )
            .await?;
        if written == 1 {
            Ok(())
        } else {
            // Somebody else created it since it was looked for.
            Err(Failure::Again)
        }
    }
}

pub(crate) fn no_shard_row() -> Failure {
    corrupt("the row that says which shard this is is missing")
}

/// Begins a transaction in which nobody else changes anything, and reads the plan.
pub(crate) async fn begin_alone(
    session: &Session,
    patience: i64,
) -> Result<Option<PlanEpoch>, Failure> {
    const PATIENCE: &str = "SELECT set_config('lock_timeout', $1::int8::text, true)";
    const HOLD_ALONE: &str = "
        SELECT pg_advisory_xact_lock((1280266061::int8 << 32) | 'shard'::regclass::oid::int8)";
    let patient = session.prepare(PATIENCE).await?;
    let hold = session.prepare(HOLD_ALONE).await?;
    let read_plan = session.prepare(PLAN).await?;
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&patience];
    let (begun, patient, held, plan) = join4(
        session.begin(),
        session.query_prepared(&patient, &parameters),
        session.query_prepared(&hold, &[]),
        session.query_prepared(&read_plan, &[]),
    )
    .await;
    begun?;
    patient?;
    held?;
    let plan = plan?;
    record::plan(plan.first().ok_or_else(no_shard_row)?, 0)
}
