//! The one thread of a handle that writes, and what it is asked.

mod group;
mod memory;
mod task;
mod transaction;

use std::thread;

use loom_spi::{Operation, StoreError, StoreErrorKind};
use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::task::Work;
pub(crate) use self::transaction::Transaction;

use self::group::Groups;
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
    Close(oneshot::Sender<Result<(), rusqlite::Error>>),
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(connection: Connection, options: &Options) -> std::io::Result<Self> {
        let (queue, messages) = mpsc::channel(options.queue);
        let groups = Groups::new(connection, options);
        thread::Builder::new()
            .name("loom-sqlite-writer".into())
            .spawn(move || run(groups, messages))?;
        Ok(Self { queue })
    }

    /// Makes a change and waits until it is durable, or refused.
    pub(crate) async fn change<W: Work>(
        &self,
        operation: Operation,
        work: W,
    ) -> Result<W::Output, StoreError> {
        let (reply, answer) = oneshot::channel();
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
        answer.await.unwrap_or_else(|_| {
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
            // Somebody else closed it first.
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

fn run(mut groups: Groups, mut messages: mpsc::Receiver<Message>) {
    let mut closing = None;
    loop {
        let mut next = messages.try_recv();
        if matches!(next, Err(TryRecvError::Empty)) && !groups.has_garbage() {
            next = messages.blocking_recv().ok_or(TryRecvError::Disconnected);
        }
        if let Err(TryRecvError::Disconnected) = next {
            break;
        }
        while let Ok(message) = next {
            match message {
                Message::Change(task) => groups.add(task),
                Message::Close(reply) => {
                    messages.close();
                    closing.get_or_insert(reply);
                }
            }
            if groups.is_full() {
                break;
            }
            next = messages.try_recv();
        }
        groups.commit();
    }
    let closed = groups.close();
    if let Some(reply) = closing {
        drop(reply.send(closed));
    }
}
