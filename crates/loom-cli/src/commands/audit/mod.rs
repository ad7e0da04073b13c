//! `loom audit`.

mod check;
mod walk;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use self::check::{Finding, check};
use self::walk::Walk;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};
use crate::sides::Look;

/// Executions that are listed at a time, by each shard.
const PAGE: usize = 512;
/// Executions that are checked at a time.
const AT_ONCE: usize = 16;

#[derive(Debug, Default, Serialize)]
struct Report {
    /// Of the plan at the end.
    epoch: u64,
    executions: u64,
    events: u64,
    violations: u64,
    findings: Vec<Finding>,
}

pub(super) async fn run(deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let report = audit(deployment, PAGE).await?;
    output.print(&report, |output| report.text(output))?;
    match report.violations {
        0 => Ok(()),
        found => Err(Failure::failed(format!(
            "the audit found {}",
            counted(found, "violation")
        ))),
    }
}

/// Looks at every execution of the deployment, `page` of each shard at a time.
async fn audit(deployment: &dyn Look, page: usize) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut walk = Walk::new(deployment, page).await?;
    while let Some(part) = walk.next().await? {
        let view = walk.view();
        let mut checked = stream::iter(part)
            .map(|listed| check(deployment, view.clone(), listed))
            .buffer_unordered(AT_ONCE);
        while let Some(audited) = checked.try_next().await? {
            // What was removed meanwhile is no execution any more.
            report.executions += u64::from(audited.events.is_some());
            report.events += audited.events.unwrap_or(0);
            report.findings.extend(audited.findings);
        }
    }
    report.epoch = deployment.look().await?.plan.epoch();
    report
        .findings
        .sort_by(|a, b| (&a.execution, a.shard, a.kind).cmp(&(&b.execution, b.shard, b.kind)));
    report.violations = report.findings.len() as u64;
    Ok(report)
}

impl Report {
    fn text(&self, output: Output) -> String {
        let tone = if self.violations == 0 {
            Tone::Good
        } else {
            Tone::Bad
        };
        let mut text = format!(
            "{}: {} with {} under plan epoch {}, {}\n",
            output.paint(
                tone,
                if self.violations == 0 {
                    "sound"
                } else {
                    "not sound"
                }
            ),
            counted(self.executions, "execution"),
            counted(self.events, "event"),
            self.epoch,
            counted(self.violations, "violation"),
        );
        for finding in &self.findings {
            text.push_str(&format!(
                "  `{}` on shard {}: {}\n",
                finding.execution, finding.shard, finding.problem
            ));
            if let Some(advice) = &finding.advice {
                text.push_str(&format!("    {advice}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
