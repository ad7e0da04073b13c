//! Copying stores while they are written to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use loom_spi::{Operation, StoreError, StoreErrorKind};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::file::{check, failure};
use crate::{OpenFailure, Options};

/// One file of a [`back_up`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCopy {
    /// The store.
    pub from: PathBuf,
    /// The copy: a file that does not exist yet, in a folder that does.
    pub to: PathBuf,
}

/// How long all stores may be kept from committing while the moment is fixed that the copies show. Writers wait for
/// locks, five seconds by default: this is well below.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is tried, each time from the first store on, before the answer is that they are locked.
const ATTEMPTS: usize = 5;
/// Pages that are copied between two calls of `progress`.
const PAGES: i32 = 1_000;

/// Copies stores as they all are at one moment, while any number of processes goes on using them. Returns
/// how many bytes each copy has.
///
/// Commits are held up on all stores until each one's state is pinned, which takes as long as the
/// commits that are under way; copying comes afterwards, while appends, reads and moves go on. So what holds
/// between stores at a moment holds between the copies: an execution that is being moved is in them as if both shards
/// had lost power in the middle of the move, which the move protocol is made for; it is never in neither.
///
/// Each copy is one file, without a `-wal` beside it, and is synced when this returns; an interrupted call leaves
/// files whose names end in `.partial`, which the next one replaces. Until a store is copied its write-ahead log grows with
/// what is written meanwhile.
///
/// `progress` is called with the pages copied so far and those there are, over all stores.
///
/// This blocks the thread: call it from one that may be blocked.
///
/// # Errors
/// Of [`Operation::Open`](loom_spi::Operation::Open), about the file that the message names. The source is an
/// [`OpenFailure`] as far as a store is concerned: [`Locked`](OpenFailure::Locked) when a process kept one of them for
/// itself all the time, and [`AlreadyExists`](OpenFailure::AlreadyExists) when there is a file where a copy shall be.
/// Copies that were finished before the failure stay.
///
/// ```
/// # use loom_store_sqlite::{ShardCopy, Options, SqliteStore, back_up, verify};
/// # use std::error::Error;
/// # fn main() -> Result<(), Box<dyn Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let from = directory.path().join("shard.db");
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = SqliteStore::create(&from, Options::new()).await?;
/// // It may be used meanwhile, by this process and by others.
/// let to = directory.path().join("monday.db");
/// back_up(&[ShardCopy { from, to: to.clone() }], |_, _| {})?;
/// assert_eq!(verify(&to)?.problems, Vec::<String>::new());
/// # store.close().await?;
/// # Ok::<(), Box<dyn Error>>(())
/// # })
/// # }
/// ```
pub fn back_up(
    copies: &[ShardCopy],
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<u64>, StoreError> {
    for copy in copies {
        if copy.to.exists() {
            let path = copy.to.clone();
            return Err(OpenFailure::AlreadyExists { path }.into_error());
        }
    }
    let mut snapshots = Vec::with_capacity(copies.len());
    for copy in copies {
        snapshots.push(Snapshot::open(&copy.from)?);
    }
    pin(&snapshots)?;
    let mut total = 0;
    for snapshot in &snapshots {
        total += snapshot.pages()?;
    }
    let mut done = 0;
    let mut sizes = Vec::with_capacity(copies.len());
    for (copy, snapshot) in copies.iter().zip(snapshots) {
        let pages = snapshot.pages()?;
        let size = snapshot.copy_to(&copy.to, |copied| progress(done + copied, total))?;
        done += pages;
        sizes.push(size);
    }
    Ok(sizes)
}

/// A store at one moment.
struct Snapshot {
    path: PathBuf,
    /// Keeps others from committing while the moment is fixed.
    lock: Connection,
    /// Reads what was there at that moment.
    reader: Connection,
}

impl Snapshot {
    fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            let path = path.to_owned();
            return Err(OpenFailure::Missing { path }.into_error());
        }
        let connect = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(path, flags).map_err(|error| told(path, error))
        };
        let (lock, reader) = (connect()?, connect()?);
        check(path, &reader, &Options::new())?;
        Ok(Self {
            path: path.to_owned(),
            lock,
            reader,
        })
    }

    fn pages(&self) -> Result<u64, StoreError> {
        let pages = self
            .reader
            .query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0));
        Ok(pages
            .map_err(|error| told(&self.path, error))?
            .cast_unsigned())
    }

    /// Keeps others from committing, from now until [`release`](Self::release).
    fn lock(&self, until: Instant) -> Result<(), rusqlite::Error> {
        loop {
            match self.lock.execute_batch("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < until =>
                {
                    thread::sleep(Duration::from_micros(200));
                }
                begun => return begun,
            }
        }
    }

    fn release(&self) {
        if !self.lock.is_autocommit() {
            // Nothing was written. Where even this fails closing the connection does it.
            drop(self.lock.execute_batch("ROLLBACK"));
        }
    }

    fn pin(&self) -> Result<(), rusqlite::Error> {
        if !self.reader.is_autocommit() {
            self.reader.execute_batch("ROLLBACK")?;
        }
        // The first look is what fixes the moment.
        self.reader.execute_batch("BEGIN")?;
        self.reader
            .query_row("SELECT one FROM shard", [], |row| row.get::<_, i64>(0))
            .map(drop)
    }

    fn copy_to(self, to: &Path, mut progress: impl FnMut(u64)) -> Result<u64, StoreError> {
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let unwritten = |error: io::Error| unwritten(to, &error);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritten(error)),
            _ => {}
        }
        {
            let mut copy = Connection::open(&partial).map_err(|error| told(&partial, error))?;
            let copied = (|| {
                let backup = Backup::new(&self.reader, &mut copy)?;
                loop {
                    let step = backup.step(PAGES)?;
                    let at = backup.progress();
                    progress(u64::try_from(at.pagecount - at.remaining).unwrap_or(0));
                    match step {
                        StepResult::Done => break Ok(()),
                        StepResult::More => {}
                        _ => thread::sleep(Duration::from_millis(1)),
                    }
                }
            })();
            copied.map_err(|error| told(&partial, error))?;
            // So that it is one file, whoever looks at it.
            copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
                .and_then(|()| copy.close().map_err(|(_, error)| error))
                .map_err(|error| told(&partial, error))?;
        }
        let file = File::open(&partial).map_err(unwritten)?;
        file.sync_all().map_err(unwritten)?;
        let size = file.metadata().map_err(unwritten)?.len();
        fs::rename(&partial, to).map_err(unwritten)?;
        sync_folder(to).map_err(unwritten)?;
        Ok(size)
    }
}

