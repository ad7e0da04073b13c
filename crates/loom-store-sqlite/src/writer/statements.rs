//! The statements that are used most, prepared once.

use rusqlite::{Connection, Statement};

use crate::record::Record;
use crate::{lineage, marks, staged};

/// They are kept rather than looked up in the connection's cache, not so much for the look-up: the cache clears the
/// values bound to a statement, and SQLite then plans anew any whose plan could depend on them.
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
    pub(crate) find_parent: Statement<'c>,
    pub(crate) insert_edge: Statement<'c>,
    pub(crate) find_mark: Statement<'c>,
    pub(crate) find_staged: Statement<'c>,
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
            find_parent: prepare(lineage::PARENT)?,
            insert_edge: prepare("INSERT INTO edges (parent, child, label) VALUES (?1, ?2, ?3)")?,
            find_mark: prepare(marks::FIND)?,
            find_staged: prepare(staged::FIND)?,
        })
    }
}
