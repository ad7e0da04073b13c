//! okaywal: an entry for each event. A log of bytes, in which nothing can be found.

use std::io;
use std::path::Path;
use std::time::Duration;

use okaywal::{Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};

use crate::writers::Writers;
use crate::{EVENT, Failure, Peer};

struct OkayWal {
    log: WriteAheadLog,
    writers: Writers,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    Ok(OkayWal {
        log: WriteAheadLog::recover(folder.join("log"), Nothing)?,
        writers: Writers::default(),
    })
}

/// Does nothing with what is checkpointed: its users would store it somewhere.
#[derive(Debug)]
struct Nothing;

impl LogManager for Nothing {
    fn recover(&mut self, _: &mut Entry<'_>) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

impl Peer for OkayWal {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "commit syncs, several entries at once (lib.rs, log_file.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let log = &self.log;
        self.writers.on_threads(writers, each, |_| {
            let mut entry = log.begin_entry()?;
            entry.write_chunk(&[7; EVENT])?;
            entry.commit()?;
            Ok(())
        })
    }
}