/// Fixes one moment for all.
fn pin(snapshots: &[Snapshot]) -> Result<(), StoreError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let until = Instant::now() + PATIENCE;
        // No change concerns two stores in one transaction, so nobody who has one of the locks waits for another,
        // except for a second backup; and that gives up too.
        let pinned = snapshots.iter().try_for_each(|snapshot| {
            let locked = snapshot.lock(until);
            locked.map_err(|error| (snapshot, error))
        });
        let pinned = pinned.and_then(|()| {
            snapshots.iter().try_for_each(|snapshot| {
                let pinned = snapshot.pin();
                pinned.map_err(|error| (snapshot, error))
            })
        });
        snapshots.iter().for_each(Snapshot::release);
        match pinned {
            Ok(()) => return Ok(()),
            Err((_, error))
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && attempts < ATTEMPTS =>
            {
                thread::sleep(PATIENCE / 10);
            }
            Err((snapshot, error)) => return Err(told(&snapshot.path, error)),
        }
    }
}

fn told(path: &Path, error: rusqlite::Error) -> StoreError {
    let waited = PATIENCE.saturating_mul(ATTEMPTS.try_into().unwrap_or(u32::MAX));
    failure(path, &Options::new().with_busy_timeout(waited), error)
}

fn unwritten(path: &Path, error: &io::Error) -> StoreError {
    StoreError::new(
        Operation::Open,
        StoreErrorKind::Unavailable {
            reason: format!("the copy `{}` cannot be written: {error}", path.display()),
            outcome_known: true,
        },
    )
}

/// Makes the name of a new file durable.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
