//! The store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, ExecutionId, Head, Limits, List,
    ListPage, LogHead, Operation, Read, ReadPage, StoreError,
};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::file::{self, OpenFile};
use crate::reader::Reader;
use crate::readers::{Readers, Size};
use crate::vacuum::Vacuum;
use crate::writer::{Work, Writer, closed};
use crate::{OpenFailure, Options, head, list, read};

/// An event store in one SQLite file, with all of [`Fencing`](loom_spi::Fencing), [`Relocation`](loom_spi::Relocation),
/// [`PlanLedger`](loom_spi::PlanLedger) and [`BranchRegistry`](loom_spi::BranchRegistry).
///
/// Share it in an `Arc`. Several handles on one file are safe, in one process or in several on the same machine. It
/// works under any async runtime: what waits for a sync or a lock is done by threads of its own, one that writes and
/// [a few](Options::with_readers) that read. Looks at a few rows are taken [by the caller](Options::with_inline_reads)
/// while they are found in memory.
///
/// Dropping it ends the threads, after what was asked for before is done; [`close`](Self::close) waits for that.
pub struct SqliteStore {
    path: PathBuf,
    shard: OnceLock<u16>,
    limits: Limits,
    writer: Arc<Writer>,
    readers: Readers,
    vacuum: Vacuum,
}

impl SqliteStore {
    /// Creates a store at `path` and opens it. A file that is there already is opened if it is a store with the very
    /// identity that `options` states, so that an interrupted set-up can be repeated.
    ///
    /// # Errors
    /// Of [`Operation::Open`]. `WrongShard` when the store there has another identity; otherwise the source is
    /// an [`OpenFailure`], [`AlreadyExists`](OpenFailure::AlreadyExists) when no identity was stated.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still create the store; it may be repeated.
    pub async fn create(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        start(path.as_ref(), options, file::create).await
    }

    /// Opens the store at `path`, which has to exist: a mistyped path never becomes an empty store.
    ///
    /// # Errors
    /// Of [`Operation::Open`]. `WrongShard` when the store has another identity than `options` states;
    /// otherwise the source is an [`OpenFailure`].
    ///
    /// # Cancel safety
    /// Nothing is changed in the store.
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        start(path.as_ref(), options, file::open).await
    }

    /// The absolute path of the file. SQLite keeps two more beside it while it is open, with `-wal` and `-shm`
    /// appended to the name; the first holds acknowledged writes and belongs to the data.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finishes what was asked for before, moves it into the file as far as no other handle still reads what it would
    /// overwrite, and closes the file. Afterwards every operation is
    /// refused as `Unavailable`. Closing again does nothing.
    ///
    /// # Errors
    /// `Unavailable` when the file could not be brought up to date. What was acknowledged is not lost: it is
    /// in the write-ahead log beside the file, where the next `open` finds it.
    ///
    /// # Cancel safety
    /// A dropped call goes on in the background.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.readers.close().await;
        self.writer
            .close()
            .await
            .map_err(|error| self.tell_shard(error))
    }

    /// Has `work` done by the writer.
    pub(crate) async fn change<W: Work>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        work: W,
    ) -> Result<W::Output, StoreError> {
        self.vacuum.wrote(operation);
        let changed = self.writer.change(operation, work).await;
        changed.map_err(|error| self.tell_shard(error.with_execution(id)))
    }

    /// Has `work`, which concerns no single execution, done by the writer.
    pub(crate) async fn change_shard<W: Work>(
        &self,
        operation: Operation,
        work: W,
    ) -> Result<W::Output, StoreError> {
        self.vacuum.wrote(operation);
        let changed = self.writer.change(operation, work).await;
        changed.map_err(|error| self.tell_shard(error))
    }

    /// Has `look` done by a reader.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
        size: Size,
        look: impl Fn(&Reader) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let found = self.readers.look(operation, size, look).await;
        found.map_err(|error| {
            self.tell_shard(match id {
                Some(id) => error.with_execution(id),
                None => error,
            })
        })
    }

    /// Notes which shard this is, for the errors to come.
    pub(crate) fn know_shard(&self, shard: u16) {
        // It never changes once it is set.
        self.shard.get_or_init(|| shard);
    }

    fn tell_shard(&self, error: StoreError) -> StoreError {
        match self.shard.get() {
            Some(&shard) => error.with_shard(shard),
            None => error,
        }
    }
}

/// A page of so many events is short enough to be read by whoever asks for it.
const FEW_EVENTS: usize = 256;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for SqliteStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        self.change(Operation::Append, &id, request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        let id = request.id.clone();
        let size = if request.limit <= FEW_EVENTS {
            Size::Few
        } else {
            Size::Many
        };
        self.look(Operation::Read, Some(&id), size, move |reader| {
            read::read(reader, &request)
        })
        .await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let id = request.id.clone();
        self.look(Operation::Head, Some(&id), Size::Few, move |reader| {
            let found = head::find(reader, &request.id, request.epoch)?;
            Ok(found.map(|found| found.head))
        })
        .await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.look(Operation::List, None, Size::Many, move |reader| {
            list::list(reader, &request)
        })
        .await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let id = request.id.clone();
        self.change(Operation::Delete, &id, request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_limits(self.limits)
            .with_fencing(self)
            .with_relocation(self)
            .with_ledger(self)
            .with_branches(self)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .field("shard", &self.shard.get())
            .finish_non_exhaustive()
    }
}

/// Opens the file on a thread of its own, since that blocks, and starts the others.
async fn start(
    path: &Path,
    options: Options,
    open: fn(&Path, &Options) -> Result<OpenFile, StoreError>,
) -> Result<SqliteStore, StoreError> {
    let (reply, answer) = oneshot::channel();
    let no_thread = {
        let path = path.to_owned();
        move |error: std::io::Error| {
            let reason = format!("no thread could be started: {error}");
            OpenFailure::Unreachable { path, reason }.into_error()
        }
    };
    let started = {
        let (path, no_thread) = (path.to_owned(), no_thread.clone());
        move || {
            let file = open(&path, &options)?;
            let store = assemble(file, &options).map_err(no_thread)?;
            Ok(store)
        }
    };
    thread::Builder::new()
        .name("loom-sqlite-open".into())
        .spawn(move || drop(reply.send(started())))
        .map_err(no_thread)?;
    answer
        .await
        .unwrap_or_else(|_| Err(closed(Operation::Open)))
}

fn assemble(file: OpenFile, options: &Options) -> std::io::Result<SqliteStore> {
    let OpenFile {
        path,
        identity,
        writer,
        beside,
        threads,
        at_once,
    } = file;
    let shard = OnceLock::new();
    if let Some(identity) = identity {
        shard.get_or_init(|| identity.shard);
    }
    let writer = Arc::new(Writer::start(writer, beside, options)?);
    let vacuum = match options.idle_vacuum {
        Some(quiet) => Vacuum::start(Arc::downgrade(&writer), quiet)?,
        None => Vacuum::none(),
    };
    Ok(SqliteStore {
        path,
        shard,
        limits: options.limits,
        writer,
        vacuum,
        readers: Readers::start(threads, at_once)?,
    })
}
