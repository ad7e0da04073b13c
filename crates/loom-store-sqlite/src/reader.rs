//! A connection that only reads, with the statements that are used most.

use rusqlite::{Connection, Statement};

use crate::failure::Failure;
use crate::{head, lineage, list, read, records};

/// The statements are kept rather than looked up in the connection's cache, not so much for the look-up: the cache
/// clears the values bound to a statement, and SQLite then plans anew any whose plan could depend on them.
pub(crate) struct Reader<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    pub(crate) statements: Statements<'c>,
}

/// What a reader looks with.
pub(crate) struct Statements<'c> {
    pub(crate) head: Statement<'c>,
    pub(crate) events: Statement<'c>,
    pub(crate) list: Statement<'c>,
    pub(crate) plan: Statement<'c>,
    pub(crate) children: Statement<'c>,
    pub(crate) parent: Statement<'c>,
    pub(crate) inspect: Statement<'c>,
    pub(crate) records: Statement<'c>,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            connection,
            begin: prepare("BEGIN")?,
            commit: prepare("COMMIT")?,
            statements: Statements {
                head: prepare(head::FIND)?,
                events: prepare(read::EVENTS)?,
                list: prepare(list::LIST)?,
                plan: prepare(head::PLAN)?,
                children: prepare(lineage::CHILDREN)?,
                parent: prepare(lineage::PARENT)?,
                inspect: prepare(records::INSPECT)?,
                records: prepare(records::RECORDS)?,
            },
        })
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Lets several statements see the same state of the store.
    pub(crate) fn snapshot<T>(
        &mut self,
        look: impl FnOnce(&mut Statements<'c>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.begin.execute([])?;
        let found = look(&mut self.statements);
        if self.commit.execute([]).is_err() && !self.connection.is_autocommit() {
            // If even this fails the next BEGIN says so.
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        // Nothing was changed, so how the transaction ended says nothing about what was found.
        found
    }
}
