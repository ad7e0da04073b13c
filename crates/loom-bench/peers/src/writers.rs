//! Writers, on threads or as tasks, each of which goes on where it was.

use std::future::Future;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::{Failure, LOG};

/// Of a pool, on PostgreSQL: one for each writer.
pub const CONNECTIONS: u32 = 64;

/// Where a writer is: which log, and the sequence of the next event.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of the writer.
    pub writer: usize,
    pub log: u64,
    pub next: u64,
}

/// Where the writers are.
#[derive(Debug, Default)]
pub struct Writers {
    places: Vec<Place>,
    logs: u64,
}

impl Writers {
    /// A log that nobody writes.
    pub fn new_log(&mut self) -> u64 {
        self.logs += 1;
        self.logs
    }

    /// Where so many writers go on.
    fn places(&mut self, writers: usize) -> Vec<Place> {
        while self.places.len() < writers {
            let (writer, log) = (self.places.len(), self.new_log());
            let next = 0;
            self.places.push(Place { writer, log, next });
        }
        self.places[..writers].to_vec()
    }

    /// Where a writer is after `each` appends. Logs of different writers never meet.
    fn advance(place: &mut Place) {
        place.next += 1;
        if place.next == LOG {
            place.log += 1 << 32;
            place.next = 0;
        }
    }

    /// Has each append, on a thread of its own.
    pub fn on_threads(
        &mut self,
        writers: usize,
        each: u64,
        append: impl Fn(Place) -> Result<(), Failure> + Sync,
    ) -> Result<Duration, Failure> {
        let mut places = self.places(writers);
        let barrier = Barrier::new(writers + 1);
        let took = std::thread::scope(|scope| {
            let threads: Vec<_> = places
                .iter_mut()
                .map(|place| {
                    let (append, barrier) = (&append, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        for _ in 0..each {
                            append(*place)?;
                            Self::advance(place);
                        }
                        Ok::<_, Failure>(())
                    })
                })
                .collect();
            barrier.wait();
            let started = Instant::now();
            for thread in threads {
                thread.join().map_err(|_| "a writer panicked")??;
            }
            Ok::<_, Failure>(started.elapsed())
        })?;
        self.places[..writers].copy_from_slice(&places);
        Ok(took)
    }

    /// Has each append, as a task.
    pub fn as_tasks<A, F>(
        &mut self,
        runtime: &Runtime,
        writers: usize,
        each: u64,
        append: A,
    ) -> Result<Duration, Failure>
    where
        A: Fn(Place) -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), Failure>> + Send,
    {
        let places = self.places(writers);
        let (places, took) = runtime.block_on(async {
            let started = Instant::now();
            let tasks: Vec<_> = places
                .into_iter()
                .map(|mut place| {
                    let append = append.clone();
                    tokio::spawn(async move {
                        for _ in 0..each {
                            append(place).await?;
                            Self::advance(&mut place);
                        }
                        Ok::<_, Failure>(place)
                    })
                })
                .collect();
            let mut places = Vec::new();
            for task in tasks {
                places.push(task.await??);
            }
            Ok::<_, Failure>((places, started.elapsed()))
        })?;
        self.places[..writers].copy_from_slice(&places);
        Ok(took)
    }
}

/// Two worker threads, as loom-bench has.
pub fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

/// Does something so many times.
pub fn timed(
    times: u64,
    mut what: impl FnMut() -> Result<(), Failure>,
) -> Result<Duration, Failure> {
    let started = Instant::now();
    for _ in 0..times {
        what()?;
    }
    Ok(started.elapsed())
}
