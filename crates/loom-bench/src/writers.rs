//! Writers of a store.

use std::sync::Arc;
use std::time::Instant;

use loom_spi::{Append, ExecutionId, NewEvent};

use crate::Failure;
use crate::stores::Store;
use crate::turns::per_second;

/// How many events a log gets before the writer goes on with another.
const LOG: u64 = 100;

pub(crate) fn event() -> NewEvent {
    NewEvent::new("step.completed", vec![7; 256])
}

/// Some writers, each of which appends one event of 256 bytes at a time and waits for it.
pub(crate) struct Writers {
    store: Store,
    next_id: NextId,
    logs: Vec<(ExecutionId, u64)>,
}

/// Makes an id for the writer with this number.
type NextId = Arc<dyn Fn(usize) -> ExecutionId + Send + Sync>;

impl Writers {
    pub(crate) fn new(store: &Store, writers: usize) -> Self {
        Self::with_ids(store, writers, |_| ExecutionId::generate())
    }

    /// Whose logs have ids that suit the writer.
    pub(crate) fn with_ids(
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
    pub(crate) async fn append(&mut self, each: u64) -> Result<f64, Failure> {
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
