//! What the writer is asked to do.

use std::sync::Arc;

use loom_spi::{Operation, StoreError, StoreErrorKind};

use super::Transaction;
use super::answer::{Reply, Sleepers};
use crate::failure::{Failure, Fault};

/// A change to the store.
pub(crate) trait Work: Send + Sync + 'static {
    type Output: Send;

    /// Makes the change, or refuses it without having written anything. It may be asked again, when a
    /// transaction had to be rolled back because of another one in the group.
    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<Self::Output, Failure>;

    /// About how many bytes it writes.
    fn weight(&self) -> usize {
        64
    }
}

/// A change, with whoever waits for it.
pub(crate) trait Task: Send {
    /// Whether nobody waits any more.
    fn is_abandoned(&self) -> bool;

    /// About how many bytes it writes.
    fn weight(&self) -> usize;

    /// Makes the change inside the transaction and keeps the answer. A refusal by the contract is an
    /// answer; an error is SQLite's.
    fn attempt(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), rusqlite::Error>;

    /// Gives the answer: the one kept, now that it is durable, or the fault.
    /// Whoever waits for it is woken at once, or left to `sleepers`.
    fn settle(self: Box<Self>, fault: Option<Fault>, sleepers: Option<&Arc<Sleepers>>);
}

/// The one implementation of [`Task`].
pub(super) struct Request<W: Work> {
    pub(super) operation: Operation,
    pub(super) work: W,
    pub(super) kept: Option<Result<W::Output, StoreErrorKind>>,
    pub(super) reply: Reply<Result<W::Output, StoreError>>,
}

impl<W: Work> Task for Request<W> {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn weight(&self) -> usize {
        self.work.weight()
    }

    fn attempt(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), rusqlite::Error> {
        self.kept = Some(match self.work.run(transaction) {
            Ok(output) => Ok(output),
            Err(Failure::Refused(kind)) => Err(kind),
            Err(Failure::Sqlite(error)) => {
                self.kept = None;
                return Err(error);
            }
        });
        Ok(())
    }

    fn settle(self: Box<Self>, fault: Option<Fault>, sleepers: Option<&Arc<Sleepers>>) {
        let Self {
            operation,
            kept,
            reply,
            ..
        } = *self;
        let answer = match (fault, kept) {
            (Some(fault), _) => Err(fault.to_error(operation)),
            (None, Some(kept)) => kept.map_err(|kind| StoreError::new(operation, kind)),
            // Dropping the reply tells the caller that the outcome is unknown.
            (None, None) => return,
        };
        reply.give(answer, sleepers);
    }
}
