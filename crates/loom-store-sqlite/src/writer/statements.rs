//! The statements of the append path, prepared once.

use rusqlite::{Connection, Statement};

use crate::record::Record;

/// Looking them up in the connection's cache for every event would cost a twentieth of the writer's time.
pub(crate) struct Statements<'c> {
    pub(super) begin: Statement<'c>,
    pub(super) data_version: Statement<'c>,
    pub(super) commit: Statement<'c>,
    pub(crate) find_record: Statement<'c>,
    pub(crate) insert_record: Statement<'c>,
    pub(crate) update_record: Statement<'c>,
    pub(crate) update_head: Statement<'c>,
    pub(crate) remove_record: Statement<'c>,
    pub(crate) insert_event: Statement<'c>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            begin: prepare("BEGIN IMMEDIATE")?,
            data_version: prepare("PRAGMA data_version")?,
            commit: prepare("COMMIT")?,
            find_record: prepare(Record::FIND)?,
            insert_record: prepare(Record::INSERT)?,
            update_record: prepare(Record::UPDATE)?,
            update_head: prepare(Record::UPDATE_HEAD)?,
            remove_record: prepare("DELETE FROM records WHERE record = ?1")?,
            insert_event: prepare(
                "INSERT INTO events (log, seq, terminal, recorded_at, kind, payload)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?,
        })
    }
}
