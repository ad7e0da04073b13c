//! Writers of the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use loom_spi::{Append, ExecutionId, NewEvent};
use tempfile::TempDir;

use super::per_second;
use crate::Failure;
use crate::stores::{self, Store};

/// How many events a log gets before the writer goes on with another.
const LOG: u64 = 100;

pub(super) fn event() -> NewEvent {
    NewEvent::new("step.completed", vec![7; 256])
}

/// Some writers, each of which appends one event of 256 bytes at a time and waits for it.
pub(super) struct Writers {
    store: Store,
    next_id: NextId,
    logs: Vec<(ExecutionId, u64)>,
}

/// Makes an id for the writer with this number.
type NextId = Arc<dyn Fn(usize) -> ExecutionId + Send + Sync>;

impl Writers {
    pub(super) fn new(store: &Store, writers: usize) -> Self {
        Self::with_ids(store, writers, |_| ExecutionId::generate())
    }

    /// Whose logs have ids that suit the writer.
    pub(super) fn with_ids(
        store: &Store,
        writers: usize,
        next_id: impl Fn(usize) -> ExecutionId + Send + Sync + 'static,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            logs: (0..writers).map(|writer| (next_id(writer), 0)).collect(),
            next_id: Arc::new(next_id),
        }
    }

    /// Has each writer append `each` events, and says how many that are in a second.
    pub(super) async fn append(&mut self, each: u64) -> Result<f64, Failure> {
        let started = Instant::now();
        let writers: Vec<_> = self
            .logs
            .iter()
            .cloned()
            .enumerate()
            .map(|(writer, (mut id, mut next))| {
                let (store, next_id) = (Arc::clone(&self.store), Arc::clone(&self.next_id));
                tokio::spawn(async move {
                    for _ in 0..each {
                        if next == LOG {
                            (id, next) = (next_id(writer), 0);
                        }
                        let append = Append::new(id.clone(), next, vec![event()]);
                        next = (*store).append(append).await?.next_sequence;
                    }
                    Ok::<_, Failure>((id, next))
                })
            })
            .collect();
        for (log, writer) in self.logs.iter_mut().zip(writers) {
            *log = writer.await??;
        }
        Ok(per_second(each * self.logs.len() as u64, started.elapsed()))
    }
}

/// A store that is as it will be after a while: its write-ahead log has its size.
pub(super) struct Fixture {
    folder: TempDir,
    pub(super) store: Store,
}

const NAME: &str = "shard.db";

impl Fixture {
    pub(super) async fn create() -> Result<Self, Failure> {
        let folder = stores::folder()?;
        let store = stores::sqlite(folder.path(), NAME).await?;
        warm(&store).await?;
        Ok(Self { folder, store })
    }

    /// Where there is room for more.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// An execution with so many events.
    pub(super) async fn log(&self, events: usize) -> Result<ExecutionId, Failure> {
        let id = ExecutionId::generate();
        let append = Append::new(id.clone(), 0, vec![event(); events]);
        (*self.store).append(append).await?;
        Ok(id)
    }
}

/// Brings the write-ahead log to its size.
pub(super) async fn warm(store: &Store) -> Result<(), Failure> {
    Writers::new(store, 64).append(400).await?;
    Ok(())
}
