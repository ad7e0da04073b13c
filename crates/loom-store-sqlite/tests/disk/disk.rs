//! A disk as a program has to fear it: what was written and not synced may be lost, in any part.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::layer;

/// What a disk writes at once, or not at all.
const SECTOR: usize = 512;

/// A folder whose files are followed, from the moment on that it is made.
#[derive(Debug)]
pub(crate) struct Disk {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    files: BTreeMap<PathBuf, File>,
    cut: Option<Cut>,
    syncs: Syncs,
    /// No file may become longer than this.
    room: Option<u64>,
    reads_fail: bool,
    /// Of this many syncs one fails, at random, and loses what it should have kept.
    sync_failures: Option<u32>,
    failed_syncs: u32,
    /// What was left when the power failed.
    left: Option<Image>,
}

/// The files of a disk.
type Image = BTreeMap<PathBuf, Vec<u8>>;

/// When the power fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// After so many writes, syncs and truncations.
    pub(crate) after: u32,
    /// Only those of the main file count, to which nothing is written but by checkpoints.
    pub(crate) main_file: bool,
}

/// What a sync is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Syncs {
    Honest,
    /// It says that it is done and does nothing.
    Lies,
}

#[derive(Debug, Default)]
struct File {
    /// What a loss of power leaves for certain; `None` when not even the name.
    synced: Option<Vec<u8>>,
    /// What was done since, in order.
    since: Vec<Change>,
    length: u64,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { length: usize },
    Delete,
}

