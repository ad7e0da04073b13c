//! Replaying long journals.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_journal::{ExecutionJournal, JournalOptions};
use loom_spi::{DispatchRequest, EventStore, ExecutionId};
use loom_store_memory::MemoryStore;
use tokio::runtime::Runtime;

use super::{FEW, SUITE, resident};
use crate::Failure;
use crate::report::{Row, Target};
use crate::timing::{Ratio, median};

/// Effects of the short journal; the long one has ten times as many.
const EVENTS: usize = 10_000;

/// What an event of a long journal costs beside one of a short journal, and what its replay takes of memory.
pub(super) fn rows(runtime: &Runtime) -> Result<Vec<Row>, Failure> {
    let short = runtime.block_on(recorded(EVENTS))?;
    let long = runtime.block_on(recorded(10 * EVENTS))?;
    let before = resident()?;
    runtime.block_on(run(&long, 10 * EVENTS))?;
    let grown = resident()?.saturating_sub(before);
    let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
    for _ in 0..FEW {
        of_short.push(timed(runtime, &short, EVENTS)?);
        of_long.push(timed(runtime, &long, 10 * EVENTS)?);
    }
    let pairs = of_short.iter().zip(&of_long);
    let ratios = pairs.map(|(short, long)| long.as_secs_f64() / 10.0 / short.as_secs_f64());
    let each = |times: &[Duration], events: usize| {
        median(times.iter().map(Duration::as_secs_f64)) * 1e9 / events as f64
    };
    let note = format!(
        "journals in memory; {:.0} ns and {:.0} ns an event; replaying the long one took {} KiB more memory",
        each(&of_long, 10 * EVENTS),
        each(&of_short, EVENTS),
        grown / 1024
    );
    Ok(vec![Row::new(
        SUITE,
        format!("time of an event in the replay of {} effects", 10 * EVENTS),
        format!("in the replay of {EVENTS}"),
        Ratio::of(ratios),
        Some(Target::AtMost(1.25)),
        note,
    )])
}

async fn recorded(effects: usize) -> Result<Arc<MemoryStore>, Failure> {
    let store = Arc::new(MemoryStore::new());
    run(&store, effects).await?;
    Ok(store)
}

/// Asks for so many effects, one after another: they are recorded, or replayed.
async fn run(store: &Arc<MemoryStore>, effects: usize) -> Result<(), Failure> {
    let store: Arc<dyn EventStore> = Arc::<MemoryStore>::clone(store);
    let request = DispatchRequest::new(ExecutionId::new("long")?, "loop");
    let options = JournalOptions::default().with_lease(None);
    let journal = ExecutionJournal::open(store, &request, options).await?;
    for _ in 0..effects {
        let effect = journal.effect("step", |_| async { Ok::<_, Infallible>(7_u64) });
        black_box(effect.await?);
    }
    Ok(())
}

fn timed(runtime: &Runtime, store: &Arc<MemoryStore>, effects: usize) -> Result<Duration, Failure> {
    let start = Instant::now();
    runtime.block_on(run(store, effects))?;
    Ok(start.elapsed())
}
