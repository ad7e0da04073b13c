//! Moving the write-ahead log into the file, beside the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// How long the log gets, in pages.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// At this length the thread begins to move them.
    start: u32,
    /// At this one the writer does not wait for the thread.
    most: u32,
}

/// Of 4 KiB each.
const BOUNDS: Bounds = Bounds {
    start: 2_000,
    most: 16_000,
};

/// A thread that copies pages from the write-ahead log into the file, and syncs them, while the writer goes on.
///
/// The log starts anew once all of it is in the file, which a thread beside a busy writer never gets to see: there is always a
/// newer commit. So when the thread has come to the end of what there was, the writer moves the rest, which is what was
/// committed meanwhile. Left to SQLite, a commit now and then would do all of it.
#[derive(Debug)]
pub(super) struct Checkpoints {
    bounds: Bounds,
    /// Of the log, after the last commit.
    pages: Arc<AtomicU32>,
    begin: SyncSender<()>,
    /// Whether the thread has been through since the writer looked.
    passed: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(writer: &mut Connection, connection: Connection) -> std::io::Result<Self> {
        Self::bounded(writer, connection, BOUNDS)
    }

    fn bounded(
        writer: &mut Connection,
        connection: Connection,
        bounds: Bounds,
    ) -> std::io::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let passed = Arc::new(AtomicBool::new(false));
        let (begin, told) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("loom-sqlite-checkpoint".into())
            .spawn({
                let passed = Arc::clone(&passed);
                move || run(&connection, &told, &passed)
            })?;
        let counted = Arc::clone(&pages);
        // This also ends SQLite's own way of doing it. It fails only where the hook cannot be allocated.
        let hooked = writer.wal_hook(Some(move |_: &mut _, pages| {
            counted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }));
        hooked.map_err(std::io::Error::other)?;
        Ok(Self {
            bounds,
            pages,
            begin,
            passed,
            thread,
        })
    }

    /// Whether there is something to do between two commits.
    pub(super) fn are_due(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= self.bounds.start
    }

    /// To be called by the writer between two commits.
    pub(super) fn look(&self, writer: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.bounds.start {
            return;
        }
        if self.passed.swap(false, Ordering::Acquire) || pages >= self.bounds.most {
            self.pages.store(0, Ordering::Relaxed);
            checkpoint(writer);
        } else {
            // If it is full the thread has been told.
            let _ = self.begin.try_send(());
        }
    }

    /// Waits for the thread to end.
    pub(super) fn end(self) {
        drop(self.begin);
        // It ends in no other way than by returning.
        drop(self.thread.join());
    }
}

fn run(connection: &Connection, told: &Receiver<()>, passed: &AtomicBool) {
    while told.recv().is_ok() {
        checkpoint(connection);
        passed.store(true, Ordering::Release);
    }
}

/// Moves what it can without waiting for anybody. What fails, because another process does the same, a reader still needs
/// the old pages, or the disk is full, is tried again after later commits; the log is the durable copy until then.
fn checkpoint(connection: &Connection) {
    let moved = connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut checkpoint| checkpoint.query_row([], |_| Ok(())));
    drop(moved);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        _directory: tempfile::TempDir,
        writer: Connection,
        checkpoints: Checkpoints,
    }

    fn fixture(start: u32, most: u32) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shard.db");
        let mut writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x BLOB)")
            .unwrap();
        let beside = Connection::open(&path).unwrap();
        let bounds = Bounds { start, most };
        let checkpoints = Checkpoints::bounded(&mut writer, beside, bounds).unwrap();
        Fixture {
            _directory: directory,
            writer,
            checkpoints,
        }
    }

    impl Fixture {
        /// Returns how long the log is then.
        fn commit(&self) -> u32 {
            let sql = "INSERT INTO t VALUES (zeroblob(3000))";
            let mut insert = self.writer.prepare_cached(sql).unwrap();
            insert.execute([]).unwrap();
            let pages = self.checkpoints.pages.load(Ordering::Relaxed);
            self.checkpoints.look(&self.writer);
            pages
        }
    }

    #[test]
    fn the_log_starts_anew_while_the_writer_goes_on() {
        let fixture = fixture(50, u32::MAX);
        let mut longest = 0;
        loop {
            let pages = fixture.commit();
            if pages < longest {
                break;
            }
            longest = pages;
        }
        assert!(longest >= 50, "{longest}");
        fixture.checkpoints.end();
    }

    #[test]
    fn the_log_is_bounded_even_if_the_thread_does_not_keep_up() {
        // It is never told.
        let fixture = fixture(100, 100);
        let longest = (0..1_000).map(|_| fixture.commit()).max();
        assert!((100..110).contains(&longest.unwrap()), "{longest:?}");
        fixture.checkpoints.end();
    }

    #[test]
    fn below_its_bound_the_log_is_left_alone() {
        let fixture = fixture(u32::MAX, u32::MAX);
        for _ in 0..1_500 {
            fixture.commit();
        }
        // SQLite itself would have moved it.
        assert!(fixture.commit() > 1_500);
        fixture.checkpoints.end();
    }
}
