//! Saying what is about to happen and what has happened.

use std::error::Error;
use std::io::{self, Write as _};

use loom_sharded_store::ShardedStore;
use loom_tests::chaos::{Line, Outcome, Says};
use rustix::time::{ClockId, clock_gettime};

/// Writes a line in one piece. It has left the process when this returns.
pub(crate) fn say(lane: u64, says: Says) -> io::Result<()> {
    let line = Line {
        lane,
        at: now(),
        says,
    };
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}

/// Says what came of an operation, and under which plan the process is now.
pub(crate) fn end(lane: u64, store: &ShardedStore, outcome: Outcome) -> io::Result<()> {
    let epoch = store.epoch().map_or(0, |epoch| epoch.epoch);
    say(lane, Says::End { epoch, outcome })
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str("; because: ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let parts = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    match parts {
        (Ok(seconds), Ok(nanos)) => seconds * 1_000_000_000 + nanos,
        // It starts near 0 when the machine does.
        _ => 0,
    }
}
