//! Group commit.

use std::time::{Duration, Instant};
use std::{mem, thread};

use loom_spi::Limits;
use rusqlite::{Connection, ErrorCode, Statement};

use super::answer::WokenAtLast;
use super::memory::Memory;
use super::statements::Statements;
use super::task::Task;
use super::transaction::{Transaction, read_plan};
use crate::Options;
use crate::delete::{has_garbage, reclaim};
use crate::failure::{Fault, concerns_the_file};
use crate::options::Clock;

/// The most changes in one transaction.
const MAX_CHANGES: usize = 512;
/// A group gets no further change once it writes this much, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// From so many on, those who wait are not woken one by one.
const MANY: usize = 8;
/// For so many groups after another connection has committed, the lock is not held while a group gathers.
const COURTESY: u32 = 64;

/// Makes changes in one transaction, so that they share one sync. Each stays all or nothing with an answer of its own.
pub(super) struct Groups<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    memory: Memory,
    limits: Limits,
    clock: Clock,
    patience: Duration,
    stage: Stage,
    tasks: Vec<Box<dyn Task>>,
    /// How many of the tasks were attempted in the transaction that is open.
    attempted: usize,
    bytes: usize,
    /// For how many more groups others who write are given room.
    courtesy: u32,
}

/// How far the group is.
enum Stage {
    /// Nothing has begun.
    Gathering,
    /// A transaction is open.
    Open,
    /// One change met an error of its own, so all have to be rolled back.
    Spoiled,
    /// Something is in the way of all changes.
    Failed(Fault),
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
            stage: Stage::Gathering,
            tasks: Vec::with_capacity(MAX_CHANGES),
            attempted: 0,
            bytes: 0,
            courtesy: 0,
        })
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Makes the change at once, while those who may want to join the group are on their way; but where another
    /// process writes too, which waits for the lock meanwhile, only when the group is complete.
    pub(super) fn add(&mut self, task: Box<dyn Task>) {
        if task.is_abandoned() {
            return;
        }
        self.bytes += task.weight();
        self.tasks.push(task);
        if self.courtesy == 0 {
            self.advance(false);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether it is to be committed without waiting for more.
    pub(super) fn is_full(&self) -> bool {
        self.tasks.len() >= MAX_CHANGES
            || self.bytes >= MAX_BYTES
            || matches!(self.stage, Stage::Spoiled | Stage::Failed(_))
    }

    /// Whether there is something to do although no change is waiting.
    pub(super) fn has_garbage(&self) -> bool {
        self.memory.garbage == Some(true)
    }

    /// Makes the changes that were added durable, and returns what to tell whom. A change that fails by itself is
    /// answered before.
    pub(super) fn commit(&mut self) -> Answers<'_> {
        if !self.tasks.is_empty() {
            self.advance(false);
            if matches!(self.stage, Stage::Spoiled) {
                // Rare, so the common case pays nothing for it: only now is each change made revocable.
                self.roll_back();
                self.advance(true);
            }
        }
        let fault = self.finish();
        self.bytes = 0;
        Answers {
            tasks: &mut self.tasks,
            fault,
        }
    }

    /// Removes some garbage, in a transaction of its own. What is in the way of that is in the way of nothing else.
    pub(super) fn reclaim(&mut self) {
        self.begin();
        if !matches!(self.stage, Stage::Open) {
            // Not again before somebody else has got through.
            self.finish();
            return;
        }
        match reclaim(self.connection) {
            Ok(more) => {
                if self.finish().is_none() {
                    self.memory.garbage = Some(more);
                }
            }
            Err(error) => {
                self.abandon();
                // A change that gets through shows that the file is all right again.
                self.memory.garbage = (!concerns_the_file(&error)).then_some(false);
            }
        }
    }

    /// Makes those changes that were not made yet.
    fn advance(&mut self, revocable: bool) {
        if matches!(self.stage, Stage::Gathering) {
            self.begin();
        }
        while matches!(self.stage, Stage::Open) && self.attempted < self.tasks.len() {
            let made = if revocable {
                self.attempt_revocably()
            } else {
                self.attempt()
            };
            if let Err(stage) = made {
                self.stage = stage;
            }
        }
    }

    /// Opens the transaction.
    fn begin(&mut self) {
        self.stage = match self.open() {
            Ok(()) => Stage::Open,
            Err(error) => Stage::Failed(before_commit(error)),
        };
    }

    fn open(&mut self) -> Result<(), rusqlite::Error> {
        let statements = &mut self.statements;
        lock(&mut statements.begin, self.patience)?;
        let version = statements.data_version.query_row([], |row| row.get(0))?;
        self.courtesy = self.courtesy.saturating_sub(1);
        if self.memory.data_version != Some(version) {
            if self.memory.data_version.is_some() {
                self.courtesy = COURTESY;
            }
            self.memory.clear();
            self.memory.data_version = Some(version);
        }
        if self.memory.garbage.is_none() {
            self.memory.garbage = Some(has_garbage(self.connection)?);
        }
        Ok(())
    }

    fn attempt(&mut self) -> Result<(), Stage> {
        match self.run() {
            Ok(()) => {
                self.attempted += 1;
                Ok(())
            }
            Err(error) if concerns_the_file(&error) => Err(Stage::Failed(before_commit(error))),
            Err(_) => Err(Stage::Spoiled),
        }
    }

    fn attempt_revocably(&mut self) -> Result<(), Stage> {
        self.savepoint("SAVEPOINT change")?;
        match self.run() {
            Ok(()) => self.attempted += 1,
            Err(error) if concerns_the_file(&error) => {
                return Err(Stage::Failed(before_commit(error)));
            }
            Err(error) => {
                let garbage = self.memory.garbage;
                self.memory.clear();
                // There may be less than was thought, which does no harm.
                self.memory.garbage = garbage;
                self.savepoint("ROLLBACK TO change")?;
                let task = self.tasks.remove(self.attempted);
                task.settle(Some(Fault::new(error, true)), None);
            }
        }
        self.savepoint("RELEASE change")
    }

    /// Runs the next task.
    fn run(&mut self) -> Result<(), rusqlite::Error> {
        let plan = match self.memory.plan {
            Some(plan) => plan,
            None => read_plan(self.connection)?,
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
        match self.tasks.get_mut(self.attempted) {
            Some(task) => task.attempt(&mut transaction),
            None => Ok(()),
        }
    }

    fn savepoint(&self, sql: &str) -> Result<(), Stage> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(|error| Stage::Failed(before_commit(error)))
    }

    /// Ends the transaction, if there is one: commits it, unless something was in its way. Says what was.
    fn finish(&mut self) -> Option<Fault> {
        let fault = match mem::replace(&mut self.stage, Stage::Gathering) {
            Stage::Gathering => None,
            Stage::Open => self.commit_changes().err(),
            Stage::Failed(fault) => Some(fault),
            // Nobody gets here without having rolled it back.
            Stage::Spoiled => None,
        };
        if fault.is_some() {
            self.roll_back();
        }
        self.attempted = 0;
        fault
    }

    fn commit_changes(&mut self) -> Result<(), Fault> {
        self.statements
            .commit
            .execute([])
            .map(drop)
            .map_err(|error| {
                // A commit that found no room wrote no complete commit record. Of any other failure, a failed
                // sync above all, it is not certain that nothing of it reached the disk.
                let known = matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)
                );
                Fault::new(error, known)
            })
    }

    fn roll_back(&mut self) {
        self.abandon();
        self.memory.clear();
    }

    /// Rolls back what memory knows nothing of.
    fn abandon(&mut self) {
        self.stage = Stage::Gathering;
        self.attempted = 0;
        if !self.connection.is_autocommit() {
            // If even this fails the next BEGIN says so.
            drop(self.connection.execute_batch("ROLLBACK"));
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

    /// Gives them, and returns those who have to be woken before anything else is waited for.
    pub(super) fn give(self) -> Option<WokenAtLast> {
        let sleepers = (self.tasks.len() >= MANY).then(WokenAtLast::default);
        for task in self.tasks.drain(..) {
            let sleepers = sleepers.as_ref().map(|sleepers| &sleepers.0);
            task.settle(self.fault.clone(), sleepers);
        }
        if let Some(sleepers) = &sleepers {
            sleepers.0.wake_one();
        }
        sleepers
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

#[cfg(test)]
mod tests;
