//! The power fails at random moments: everything that was acknowledged is there, nothing half; and a store that syncs too
//! late does not pass.
//!
//! `LOOM_KILL_ROUNDS` says how often; `LOOM_KILL_SEED` repeats the moments, though not how threads meet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom_store_sqlite::{Durability, Options, SqliteStore};

use crate::disk::{Cut, Disk, Syncs};
use crate::work::{Acknowledged, append_until_it_fails, missing, runtime};

/// After so many the file is begun anew, so that it stays small.
const ROUNDS_OF_A_FILE: usize = 20;
/// By then it has written and synced more often than any cut waits for.
const LOGS: usize = 400;

/// A store, cut off again and again.
struct Trial {
    options: Options,
    syncs: Syncs,
    sync_failures: Option<u32>,
    random: fastrand::Rng,
    /// Of acknowledged writes, in all rounds.
    missing: Vec<String>,
    failed_syncs: u32,
    /// Cuts in the middle of writing to the main file.
    in_a_checkpoint: usize,
}

impl Trial {
    #[expect(
        clippy::print_stdout,
        reason = "shown with a test that fails, so that it can be repeated"
    )]
    fn new(options: Options, syncs: Syncs) -> Self {
        let seed = std::env::var("LOOM_KILL_SEED")
            .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
        println!("LOOM_KILL_SEED={seed}");
        Self {
            options,
            syncs,
            sync_failures: None,
            random: fastrand::Rng::with_seed(seed),
            missing: Vec::new(),
            failed_syncs: 0,
            in_a_checkpoint: 0,
        }
    }

    fn run(&mut self, rounds: usize) {
        let rounds =
            std::env::var("LOOM_KILL_ROUNDS").map_or(rounds, |rounds| rounds.parse().unwrap());
        let mut folder = tempfile::tempdir().unwrap();
        let mut acknowledged = Acknowledged::new();
        for round in 0..rounds {
            if round % ROUNDS_OF_A_FILE == 0 {
                folder = tempfile::tempdir().unwrap();
                acknowledged.clear();
                let create = SqliteStore::create(file(folder.path()), Options::new());
                let store = runtime().block_on(create).unwrap();
                runtime().block_on(store.close()).unwrap();
            }
            folder = self.round(round, folder.path(), &mut acknowledged);
        }
    }

    /// Stores until the power fails, and returns where what is left is.
    fn round(
        &mut self,
        round: usize,
        folder: &Path,
        acknowledged: &mut Acknowledged,
    ) -> tempfile::TempDir {
        let disk = Disk::new(folder, self.random.u64(..));
        disk.set_syncs(self.syncs);
        disk.set_sync_failures(self.sync_failures);
        let main_file = self.random.u32(0..4) == 0;
        disk.cut_power(Cut {
            after: self.random.u32(1..if main_file { 60 } else { 500 }),
            main_file,
        });
        runtime().block_on(async {
            // The power may fail while it opens.
            let opened = SqliteStore::open(file(folder), self.options.clone()).await;
            if let Ok(store) = opened.map(Arc::new) {
                append_until_it_fails(&store, round, LOGS, acknowledged).await;
                drop(store.close().await);
            }
        });
        self.in_a_checkpoint += usize::from(main_file && disk.is_off());
        // If a failed sync ended it before.
        disk.cut_power_now(0.5);
        self.failed_syncs += disk.failed_syncs();

        // Looking at it changes the files.
        let looked_at = tempfile::tempdir().unwrap();
        assert!(disk.write_what_is_left(looked_at.path()));
        let looked_at_file = file(looked_at.path());
        let missing = runtime().block_on(missing(&looked_at_file, acknowledged));
        if !missing.is_empty() {
            // It is not missed again in the next round.
            acknowledged.clear();
        }
        self.missing.extend(missing);
        let left = tempfile::tempdir().unwrap();
        disk.write_what_is_left(left.path());
        left
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("shard.db")
}

#[test]
fn a_loss_of_power_loses_nothing_that_was_acknowledged() {
    let mut trial = Trial::new(Options::new(), Syncs::Honest);
    trial.run(240);
    assert_eq!(trial.missing, Vec::<String>::new());
    assert!(trial.in_a_checkpoint > 0);
}

/// The sync before the acknowledgement is what the test above is about: without it, it fails.
#[test]
fn a_store_that_syncs_too_late_is_found_out() {
    let late = Options::new().with_durability(Durability::MayLoseAcknowledgedWrites);
    let mut trial = Trial::new(late, Syncs::Honest);
    trial.run(12);
    assert_ne!(trial.missing, Vec::<String>::new());
}

#[test]
fn a_disk_whose_syncs_do_nothing_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let create = SqliteStore::create(file(folder.path()), Options::new());
    let store = runtime().block_on(create).unwrap();
    runtime().block_on(store.close()).unwrap();
    // Nothing of the log is left, whatever the store asked for.
    let disk = Disk::new(folder.path(), 0);
    disk.set_syncs(Syncs::Lies);
    let mut acknowledged = Acknowledged::new();
    runtime().block_on(async {
        let store = SqliteStore::open(file(folder.path()), Options::new()).await;
        let store = Arc::new(store.unwrap());
        append_until_it_fails(&store, 0, 2, &mut acknowledged).await;
        disk.cut_power_now(0.0);
        drop(store.close().await);
    });
    let left = tempfile::tempdir().unwrap();
    disk.write_what_is_left(left.path());
    let missing = runtime().block_on(missing(&file(left.path()), &acknowledged));
    assert_eq!(missing.len(), acknowledged.len());
}

/// After a failed sync the system takes the pages for clean, so that repeating the sync alone keeps nothing.
#[test]
fn a_sync_that_fails_loses_nothing_that_was_acknowledged() {
    let mut trial = Trial::new(Options::new(), Syncs::Honest);
    trial.sync_failures = Some(40);
    trial.run(60);
    assert_eq!(trial.missing, Vec::<String>::new());
    assert!(trial.failed_syncs > 0);
}