impl Disk {
    /// Follows the files of `folder`. What is there already counts as synced.
    pub(crate) fn new(folder: &Path, seed: u64) -> Arc<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let file = File {
                length: bytes.len() as u64,
                synced: Some(bytes),
                since: Vec::new(),
            };
            files.insert(path, file);
        }
        let disk = Arc::new(Self {
            state: Mutex::new(State {
                random: fastrand::Rng::with_seed(seed),
                files,
                cut: None,
                syncs: Syncs::Honest,
                room: None,
                reads_fail: false,
                sync_failures: None,
                failed_syncs: 0,
                left: None,
            }),
        });
        layer::follow(folder, &disk);
        disk
    }

    pub(crate) fn cut_power(&self, cut: Cut) {
        self.state().cut = Some(cut);
    }

    /// Cuts the power now. Of what was not synced every sector is left with this probability.
    pub(crate) fn cut_power_now(&self, chance: f64) {
        self.state().turn_off(chance);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.state().left.is_some()
    }

    pub(crate) fn set_syncs(&self, syncs: Syncs) {
        self.state().syncs = syncs;
    }

    pub(crate) fn set_room(&self, room: Option<u64>) {
        self.state().room = room;
    }

    pub(crate) fn set_reads_fail(&self, fail: bool) {
        self.state().reads_fail = fail;
    }

    pub(crate) fn set_sync_failures(&self, one_in: Option<u32>) {
        self.state().sync_failures = one_in;
    }

    pub(crate) fn failed_syncs(&self) -> u32 {
        self.state().failed_syncs
    }

    /// How long the longest file is.
    pub(crate) fn longest(&self) -> u64 {
        let state = self.state();
        let lengths = state.files.values().map(|file| file.length);
        lengths.max().unwrap_or(0)
    }

    /// Writes what the loss of power has left into another folder. Says whether there was one.
    pub(crate) fn write_what_is_left(&self, folder: &Path) -> bool {
        let state = self.state();
        let Some(left) = &state.left else {
            return false;
        };
        for (path, bytes) in left {
            fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
        }
        true
    }

    pub(crate) fn read(&self) -> Result<(), c_int> {
        if self.state().reads_fail {
            return Err(ffi::SQLITE_IOERR_READ);
        }
        Ok(())
    }

    pub(crate) fn write(&self, path: &Path, at: u64, bytes: &[u8]) -> Result<(), c_int> {
        let mut state = self.state();
        state.count(path, ffi::SQLITE_IOERR_WRITE)?;
        let end = at + bytes.len() as u64;
        if state.room.is_some_and(|room| end > room) {
            return Err(ffi::SQLITE_FULL);
        }
        let file = state.file(path);
        file.length = file.length.max(end);
        file.since.push(Change::Write {
            at: usize::try_from(at).unwrap(),
            bytes: bytes.into(),
        });
        Ok(())
    }

    pub(crate) fn truncate(&self, path: &Path, length: u64) -> Result<(), c_int> {
        let mut state = self.state();
        state.count(path, ffi::SQLITE_IOERR_TRUNCATE)?;
        let file = state.file(path);
        file.length = length;
        let length = usize::try_from(length).unwrap();
        file.since.push(Change::Truncate { length });
        Ok(())
    }

    pub(crate) fn sync(&self, path: &Path) -> Result<(), c_int> {
        let mut state = self.state();
        state.count(path, ffi::SQLITE_IOERR_FSYNC)?;
        if state.syncs == Syncs::Lies {
            return Ok(());
        }
        let one_in = state.sync_failures;
        if one_in.is_some_and(|one_in| state.random.u32(0..one_in) == 0) {
            // As Linux has it: the pages count as clean afterwards, so that the next sync does not write them either.
            state.failed_syncs += 1;
            state.file(path).since.clear();
            return Err(ffi::SQLITE_IOERR_FSYNC);
        }
        let file = state.file(path);
        let is_new = file.synced.is_none();
        file.synced = file.image(|_| true);
        file.since.clear();
        if is_new && path.extension().is_some_and(|extension| extension != "db") {
            // SQLite then syncs the folder too, and with it what was deleted.
            state.files.values_mut().for_each(File::forget_deleted);
        }
        Ok(())
    }

    pub(crate) fn delete(&self, path: &Path, sync: bool) -> Result<(), c_int> {
        let mut state = self.state();
        state.count(path, ffi::SQLITE_IOERR_DELETE)?;
        let file = state.file(path);
        file.length = 0;
        file.since.push(Change::Delete);
        if sync {
            *file = File::default();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn file(&mut self, path: &Path) -> &mut File {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), File::default());
        }
        self.files.get_mut(path).unwrap()
    }

    /// Counts a change, and fails it if the power is off.
    fn count(&mut self, path: &Path, error: c_int) -> Result<(), c_int> {
        if let Some(cut) = &mut self.cut
            && (!cut.main_file || path.extension().is_some_and(|extension| extension == "db"))
        {
            cut.after = cut.after.saturating_sub(1);
            if cut.after == 0 {
                // Sometimes all that was not synced is left, or nothing, or some.
                let chance = *self.random.choice(&[0.0, 0.5, 0.95, 1.0]).unwrap();
                self.turn_off(chance);
            }
        }
        if self.left.is_some() {
            return Err(error);
        }
        Ok(())
    }

    /// What was not synced is left or lost, sector by sector, at random.
    fn turn_off(&mut self, chance: f64) {
        if self.left.is_some() {
            return;
        }
        let random = &mut self.random;
        let left = self.files.iter().filter_map(|(path, file)| {
            let bytes = file.image(|_| random.f64() < chance)?;
            Some((path.clone(), bytes))
        });
        self.left = Some(left.collect());
    }
}

impl File {
    fn forget_deleted(&mut self) {
        let deletion = |change: &Change| matches!(change, Change::Delete);
        if let Some(at) = self.since.iter().rposition(deletion) {
            self.synced = None;
            self.since.drain(..=at);
        }
    }

    /// The file, with those sectors that were written since the last sync, truncations and deletions that `kept`
    /// approves of.
    fn image(&self, mut kept: impl FnMut(&Change) -> bool) -> Option<Vec<u8>> {
        let mut image = self.synced.clone();
        for change in &self.since {
            match change {
                Change::Write { at, bytes } => {
                    let (mut at, mut bytes) = (*at, &bytes[..]);
                    while !bytes.is_empty() {
                        let (sector, rest) = bytes.split_at(bytes.len().min(SECTOR - at % SECTOR));
                        if kept(change) {
                            let image = image.get_or_insert_default();
                            let end = at + sector.len();
                            image.resize(image.len().max(end), 0);
                            image[at..end].copy_from_slice(sector);
                        }
                        at += sector.len();
                        bytes = rest;
                    }
                }
                Change::Truncate { length } if kept(change) => {
                    image.get_or_insert_default().resize(*length, 0);
                }
                Change::Delete if kept(change) => image = None,
                Change::Truncate { .. } | Change::Delete => {}
            }
        }
        image
    }
}
