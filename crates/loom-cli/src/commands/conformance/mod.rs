//! `loom conformance`.

mod scratch;

use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;

use loom_conformance::{Case, CaseReport, Matrix, Outcome, StoreFactory, cases, run_cases};
use serde::Serialize;
use tokio::sync::oneshot;

use self::scratch::Scratch;
use super::graph::interrupted;
use crate::args::Conformance;
use crate::config::StoreUrl;
use crate::failure::Failure;
use crate::output::{Output, Table, Tone, counted};
use crate::progress::{Progress, ProgressMode};

#[derive(Debug, Serialize)]
struct Report {
    url: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    group: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// What the skipped ones would have needed.
    missing: Vec<String>,
    failures: Vec<CaseFailure>,
}

#[derive(Debug, Serialize)]
struct CaseFailure {
    case: &'static str,
    message: String,
}

pub(super) async fn run(args: &Conformance, output: Output) -> Result<(), Failure> {
    let url = StoreUrl::parse(&args.url)
        .map_err(|message| Failure::usage(format!("--url: {message}")))?;
    let only = args.only.as_deref().unwrap_or_default();
    let wanted: Vec<Case> = cases()
        .into_iter()
        .filter(|case| case.group().contains(only) || case.name().contains(only))
        .collect();
    if wanted.is_empty() {
        return Err(Failure::usage(format!(
            "--only: no case has `{only}` in its name or its group"
        )));
    }
    let scratch = Arc::new(Scratch::beside(&url)?);
    // What is wrong with the place itself is said once, and not by every case.
    scratch.check().await?;
    let (tell, reports) = oneshot::channel();
    let (mode, factory) = (args.progress, Arc::clone(&scratch));
    // Not of the runtime, which would wait for it when the command is interrupted.
    let suite = thread::Builder::new().spawn(move || tell.send(all(mode, factory, &wanted)));
    suite.map_err(|error| Failure::failed("a thread cannot be started").with_cause(error))?;
    let reports = tokio::select! {
        reports = reports => reports.map_err(|_| Failure::failed("the suite ended early"))?,
        interrupted = interrupted() => {
            scratch.remove().await?;
            return Err(interrupted.err().unwrap_or_else(|| Failure::failed("interrupted")));
        }
    };
    scratch.remove().await?;
    let report = Report::of(&url, &reports);
    output.print(&report, |output| report.text(output))?;
    match report.failed {
        0 => Ok(()),
        failed => Err(Failure::failed(format!(
            "`{}` does not do what Loom relies on: {} failed",
            report.url,
            counted(failed as u64, "case")
        ))),
    }
}

fn all(mode: ProgressMode, factory: Arc<dyn StoreFactory>, wanted: &[Case]) -> Vec<CaseReport> {
    let progress = Progress::new(mode, "checking", Some(wanted.len() as u64));
    let mut done = 0;
    run_cases(factory, wanted, |report| {
        done += 1;
        progress.at(
            done,
            format_args!("{}/{}: {}", report.group, report.name, word(report)),
        );
    })
}

fn word(report: &CaseReport) -> &'static str {
    match report.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed { .. } => "failed",
        Outcome::Skipped { .. } => "skipped",
    }
}

impl Report {
    fn of(url: &StoreUrl, reports: &[CaseReport]) -> Self {
        let url = url.to_string();
        let mut matrix = Matrix::new();
        matrix.add(&url, reports);
        let groups: Vec<Group> = matrix
            .rows()
            .iter()
            .map(|row| Group {
                group: row.group,
                passed: row.passed,
                failed: row.failed,
                skipped: row.skipped,
                missing: row.missing.iter().map(ToString::to_string).collect(),
                failures: row
                    .failures
                    .iter()
                    .map(|failure| CaseFailure {
                        case: failure.case,
                        message: failure.message.clone(),
                    })
                    .collect(),
            })
            .collect();
        let sum = |count: fn(&Group) -> usize| groups.iter().map(count).sum();
        Self {
            url,
            passed: sum(|group| group.passed),
            failed: sum(|group| group.failed),
            skipped: sum(|group| group.skipped),
            groups,
        }
    }

    fn text(&self, output: Output) -> String {
        let mut table = Table::new(&["group", ">passed", ">failed", ">skipped", "lacks"]);
        for group in &self.groups {
            table.row([
                group.group.to_owned(),
                group.passed.to_string(),
                group.failed.to_string(),
                group.skipped.to_string(),
                group.missing.join(", "),
            ]);
        }
        let mut text = table.render(output);
        let (tone, verdict) = if self.failed == 0 {
            (Tone::Good, "conforms")
        } else {
            (Tone::Bad, "does not conform")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n{}: {} {}, {} passed, {} failed, {} skipped",
            output.paint(tone, verdict),
            self.url,
            counted((self.passed + self.failed + self.skipped) as u64, "case"),
            self.passed,
            self.failed,
            self.skipped
        );
        for group in &self.groups {
            for failure in &group.failures {
                let _ = writeln!(
                    text,
                    "{} {}/{}: {}",
                    output.paint(Tone::Bad, "failed"),
                    group.group,
                    failure.case,
                    failure.message
                );
            }
        }
        text
    }
}
