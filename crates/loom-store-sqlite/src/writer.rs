//! The one thread of a handle that writes, and what it is asked.

mod answer;
mod checkpoints;
mod group;
mod memory;
mod pace;
mod statements;
mod task;
mod transaction;

use std::thread;
use std::time::{Duration, Instant};

use loom_spi::{Operation, StoreError, StoreErrorKind};
use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::task::Work;
#[cfg(test)]
pub(crate) use self::transaction::LAST_LOG;
pub(crate) use self::transaction::Transaction;

use self::answer::WokenAtLast;
use self::checkpoints::Checkpoints;
use self::group::Groups;
use self::pace::{Pace, receive_until};
use self::statements::Statements;
use self::task::{Request, Task};
use crate::Options;

/// Passes changes to the writer thread, which makes as many of them durable at once as are waiting.
///
/// The thread ends when the last `Writer` is gone or [`close`](Self::close) was called, after it has made every
/// change that was queued.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
}

enum Message {
    Change(Box<dyn Task>),
    Close(CloseReply),
}

type CloseReply = oneshot::Sender<Result<(), rusqlite::Error>>;

impl Writer {
    /// Whether the tables are what the statements need.
    pub(crate) fn check(connection: &Connection) -> Result<(), rusqlite::Error> {
        Statements::new(connection).map(drop)
    }

    /// Starts the thread, and the one beside it.
    pub(crate) fn start(
        mut connection: Connection,
        beside: Connection,
        options: &Options,
    ) -> std::io::Result<Self> {
        let checkpoints = Checkpoints::start(&mut connection, beside)?;
        let (queue, messages) = mpsc::channel(options.queue);
        let options = options.clone();
        thread::Builder::new()
            .name("loom-sqlite-writer".into())
            .spawn(move || run(connection, checkpoints, &options, messages))?;
        Ok(Self { queue })
    }

    /// Makes a change and waits until it is durable, or refused.
    pub(crate) async fn change<W: Work>(
        &self,
        operation: Operation,
        work: W,
    ) -> Result<W::Output, StoreError> {
        let (reply, answer) = answer::channel();
        let request = Request {
            operation,
            work,
            kept: None,
            reply,
        };
        self.queue
            .send(Message::Change(Box::new(request)))
            .await
            .map_err(|_| closed(operation))?;
        answer.await.unwrap_or_else(|| {
            Err(StoreError::new(
                operation,
                StoreErrorKind::Unavailable {
                    reason: "the writer thread ended before it answered: open the store again"
                        .into(),
                    outcome_known: false,
                },
            ))
        })
    }

    /// Has everything written that was asked for before, moves it from the write-ahead log into the
    /// file, and ends the thread.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.queue.send(Message::Close(reply)).await.is_err() {
            return Ok(());
        }
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(StoreError::new(
                Operation::Open,
                StoreErrorKind::Unavailable {
                    reason: format!(
                        "closing it failed ({error}); what was acknowledged is safe in the write-ahead log"
                    ),
                    outcome_known: true,
                },
            )
            .with_source(error)),
            // The thread ended before it got there. What it acknowledged is durable anyway.
            Err(_) => Ok(()),
        }
    }
}

/// The answer of a store that was closed, or whose writer is gone.
pub(crate) fn closed(operation: Operation) -> StoreError {
    StoreError::new(
        operation,
        StoreErrorKind::Unavailable {
            reason: "the store was closed, or its thread ended: open it again".into(),
            outcome_known: true,
        },
    )
}

fn run(
    connection: Connection,
    checkpoints: Checkpoints,
    options: &Options,
    mut messages: mpsc::Receiver<Message>,
) {
    let closing = match Groups::new(&connection, options) {
        Ok(groups) => serve(groups, &checkpoints, &mut messages),
        // The schema was found to be right when the file was opened, so something happened to it since. Everyone
        // who asks is told that the writer is gone.
        Err(_) => Vec::new(),
    };
    checkpoints.end();
    // Waits for nobody: what another handle still reads or writes is left to that handle.
    let closed = connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .and_then(|()| connection.close().map_err(|(_, error)| error));
    let mut closed = Some(closed);
    for reply in closing {
        drop(reply.send(closed.take().unwrap_or(Ok(()))));
    }
}

/// Makes changes until nobody can ask for more. Returns who waits for that.
fn serve(
    mut groups: Groups<'_>,
    checkpoints: &Checkpoints,
    messages: &mut mpsc::Receiver<Message>,
) -> Vec<CloseReply> {
    let mut closing = Vec::new();
    let mut pace = Pace::default();
    let mut expected = 0;
    let mut sleepers: Option<WokenAtLast> = None;
    loop {
        let mut next = messages.try_recv();
        if matches!(next, Err(TryRecvError::Empty)) && expected > 0 {
            // Before it parks: being woken takes longer than a lone writer needs to come back.
            next = linger(messages, LINGER);
        }
        drop(sleepers.take());
        if matches!(next, Err(TryRecvError::Empty)) {
            next = rest(&mut groups, &mut pace, messages);
        }
        if let Err(TryRecvError::Disconnected) = next {
            return closing;
        }
        let mut lingering_since = None;
        while let Ok(message) = next {
            match message {
                Message::Change(task) => groups.add(task),
                Message::Close(reply) => {
                    messages.close();
                    closing.push(reply);
                }
            }
            if groups.is_full() {
                break;
            }
            next = messages.try_recv();
            if next.is_err() && groups.len() < expected {
                let started = *lingering_since.get_or_insert_with(Instant::now);
                if started.elapsed() < LINGER_FOR_ALL {
                    next = linger(messages, LINGER);
                }
            }
        }
        let answers = groups.commit();
        // Those who are answered now are likely to be back soon, to join those who came meanwhile. For a lone
        // writer that is nobody but itself.
        expected = answers.len() + messages.len();
        sleepers = answers.give();
        if checkpoints.are_due() {
            drop(sleepers.take());
            checkpoints.look(groups.connection());
        }
        if groups.has_garbage() && pace.is_due(Instant::now()) {
            drop(sleepers.take());
            remove_garbage(&mut groups, &mut pace);
        }
    }
}

/// Waits for the next change, and removes garbage meanwhile, with pauses.
fn rest(
    groups: &mut Groups<'_>,
    pace: &mut Pace,
    messages: &mut mpsc::Receiver<Message>,
) -> Result<Message, TryRecvError> {
    while groups.has_garbage() {
        if let Some(due) = pace.due() {
            match receive_until(messages, due) {
                Err(TryRecvError::Empty) => {}
                next => return next,
            }
        }
        remove_garbage(groups, pace);
    }
    messages.blocking_recv().ok_or(TryRecvError::Disconnected)
}

fn remove_garbage(groups: &mut Groups<'_>, pace: &mut Pace) {
    let begun = Instant::now();
    groups.reclaim();
    pace.worked(begun, Instant::now());
}

/// How long to look out for the next change.
const LINGER: Duration = Duration::from_micros(100);
/// How long to look out for more, altogether, while a group is smaller than expected.
const LINGER_FOR_ALL: Duration = Duration::from_micros(200);

/// Gives up the processor to those who may be about to ask for a change.
fn linger(
    messages: &mut mpsc::Receiver<Message>,
    at_most: Duration,
) -> Result<Message, TryRecvError> {
    let since = Instant::now();
    loop {
        thread::yield_now();
        let next = messages.try_recv();
        if !matches!(next, Err(TryRecvError::Empty)) || since.elapsed() >= at_most {
            return next;
        }
    }
}
