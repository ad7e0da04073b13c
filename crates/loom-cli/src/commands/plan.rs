//! `loom plan`.

use std::path::Path;

use loom_shard_plan::{DecodeError, Location, ShardPlan};
use serde_json::json;

use crate::args::PlanCommand;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::Output;
use crate::source::Source;

pub(super) fn needs_deployment(command: &PlanCommand) -> bool {
    matches!(command, PlanCommand::Show { file: None })
}

pub(super) fn show_file(command: &PlanCommand, output: Output) -> Result<(), Failure> {
    match command {
        PlanCommand::Show { file: Some(file) } => print(&load(file)?, output),
        PlanCommand::Show { file: None } => Ok(()),
    }
}

pub(super) fn show(deployment: &Deployment, output: Output) -> Result<(), Failure> {
    print(&*deployment.plan()?, output)
}

/// The text is the canonical one, so that it can be kept in a file and read back.
fn print(plan: &ShardPlan, output: Output) -> Result<(), Failure> {
    let document = json!({
        "epoch": plan.epoch(),
        "buckets": plan.bucket_count(),
        "shards": plan.shards().len(),
        "migrating": plan.migrating().count(),
        "fingerprint": plan.fingerprint().to_string(),
        "hash": plan.hash().to_string(),
        "per_shard": plan.shards().iter().map(|shard| json!({
            "shard": shard.id(),
            "buckets": plan.buckets_of(shard.id()).len(),
            "weight": shard.weight(),
            "leaving": shard.is_leaving(),
        })).collect::<Vec<_>>(),
        "warnings": plan.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    output.print(&document, |_| plan.to_string())
}

/// Reads a plan as text or JSON, told apart by its first character.
fn load(path: &Path) -> Result<ShardPlan, Failure> {
    let source = Source::read(path, "plan")?;
    let text = source.text();
    let plan = if text.trim_start().starts_with('{') {
        ShardPlan::from_json(text)
    } else {
        text.parse()
    };
    plan.map_err(|error| bad_plan(path, &error))
}

fn bad_plan(path: &Path, error: &DecodeError) -> Failure {
    let place = match error.location() {
        Location::Line { line, column } => format!("{line}:{column}"),
        Location::Offset(byte) => format!("byte {byte}"),
        other => other.to_string(),
    };
    Failure::usage(format!("{}:{place}: {}", path.display(), error.problem()))
}
