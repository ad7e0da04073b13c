//! Who reads: threads, and callers themselves.

use std::sync::{PoisonError, RwLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use loom_spi::{Operation, StoreError};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::at_once::AtOnce;
use crate::failure::Failure;
use crate::reader::Reader;
use crate::writer::closed;

/// Threads with a connection each, and connections for looks that callers take themselves. They never wait for the
/// writer, nor it for them.
///
/// The threads end when `Readers` is dropped or closed.
#[derive(Debug)]
pub(crate) struct Readers {
    at_once: AtOnce,
    jobs: RwLock<Option<Sender<Job>>>,
    /// Has no sender any more once all threads have ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

type Job = Box<dyn FnOnce(&Reader) + Send>;

/// How much there may be to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few rows, found by a key.
    Few,
    /// Any number of rows.
    Many,
}

impl Readers {
    /// Starts a thread for each connection of the first kind.
    pub(crate) fn start(threads: Vec<Reader>, at_once: Vec<Reader>) -> std::io::Result<Self> {
        let (jobs, queue) = crossbeam_channel::unbounded();
        let (running, ended) = mpsc::channel(1);
        for (reader, number) in threads.into_iter().zip(0..) {
            let (queue, running) = (queue.clone(), running.clone());
            thread::Builder::new()
                .name(format!("loom-sqlite-reader-{number}"))
                .spawn(move || {
                    work(&queue, &reader);
                    // In this order, so that the connections are closed when `ended` says so.
                    drop(reader);
                    drop(running);
                })?;
        }
        Ok(Self {
            at_once: AtOnce::new(at_once),
            jobs: RwLock::new(Some(jobs)),
            ended: Mutex::new(ended),
        })
    }

    /// Has `look` done: by the caller if it is short and the file is in memory, and otherwise on one of the threads.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        operation: Operation,
        size: Size,
        look: impl Fn(&Reader) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        if size == Size::Few
            && let Some(found) = self.at_once.look(&look).await
        {
            return found.map_err(|failure| failure.into_error(operation));
        }
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
        self.at_once.close();
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

fn work(queue: &Receiver<Job>, reader: &Reader) {
    for job in queue {
        job(reader);
    }
}
