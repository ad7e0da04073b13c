//! Giving space back to the file system.

use loom_spi::{Operation, StoreError};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::delete::{has_garbage, reclaim};
use crate::failure::Failure;
use crate::record;
use crate::writer::{Transaction, Work};

/// What [`SqliteStore::release_space`] did, and what is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Pages that the file has become shorter by.
    pub released: u64,
    /// Pages in the file that nothing is on. What is stored next takes them, if they are not released before.
    pub free: u64,
    /// Pages in the file, all in all.
    pub pages: u64,
    /// How many bytes a page has.
    pub page_size: u64,
    /// Whether events of logs that were deleted are still to be removed, which will free more.
    pub reclaiming: bool,
}

impl SqliteStore {
    /// Gives at most so many pages that nothing is on back to the file system, at least one if there is any: what deleted
    /// logs had been on. One call is one write among the others, in time proportional to `pages`; a page is 4 KiB, and
    /// 64 are a good measure. Call it again until nothing is left, with a pause in between where others write. It also
    /// removes some events of deleted logs, as the store does by itself for a quarter of the time.
    ///
    /// The file itself becomes shorter when its write-ahead log is moved into it, which happens by and by, and when
    /// the store is closed.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    ///
    /// ```
    /// # use loom_store_sqlite::SqliteStore;
    /// async fn release_all(store: &SqliteStore) -> Result<(), loom_spi::StoreError> {
    ///     loop {
    ///         let space = store.release_space(64).await?;
    ///         if space.free == 0 && !space.reclaiming {
    ///             return Ok(());
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn release_space(&self, pages: u32) -> Result<Space, StoreError> {
        // To SQLite none means all.
        self.change_shard(Operation::Delete, Release::new(pages.max(1)))
            .await
    }
}

/// Gives pages back.
pub(crate) struct Release {
    /// So many at most.
    pages: u32,
    /// One in so many pages of the file stays free; none when this is 0.
    reserve: u64,
}

impl Release {
    pub(crate) fn new(pages: u32) -> Self {
        Self { pages, reserve: 0 }
    }

    /// Lets one in so many pages of the file stay free.
    pub(crate) fn keeping(self, reserve: u64) -> Self {
        Self { reserve, ..self }
    }
}

impl Work for Release {
    type Output = Space;

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<Space, Failure> {
        let connection = transaction.connection();
        reclaim(connection)?;
        let before = pragma(connection, "page_count")?;
        let kept = before.checked_div(self.reserve).unwrap_or(0);
        let free = pragma(connection, "freelist_count")?;
        let most = u64::from(self.pages).min(free.saturating_sub(kept));
        if most > 0 {
            let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({most})"))?;
            let mut rows = vacuum.query([])?;
            // A row for each page.
            while rows.next()?.is_some() {}
        }
        let pages = pragma(connection, "page_count")?;
        Ok(Space {
            released: before.saturating_sub(pages),
            free: pragma(connection, "freelist_count")?,
            pages,
            page_size: pragma(connection, "page_size")?,
            reclaiming: has_garbage(connection)?,
        })
    }

    fn weight(&self) -> usize {
        self.pages as usize * 4096
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<u64, Failure> {
    let sql = format!("PRAGMA {name}");
    let number = connection.query_row(&sql, [], |row| row.get(0))?;
    record::count(number, name)
}
