//! Group commit.

use std::time::{Duration, Instant};
use std::{mem, thread};

use loom_spi::Limits;
use rusqlite::{Connection, ErrorCode, Statement};

use super::memory::Memory;
use super::statements::Statements;
use super::task::Task;
use super::transaction::{Transaction, read_plan};
use crate::Options;
use crate::delete::reclaim;
use crate::failure::{Fault, concerns_the_file};
use crate::options::Clock;

/// The most changes in one transaction.
const MAX_CHANGES: usize = 512;
/// A group gets no further change once it writes this much, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Gathers changes and makes them in one transaction, so that they share one sync. Each stays all or nothing with an
/// answer of its own.
pub(super) struct Groups<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    memory: Memory,
    limits: Limits,
    clock: Clock,
    patience: Duration,
    waiting: Vec<Box<dyn Task>>,
    bytes: usize,
}

/// How an attempt at a transaction ended, if nothing was in the way of all its changes.
#[derive(PartialEq)]
enum Attempt {
    /// It was committed.
    Committed,
    /// One change met an error of its own, so all were rolled back.
    Spoiled,
}

impl<'c> Groups<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        options: &Options,
    ) -> Result<Self, rusqlite::Error> {
        // From here on `lock` does the waiting.
        connection.busy_timeout(Duration::ZERO)?;
        Ok(Self {
            connection,
            statements: Statements::new(connection)?,
            memory: Memory::default(),
            limits: options.limits,
            clock: options.clock.clone(),
            patience: options.busy_timeout,
            waiting: Vec::with_capacity(MAX_CHANGES),
            bytes: 0,
        })
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(super) fn add(&mut self, task: Box<dyn Task>) {
        if !task.is_abandoned() {
            self.bytes += task.weight();
            self.waiting.push(task);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_CHANGES || self.bytes >= MAX_BYTES
    }

    /// Whether there is something to do although no change is waiting.
    pub(super) fn has_garbage(&self) -> bool {
        self.memory.garbage == Some(true)
    }

    /// Makes the changes that are waiting, removes some garbage, and returns what to tell whom. A change that fails
    /// by itself is answered before.
    pub(super) fn commit(&mut self) -> Answers<'_> {
        self.bytes = 0;
        let mut tasks = mem::take(&mut self.waiting);
        let fault = if tasks.is_empty() && !self.has_garbage() {
            None
        } else {
            self.make_durable(&mut tasks)
        };
        self.waiting = tasks;
        Answers {
            tasks: &mut self.waiting,
            fault,
        }
    }

    /// Makes the changes, and says what was in the way of all of them, if anything was. A change that fails by
    /// itself is answered and taken out.
    fn make_durable(&mut self, tasks: &mut Vec<Box<dyn Task>>) -> Option<Fault> {
        match self.attempt(tasks, false) {
            Ok(Attempt::Committed) => None,
            // Rare, so the common case pays nothing for it: only now is each change made revocable.
            Ok(Attempt::Spoiled) => self.attempt(tasks, true).err(),
            Err(fault) => Some(fault),
        }
    }

    fn attempt(
        &mut self,
        tasks: &mut Vec<Box<dyn Task>>,
        revocable: bool,
    ) -> Result<Attempt, Fault> {
        let attempt = self.begin().and_then(|()| {
            if self.change(tasks, revocable)? == Attempt::Spoiled {
                return Ok(Attempt::Spoiled);
            }
            self.end()
        });
        if !matches!(attempt, Ok(Attempt::Committed)) {
            self.memory.clear();
            if !self.connection.is_autocommit() {
                // If even this fails the next BEGIN says so.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
        }
        attempt
    }

    fn begin(&mut self) -> Result<(), Fault> {
        let statements = &mut self.statements;
        let version = lock(&mut statements.begin, self.patience)
            .and_then(|()| statements.data_version.query_row([], |row| row.get(0)))
            .map_err(before_commit)?;
        if self.memory.data_version != Some(version) {
            self.memory.clear();
            self.memory.data_version = Some(version);
        }
        Ok(())
    }

    fn change(
        &mut self,
        tasks: &mut Vec<Box<dyn Task>>,
        revocable: bool,
    ) -> Result<Attempt, Fault> {
        let plan = match self.memory.plan {
            Some(plan) => plan,
            None => read_plan(self.connection).map_err(before_commit)?,
        };
        self.memory.plan = Some(plan);
        let mut transaction = Transaction {
            connection: self.connection,
            statements: &mut self.statements,
            memory: &mut self.memory,
            limits: &self.limits,
            clock: &self.clock,
            plan,
        };
        let mut at = 0;
        while let Some(task) = tasks.get_mut(at) {
            if revocable {
                savepoint(self.connection, "SAVEPOINT change")?;
            }
            let made = task.attempt(&mut transaction);
            match made {
                Ok(()) => at += 1,
                Err(error) if concerns_the_file(&error) => return Err(before_commit(error)),
                Err(_) if !revocable => return Ok(Attempt::Spoiled),
                Err(error) => {
                    transaction.memory.clear();
                    savepoint(self.connection, "ROLLBACK TO change")?;
                    tasks.remove(at).settle(Some(Fault::new(error, true)));
                }
            }
            if revocable {
                savepoint(self.connection, "RELEASE change")?;
            }
        }
        if self.memory.garbage != Some(false) {
            self.reclaim()?;
        }
        Ok(Attempt::Committed)
    }

    /// Removes some garbage. What is in the way of that is in the way of nothing else.
    fn reclaim(&mut self) -> Result<(), Fault> {
        savepoint(self.connection, "SAVEPOINT reclaim")?;
        match reclaim(self.connection) {
            Ok(more) => self.memory.garbage = Some(more),
            Err(error) if concerns_the_file(&error) => return Err(before_commit(error)),
            Err(_) => {
                self.memory.garbage = Some(false);
                savepoint(self.connection, "ROLLBACK TO reclaim")?;
            }
        }
        savepoint(self.connection, "RELEASE reclaim")
    }

    fn end(&mut self) -> Result<Attempt, Fault> {
        match self.statements.commit.execute([]) {
            Ok(_) => Ok(Attempt::Committed),
            Err(error) => {
                // A commit that found no room wrote no complete commit record. Of any other failure, a failed
                // sync above all, it is not certain that nothing of it reached the disk.
                let known = matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)
                );
                Err(Fault::new(error, known))
            }
        }
    }
}

/// What is left to do once a group is durable, or has failed.
pub(super) struct Answers<'a> {
    tasks: &'a mut Vec<Box<dyn Task>>,
    fault: Option<Fault>,
}

impl Answers<'_> {
    /// How many wait for one.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Gives them.
    pub(super) fn give(self) {
        for task in self.tasks.drain(..) {
            task.settle(self.fault.clone());
        }
    }
}

/// Takes the write lock. SQLite's own way of waiting for another process looks less and less often, in the end every
/// 100 ms, and so hardly ever gets a turn beside a process that writes all the time.
fn lock(begin: &mut Statement<'_>, patience: Duration) -> Result<(), rusqlite::Error> {
    const OFTEN: Duration = Duration::from_micros(100);
    const SELDOM: Duration = Duration::from_millis(1);
    let mut pause = OFTEN;
    let mut since = None;
    loop {
        match begin.execute([]) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(error);
                }
                thread::sleep(pause);
                pause = (pause * 2).min(SELDOM);
            }
            begun => return begun.map(drop),
        }
    }
}

fn before_commit(error: rusqlite::Error) -> Fault {
    Fault::new(error, true)
}

fn savepoint(connection: &Connection, sql: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map(|_| ())
        .map_err(before_commit)
}
