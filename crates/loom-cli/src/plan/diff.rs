//! `loom plan diff`.

use loom_shard_plan::PlanDiff;

use super::args::Diff;
use super::input::{is_stream, open};
use super::refusal::refusal;
use crate::failure::Failure;
use crate::output::{Output, Tone};

pub(crate) fn run(args: &Diff, output: Output) -> Result<(), Failure> {
    if is_stream(&args.now) && is_stream(&args.next) {
        return Err(Failure::usage("both plans cannot be on stdin")
            .with_help("name a file for one of them"));
    }
    let (now, next) = (open(&args.now)?, open(&args.next)?);
    let diff = now.plan.diff(&next.plan).map_err(|error| {
        refusal(error).context(format_args!("`{}` and `{}`", now.name, next.name))
    })?;
    output.print(&diff, |output| coloured(&diff, output))?;
    if diff.is_legal() {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "`{}` must not be published after `{}`",
        next.name, now.name
    ))
    .with_help("the diff says what is wrong with it; derive it with `loom plan rebalance`, `settle`, `revert` or `split`"))
}

/// The summary, with the verdict in colour.
fn coloured(diff: &PlanDiff, output: Output) -> String {
    let mut text = String::new();
    for line in diff.to_string().lines() {
        match line {
            "legal: yes" => text.push_str(&output.paint(Tone::Good, line)),
            "legal: no" => text.push_str(&output.paint(Tone::Bad, line)),
            line => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
