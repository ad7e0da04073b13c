//! Appends as the database takes them: many in one statement, which decides about each.

use loom_spi::{Append, FenceToken, LogHead, RecordState, StoreErrorKind, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::{Failure, Fault};
use crate::record::{self, column, key_of};
use crate::session::Session;

/// See `sql/append.sql`. The limits were checked before.
const APPEND: &str = "
    SELECT n, epoch, fingerprint, next_seq, closed, sealed, fence
    FROM append_group($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";

/// What became of one append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was made; the log has this many events.
    Made(u64),
    /// It was refused, because of this state.
    Found(Box<RecordState>),
}

/// How long an append waits for somebody who holds its record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Briefly, so that the others in the group need not wait longer.
    Short,
    /// As long as a statement may take.
    Long,
}

impl Patience {
    fn setting(self) -> &'static str {
        match self {
            Self::Short => "250ms",
            Self::Long => "0",
        }
    }
}

/// Makes appends in one transaction; each is made or refused by itself. They are in ascending order of
/// [`position`], each execution once, and under one plan.
pub(crate) async fn append(
    session: &Session,
    appends: &[&Append],
    patience: Patience,
) -> Result<Vec<Answer>, Failure> {
    let columns = Columns::of(appends);
    let epoch = appends.first().and_then(|append| append.epoch);
    let fingerprint = epoch.map(|epoch| epoch.fingerprint.0.to_be_bytes());
    let rows = session
        .query_and_commit(
            APPEND,
            &[
                &patience.setting(),
                &epoch.map(|epoch| epoch.epoch.cast_signed()),
                &fingerprint.as_ref().map(<[u8; 16]>::as_slice),
                &columns.keys,
                &columns.ids,
                &columns.expected,
                &columns.counts,
                &columns.closes,
                &columns.fences,
                &columns.logs,
                &columns.first_at,
                &columns.last_at,
                &columns.appends,
                &columns.seqs,
                &columns.times,
                &columns.terminals,
                &columns.kinds,
                &columns.payloads,
            ],
        )
        .await?;
    answers(appends, &rows)
}

fn answers(appends: &[&Append], rows: &[Row]) -> Result<Vec<Answer>, Failure> {
    let mut answers: Vec<Answer> = appends
        .iter()
        .map(|append| Answer::Made(append.expected + append.events.len() as u64))
        .collect();
    for row in rows {
        let state = RecordState::new().with_plan(record::plan(row, 1)?);
        let Some(at) = usize::try_from(column::<i32>(row, 0)?)
            .unwrap_or_default()
            .checked_sub(1)
        else {
            // The plan refuses all of them.
            answers.fill(Answer::Found(Box::new(state)));
            return Ok(answers);
        };
        if let Some(answer) = answers.get_mut(at) {
            *answer = Answer::Found(Box::new(found(row, state)?));
        }
    }
    Ok(answers)
}

fn found(row: &Row, state: RecordState) -> Result<RecordState, Failure> {
    let Some(next) = column::<Option<i64>>(row, 3)? else {
        return Ok(state);
    };
    let next = record::count(next, "events of a log")?;
    let at = Timestamp::from_millis(0);
    let log = record::state(column(row, 4)?);
    let head = (next > 0).then(|| LogHead::new(next, log, at, at));
    let fence = column::<Option<i64>>(row, 6)?.map(record::token);
    Ok(state
        .with_head(head)
        .with_sealed(column(row, 5)?)
        .with_fence(fence))
}

/// Where an append stands in the order of locking.
pub(crate) fn position(append: &Append) -> (i64, &str) {
    (key_of(&append.id), append.id.as_str())
}

/// Refuses what a signed integer cannot hold; no store hands such a token out.
pub(crate) fn check_fence(append: &Append) -> Result<(), StoreErrorKind> {
    match append.fence {
        Some(token) if token > FenceToken::MAX => Err(StoreErrorKind::InvalidArgument {
            reason: format!(
                "fence tokens end at {}, this one is {token}",
                FenceToken::MAX
            ),
        }),
        _ => Ok(()),
    }
}

/// The arrays that the statement takes.
#[derive(Default)]
struct Columns<'a> {
    keys: Vec<i64>,
    ids: Vec<&'a str>,
    expected: Vec<i64>,
    counts: Vec<i64>,
    closes: Vec<bool>,
    fences: Vec<Option<i64>>,
    logs: Vec<Uuid>,
    first_at: Vec<i64>,
    last_at: Vec<i64>,
    appends: Vec<i32>,
    seqs: Vec<i64>,
    times: Vec<i64>,
    terminals: Vec<bool>,
    kinds: Vec<&'a [u8]>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(appends: &[&'a Append]) -> Self {
        let mut columns = Self::default();
        for (number, append) in (1..).zip(appends) {
            let at = |event: Option<&loom_spi::NewEvent>| {
                event.map_or(0, |event| event.recorded_at.as_millis())
            };
            columns.keys.push(key_of(&append.id));
            columns.ids.push(append.id.as_str());
            columns.expected.push(append.expected.cast_signed());
            columns
                .counts
                .push(i64::try_from(append.events.len()).unwrap_or(i64::MAX));
            columns
                .closes
                .push(append.events.last().is_some_and(|last| last.terminal));
            columns
                .fences
                .push(append.fence.map(|token| token.0.cast_signed()));
            // In the order of time, so that new logs are neighbours in the index. Only used for a new log.
            columns.logs.push(Uuid::now_v7());
            columns.first_at.push(at(append.events.first()));
            columns.last_at.push(at(append.events.last()));
            for (sequence, event) in (append.expected..).zip(&append.events) {
                columns.appends.push(number);
                columns.seqs.push(sequence.cast_signed());
                columns.times.push(event.recorded_at.as_millis());
                columns.terminals.push(event.terminal);
                columns.kinds.push(event.kind.as_bytes());
                columns.payloads.push(&event.payload);
            }
        }
        columns
    }
}

/// Whether a failure says something about one append of a group only.
pub(crate) fn concerns_one(failure: &Failure) -> bool {
    match failure {
        Failure::Fault(fault) => Fault::concerns_one(fault),
        Failure::Refused(_) | Failure::Again | Failure::Open(_) => false,
    }
}
