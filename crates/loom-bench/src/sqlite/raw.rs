//! What the disk can do.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::Failure;

const BLOCKS: u64 = 1024;

/// A file that was written in full before, so that syncing it does not have to record its size.
pub(super) struct RawFile {
    file: File,
    at: u64,
}

impl RawFile {
    pub(super) const WHAT: &str = "raw write of 4 KiB + fdatasync, preallocated file";

    pub(super) fn create(folder: &Path) -> Result<Self, Failure> {
        let mut file = File::create(folder.join("raw"))?;
        for _ in 0..BLOCKS {
            file.write_all(&[1; 4096])?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    pub(super) fn write_synced(&mut self) -> Result<(), Failure> {
        let start = (self.at % BLOCKS) * 4096;
        self.file.seek(SeekFrom::Start(start))?;
        self.file.write_all(&[2; 4096])?;
        self.file.sync_data()?;
        self.at += 1;
        Ok(())
    }
}
