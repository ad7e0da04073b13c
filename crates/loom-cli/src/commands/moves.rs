//! `loom move`.

use loom_sharded_store::{MigrateError, Migrated};
use loom_spi::{ExecutionId, StoreErrorKind};
use serde::Serialize;

use super::log::not_found;
use crate::args::Move;
use crate::deployment::Deployment;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Tone, counted, printable};

#[derive(Serialize)]
struct Report {
    /// How many were moved.
    moved: usize,
    moves: Vec<Moved>,
    failed: Vec<Failed>,
    /// Of the first one: `loom move ID` is asked for one mostly.
    from: Option<u16>,
    to: Option<u16>,
}

#[derive(Serialize)]
struct Moved {
    execution: String,
    /// `moved`, `already_there`, or `settled`: its bucket does not migrate.
    outcome: &'static str,
    /// The shard that it was moved from; none if it was not moved.
    from: Option<u16>,
    /// The shard that it is on.
    to: u16,
    /// How many events were moved.
    events: u64,
}

#[derive(Serialize)]
struct Failed {
    execution: String,
    reason: String,
}

pub(super) async fn run(
    args: &Move,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let mut report = Report {
        moved: 0,
        moves: Vec::new(),
        failed: Vec::new(),
        from: None,
        to: None,
    };
    let mut exit = Exit::Failed;
    for id in &args.ids {
        match deployment.store.migrate_execution(id).await {
            Ok(migrated) => report.moves.push(moved(id, migrated)),
            Err(error) => {
                let failure = failure(id, error);
                // Nothing else can be told of one alone.
                if args.ids.len() == 1 || failure.exit() == Exit::Unreachable {
                    return Err(failure);
                }
                exit = failure.exit();
                let reason = failure.to_string();
                report.failed.push(Failed {
                    execution: id.to_string(),
                    reason: reason.trim_start_matches("error: ").to_owned(),
                });
            }
        }
    }
    report.moved = report
        .moves
        .iter()
        .filter(|moved| moved.from.is_some())
        .count();
    let first = report.moves.first();
    (report.from, report.to) = first.map_or((None, None), |moved| (moved.from, Some(moved.to)));
    output.print(&report, |output| report.text(output))?;
    match report.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::new(
            exit,
            format!("{} could not be moved", counted(failed as u64, "execution")),
        )),
    }
}

fn moved(id: &ExecutionId, migrated: Migrated) -> Moved {
    let (outcome, from, to, events) = match migrated {
        Migrated::Moved { from, to, events } => ("moved", Some(from.get()), to, events),
        Migrated::Settled { on } => ("settled", None, on, 0),
        Migrated::AlreadyThere { on } => ("already_there", None, on, 0),
        // Whatever else there will be is no failure.
        _ => ("already_there", None, Default::default(), 0),
    };
    Moved {
        execution: id.to_string(),
        outcome,
        from,
        to: to.get(),
        events,
    }
}

fn failure(id: &ExecutionId, error: MigrateError) -> Failure {
    match error {
        MigrateError::Store(error) if *error.kind() == StoreErrorKind::NotFound => {
            not_found(id.as_str())
        }
        MigrateError::Store(error) => error.into(),
        error => Failure::refused(error.to_string()).with_cause(error),
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let mut text = String::new();
        for moved in &self.moves {
            let id = printable(&moved.execution);
            text.push_str(&match (moved.outcome, moved.from) {
                (_, Some(from)) => format!(
                    "`{id}` {} from shard {from} to shard {}: {}\n",
                    output.paint(Tone::Good, "moved"),
                    moved.to,
                    counted(moved.events, "event")
                ),
                ("settled", _) => format!(
                    "`{id}` stays on shard {}: its bucket is settled there\n",
                    moved.to
                ),
                _ => format!("`{id}` is on shard {} already\n", moved.to),
            });
        }
        for failed in &self.failed {
            text.push_str(&format!(
                "`{}` {}: {}\n",
                printable(&failed.execution),
                output.paint(Tone::Bad, "not moved"),
                failed.reason
            ));
        }
        text
    }
}
