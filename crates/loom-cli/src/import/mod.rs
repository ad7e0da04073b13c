//! `loom import`: JSON lines into a store.
//!
//! A file is read once, in windows of some thousand lines. Within a window each execution's lines are one
//! append, and the appends of different executions are under way together, so that they share the
//! store's commits. An execution's n-th line is its event n: lines that are stored already are
//! compared and skipped, which is what makes an import resumable and repeatable.

mod apply;
mod input;
mod window;

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

use loom_spi::EventStore;
use serde::Serialize;

use self::apply::Importer;
pub(crate) use self::input::Input;
use crate::failure::Failure;
use crate::output::{count, counted};
use crate::progress::{Progress, ProgressMode};

/// How much is under way at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Lines in a window.
    pub(crate) window: usize,
    /// Appends under way.
    pub(crate) appends: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            window: 8192,
            appends: 2048,
        }
    }
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Executions that the file names.
    pub(crate) executions: u64,
    /// Events that were stored now.
    pub(crate) events: u64,
    /// Events that had been stored before.
    pub(crate) skipped: u64,
}

/// Stores what `input` holds. On a failure everything before the line it names is stored, except for
/// executions that the failure is about.
pub(crate) async fn import(
    store: &dyn EventStore,
    input: Input,
    effort: Effort,
    mode: ProgressMode,
) -> Result<Totals, Failure> {
    let name = input.name().to_owned();
    let read = input.bytes_read();
    let progress = Progress::new(mode, "import", input.bytes_total());
    let limits = store.capabilities().limits;
    let mut windows = window::read(input, effort.window, limits);
    let mut importer = Importer::new(store, name, effort.appends);
    while let Some(window) = windows.recv().await {
        importer.apply(window.lines).await?;
        if let Some(failure) = window.end {
            return Err(failure.with_help(format!(
                "what stands before it is stored ({}): correct it and run the import again",
                counted(importer.totals().events, "new event")
            )));
        }
        let totals = importer.totals();
        let done = totals.events + totals.skipped;
        progress.at(
            read.load(Ordering::Relaxed),
            format_args!(
                "{} events, {} executions, {:.0}/s",
                count(done),
                count(totals.executions),
                progress.rate(done)
            ),
        );
    }
    Ok(importer.totals())
}
