//! The threads that read.

use std::sync::{PoisonError, RwLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use loom_spi::{Operation, StoreError};
use rusqlite::Connection;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::failure::Failure;
use crate::reader::Reader;
use crate::writer::closed;

/// Threads with a connection each. They never wait for the writer, nor it for them.
///
/// They end when `Readers` is dropped or closed.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: RwLock<Option<Sender<Job>>>,
    /// Has no sender any more once all threads have ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

type Job = Box<dyn FnOnce(&mut Reader<'_>) + Send>;

impl Readers {
    /// Starts a thread for each connection.
    pub(crate) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let (jobs, queue) = crossbeam_channel::unbounded();
        let (running, ended) = mpsc::channel(1);
        for (connection, number) in connections.into_iter().zip(0..) {
            let (queue, running) = (queue.clone(), running.clone());
            thread::Builder::new()
                .name(format!("loom-sqlite-reader-{number}"))
                .spawn(move || {
                    work(&queue, &connection);
                    // In this order, so that the connections are closed when `ended` says so.
                    drop(connection);
                    drop(running);
                })?;
        }
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            ended: Mutex::new(ended),
        })
    }

    /// Has `look` done on one of the threads.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        operation: Operation,
        look: impl FnOnce(&mut Reader<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |reader| {
            // A caller that is gone does not want to know.
            if !reply.is_closed() {
                drop(reply.send(look(reader)));
            }
        });
        self.send(job).ok_or_else(|| closed(operation))?;
        match answer.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(failure)) => Err(failure.into_error(operation)),
            Err(_) => Err(closed(operation)),
        }
    }

    fn send(&self, job: Job) -> Option<()> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        jobs.as_ref()?.send(job).ok()
    }

    /// Waits until the jobs that were sent are done and the connections closed.
    pub(crate) async fn close(&self) {
        drop(
            self.jobs
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        // Nothing is ever sent: this returns when the last thread has ended.
        self.ended.lock().await.recv().await;
    }
}

fn work(queue: &Receiver<Job>, connection: &Connection) {
    // The tables were found to be right when the file was opened. If something happened to them since, the thread ends,
    // and when all have ended whoever asks is told so.
    let Ok(mut reader) = Reader::new(connection) else {
        return;
    };
    for job in queue {
        job(&mut reader);
    }
}
