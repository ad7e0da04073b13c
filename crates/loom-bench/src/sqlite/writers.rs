//! A store for the suite, and its writers.

use std::path::{Path, PathBuf};

use loom_spi::{Append, ExecutionId};
use tempfile::TempDir;

use crate::Failure;
use crate::stores::{self, Store};
pub(super) use crate::writers::{Writers, event};

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
