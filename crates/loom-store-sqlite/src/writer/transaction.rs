//! What a change sees of the store while the writer holds the write lock.

use loom_spi::{ExecutionId, Limits, PlanEpoch, RecordState, Timestamp};
use rusqlite::Connection;

use super::memory::Memory;
use super::statements::Statements;
use crate::failure::Failure;
use crate::head;
use crate::options::Clock;
use crate::record::{self, Record};

/// The open transaction of a group.
pub(crate) struct Transaction<'a, 'c> {
    pub(super) connection: &'c Connection,
    pub(super) statements: &'a mut Statements<'c>,
    pub(super) memory: &'a mut Memory,
    pub(super) limits: &'a Limits,
    pub(super) clock: &'a Clock,
    pub(super) plan: Option<PlanEpoch>,
}

impl<'a, 'c> Transaction<'a, 'c> {
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn statements(&mut self) -> &mut Statements<'c> {
        self.statements
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The plan that the store is under.
    pub(crate) fn plan(&self) -> Option<PlanEpoch> {
        self.plan
    }

    /// To be called with every change of the plan.
    pub(crate) fn set_plan(&mut self, plan: PlanEpoch) {
        self.plan = Some(plan);
        self.memory.plan = None;
    }

    /// What is stored of an execution, and what the contract decides by.
    pub(crate) fn find(
        &mut self,
        id: &ExecutionId,
    ) -> Result<(Option<Record>, RecordState), Failure> {
        let found = match self.memory.records.get(id) {
            Some(record) => Some(record.clone()),
            None => Record::find(&mut self.statements.find_record, id)?,
        };
        let state = Record::state(found.as_ref(), self.plan);
        Ok((found, state))
    }

    /// Keeps what was just written of an execution.
    pub(crate) fn remember(&mut self, id: &ExecutionId, record: Record) {
        self.memory.records.insert(id.clone(), record);
    }

    /// Adds the record of an execution that has none yet.
    pub(crate) fn insert(&mut self, id: &ExecutionId, mut record: Record) -> Result<(), Failure> {
        record.insert(&mut self.statements.insert_record, id)?;
        self.remember(id, record);
        Ok(())
    }

    /// Writes a record back whole, or removes it when nothing is left of it.
    pub(crate) fn store(&mut self, id: &ExecutionId, record: Record) -> Result<(), Failure> {
        if record.is_empty() {
            self.statements.remove_record.execute([record.record])?;
            self.memory.records.remove(id);
        } else {
            record.update(&mut self.statements.update_record)?;
            self.remember(id, record);
        }
        Ok(())
    }

    /// A number for a new log. Numbers of logs whose events are still there are never given again.
    pub(crate) fn new_log(&mut self) -> Result<i64, Failure> {
        let log = match self.memory.next_log {
            Some(log) => log,
            None => {
                self.connection
                    .prepare_cached(LAST_LOG)?
                    .query_row([], |row| row.get::<_, i64>(0))?
                    + 1
            }
        };
        self.memory.next_log = Some(log + 1);
        Ok(log)
    }

    /// Tells the writer that there are events to be reclaimed.
    pub(crate) fn leave_garbage(&mut self, log: i64) -> Result<(), Failure> {
        self.connection
            .prepare_cached("INSERT INTO garbage (log) VALUES (?1)")?
            .execute([log])?;
        self.expect_garbage();
        Ok(())
    }

    /// To be called when logs were added to `garbage`.
    pub(crate) fn expect_garbage(&mut self) {
        self.memory.garbage = Some(true);
    }
}

/// Reads the plan that the store is under.
pub(super) fn read_plan(connection: &Connection) -> Result<Option<PlanEpoch>, rusqlite::Error> {
    let mut find = connection.prepare_cached(head::PLAN)?;
    let mut rows = find.query([])?;
    match rows.next()? {
        Some(row) => record::plan(row, 0),
        None => Ok(None),
    }
}

pub(crate) const LAST_LOG: &str = "SELECT coalesce(max(log), 0) FROM events";
